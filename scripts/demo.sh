#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Reads the case that this project began with (eight PCIe cards, a slow server),
# then times this machine with the command in build/: CPU ranks on as many
# processors as there are, at most 4, results checked, against the MPI libraries
# that happen to be installed.
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
exec "${command[@]}"
