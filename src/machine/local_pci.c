/* SPDX-License-Identifier: MIT */
/*
 * Reads the ACS control register of every PCI bridge through libpci. Redirect
 * bits there send what one GPU writes to another up to the root complex and
 * its IOMMU. Configuration space past the first 64 bytes is shown to root only;
 * what could not be read never counts as "no". libpci ends the process when it
 * meets an error, unless its handler leaves by longjmp: that is what it does
 * here, into the one function below that calls setjmp.
 */
#include "machine/local_host.h"

#include <pci/pci.h>
#include <dirent.h>
#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

/* What lies behind these offsets is in no header but pci/header.h. */
#define STANDARD_BYTES 64
#define EXTENDED_START 0x100
#define EXTENDED_END 0x1000
#define REDIRECT (PCI_ACS_CTRL_REQ_RED | PCI_ACS_CTRL_CMPLT_RED)

struct tally {
	unsigned looked_at; /* bridges whose ACS control is known */
	unsigned redirect; /* of these */
	unsigned unreadable; /* devices that are bridges or may be */
};

static _Thread_local jmp_buf escape;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(char *message,
								 ...)
{
	longjmp(escape, 1);
}

__attribute__((format(printf, 1, 2))) static void ignore(char *message, ...)
{
}

enum answer {
	ANSWER_NO,
	ANSWER_YES,
	ANSWER_UNREADABLE
};

/* Whether a bridge has capabilities of PCI Express; only such have ACS. */
static enum answer is_express(struct pci_dev *device, const u8 *header)
{
	u8 probe;

	if (!(header[PCI_STATUS] & PCI_STATUS_CAP_LIST))
		return ANSWER_NO;
	if (!pci_read_block(device, header[PCI_CAPABILITY_LIST] & ~3, &probe,
			    1))
		return ANSWER_UNREADABLE;
	pci_fill_info(device, PCI_FILL_CAPS | PCI_FILL_EXT_CAPS);
	return pci_find_cap(device, PCI_CAP_ID_EXP, PCI_CAP_NORMAL) ? ANSWER_YES
								    : ANSWER_NO;
}

/* Whether a bridge of PCI Express redirects. */
static enum answer redirects(struct pci_dev *device)
{
	struct pci_cap *acs;
	u8 bytes[4];

	/* the first extended capability, and with it the right to read on;
	 * all ones: the host maps no extended space, or the device is off */
	if (!pci_read_block(device, EXTENDED_START, bytes, 4) ||
	    (bytes[0] & bytes[1] & bytes[2] & bytes[3]) == 0xff)
		return ANSWER_UNREADABLE;
	acs = pci_find_cap(device, PCI_EXT_CAP_ID_ACS, PCI_CAP_EXTENDED);
	if (!acs) /* unless the list goes on past what can be read */
		return pci_read_block(device, EXTENDED_END - 4, bytes, 4)
			       ? ANSWER_NO
			       : ANSWER_UNREADABLE;
	if (!pci_read_block(device, (int)acs->addr + PCI_ACS_CTRL, bytes, 2))
		return ANSWER_UNREADABLE;
	return bytes[0] & REDIRECT ? ANSWER_YES : ANSWER_NO;
}

/* Header types other than a bridge's have nothing behind them to redirect. */
static void look_at(struct pci_dev *device, struct tally *tally)
{
	u8 header[STANDARD_BYTES];
	enum answer answer;

	if (!pci_read_block(device, 0, header, sizeof(header)) ||
	    (header[PCI_VENDOR_ID] & header[PCI_VENDOR_ID + 1]) == 0xff) {
		tally->unreadable++;
		return;
	}
	if ((header[PCI_HEADER_TYPE] & 0x7f) != PCI_HEADER_TYPE_BRIDGE)
		return;
	answer = is_express(device, header);
	if (answer == ANSWER_YES)
		answer = redirects(device);
	tally->looked_at += answer != ANSWER_UNREADABLE;
	tally->redirect += answer == ANSWER_YES;
	tally->unreadable += answer == ANSWER_UNREADABLE;
}

/* False if libpci gave up. */
static bool scan(struct pci_access *access, struct tally *tally)
{
	if (setjmp(escape))
		return false;
	pci_init(access);
	pci_scan_bus(access);
	for (struct pci_dev *device = access->devices; device;
	     device = device->next)
		look_at(device, tally);
	return true;
}

/* The tree under path: "/sys/bus/pci", or a copy of it. */
static bool scan_path(char *path, struct tally *tally)
{
	char parameter[] = "sysfs.path";
	struct pci_access *access = pci_alloc();
	bool done;

	access->method = PCI_ACCESS_SYS_BUS_PCI;
	access->error = fail;
	access->warning = ignore;
	access->debug = ignore;
	/* registers as the bus has them: asks for no other file than config */
	access->buscentric = 1;
	done = !pci_set_param(access, parameter, path) && scan(access, tally);
	pci_cleanup(access);
	return done;
}

/* Some that redirect are enough to know; that none does takes all bridges. */
static void conclude(struct oh__machine *machine, struct oh__from from,
		     const struct tally *tally)
{
	if (tally->unreadable)
		oh__machine_remark(machine, from,
				   "configuration space of %u PCI devices "
				   "cannot be read (it takes root), so their "
				   "ACS control is not known",
				   tally->unreadable);
	if (tally->redirect || (tally->looked_at && !tally->unreadable))
		oh__number_set(&machine->host.acs_redirect, from,
			       tally->redirect);
}

/* Whether libpci will get through: it takes a missing directory and a name
 * that is no address for errors, and leaks what it holds when it leaves. */
static bool is_scannable(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	bool good = directory;

	while (good && (entry = readdir(directory))) {
		unsigned domain, bus, device;
		int function;

		if (entry->d_name[0] != '.')
			good = sscanf(entry->d_name, "%x:%x:%x.%d", &domain,
				      &bus, &device, &function) == 4;
	}
	if (directory)
		closedir(directory);
	return good;
}

void oh__host_read_acs(struct oh__machine *machine, const char *root,
		       bool is_guest)
{
	struct tally tally = {0};
	struct oh__from from = {0};
	char path[PATH_MAX], name[OH__TEXT_BYTES];

	if (oh__known(machine->host.acs_redirect.from))
		return;
	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", root);
	if (!is_scannable(path))
		return;
	snprintf(path, sizeof(path), "%s/sys/bus/pci", root);
	if (!scan_path(path, &tally))
		return;
	/* a guest's own bridges are not those between its GPUs */
	if (is_guest && !tally.redirect)
		return;
	snprintf(name, sizeof(name), "%.64s/sys", root);
	from.source = oh__machine_source(machine, name);
	conclude(machine, from, &tally);
}
