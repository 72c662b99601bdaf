/* SPDX-License-Identifier: MIT */
/*
 * Findings from the machine: what stands between its GPUs. Where every pair has
 * NVLink, what PCIe does is not in the way of an all-reduce, and what is said
 * of it is for information.
 */
#include "doctor/findings.h"

#include "doctor/hardware.h"

/* Would a pair use PCIe for what one GPU writes to another? */
static enum finding_severity severity_of_pcie(const struct diagnosis *d,
					      enum finding_severity severity)
{
	return finding_all_nvlink(d) ? FINDING_INFO : severity;
}

static bool has_acs(const struct diagnosis *d)
{
	const struct oh__number *acs = &d->machine.host.acs_redirect;

	return oh__known(acs->from) && acs->value;
}

static bool has_translation(const struct diagnosis *d)
{
	return oh__known(d->machine.host.iommu.from) &&
	       d->machine.host.iommu.mode == OH__IOMMU_TRANSLATED;
}

bool finding_peers_at_risk(const struct diagnosis *d)
{
	return has_acs(d) || has_translation(d);
}

static bool look_acs(const struct diagnosis *d, struct finding *finding)
{
	char origin[96];
	bool both = has_translation(d);

	if (!has_acs(d) || d->machine.gpus < 2 || d->tp == 1)
		return false;
	finding_origin(d, d->machine.host.acs_redirect.from, origin,
		       sizeof(origin));
	finding->severity =
		severity_of_pcie(d, both ? FINDING_PROBLEM : FINDING_WARNING);
	FINDING_SAY(finding->title, "ACS sends peer traffic up to the CPU");
	FINDING_SAY(finding->evidence,
		    "%llu bridges with ReqRedir+ or CmpltRedir+ (%s)",
		    (unsigned long long)d->machine.host.acs_redirect.value,
		    origin);
	if (both)
		FINDING_SAY(finding->consequence,
			    "With the IOMMU translating, as here, writes from "
			    "GPU to GPU were reported to be dropped: the first "
			    "all-reduce over peer access hangs.");
	else
		FINDING_SAY(finding->consequence,
			    "Peer traffic leaves its switch and comes back: "
			    "103 GB/s became 50 on a PEX890xx, and if the "
			    "IOMMU translates, it can hang.");
	FINDING_SAY(finding->remedy,
		    "Until the next boot, for each bridge that lspci -vvv "
		    "shows with ReqRedir+: setpci -s BRIDGE "
		    "ECAP_ACS+0x6.w=0000. It ends the isolation that virtual "
		    "machines with passed-through devices rely on. For good: "
		    "ACS off in the BIOS.");
	return true;
}

static bool look_iommu(const struct diagnosis *d, struct finding *finding)
{
	char origin[96];

	if (!has_translation(d) || d->machine.gpus < 2 || d->tp == 1)
		return false;
	finding_origin(d, d->machine.host.iommu.from, origin, sizeof(origin));
	finding->severity = severity_of_pcie(d, has_acs(d) ? FINDING_PROBLEM
							   : FINDING_WARNING);
	FINDING_SAY(finding->title,
		    "The IOMMU translates what GPUs send to each other");
	FINDING_SAY(finding->evidence, "IOMMU mode translated (%s)", origin);
	FINDING_SAY(finding->consequence,
		    "On such machines peer access was reported to hang, to "
		    "fault (IO_PAGE_FAULT) or to copy zeros, although driver "
		    "and CUDA said OK.");
	FINDING_SAY(finding->remedy,
		    "Boot with iommu=pt (intel_iommu=on iommu=pt on Intel): "
		    "GRUB_CMDLINE_LINUX in /etc/default/grub, update-grub, "
		    "reboot. Until then NCCL_P2P_DISABLE=1 together with "
		    "--disable-custom-all-reduce. onehop probe tells whether "
		    "data arrives, before and after.");
	return true;
}

static bool is_geforce(const struct oh__gpu *gpu)
{
	const struct hardware *hardware =
		oh__known(gpu->name.from) ? hardware_named(gpu->name.text)
					  : NULL;

	return hardware ? hardware->geforce
			: strstr(gpu->name.text, "GeForce") != NULL;
}

/* Does the driver refuse a to read or write b's memory? */
static bool refuses(const struct diagnosis *d, int a, int b,
		    struct oh__peer *refused)
{
	static const enum oh__peer_aspect aspects[] = {OH__PEER_READ,
						       OH__PEER_WRITE};

