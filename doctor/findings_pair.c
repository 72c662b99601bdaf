/* SPDX-License-Identifier: MIT */
/*
 * The finding of two ranks on PCIe, for which the engines switch their own
 * kernel on: whose word on peer access that rests on, and what to do.
 */
#include "doctor/findings.h"

/* SGLang's rules are no chain. Without SGLANG_SKIP_P2P_CHECK=1 both of its
 * kernels test (custom_all_reduce_utils.py, can_p2p, read at 0cd72ba4). */
static enum gate_peer_word sglang_word(const struct diagnosis *d,
				       struct gate_said *said)
{
	struct gate_question question;
	char value[48];

	finding_question(d, &question);
	if (*d->log.p2p_cache_action) {
		bool read = !strcmp(d->log.p2p_cache_action, "read");

		gate_said_logged(said, GATE_YES, &d->log, d->log.line.p2p_cache,
				 read ? "SGLang took a cache file's word"
				      : "SGLang tried it with data");
		return read ? GATE_PEER_FILE : GATE_PEER_TEST;
	}
	if (gate_setting(&question, "SGLANG_SKIP_P2P_CHECK", value,
			 said->origin) &&
	    !strcmp(value, "1")) {
		FINDING_SAY(said->evidence,
			    "SGLANG_SKIP_P2P_CHECK=1: SGLang takes the "
			    "driver's word");
		return GATE_PEER_DRIVER;
	}
	gate_said_assumed(said, GATE_YES,
			  "SGLang tries it with data unless "
			  "SGLANG_SKIP_P2P_CHECK=1, and keeps the result in a "
			  "cache file");
	return GATE_PEER_TEST;
}

/* Whose word on peer access the engine takes, by its chain where it has one,
 * and the evidence for that. */
static enum gate_peer_word peer_word(const struct diagnosis *d,
				     struct gate_said *said)
{
	const struct gate *gate = diagnosis_gate(d, "custom_all_reduce");
	const struct gate_step *step = finding_step(gate, "p2p_failed");

	memset(said, 0, sizeof(*said));
	if (d->has_log && d->log.engine == LOG_SGLANG)
		return sglang_word(d, said);
	if (!step || !gate->peer_word)
		return GATE_PEER_NOT_SAID;
	FINDING_SAY(said->evidence, "%s", step->evidence);
	FINDING_SAY(said->origin, "%s", step->origin);
	return gate->peer_word;
}

static const char *on_whose_word(enum gate_peer_word word)
{
	switch (word) {
	case GATE_PEER_DRIVER:
		return " on the driver's word";
	case GATE_PEER_TEST:
		return " after a test with data";
	case GATE_PEER_FILE:
		return " on an earlier test's word, from a file";
	case GATE_PEER_NOT_SAID:
		break;
	}
	return "";
}

/* SGLang's second kernel asks for NVLink between all ranks, even two
 * (custom_all_reduce_v2.py, read at 08d6c016). */
static void say_evidence(const struct diagnosis *d,
			 const struct gate_question *question,
			 const struct gate_said *said, bool geforce,
			 struct finding *finding)
{
	bool second = d->has_log && !strcmp(d->log.custom_generation, "v2");
	char basis[256] = "";

	if (*said->evidence)
		FINDING_SAY(basis, "; %.180s (%.60s)", said->evidence,
			    said->origin);
	FINDING_SAY(finding->evidence, "GPU%d and GPU%d have no NVLink%s%s%s",
		    question->gpus[0], question->gpus[1],
		    geforce ? "; peer access between GeForce cards takes a "
			      "patched driver"
			    : "",
		    basis,
		    second ? "; the kernel of the log asks for it: are both of "
			     "one machine?"
			   : "");
}

static void say_consequence(enum gate_peer_word word, struct finding *finding)
{
	if (word == GATE_PEER_TEST || word == GATE_PEER_FILE)
		FINDING_SAY(finding->consequence,
			    "The test sets and reads a kilobyte across the "
			    "pair: a kernel's own stores can still be lost or "
			    "wrong, as reported with patched drivers. "
			    "NCCL_P2P_DISABLE does not reach this kernel.");
	else
		FINDING_SAY(finding->consequence,
			    "On machines like this the driver said OK, and the "
			    "first all-reduce never returned, or each token "
			    "came out the same. NCCL_P2P_DISABLE does not "
			    "reach this kernel.");
}

static void say_remedy(const struct diagnosis *d, enum gate_peer_word word,
		       struct finding *finding)
{
	bool sglang = d->has_log && d->log.engine == LOG_SGLANG;

	if (word == GATE_PEER_TEST || word == GATE_PEER_FILE)
		FINDING_SAY(finding->remedy,
			    "If it hangs at the start, or prints '!!!!': start "
			    "with --disable-custom-all-reduce. Else try a "
			    "kernel's own stores: onehop probe. After a change "
			    "of driver, BIOS or IOMMU delete "
			    "~/.cache/%s/gpu_p2p_access_cache_for_*.json: the "
			    "test is not made again by itself.",
			    finding_cache(d));
	else
		FINDING_SAY(finding->remedy,
			    "If it hangs at the start, or prints '!!!!': start "
			    "with --disable-custom-all-reduce. Else boot with "
			    "iommu=pt, clear ACS redirect, try it with data by "
			    "onehop probe, and start %s: the result of that "
			    "test is kept in ~/.cache/%s.",
			    sglang ? "without SGLANG_SKIP_P2P_CHECK=1"
				   : "with VLLM_SKIP_P2P_CHECK=0",
			    finding_cache(d));
}

/* PCIe and two ranks: what was reported to hang or to be wrong, most of it
 * where nothing but the driver was asked. */
bool finding_look_pcie_pair(const struct diagnosis *d, struct finding *finding)
{
	struct gate_question question;
	struct gate_said said;
	struct oh__from from;
	const struct oh__host *host = &d->machine.host;
	bool plain = host->iommu.mode == OH__IOMMU_OFF ||
		     host->iommu.mode == OH__IOMMU_PASSTHROUGH;
	enum gate_peer_word word;
	bool geforce;

	finding_question(d, &question);
	if (question.tp != 2 || !finding_custom_enabled(d) ||
	    gate_pair_nvlink(&question, 0, 1, &from) != GATE_NO)
		return false;
	word = peer_word(d, &said);
	geforce = strstr(d->machine.gpu[question.gpus[0]].name.text,
			 "GeForce") != NULL;
	finding->severity = geforce || (!plain && word != GATE_PEER_TEST)
				    ? FINDING_WARNING
				    : FINDING_INFO;
	FINDING_SAY(finding->title, "Two PCIe GPUs run %s's own kernel%s",
		    finding_engine(d), on_whose_word(word));
	say_evidence(d, &question, &said, geforce, finding);
	say_consequence(word, finding);
	say_remedy(d, word, finding);
	return true;
}
