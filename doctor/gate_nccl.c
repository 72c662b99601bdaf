/* SPDX-License-Identifier: MIT */
/*
 * NCCL's transport inside a host, as its topology code chooses it for each
 * pair: P2P where the way between the GPUs is near enough, NVML agrees and CUDA
 * agrees; else SHM, through host memory; else the network. The rules are those
 * of NCCL 2.30. The ring crosses neighbouring pairs only, so that the pairs
 * show what a ring can be made of.
 */
#include "doctor/gate_nccl.h"

#include <stdio.h>
#include <string.h>

#include "doctor/gate_facts.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define SOURCE "NCCL 2.30 graph/paths.cc, transport/p2p.cc"

/* Distances of paths, NCCL's numbers. */
enum distance {
	DISTANCE_LOC = 0,
	DISTANCE_NVL = 1,
	DISTANCE_NVB = 2,
	DISTANCE_PIX = 4,
	DISTANCE_PXB = 5,
	DISTANCE_PHB = 8,
	DISTANCE_SYS = 9,
	DISTANCE_UNKNOWN = -1,
};

/* The distance up to which P2P is tried, and why. */
struct level {
	int least, most; /* differ where the processor's maker decides */
	char evidence[160];
	char origin[96];
};

static bool has_nvlink(const struct gate_question *question, int i, int k)
{
	struct oh__from from;

	return i != k && gate_pair_nvlink(question, i, k, &from) == GATE_YES;
}

/* The rank that has NVLink to both, through which NCCL goes where the two have
 * none: eight V100 in a hybrid mesh. -1: there is none. */
static int bridge_of(const struct gate_question *question, int i, int k)
{
	if (has_nvlink(question, i, k))
		return -1;
	for (int n = 0; n < question->tp; n++)
		if (has_nvlink(question, i, n) && has_nvlink(question, n, k))
			return n;
	return -1;
}

static int distance_of(const struct gate_question *question, int i, int k)
{
	/* nvidia-smi's NODE crosses host bridges of one NUMA node, which is
	 * one processor node to NCCL: PHB there */
	static const int distances[] = {
		[OH__LINK_UNKNOWN] = DISTANCE_UNKNOWN,
		[OH__LINK_SELF] = DISTANCE_UNKNOWN,
		[OH__LINK_NV] = DISTANCE_NVL,
		[OH__LINK_PIX] = DISTANCE_PIX,
		[OH__LINK_PXB] = DISTANCE_PXB,
		[OH__LINK_PHB] = DISTANCE_PHB,
		[OH__LINK_NODE] = DISTANCE_PHB,
		[OH__LINK_SYS] = DISTANCE_SYS,
	};
	int a = gate_gpu(question, i), b = gate_gpu(question, k);

	if (a < 0 || b < 0)
		return DISTANCE_UNKNOWN;
	if (bridge_of(question, i, k) >= 0)
		return DISTANCE_NVB;
	return distances[question->machine->link[a][b].kind];
}

/* A level's name or its old number; -1 if it is neither. */
static int level_of(const char *value)
{
	static const struct {
		const char *name;
		int distance;
	} levels[] = {
		{"LOC", 0}, {"NVL", 1}, {"NVB", 2}, {"C2C", 3}, {"PIX", 4},
		{"PXB", 5}, {"P2C", 6}, {"PXN", 7}, {"PHB", 8}, {"SYS", 9},
		{"0", 0},   {"1", 4},	{"2", 5},   {"3", 8},	{"4", 9},
	};

	for (size_t i = 0; i < COUNT(levels); i++)
		if (!strcmp(value, levels[i].name))
			return levels[i].distance;
	/* larger old numbers mean the same as 4 */
	return value[0] >= '0' && value[0] <= '9' ? DISTANCE_SYS : -1;
}

static void level_by_default(const struct gate_question *question,
			     struct level *level)
{
	enum gate_answer amd = gate_cpu_is_amd(question, level->origin);
	bool two = question->tp <= 2;