	for (size_t i = 0; i < sizeof(aspects) / sizeof(*aspects); i++) {
		const struct oh__peer *peer =
			&d->machine.peer[aspects[i]][a][b];

		if (!oh__known(peer->from) || peer->status == OH__PEER_OK ||
		    peer->status == OH__PEER_U)
			continue;
		*refused = *peer;
		return true;
	}
	return false;
}

static bool look_geforce(const struct diagnosis *d, struct finding *finding)
{
	const struct oh__machine *machine = &d->machine;
	struct oh__peer first = {0}, refused;
	int pairs = 0, a = 0, b = 0;
	char origin[96];

	for (int i = 0; i < machine->gpus; i++)
		for (int k = i + 1; k < machine->gpus; k++) {
			if (!is_geforce(&machine->gpu[i]) ||
			    !is_geforce(&machine->gpu[k]) ||
			    !refuses(d, i, k, &refused))
				continue;
			if (!pairs++) {
				first = refused;
				a = i;
				b = k;
			}
		}
	if (!pairs)
		return false;
	finding_origin(d, first.from, origin, sizeof(origin));
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "The driver refuses peer access between GeForce cards");
	FINDING_SAY(finding->evidence,
		    "%d pair%s; GPU%d-GPU%d is %s, %.60s (%s)", pairs,
		    pairs == 1 ? "" : "s", a, b,
		    oh__peer_status_text(first.status),
		    machine->gpu[a].name.text, origin);
	FINDING_SAY(finding->consequence,
		    "Whatever goes from GPU to GPU goes through host memory. "
		    "It is so by design of the driver, on any board.");
	FINDING_SAY(finding->remedy,
		    "None with the stock driver. Patched drivers exist; with "
		    "them NCCL worked and kernels' own stores gave wrong data, "
		    "hangs and host resets on several machines.");
	return true;
}

/* Of a number and its most: the GPUs below it, and the first of them. */
static int below(const struct diagnosis *d, size_t now, size_t most, int *first)
{
	int count = 0;

	for (int i = 0; i < d->machine.gpus; i++) {
		const char *gpu = (const char *)&d->machine.gpu[i];
		const struct oh__number *is =
			(const struct oh__number *)(const void *)(gpu + now);
		const struct oh__number *can =
			(const struct oh__number *)(const void *)(gpu + most);

		if (oh__known(is->from) && oh__known(can->from) && is->value &&
		    is->value < can->value && !count++)
			*first = i;
	}
	return count;
}

static bool look_width(const struct diagnosis *d, struct finding *finding)
{
	int first = 0;
	int count = below(d, offsetof(struct oh__gpu, pcie_width),
			  offsetof(struct oh__gpu, pcie_width_max), &first);
	const struct oh__gpu *gpu = &d->machine.gpu[first];
	char origin[96];

	if (!count)
		return false;
	finding_origin(d, gpu->pcie_width.from, origin, sizeof(origin));
	finding->severity = severity_of_pcie(d, FINDING_WARNING);
	FINDING_SAY(finding->title,
		    "%d of %d GPUs have fewer PCIe lanes than they can use",
		    count, d->machine.gpus);
	FINDING_SAY(finding->evidence, "GPU%d: x%llu of x%llu (%s)", first,
		    (unsigned long long)gpu->pcie_width.value,
		    (unsigned long long)gpu->pcie_width_max.value, origin);
	FINDING_SAY(finding->consequence,
		    "Large all-reduces wait for the narrowest link. NCCL was "
		    "seen to leave the peer path when one card sat at x4 or "
		    "x8.");
	FINDING_SAY(finding->remedy,
		    "Check slot, riser and bifurcation (lspci -vv: LnkSta "
		    "against LnkCap), or leave that GPU out with "
		    "CUDA_VISIBLE_DEVICES.");
	return true;
}

static bool look_gen(const struct diagnosis *d, struct finding *finding)
{
	int first = 0;
	int count = below(d, offsetof(struct oh__gpu, pcie_gen),
			  offsetof(struct oh__gpu, pcie_gen_max), &first);
	const struct oh__gpu *gpu = &d->machine.gpu[first];
	char origin[96];

	if (!count)
		return false;
	finding_origin(d, gpu->pcie_gen.from, origin, sizeof(origin));
	finding->severity = FINDING_INFO;
	FINDING_SAY(finding->title,
		    "%d of %d GPUs show a lower PCIe generation than they "
		    "have: idle ones do",
		    count, d->machine.gpus);
	FINDING_SAY(finding->evidence, "GPU%d: generation %llu of %llu (%s)",
		    first, (unsigned long long)gpu->pcie_gen.value,
		    (unsigned long long)gpu->pcie_gen_max.value, origin);
	FINDING_SAY(finding->consequence,
		    "Nothing by itself. NCCL 2.30 reads the state at its "
		    "start, and may take the link for slower than it is.");
	FINDING_SAY(finding->remedy,
		    "Look again under load: nvidia-smi --query-gpu=index,"
		    "pcie.link.gen.current,pcie.link.width.current "
		    "--format=csv");
	return true;
}

