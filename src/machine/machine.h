/* SPDX-License-Identifier: MIT */
/*
 * What is known of a machine's GPUs, their links and their host. Every datum
 * says where it comes from; a datum without an origin is unknown, which is
 * never 0 or "no". Sources (NVML, the host's own files, a pasted report) fill a
 * machine each, and oh__machine_merge puts them together.
 *
 * Plain data without pointers: it may be copied, compared and sent. Big
 * (some 200 KiB): keep it off the stack.
 */
#ifndef OH_MACHINE_MACHINE_H
#define OH_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "onehop/onehop.h"

#define OH__GPUS 32 /* a machine has at most */
#define OH__SOURCES 16
#define OH__VARIABLES 32
#define OH__REMARKS 16
#define OH__TEXT_BYTES 128

/* Where a datum comes from. */
struct oh__from {
	uint32_t source; /* 1 + its index in machine.sources; 0: not known */
	uint32_t line; /* of a file, counted from 1; 0 where there is none */
};

struct oh__number {
	struct oh__from from;
	uint64_t value;
};

struct oh__text {
	struct oh__from from;
	char text[OH__TEXT_BYTES];
};

/* nvidia-smi's words for the way between two GPUs, from near to far. */
enum oh__link_kind {
	OH__LINK_UNKNOWN,
	OH__LINK_SELF, /* X */
	OH__LINK_NV, /* NV#, bonded NVLinks */
	OH__LINK_PIX, /* at most one PCIe bridge */
	OH__LINK_PXB, /* several, without the host bridge */
	OH__LINK_PHB, /* the host bridge */
	OH__LINK_NODE, /* between host bridges of one NUMA node */
	OH__LINK_SYS, /* between NUMA nodes */
};

struct oh__link {
	struct oh__from from;
	enum oh__link_kind kind;
	uint32_t nvlinks; /* of OH__LINK_NV */
};

/* What nvidia-smi topo -p2p asks: r, w, n, a. */
enum oh__peer_aspect {
	OH__PEER_READ,
	OH__PEER_WRITE,
	OH__PEER_NVLINK,
	OH__PEER_ATOMICS,
	OH__PEER_ASPECTS,
};

/* The driver's answer, in nvidia-smi's letters. "U" is an answer too. */
enum oh__peer_status {
	OH__PEER_NOT_ASKED, /* from.source is 0 */
	OH__PEER_OK,
	OH__PEER_CNS, /* chipset not supported */
	OH__PEER_GNS, /* GPU not supported */
	OH__PEER_TNS, /* topology not supported */
	OH__PEER_DR, /* disabled by a registry key */
	OH__PEER_NS, /* not supported */
	OH__PEER_U, /* unknown */
};

struct oh__peer {
	struct oh__from from;
	enum oh__peer_status status;
};

/* Position in machine.gpu is nvidia-smi's index (PCI bus order). */
struct oh__gpu {
	struct oh__text name; /* "NVIDIA GeForce RTX 4090" */
	struct oh__text uuid; /* "GPU-..." */
	struct oh__text pci; /* "0000:c1:00.0", lower case */
	struct oh__number capability; /* 10 * major + minor: 120 is 12.0 */
	struct oh__number memory_bytes;
	struct oh__number numa_node;
	struct oh__text cpu_affinity; /* "0-31,64-95" */
	/* as negotiated now (an idle GPU goes down to 1), and at most */
	struct oh__number pcie_gen, pcie_gen_max;
	struct oh__number pcie_width, pcie_width_max;
	struct oh__number mig; /* 1: MIG mode is on */
};

enum oh__iommu {
	OH__IOMMU_UNKNOWN,
	OH__IOMMU_OFF,
	OH__IOMMU_PASSTHROUGH,
	OH__IOMMU_TRANSLATED,
};