	level->least = DISTANCE_PXB;
	level->most = two && amd != GATE_NO ? DISTANCE_SYS : DISTANCE_PXB;
	if (two && amd == GATE_YES) {
		level->least = DISTANCE_SYS;
		GATE_SAY(level->evidence,
			 "default SYS: an AMD processor and at most two GPUs");
		return;
	}
	if (two && amd == GATE_UNKNOWN)
		GATE_SAY(level->evidence,
			 "default PXB, or SYS on an AMD processor with at most "
			 "two GPUs; the processor was not given");
	else
		GATE_SAY(level->evidence, "default PXB%s",
			 two		   ? ": no AMD processor"
			 : amd == GATE_YES ? ": an AMD processor changes it "
					     "for at most two GPUs"
					   : "");
	if (!two)
		GATE_SAY(level->origin, "number of ranks");
}

static void find_level(const struct gate_question *question,
		       struct level *level)
{
	char value[48];

	memset(level, 0, sizeof(*level));
	if (gate_setting(question, "NCCL_P2P_DISABLE", value, level->origin) &&
	    strcmp(value, "0") != 0) {
		GATE_SAY(level->evidence, "NCCL_P2P_DISABLE=%s", value);
		return;
	}
	if (gate_setting(question, "NCCL_P2P_LEVEL", value, level->origin) &&
	    level_of(value) >= 0) {
		level->least = level->most = level_of(value);
		GATE_SAY(level->evidence, "NCCL_P2P_LEVEL=%s", value);
		return;
	}
	level_by_default(question, level);
}

static enum gate_answer level_allows(const struct gate_question *question,
				     const struct level *level, int i, int k)
{
	int distance = distance_of(question, i, k);

	if (distance == DISTANCE_UNKNOWN)
		return level->most == DISTANCE_LOC ? GATE_NO : GATE_UNKNOWN;
	return distance <= level->least ? GATE_YES
	       : distance > level->most ? GATE_NO
					: GATE_UNKNOWN;
}

/* What the log's lines say of the pair, either way round. */
static const char *logged_transport(const struct log_facts *log, int i, int k)
{
	for (int n = 0; log && n < log->pair_count; n++) {
		const struct log_pair *pair = &log->pairs[n];

		if (!((pair->from == i && pair->to == k) ||
		      (pair->from == k && pair->to == i)))
			continue;
		if (strstr(pair->via, "P2P"))
			return "P2P";
		if (strstr(pair->via, "SHM") || strstr(pair->via, "shared"))
			return "SHM";
		if (strstr(pair->via, "NET"))
			return "NET";
	}
	return NULL;
}

/* NVML is asked for each hop: of the pair itself, or of the two by a rank
 * between them. */
static enum gate_answer nvml_says(const struct gate_question *question, int i,
				  int k, enum oh__peer_status *status)
{
	struct oh__from from;
	int between = bridge_of(question, i, k);
	enum gate_answer first, second;

	if (between < 0)
		return gate_pair_peer(question, i, k, status, &from);
	first = gate_pair_peer(question, i, between, status, &from);
	if (first != GATE_YES)
		return first;
	second = gate_pair_peer(question, between, k, status, &from);
	return second;
}

/*
 * CUDA says what NVML says, unless vLLM was refused: its newer versions put
 * the same question to CUDA, older ones tried it with data.
 */
static enum gate_answer cuda_says(const struct gate_question *question)
{
	const struct log_facts *log = question->log;

	if (!log || log->engine != LOG_VLLM ||
	    strcmp(log->custom_rule, "p2p_failed") != 0 ||
	    (log->tensor_parallel_size &&
	     log->tensor_parallel_size != (uint64_t)question->tp))
		return GATE_YES;
	return !*log->p2p_cache_action && log->version.known &&
			       version_at_least(&log->version, "0.12")
		       ? GATE_NO
		       : GATE_UNKNOWN;
}

static bool shm_disabled(const struct gate_question *question)
{
	char value[48], origin[96];

	return gate_setting(question, "NCCL_SHM_DISABLE", value, origin) &&
	       strcmp(value, "0") != 0;
}