/* "2x A (GPU0 first), 3x B (GPU2 first)"; how many models there are. */
static int list_models(const struct diagnosis *d, const int *gpus, int count,
		       char *text, size_t bytes)
{
	const struct oh__gpu *gpu = d->machine.gpu;
	int models = 0;
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < count; i++) {
		int same = 0, before = 0;

		if (!oh__known(gpu[gpus[i]].name.from))
			continue;
		for (int k = 0; k < count; k++)
			if (oh__known(gpu[gpus[k]].name.from) &&
			    !strcmp(gpu[gpus[i]].name.text,
				    gpu[gpus[k]].name.text)) {
				same++;
				before += k < i;
			}
		if (before)
			continue;
		models++;
		if (used < bytes)
			used += (size_t)snprintf(
				text + used, bytes - used,
				"%s%dx %.60s (GPU%d%s)", models > 1 ? ", " : "",
				same, gpu[gpus[i]].name.text, gpus[i],
				same > 1 ? " first" : "");
	}
	return models;
}

static bool look_models(const struct diagnosis *d, struct finding *finding)
{
	struct gate_question ranks;
	char models[220], origin[96];

	finding_question(d, &ranks);
	/* the ranks' GPUs; all of them where the ranks are not known */
	for (int i = 0; !d->tp && i < d->machine.gpus; i++)
		ranks.gpus[i] = i;
	if (list_models(d, ranks.gpus, d->tp ? ranks.tp : d->machine.gpus,
			models, sizeof(models)) < 2)
		return false;
	finding_origin(d, d->machine.gpu[ranks.gpus[0]].name.from, origin,
		       sizeof(origin));
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title, "The ranks run on GPUs of several models");
	FINDING_SAY(finding->evidence, "%s (%s)", models, origin);
	FINDING_SAY(finding->consequence,
		    "The slowest sets the pace of every all-reduce. CUDA was "
		    "reported to refuse peer access between "
		    "architectures%s.",
		    d->visible.order_uncertain
			    ? "; CUDA's order may differ from nvidia-smi's"
			    : "");
	FINDING_SAY(finding->remedy,
		    "CUDA_DEVICE_ORDER=PCI_BUS_ID, and CUDA_VISIBLE_DEVICES "
		    "with GPUs of one model for a tensor-parallel group.");
	return true;
}

/* Four GPUs with NVLink between all of them, if there are such. */
static bool find_four(const struct gate_question *ranks, int four[4])
{
	int count = 0;

	/* from each rank on: the next that has NVLink to all before it */
	for (int first = 0; first < ranks->tp && count < 4; first++) {
		count = 0;
		for (int i = first; i < ranks->tp && count < 4; i++) {
			struct oh__from from;
			bool all = true;

			for (int n = 0; n < count && all; n++)
				all = gate_pair_nvlink(ranks, four[n], i,
						       &from) == GATE_YES;
			if (all)
				four[count++] = i;
		}
	}
	for (int n = 0; n < count; n++)
		four[n] = ranks->gpus[four[n]];
	return count == 4;
}

/* What NVLink between some of the GPUs comes to, and what to do about it. */
static void say_partial(const struct diagnosis *d,
			const struct gate_question *ranks,
			struct finding *finding)
{
	const struct gate *nccl = diagnosis_gate(d, "transport");
	bool reached =
		nccl && nccl->transport && !strcmp(nccl->transport, "P2P");
	int four[4];

	FINDING_SAY(finding->consequence,
		    "The engine's own kernel stays out, "
		    "and NCCL's ring %s.",
		    reached ? "does the work"
			    : "crosses PCIe between the bridged groups");
	if (find_four(ranks, four) && ranks->tp > 4)
		FINDING_SAY(finding->remedy,
			    "If the model fits: four ranks on GPUs that have "
			    "NVLink between all of them "
			    "(CUDA_VISIBLE_DEVICES=%d,%d,%d,%d "
			    "--tensor-parallel-size 4), and pipeline or data "
			    "parallelism for the rest.",
			    four[0], four[1], four[2], four[3]);
	else
		FINDING_SAY(finding->remedy,
			    "If the model fits: a tensor-parallel group for "
			    "each bridged pair, and pipeline or data "
			    "parallelism between them "
			    "(--tensor-parallel-size 2).");
}

