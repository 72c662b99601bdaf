/* SPDX-License-Identifier: MIT */
/*
 * The order of things: the GPUs, who reaches whom, the check of every pair,
 * then measurements where it passed. Transfers come before what waits for a
 * word, for they bring an idle GPU's clocks up.
 */
#include "probe/probe.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "kernels/image.h"
#include "probe/measure.h"

/* Transfers of all pairs at once are whole pages. */
#define PART_UNIT 4096u

const char *probe_way_name(enum probe_way way)
{
	static const char *const names[PROBE_WAYS] = {"store", "load", "copy"};

	return names[way];
}

static enum oh_status choose(struct run *run)
{
	const struct probe_options *options = run->options;
	struct probe *probe = run->probe;
	int count;
	enum oh_status status = OH__CUDA(run->cuda->cuDeviceGetCount(&count));

	if (status)
		return status;
	probe->gpus = options->only_count ? options->only_count : count;
	if (probe->gpus > PROBE_GPUS) {
		probe->left_out = probe->gpus - PROBE_GPUS;
		probe->gpus = PROBE_GPUS;
	}
	for (int i = 0; i < probe->gpus; i++) {
		int ordinal = options->only_count ? options->only[i] : i;

		if (ordinal >= count)
			return OH__FAIL(OH_ERR_INVALID,
					"there is no GPU %d: this process sees "
					"%d, counted from 0 (see "
					"CUDA_VISIBLE_DEVICES)",
					ordinal, count);
		probe->gpu[i].ordinal = ordinal;
		run->gpu[i].cuda = run->cuda;
		run->gpu[i].index = i;
	}
	return OH_OK;
}

static void size(struct run *run)
{
	struct probe *probe = run->probe;
	int peers = probe->gpus > 1 ? probe->gpus - 1 : 1;

	probe->bytes = probe->quick ? PROBE_BYTES_MIN : run->options->bytes;
	probe->host_bytes = probe->bytes < PROBE_HOST_BYTES ? probe->bytes
							    : PROBE_HOST_BYTES;
	probe->together_bytes =
		probe->bytes / (unsigned)peers / PART_UNIT * PART_UNIT;
}

static void open_all(struct run *run)
{
	struct probe *probe = run->probe;

	for (int i = 0; i < probe->gpus; i++) {
		run_progress(run, "opening GPU %d", probe->gpu[i].ordinal);
		if (gpu_identify(&run->gpu[i], &probe->gpu[i]))
			gpu_open(&run->gpu[i], &probe->gpu[i], probe->gpus,
				 probe->bytes, probe->host_bytes);
	}
}

/* The driver's words on a pair; what it does not say is -1. */
static void ask(const struct run *run, int from, int to)
{
	struct probe_pair *pair = &run->probe->pair[from][to];
	CUdevice one = run->gpu[from].device, other = run->gpu[to].device;
	const struct oh__cuda *cuda = run->cuda;

	if (cuda->cuDeviceCanAccessPeer(&pair->says, one, other))
		pair->says = -1;
	if (!cuda->cuDeviceGetP2PAttribute)
		return;
	if (cuda->cuDeviceGetP2PAttribute(
		    &pair->atomics,
		    CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, one,
		    other))
		pair->atomics = -1;
	if (cuda->cuDeviceGetP2PAttribute(
		    &pair->rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, one,
		    other))
		pair->rank = -1;
}

static void reach(struct run *run, int from, int to)
{
	struct probe_pair *pair = &run->probe->pair[from][to];
	struct gpu *one = &run->gpu[from], *other = &run->gpu[to];
	const char *call;
	CUresult code;

	pair->says = pair->atomics = pair->rank = -1;
	if (!one->open || !other->open) {
		pair->problem.trouble = PROBE_UNTRIED;
		return;
	}
	ask(run, from, to);
	pair->problem.step = "host memory of the other GPU";
	if (!gpu_reach_host(one, other, &pair->problem))
		return;
	pair->problem.step = "mapping the other GPU's memory";
	code = gpu_reach(one, other, &call);
	if (gpu_note(&pair->problem, run->cuda, code, call))
		return;
	/* the rest may fail for want of addresses */
	if (!strcmp(call, "cuMemSetAccess"))
		pair->problem.trouble = PROBE_REFUSED;
}

typedef void each_pair(struct run *run, int from, int to);

static void for_pairs(struct run *run, const char *what, each_pair *act)
{
	const struct probe *probe = run->probe;

	for (int i = 0; i < probe->gpus; i++)
		for (int j = 0; j < probe->gpus; j++) {
			if (i == j)
				continue;
			run_progress(run, "%s, GPU %d to GPU %d", what,
				     probe->gpu[i].ordinal,
				     probe->gpu[j].ordinal);
			act(run, i, j);
		}
}

static void measure_gpus(struct run *run)
{
	const struct probe *probe = run->probe;

	for (int i = 0; i < probe->gpus; i++) {
		if (!run->gpu[i].open)
			continue;
		run_progress(run, "memory of GPU %d", probe->gpu[i].ordinal);
		measure_own(run, i);
		run_progress(run, "host memory of GPU %d",
			     probe->gpu[i].ordinal);
		measure_host(run, i);
	}
}

/* What is to be moved must be there. */
static void drop_unfilled(struct run *run, int from, int to)
{
	struct probe_problem *problem = &run->probe->pair[from][to].problem;

	if (!problem->trouble &&
	    (!run->gpu[from].filled || !run->gpu[to].filled))
		problem->trouble = PROBE_UNTRIED;
}

static void measure_all(struct run *run)
{
	for_pairs(run, "mapping", reach);
	for_pairs(run, "check", measure_check);
	if (run->probe->quick)
		return;
	measure_gpus(run);
	for_pairs(run, "memory", drop_unfilled);
	for_pairs(run, "transfers", measure_rate);
	for_pairs(run, "latency", measure_latency);
	run_progress(run, "all pairs at once");
	measure_together(run);
}

static enum oh_status start(const struct oh__cuda **cuda, int *version)
{
	enum oh_status status;

	if (!oh__kernels_image_bytes)
		return OH__FAIL(OH_ERR_UNSUPPORTED,
				"this build has no kernels for GPUs: install "
				"nvcc of CUDA 12 or later and build it again");
	/* kernels that wait for each other must not share a queue, nor each
	 * be waited for when it is launched */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	unsetenv("CUDA_LAUNCH_BLOCKING");
	status = oh__cuda_load(cuda);
	if (!status && !(*cuda)->cuEventElapsedTime)
		return OH__FAIL(OH_ERR_SYSTEM,
				"the CUDA driver has no cuEventElapsedTime: it "
				"is too old; install a newer one");
	/* only told */
	if (!status && (*cuda)->cuDriverGetVersion(version))
		*version = 0;
	return status;
}

enum oh_status probe_run(const struct probe_options *options,
			 struct probe *probe)
{
	struct run *run = calloc(1, sizeof(*run));
	enum oh_status status;

	memset(probe, 0, sizeof(*probe));
	probe->quick = options->quick;
	if (!run)
		return OH__FAIL(OH_ERR_NO_MEMORY, "no memory for the probe");
	run->options = options;
	run->probe = probe;
	status = start(&run->cuda, &probe->cuda);
	if (!status)
		status = choose(run);
	if (!status) {
		size(run);
		open_all(run);
		measure_all(run);
	}
	/* unmapping would wait for what hangs */
	for (int i = 0; i < probe->gpus && !probe->late; i++)
		gpu_close(&run->gpu[i]);
	free(run);
	return status;
}
