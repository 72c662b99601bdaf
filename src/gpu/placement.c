/* SPDX-License-Identifier: MIT */
#include "gpu/placement.h"

#include <stdio.h>

#include "kernels/arguments.h"
#include "vendor/cuda.h"

static bool is_mapped(uint32_t tried)
{
	return tried == OH__GPU_MAPPED || tried == OH__GPU_OPENED;
}

bool oh__gpu_passes(const struct oh__gpu_row *rows, int from, int to)
{
	uint32_t tried = rows[from].way[to].tried;

	return tried == OH__GPU_SELF ||
	       (is_mapped(tried) && !rows[to].way[from].wrong_stored &&
		rows[to].way[from].tried != OH__GPU_FORBIDDEN);
}

/* What a refused cuIpcOpenMemHandle asks for. */
static const char *remedy_of(int32_t code)
{
	switch (code) {
	case CUDA_ERROR_ALREADY_MAPPED:
		return "an older communicator of both is still there, destroy "
		       "it first";
	case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
	case CUDA_ERROR_TOO_MANY_PEERS:
		return "see peer access in `nvidia-smi topo -p2p w`";
	default:
		return "it takes processes of one PID namespace";
	}
}

/* Of a pair that nothing could be mapped for. Without the ranks' numbers, so
 * that a cause that many pairs share reads the same for all. */
static void say_refusal(const struct oh__gpu_way *way, char *text, size_t room)
{
	switch (way->tried) {
	case OH__GPU_FORBIDDEN:
		snprintf(text, room,
			 "ONEHOP_FORBID_PEER forbids it; unset it to try");
		return;
	case OH__GPU_NOT_SHARED:
		snprintf(text, room,
			 "ONEHOP_DEVICE_SHARE is none; unset it to try");
		return;
	case OH__GPU_NOT_EXPORTED:
		snprintf(text, room,
			 "the other's driver hands out no memory of its GPU as "
			 "a descriptor; unset ONEHOP_DEVICE_SHARE to try CUDA "
			 "IPC");
		return;
	case OH__GPU_NO_HANDLE:
		snprintf(text, room,
			 "the other's driver hands out no memory of its GPU by "
			 "CUDA IPC: cuIpcGetMemHandle was refused (CUDA error "
			 "%d); ONEHOP_DEVICE_SHARE=descriptor may do",
			 way->code);
		return;
	case OH__GPU_SAME_PROCESS:
		snprintf(text, room,
			 "both are ranks of one process, which CUDA IPC does "
			 "not serve: make them two, or set "
			 "ONEHOP_DEVICE_SHARE=descriptor if the driver has "
			 "those");
		return;
	case OH__GPU_NOT_MAPPED:
		snprintf(text, room,
			 "the driver refused to map the other's memory (CUDA "
			 "error %d): see peer access in `nvidia-smi topo -p2p "
			 "w`",
			 way->code);
		return;
	case OH__GPU_NOT_OPENED:
		snprintf(text, room,
			 "the driver refused cuIpcOpenMemHandle of the other's "
			 "memory (CUDA error %d): %s",
			 way->code, remedy_of(way->code));
		return;
	default:
		snprintf(text, room, "not tried");
	}
}

void oh__gpu_say_way(const struct oh__gpu_row *rows, int from, int to,
		     char *text, size_t room)
{
	const struct oh__gpu_way *way = &rows[from].way[to];
	uint32_t wrong = rows[to].way[from].wrong_stored;

	if (rows[to].way[from].tried == OH__GPU_FORBIDDEN)
		way = &rows[to].way[from];
	if (way->tried == OH__GPU_SELF)
		snprintf(text, room, "the rank's own memory");
	else if (!is_mapped(way->tried))
		say_refusal(way, text, room);
	else if (wrong)
		snprintf(text, room,
			 "of %d words that rank %d stored, rank %d read %u "
			 "wrong, though the driver mapped the memory: an IOMMU "
			 "or ACS in between (see `onehop doctor`)",
			 OH__CHECK_WORDS, from, to, wrong);
	else
		snprintf(text, room,
			 "stores %swere tried when the communicator was made, "
			 "and arrived",
			 way->tried == OH__GPU_OPENED ? "through CUDA IPC "
						      : "");
}