static bool look_partial(const struct diagnosis *d, struct finding *finding)
{
	struct gate_question ranks;
	int bridged = 0, all, first[2] = {0, 0};
	struct oh__from where = {0}, from = {0};
	char origin[96];

	finding_question(d, &ranks);
	all = ranks.tp * (ranks.tp - 1) / 2;
	for (int i = 0; i < ranks.tp; i++)
		for (int k = i + 1; k < ranks.tp; k++) {
			if (gate_pair_nvlink(&ranks, i, k, &from) != GATE_YES ||
			    bridged++)
				continue;
			first[0] = ranks.gpus[i];
			first[1] = ranks.gpus[k];
			where = from;
		}
	if (ranks.tp < 3 || !bridged || bridged == all)
		return false;
	finding_origin(d, where, origin, sizeof(origin));
	finding->severity = FINDING_WARNING;
	FINDING_SAY(finding->title,
		    "NVLink joins some of the GPUs, which counts as none for "
		    "more than two ranks");
	FINDING_SAY(finding->evidence,
		    "%d of %d pairs have NVLink, GPU%d-GPU%d first (%s)",
		    bridged, all, first[0], first[1], origin);
	say_partial(d, &ranks, finding);
	return true;
}

static bool look_mig(const struct diagnosis *d, struct finding *finding)
{
	struct gate_question ranks;
	char origin[96];

	finding_question(d, &ranks);
	for (int i = 0; ranks.tp > 1 && i < ranks.tp; i++) {
		int gpu = ranks.gpus[i];
		const struct oh__number *mig = &d->machine.gpu[gpu].mig;

		if (!oh__known(mig->from) || !mig->value)
			continue;
		finding_origin(d, mig->from, origin, sizeof(origin));
		finding->severity = FINDING_WARNING;
		FINDING_SAY(finding->title,
			    "MIG is on: instances have neither peer access "
			    "nor NVLink");
		FINDING_SAY(finding->evidence, "GPU%d is in MIG mode (%s)", gpu,
			    origin);
		FINDING_SAY(finding->consequence,
			    "Ranks on instances reach each other through host "
			    "memory only, whatever the links are.");
		FINDING_SAY(finding->remedy,
			    "One rank, or MIG off for tensor parallelism: "
			    "nvidia-smi -i %d -mig 0",
			    gpu);
		return true;
	}
	return false;
}

static bool look_driver(const struct diagnosis *d, struct finding *finding)
{
	static const struct {
		const char *driver, *gpu, *what;
	} known[] = {
		{"545.29", "",
		 "two ranks hung with it (vLLM issue 1801, nccl-tests 117)"},
		{"595.91.07", "A100",
		 "two A100 over PCIe repeated one token right after the change "
		 "from 595.84, until --disable-custom-all-reduce"},
	};
	const struct oh__text *driver = &d->machine.host.driver;
	char origin[96];

	if (!oh__known(driver->from) || d->machine.gpus < 2 || d->tp == 1)
		return false;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		size_t length = strlen(known[i].driver);

		if (strncmp(driver->text, known[i].driver, length) != 0 ||
		    (driver->text[length] >= '0' &&
		     driver->text[length] <= '9') ||
		    !strstr(d->machine.gpu[0].name.text, known[i].gpu))
			continue;
		finding_origin(d, driver->from, origin, sizeof(origin));
		finding->severity = severity_of_pcie(d, FINDING_WARNING);
		FINDING_SAY(finding->title,
			    "There are reports against driver %.40s",
			    driver->text);
		FINDING_SAY(finding->evidence, "driver %.40s (%s)",
			    driver->text, origin);
		FINDING_SAY(finding->consequence, "Reported: %s.",
			    known[i].what);
		FINDING_SAY(finding->remedy,
			    "If the server hangs or its output is wrong: "
			    "another driver, or --disable-custom-all-reduce "
			    "and NCCL_P2P_DISABLE=1.");
		return true;
	}
	return false;
}

const struct finding_row findings_of_machine[] = {
	{"acs_redirect", look_acs},	      {"iommu_translated", look_iommu},
	{"p2p_denied_geforce", look_geforce}, {"mig_no_p2p", look_mig},
	{"partial_nvlink", look_partial},     {"mixed_models", look_models},
	{"slow_link_width", look_width},      {"driver_known_bad", look_driver},
	{"gen_downtrained_idle", look_gen},   {0},
};
