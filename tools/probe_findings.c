/* SPDX-License-Identifier: MIT */
/*
 * Problems in words. GPUs come first, then pairs; pairs whose trouble, code and
 * step are the same share a finding, for a refusal mostly holds for all.
 */
#include <stdarg.h>
#include <string.h>

#include "doctor/hardware.h"
#include "tools/probe_write.h"
#include "vendor/cuda.h"

#define DEFAULT_ADVICE                                                         \
	"See nvidia-smi and the kernel's log (dmesg) for what the GPU "        \
	"reports, and onehop doctor --here for the machine."

const char *probe_state(const struct probe_problem *problem)
{
	static const char *const states[] = {
		[PROBE_FINE] = "right",	     [PROBE_UNTRIED] = "untried",
		[PROBE_REFUSED] = "refused", [PROBE_WRONG] = "wrong",
		[PROBE_SILENT] = "silent",   [PROBE_FAILED] = "failed",
		[PROBE_LATE] = "late",
	};

	return states[problem->trouble];
}

double probe_peak(const struct probe_gpu *gpu)
{
	const struct hardware *hardware = hardware_named(gpu->name);

	return hardware ? hardware->memory_gb_s : 0;
}

/* Text that may be cut. */
__attribute__((format(printf, 3, 4))) static void add(char *text, size_t room,
						      const char *format, ...)
{
	size_t used = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + used, room - used, format, args);
	va_end(args);
}

#define ADD(array, ...) add((array), sizeof(array), __VA_ARGS__)

/* "cuMemMap, CUDA error 101 CUDA_ERROR_INVALID_DEVICE" */
static void add_call(char *text, size_t room,
		     const struct probe_problem *problem)
{
	add(text, room, "%s, CUDA error %d%s%s",
	    problem->call ? problem->call : "the driver", problem->code,
	    *problem->code_name ? " " : "", problem->code_name);
}

/* What happened, behind "GPU 0: " or "pair 0->1: ". */
static void add_trouble(struct probe_finding *f,
			const struct probe_problem *problem)
{
	switch (problem->trouble) {
	case PROBE_REFUSED:
		ADD(f->title, "the driver refuses peer access (");
		add_call(f->title, sizeof(f->title), problem);
		ADD(f->title, ")");
		break;
	case PROBE_WRONG:
		ADD(f->title, "data arrives wrong");
		break;
	case PROBE_SILENT:
		ADD(f->title, "%s: the flag does not arrive", problem->step);
		break;
	case PROBE_LATE:
		ADD(f->title, "%s: not finished in time", problem->step);
		break;
	default:
		ADD(f->title, "%s failed (", problem->step);
		add_call(f->title, sizeof(f->title), problem);
		ADD(f->title, ")");
		break;
	}
}

static void add_count(struct probe_finding *f, const char *what,
		      const struct probe_count *count)
{
	if (count->words)
		ADD(f->evidence, "%s%s: %llu of %llu words wrong",
		    *f->evidence ? ", " : "", what,
		    (unsigned long long)count->wrong,
		    (unsigned long long)count->words);
}

/* The advice that fits every GPU and pair. */
static void advise(struct probe_finding *f, const struct probe_problem *problem)
{
	if (problem->trouble == PROBE_LATE)
		ADD(f->advice,
		    "The GPU hangs, or other work keeps it busy: nothing after "
		    "this was measured. Stop the other work, or give "
		    "--timeout more. ");
	if (problem->code == CUDA_ERROR_OUT_OF_MEMORY)
		ADD(f->advice,
		    "Free its memory (nvidia-smi shows who has it), or give "
		    "--bytes less: a GPU needs twice that. ");
	else
		ADD(f->advice, "%s", DEFAULT_ADVICE);
}

static int find_gpus(const struct probe *probe, struct probe_finding *findings)
{
	int count = 0;

	for (int i = 0; i < probe->gpus && count < PROBE_FINDINGS; i++) {
		const struct probe_gpu *gpu = &probe->gpu[i];
		struct probe_finding *f = &findings[count];

		if (!gpu->problem.trouble)
			continue;
		memset(f, 0, sizeof(*f));
		ADD(f->title, "GPU %d: ", gpu->ordinal);
		add_trouble(f, &gpu->problem);
		ADD(f->evidence, "%s %s", gpu->address, gpu->name);
		add_count(f, "its own and host memory", &gpu->count);
		advise(f, &gpu->problem);
		count++;
	}
	return count;
}