static const char *transport_of(const struct gate_question *question,
				const struct level *level, int i, int k,
				const char **why)
{
	enum gate_answer allowed = level_allows(question, level, i, k);
	enum oh__peer_status status;
	enum gate_answer peer = nvml_says(question, i, k, &status);
	enum gate_answer cuda = cuda_says(question);
	const char *logged, *other = shm_disabled(question) ? "NET" : "SHM";

	if (allowed == GATE_NO) {
		*why = "level_allows";
		return other;
	}
	if (peer == GATE_NO) {
		*why = status == OH__PEER_NOT_ASKED ? "cuda_peer"
						    : "nvml_p2p_status";
		return other;
	}
	*why = allowed == GATE_UNKNOWN ? "level_allows"
	       : peer == GATE_UNKNOWN  ? "nvml_p2p_status"
				       : "cuda_peer";
	if (allowed == GATE_YES && peer == GATE_YES && cuda == GATE_YES)
		return "P2P";
	logged = logged_transport(question->log, i, k);
	if (!logged && cuda == GATE_NO) {
		*why = "cuda_peer";
		return other;
	}
	if (!logged)
		return "depends";
	*why = "log";
	return logged;
}

static void ask_pairs(const struct gate_question *question,
		      const struct level *level, struct gate *gate)
{
	for (int i = 0; i < question->tp; i++)
		for (int k = i + 1; k < question->tp; k++) {
			int n = gate->pair_count;

			if (n == GATE_PAIRS || k > UINT8_MAX)
				return;
			gate->pairs[n].from = (uint8_t)i;
			gate->pairs[n].to = (uint8_t)k;
			gate->pairs[n].transport = transport_of(
				question, level, i, k, &gate->pairs[n].why);
			gate->pair_count++;
		}
}

static int count_pairs(const struct gate *gate, const char *transport)
{
	int count = 0;

	for (int i = 0; i < gate->pair_count; i++)
		count += !strcmp(gate->pairs[i].transport, transport);
	return count;
}

static const char *overall(const struct gate_question *question,
			   const struct gate *gate)
{
	int all = gate->pair_count;
	int p2p = count_pairs(gate, "P2P"), shm = count_pairs(gate, "SHM");
	int net = count_pairs(gate, "NET");
	const struct log_facts *log = question->log;

	if (!all)
		return "depends";
	if (p2p == all)
		return "P2P";
	if (shm == all)
		return "SHM";
	if (net == all)
		return "NET";
	/* two sorts are mixed, whatever the rest turns out to be */
	if ((p2p > 0) + (shm > 0) + (net > 0) > 1)
		return "mixed";
	if (log && log->transport)
		return log_transport_name(log->transport);
	return "depends";
}

/* The pairs' answers to one condition; the first that says no for evidence. */
static void add_level_step(const struct gate_question *question,
			   const struct level *level, struct gate *gate)
{
	int no = 0, unknown = 0, first[2] = {0, 0};
	struct gate_step *step;

	for (int i = 0; i < question->tp; i++)
		for (int k = i + 1; k < question->tp; k++) {
			enum gate_answer answer =
				level_allows(question, level, i, k);

			unknown += answer == GATE_UNKNOWN;
			if (answer == GATE_NO && !no++) {
				first[0] = i;
				first[1] = k;
			}
		}
	step = gate_add(gate, "level_allows",
			no	  ? GATE_NO
			: unknown ? GATE_UNKNOWN
				  : GATE_YES,
			SOURCE);
	GATE_SAY(step->question,
		 "Is every pair near enough for the level of P2P?");
	GATE_SAY(step->origin, "%s", level->origin);
	GATE_SAY(step->evidence, "%.150s", level->evidence);
	if (no && gate_gpu(question, first[0]) >= 0) {
		char kind[8];
		int a = gate_gpu(question, first[0]);
		int b = gate_gpu(question, first[1]);
		size_t used = strlen(step->evidence);

		oh__link_text(&question->machine->link[a][b], kind);
		snprintf(step->evidence + used, sizeof(step->evidence) - used,
			 "; %d of %d pairs are farther, GPU%d-GPU%d is %s", no,
			 gate->pair_count, a, b, kind);
	}
}

