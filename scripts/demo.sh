#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Reads the case that this project began with (eight PCIe cards, a slow server);
# then, with the command in build/, shows and checks the GPUs of this machine, if
# there are two or more, and times it: CPU ranks on as many processors as there
# are, at most 4, results checked, against the MPI libraries that happen to be
# installed.
set -euo pipefail
cd "$(dirname "$0")/.."

case=tests/cases/glm5-eight-rtx-pro-6000
doctor=(build/onehop doctor --tokens-per-second 57.5 --checkpoint-bytes 402e9
	--active-bytes 28e9 --claimed-gb-s 1500 "$case"/{report.txt,vllm.log}
	"$case"/{metrics.prom,config.json})
printf '$ %s\n' "${doctor[*]}"
code=0
"${doctor[@]}" || code=$?
# 1: it has found something, as it should
((code <= 1)) || exit "$code"
echo

# looks SUBCOMMAND...: leaves code. Whatever it finds, or does not, the demo goes
# on; a GPU that hangs ends it.
looks()
{
	printf '$ build/onehop %s\n' "$*"
	code=0
	timeout --foreground -k 10 120 build/onehop "$@" </dev/null || code=$?
	((code <= 1)) || echo "onehop $1 ended with exit code $code" >&2
	echo
}

gpus=$(scripts/count_gpus.py 2>/dev/null) || gpus=0
next=
if ((gpus >= 2)); then
	looks topo
	looks doctor
	looks probe --quick
	# it has measured: this build has kernels, and the driver takes them
	if ((code <= 1)); then
		next='build/onehop bench --memory device --peer nccl'
	fi
fi

ranks=$(nproc)
((ranks <= 4)) || ranks=4
((ranks >= 2)) || ranks=2

peers=()
for mpi in openmpi mpich; do
	if [[ -x build/bench/onehop-peer-$mpi ]] && command -v "mpirun.$mpi" >/dev/null; then
		peers+=("$mpi")
		# coll/sm is off by default, and the faster one at small sizes
		[[ $mpi != openmpi ]] || peers+=(openmpi-sm)
	fi
done

command=(build/onehop bench --ranks "$ranks" -b 64 -e 1M -f 4)
if ((${#peers[@]})); then
	command+=(--peer "$(IFS=,; echo "${peers[*]}")")
fi
printf '$ %s\n' "${command[*]}"
code=0
"${command[@]}" || code=$?
if [[ $next ]]; then
	echo
	echo "These were ranks on host memory. Next, all-reduce between the $gpus GPUs, beside NCCL"
	echo "(libnccl.so.2 has to be where the loader looks, see README.md):"
	echo "  $next"
fi
exit "$code"
