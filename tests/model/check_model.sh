#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs the models through Spin and speaks TAP: first what must hold, then the
# negative controls, faults put back by -D that the search must find. Every
# search is exhaustive; none needs more than 2 GB.
#
# usage: check_model.sh [--long]
#   --long adds larger bounds: about four minutes.

set -u

here=$(cd "$(dirname "$0")" && pwd)
long=0
case "${1-}" in
'') ;;
--long) long=1 ;;
*)
	echo "usage: ${0##*/} [--long]" >&2
	exit 2
	;;
esac

skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}

read -ra cc <<<"${CC:-cc}"
command -v spin >/dev/null || skip_all 'spin is not installed'
command -v "${cc[0]}" >/dev/null || skip_all 'no C compiler'

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

count=0
failures=0

# result STATUS TEXT: one TAP line; the search's own words where it failed.
result() {
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		failures=$((failures + 1))
		echo "not ok $count - $2"
		sed '/^Depth=/d; s/^/# /' log
	fi
}

# search MODEL DEFINE...: leaves the verifier's report in log. A search that
# was cut short (deadline, depth, memory) makes it fail.
search() {
	local model=$1

	shift
	rm -f pan* ./*.trail
	spin -a "$@" "$here/$model" >log 2>&1 || return
	"${cc[@]}" -O1 -w -DSAFETY -DCOLLAPSE -DMEMLIM=2000 \
		${no_reduction:+-DNOREDUCE} -o pan pan.c >>log 2>&1 || return
	timeout 300 ./pan -n -m$((long ? 6000000 : 1000000)) >>log 2>&1 ||
		return
	! grep -Eq 'too small|MEMLIM bound|not completed' log
}

# holds TEXT MODEL DEFINE...
holds() {
	local text=$1

	shift
	search "$@" && grep -q 'errors: 0$' log
	result $? "$text holds"
	awk '/states, stored/ { states = $1 }
		/total actual memory/ { mb = $1 }
		/elapsed time/ { s = $4 }
		END { printf "# states %s, memory_mb %d, s %s\n",
			states, mb, s }' log
}

# finds WHAT TEXT MODEL DEFINE...: the search must end in WHAT, "wrong payload"
# or "deadlock". Whether it saw everything does not matter once it has.
finds() {
	local what=$1 text=$2 report

	case "$what" in
	deadlock) report='invalid end state' ;;
	*) report='assertion violated \((data|payload)\[' ;;
	esac
	shift 2
	search "$@"
	grep -Eq "^pan:1: $report" log
	result $? "control, $text: $what found"
}

holds '2 ranks, every collective' halves.pml
holds '2 ranks, epoch 0 used after the wrap' halves.pml -DUSE_ZERO
holds '2 ranks, modulus 16, 3 pieces' halves.pml -DMODULUS=16 -DPIECES=3
holds '2 ranks, words that never wrap' halves.pml -DWIDE
holds '3 ranks, every collective' halves.pml -DRANKS=3
holds '3 ranks, words that never wrap, broadcast and two-shot' \
	halves.pml -DRANKS=3 -DWIDE -DKINDS=33
holds '2 ranks, scrubbed packets' scrub.pml
holds '2 ranks, scrubbed packets, epoch 0 used' \
	scrub.pml -DMODULUS=8 -DUSE_ZERO
holds '3 ranks, scrubbed packets, one line a half' \
	scrub.pml -DRANKS=3 -DMODULUS=8 -DLINES=1

# Kinds: bit 0 broadcast from rank 0, bit 1 from rank 1; at 2 ranks bit 2 is
# one-shot, bit 3 reduce-scatter, bit 4 two-shot, bit 5 packets.
finds 'wrong payload' 'one half' halves.pml -DSINGLE_HALF
finds 'wrong payload' 'root does not wait for credit' \
	halves.pml -DNO_CREDIT -DUSE_ZERO -DKINDS=1
finds 'wrong payload' 'started before the payload' halves.pml -DFLAG_FIRST
finds 'wrong payload' 'no wait for reduced' halves.pml -DNO_REDUCED_WAIT
finds 'wrong payload' 'first epoch is what the words hold' \
	halves.pml -DSTALE_EPOCH
finds 'wrong payload' 'comparison without modulus' halves.pml -DPLAIN_COMPARE
finds deadlock 'peer may be one call ahead, not two' \
	halves.pml -DEXACT_COMPARE
finds 'wrong payload' 'packets leave started alone' halves.pml -DSTALE_STARTED
finds 'wrong payload' 'one-shot leaves reduced alone' halves.pml -DSTALE_REDUCED
finds 'wrong payload' 'only receivers store finished' \
	halves.pml -DSTALE_CREDIT -DUSE_ZERO -DKINDS=5
finds 'wrong payload' 'only receivers store finished, 0 skipped' \
	halves.pml -DSTALE_CREDIT -DKINDS=4
finds 'wrong payload' 'receivers learn nothing of each other' \
	halves.pml -DSTALE_KNOWN
finds 'wrong payload' 'no scrubbing' scrub.pml -DNO_SCRUB
finds 'wrong payload' 'flag before its payload' scrub.pml -DFLAG_FIRST
finds 'wrong payload' 'one cursor for both halves' scrub.pml -DSHARED_CURSOR
finds 'wrong payload' 'cursor too slow' scrub.pml -DLINES=4
finds 'wrong payload' 'lines emptied to 0 where epoch 0 is used' \
	scrub.pml -DUSE_ZERO -DZERO_EMPTY
finds deadlock 'receiver scrubs before the payload is there' \
	scrub.pml -DSCRUB_EARLY

if [ $long -eq 1 ]; then
	no_reduction=1
	holds '2 ranks, no partial order reduction' halves.pml
	holds '2 ranks, packets, no partial order reduction' scrub.pml
	no_reduction=
	holds '3 ranks, epoch 0 used' halves.pml -DRANKS=3 -DUSE_ZERO
	holds '3 ranks, modulus 16' halves.pml -DRANKS=3 -DMODULUS=16
	holds '3 ranks, 3 pieces' halves.pml -DRANKS=3 -DPIECES=3
	holds '4 ranks, two roots' halves.pml -DRANKS=4 -DPIECES=1 -DKINDS=3
	holds '4 ranks, two-shot and a root' \
		halves.pml -DRANKS=4 -DPIECES=1 -DKINDS=65
	# reduced is nothing to these two
	holds '4 ranks, one-shot and a root' \
		halves.pml -DRANKS=4 -DPIECES=1 -DKINDS=17 -DSTALE_REDUCED
	for kinds in 11 35 42 67 97; do
		holds "3 ranks, words that never wrap, kinds $kinds" \
			halves.pml -DRANKS=3 -DWIDE -DKINDS=$kinds
	done
	holds '2 ranks, scrubbed packets, 3 lines a half' \
		scrub.pml -DLINES=3
fi

echo "1..$count"
[ $failures -eq 0 ]