/* Where NVLink reaches every pair, if by a GPU between, the pairs without it
 * are not asked for. */
static void say_nvml(const struct gate_question *question,
		     struct gate_said *said)
{
	int bridged = 0, all = question->tp * (question->tp - 1) / 2;

	gate_pairs_peer(question, said);
	for (int i = 0; i < question->tp; i++)
		for (int k = i + 1; k < question->tp; k++) {
			enum oh__peer_status status;

			if (nvml_says(question, i, k, &status) != GATE_YES)
				return;
			bridged += bridge_of(question, i, k) >= 0;
		}
	if (!bridged)
		return;
	gate_said_assumed(said, GATE_YES, "");
	GATE_SAY(said->evidence,
		 "%d of %d pairs have NVLink, which implies peer access; NCCL "
		 "reaches the other %d through a GPU that has NVLink to both",
		 all - bridged, all, bridged);
}

static void say_cuda(const struct gate_question *question,
		     struct gate_said *said)
{
	const struct log_facts *log = question->log;
	enum gate_answer cuda = cuda_says(question);

	if (log && log->p2p_refused)
		gate_said_logged(said, GATE_NO, log, log->line.p2p_refused,
				 "NCCL's lines say that CUDA or NVML refuses a "
				 "pair");
	else if (said->answer == GATE_YES && cuda == GATE_NO)
		gate_said_logged(said, cuda, log, log->line.custom,
				 "vLLM asked CUDA the same, and it said no");
	else if (said->answer == GATE_YES && cuda == GATE_UNKNOWN)
		gate_said_logged(said, cuda, log, log->line.custom,
				 "vLLM's own test of peer access failed, which "
				 "NCCL does not make");
	else if (said->answer == GATE_YES)
		gate_said_assumed(said, GATE_YES,
				  "CUDA answers as NVML does; that is no proof "
				  "that data moves");
}

static void add_peer_steps(const struct gate_question *question,
			   struct gate *gate)
{
	struct gate_said said = {0};
	struct gate_step *step;

	say_nvml(question, &said);
	step = gate_add(gate, "nvml_p2p_status", said.answer, SOURCE);
	GATE_SAY(step->question,
		 "Does NVML say OK for reads and writes of every pair?");
	GATE_SAY(step->evidence, "%s", said.evidence);
	GATE_SAY(step->origin, "%s", said.origin);
	say_cuda(question, &said);
	step = gate_add(gate, "cuda_peer", said.answer, SOURCE);
	GATE_SAY(step->question,
		 "Does cudaDeviceCanAccessPeer say yes for every pair?");
	GATE_SAY(step->evidence, "%s", said.evidence);
	GATE_SAY(step->origin, "%s", said.origin);
}

/* How many neighbours of the ring 0, 1, ..., n-1, 0 are P2P. */
static int ring_pairs(const struct gate *gate)
{
	int count = 0;

	for (int i = 0; i < gate->pair_count; i++) {
		int from = gate->pairs[i].from, to = gate->pairs[i].to;
		bool next = to == from + 1 ||
			    (gate->tp > 2 && !from && to == gate->tp - 1);

		count += next && !strcmp(gate->pairs[i].transport, "P2P");
	}
	return count;
}