/* Pairs. */

static bool is_alike(const struct probe_problem *a,
		     const struct probe_problem *b)
{
	if (a->trouble != b->trouble || a->code != b->code)
		return false;
	return a->trouble == PROBE_REFUSED || a->trouble == PROBE_WRONG ||
	       !strcmp(a->step, b->step);
}

/* "pairs 0->1, 1->0: ", those that are alike. */
static void add_pairs(const struct probe *probe, struct probe_finding *f,
		      const struct probe_problem *problem)
{
	int pairs = probe->gpus * (probe->gpus - 1), alike = 0;
	char list[120] = "";

	for (int i = 0; i < probe->gpus; i++)
		for (int j = 0; j < probe->gpus; j++) {
			if (i == j ||
			    !is_alike(&probe->pair[i][j].problem, problem))
				continue;
			if (++alike <= 12)
				ADD(list, "%s%d->%d", *list ? ", " : "",
				    probe->gpu[i].ordinal,
				    probe->gpu[j].ordinal);
		}
	if (alike == pairs && pairs > 2)
		ADD(f->title, "every pair: ");
	else
		ADD(f->title, "pair%s %s%s: ", alike == 1 ? "" : "s", list,
		    alike > 12 ? " and more" : "");
}

static void explain_refusal(const struct probe *probe, struct probe_finding *f,
			    int from, int to)
{
	static const char *const says[] = {"does not say", "says no",
					   "says yes"};
	const struct hardware *hardware = hardware_named(probe->gpu[from].name);

	ADD(f->evidence, "cuDeviceCanAccessPeer %s",
	    says[probe->pair[from][to].says + 1]);
	if (hardware && hardware->geforce)
		ADD(f->advice,
		    "The driver refuses it to this model over PCIe. ");
	ADD(f->advice,
	    "Ranks on these GPUs meet in host memory. onehop doctor --here "
	    "says what would change that.");
}

static void explain_pair(const struct probe *probe, struct probe_finding *f,
			 int from, int to)
{
	const struct probe_pair *pair = &probe->pair[from][to];

	switch (pair->problem.trouble) {
	case PROBE_REFUSED:
		explain_refusal(probe, f, from, to);
		return;
	case PROBE_WRONG:
	case PROBE_SILENT:
		/* of the first of them */
		ADD(f->evidence, "%d->%d", probe->gpu[from].ordinal,
		    probe->gpu[to].ordinal);
		for (int way = 0; way < PROBE_WAYS; way++)
			add_count(f, probe_way_name((enum probe_way)way),
				  &pair->count[way]);
		ADD(f->advice,
		    "The driver allows a way that the machine breaks; most "
		    "often an IOMMU that translates, or ACS in PCIe bridges: "
		    "see onehop doctor --here, and boot with iommu=pt. Ranks "
		    "on "
		    "these GPUs check this and meet in host memory; other "
		    "programs may compute nonsense.");
		return;
	default:
		advise(f, &pair->problem);
	}
}

static bool is_told(const struct probe *probe, int from, int to)
{
	const struct probe_problem *problem = &probe->pair[from][to].problem;

	for (int i = 0; i <= from; i++)
		for (int j = 0; j < (i == from ? to : probe->gpus); j++)
			if (i != j &&
			    is_alike(&probe->pair[i][j].problem, problem))
				return true;
	return false;
}

static void tell_pair(const struct probe *probe, struct probe_finding *f,
		      int from, int to)
{
	const struct probe_problem *problem = &probe->pair[from][to].problem;

	memset(f, 0, sizeof(*f));
	add_pairs(probe, f, problem);
	add_trouble(f, problem);
	explain_pair(probe, f, from, to);
}

int probe_find(const struct probe *probe, struct probe_finding *findings)
{
	int count = find_gpus(probe, findings);

	for (int i = 0; i < probe->gpus; i++)
		for (int j = 0; j < probe->gpus && count < PROBE_FINDINGS;
		     j++) {
			enum probe_trouble trouble =
				probe->pair[i][j].problem.trouble;

			if (i == j || trouble == PROBE_FINE ||
			    trouble == PROBE_UNTRIED || is_told(probe, i, j))
				continue;
			tell_pair(probe, &findings[count++], i, j);
		}
	return count;
}