struct oh__host {
	struct oh__text driver; /* "590.48.01" */
	struct oh__text cuda; /* what the driver supports at most */
	struct oh__text cpu; /* "AMD EPYC 9335 32-Core Processor" */
	struct oh__text kernel; /* its release */
	struct oh__text command_line; /* the kernel's, cut to what fits */
	struct {
		struct oh__from from;
		enum oh__iommu mode;
	} iommu;
	/* bridges whose ACS control redirects peer traffic (ReqRedir+ or
	 * CmpltRedir+); known and 0: looked at, and none does */
	struct oh__number acs_redirect;
	/* of collect_env and pip lists */
	struct oh__text vllm, sglang, nccl, torch;
};

/* NAME=VALUE as a report shows it, or of this process. */
struct oh__variable {
	struct oh__from from;
	char name[48];
	char value[OH__TEXT_BYTES];
};

/* What a source could not read and left out, for the person. */
struct oh__remark {
	struct oh__from from;
	char text[OH__TEXT_BYTES];
};

struct oh__machine {
	int source_count, gpus, variable_count, remark_count;
	/* "NVML", "/sys", or a file's name */
	char sources[OH__SOURCES][OH__TEXT_BYTES];
	struct oh__gpu gpu[OH__GPUS];
	struct oh__link link[OH__GPUS][OH__GPUS];
	struct oh__peer peer[OH__PEER_ASPECTS][OH__GPUS][OH__GPUS];
	struct oh__host host;
	struct oh__variable variables[OH__VARIABLES];
	struct oh__remark remarks[OH__REMARKS];
};

static inline bool oh__known(struct oh__from from)
{
	return from.source != 0;
}

/* Adds a source, or finds the one of that name; 1 + its index for oh__from.
 * The last one when there are too many. */
uint32_t oh__machine_source(struct oh__machine *machine, const char *name);

/* Where a datum comes from, for a person: "report.txt:12", "NVML"; "unknown".
 * Gives back text. */
const char *oh__machine_origin(const struct oh__machine *machine,
			       struct oh__from from, char *text, size_t bytes);

/* Sets a datum; text is cut to what fits and cleared of control characters. */
void oh__number_set(struct oh__number *number, struct oh__from from,
		    uint64_t value);
void oh__text_set(struct oh__text *text, struct oh__from from,
		  const char *value, size_t bytes);

void oh__machine_remark(struct oh__machine *machine, struct oh__from from,
			const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The value of a variable, or NULL. */
const struct oh__variable *
oh__machine_variable(const struct oh__machine *machine, const char *name);

/*
 * Adds what "more" knows and "machine" does not. OH_ERR_MISMATCH where both
 * know a link, a peer status, a name or the number of GPUs and differ: the
 * message names both origins. Nothing is changed then.
 */
enum oh_status oh__machine_merge(struct oh__machine *machine,
				 const struct oh__machine *more);

/* The GPUs of a list, in that order, as a machine of their own. */
void oh__machine_pick(const struct oh__machine *machine, const int *gpus,
		      int count, struct oh__machine *picked);

/* Disjoint sets of GPUs; members and sets in ascending order. */
struct oh__groups {
	int count;
	int size[OH__GPUS];
	int member[OH__GPUS][OH__GPUS];
};

/*
 * GPUs that are near each other: components of NVLink where any pair has some;
 * the rest by PIX, PXB, PHB and NODE; where every pair prints SYS, by numeric
 * NUMA node. No group at all if no link is known.
 */
void oh__machine_islands(const struct oh__machine *machine,
			 struct oh__groups *islands);

/* Components of PIX of two GPUs and more. */
void oh__machine_switch_groups(const struct oh__machine *machine,
			       struct oh__groups *groups);

enum oh__peer_summary {
	OH__PEERS_UNKNOWN, /* not asked, or not for every pair */
	OH__PEERS_NONE,
	OH__PEERS_SOME,
	OH__PEERS_ALL,
};

/* The driver's word on reads and writes of all pairs (reads alone count where
 * writes were not asked, and the other way round). */
enum oh__peer_summary oh__machine_peers(const struct oh__machine *machine);

/* "NV18", "PIX", ...; "X" for itself; "?" if unknown. Gives back text. */
const char *oh__link_text(const struct oh__link *link, char text[8]);
const char *oh__peer_status_text(enum oh__peer_status status);

#endif