static void say_summary(const struct gate_question *question, struct gate *gate)
{
	const char *by = question->tp == 2 ? "Its one hop" : "Its ring";
	int ring = gate->tp > 2 ? gate->tp : 1;

	if (!strcmp(gate->transport, "P2P"))
		GATE_SAY(gate->summary,
			 "NCCL copies from GPU to GPU (P2P) between all "
			 "pairs.");
	else if (!strcmp(gate->transport, "SHM"))
		GATE_SAY(gate->summary,
			 "NCCL goes through host memory (SHM) between all "
			 "pairs: every hop is written there and read again.");
	else if (!strcmp(gate->transport, "NET"))
		GATE_SAY(gate->summary,
			 "NCCL goes through the network between GPUs of one "
			 "host: P2P does not serve and SHM is switched off.");
	else if (!strcmp(gate->transport, "mixed"))
		GATE_SAY(gate->summary,
			 "NCCL uses P2P for %d of %d pairs. %s counts: in rank "
			 "order %d of its %d hops are P2P, and the slowest "
			 "sets the pace.",
			 count_pairs(gate, "P2P"), gate->pair_count, by,
			 ring_pairs(gate), ring);
	else {
		GATE_SAY(gate->summary,
			 "NCCL's transport depends on what was not given: %s.",
			 gate->steps[0].answer == GATE_UNKNOWN
				 ? "the processor's maker, or the links"
				 : "the driver's peer status (nvidia-smi topo "
				   "-p2p r)");
		GATE_SAY(gate->if_yes, "P2P between the pairs in question");
		GATE_SAY(gate->if_no, "SHM between the pairs in question");
	}
}

static void say_overrides(const struct gate_question *question,
			  struct gate *gate)
{
	char value[48], origin[96];

	if (gate_setting(question, "NCCL_P2P_DISABLE", value, origin))
		gate_override(gate,
			      "unset NCCL_P2P_DISABLE: P2P where the "
			      "level allows it",
			      "somebody may have set it because of a hang: "
			      "look first");
	else if (gate->rule && !strcmp(gate->rule, "level_allows"))
		gate_override(gate, "NCCL_P2P_LEVEL=SYS: P2P over any path",
			      "with ACS redirect or a translating IOMMU the "
			      "first all-reduce hangs or returns wrong data; "
			      "the driver must say OK for the pairs");
	if (gate->verdict == GATE_ENABLED)
		gate_override(gate, "NCCL_P2P_DISABLE=1: SHM instead",
			      "slower; the way out where P2P hangs. It does "
			      "not reach an engine's own kernel");
	if (gate->rule && !strcmp(gate->rule, "nvml_p2p_status"))
		gate_override(gate,
			      "NCCL_IGNORE_DISABLED_P2P=2: NVML is not "
			      "asked",
			      "wrong data or a failed start: the driver "
			      "refuses for a reason");
}

static void add_single_rank(struct gate *gate)
{
	struct gate_step *step = gate_add(gate, "single_rank", GATE_NO, SOURCE);

	GATE_SAY(step->question, "Is there more than one rank?");
	GATE_SAY(step->evidence, "one rank");
	GATE_SAY(step->origin, "tensor-parallel size");
	gate_decide(gate);
	gate->transport = NULL;
	GATE_SAY(gate->summary, "One rank: NCCL moves nothing.");
}

void gate_nccl_ask(const struct gate_question *question, struct gate *gates)
{
	struct gate *gate = &gates[0];
	struct level level;

	memset(gate, 0, sizeof(*gate));
	gate->engine = "nccl";
	gate->feature = "transport";
	gate->version = question->version;
	gate->version_assumed = !question->version.known;
	gate->tp = question->tp;
	gate->bytes = question->bytes;
	if (question->tp < 2) {
		add_single_rank(gate);
		return;
	}
	find_level(question, &level);
	ask_pairs(question, &level, gate);
	add_level_step(question, &level, gate);
	add_peer_steps(question, gate);
	gate_decide(gate);
	gate->transport = overall(question, gate);
	/* one pair that is refused is no rule for all of them */
	if (!strcmp(gate->transport, "depends")) {
		gate->verdict = GATE_DEPENDS;
		gate->rule = NULL;
	}
	gate_assume(gate, "one host, and one /dev/shm for all ranks");
	gate_assume(gate, "the rules of NCCL 2.30; earlier ones differ in "
			  "detail");
	say_summary(question, gate);
	say_overrides(question, gate);
}
