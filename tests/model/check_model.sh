#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Runs the model through Spin: first what must hold, then the negative
# controls, faults put back by -D that the search must find. Every search is
# exhaustive.
#
# usage: check_model.sh [--long]
#   --long adds larger bounds; it takes six minutes and 4 GB, not one and 2.
. "$(dirname "$0")/../tap.sh"

long=0
case "${1-}" in
'') ;;
--long) long=1 ;;
*)
	echo "usage: ${0##*/} [--long]" >&2
	exit 2
	;;
esac

read -ra cc <<<"${CC:-cc}"
command -v spin >/dev/null || skip_all 'spin is not installed'
command -v "${cc[0]}" >/dev/null || skip_all 'no C compiler'
model=$SOURCE/tests/model/halves.pml
cd "$scratch" || exit 1

# result STATUS TEXT: one TAP line; the search's own words where it failed.
result()
{
	ok "$1" "$2"
	[[ $1 == 0 ]] || note "$(sed '/^Depth=/d' log)"
}

# search FLAG DEFINE...: leaves the verifier's report in log. A search that was
# cut short (deadline, depth, memory) makes it fail.
search()
{
	local flag=$1

	shift
	rm -f pan* ./*.trail
	spin -a "$@" "$model" >log 2>&1 || return
	"${cc[@]}" "$flag" -w -DSAFETY -DCOLLAPSE -DMEMLIM=4000 \
		${no_reduction:+-DNOREDUCE} -o pan pan.c >>log 2>&1 || return
	timeout 600 ./pan -n -m$((long ? 9000000 : 3000000)) >>log 2>&1 ||
		return
	! grep -Eq 'too small|MEMLIM bound|not completed' log
}

# holds TEXT DEFINE...
holds()
{
	local text=$1

	shift
	search -O1 "$@" && grep -q 'errors: 0$' log
	result $? "$text: holds"
	awk '/states, stored/ { states = $1 }
		/total actual memory/ { mb = $1 }
		/elapsed time/ { s = $4 }
		END { printf "# states %s, memory_mb %d, s %s\n",
			states, mb, s }' log
}

# finds WHAT TEXT DEFINE...: the search must end in WHAT, "wrong payload" or
# "deadlock". Whether it saw everything does not matter once it has.
finds()
{
	local what=$1 text=$2 report='invalid end state'

	[[ $what == deadlock ]] ||
		report='assertion violated .*(where|slots|results|heap)\['
	shift 2
	search -O0 "$@"
	grep -Eq "^pan:1: $report" log
	result $? "control, $text: $what found"
}

# Kinds: bit 0 one-shot, bit 1 two-shot, bit 2 all-gather and reduce-scatter,
# bit 3 and on broadcast from rank 0 and on. Direct: bit 0 send buffers, bit 1
# receive buffers, bit 2 both in place. Modulus 6 is the smallest that works.
three=(-DRANKS=3 -DMODULUS=6)

holds '2 ranks, everything'
holds '2 ranks, modulus 6, 4 pieces' -DMODULUS=6 -DPIECES=4
holds '2 ranks, half by parity of the epoch' -DEPOCH_HALF
holds '2 ranks, a wrap that breaks parity' -DODD_WRAP
holds '3 ranks, everything staged' "${three[@]}" -DDIRECT=0
holds '3 ranks, all-reduce staged or in place' \
	"${three[@]}" -DKINDS=3 -DDIRECT=4
holds '3 ranks, all-gather and broadcast' "${three[@]}" -DKINDS=12

finds 'wrong payload' 'one half' -DSINGLE_HALF -DKINDS=8
finds 'wrong payload' 'nobody asks for credit' -DNO_CREDIT -DKINDS=8
finds deadlock 'receivers do not ask for credit' -DRECEIVERS_ASK_NOT -DKINDS=24
finds deadlock 'only receivers store finished' \
	-DRECEIVERS_FINISH -DRANKS=3 -DDIRECT=0 -DPIECES=1
finds 'wrong payload' 'arrival before the payload' -DFLAG_FIRST
finds 'wrong payload' 'no wait for reduced' -DNO_REDUCED_WAIT
finds 'wrong payload' 'no scrubbing' -DNO_SCRUB
for kinds in 1 2 4 8; do
	finds 'wrong payload' "direct ranks do not wait, kinds $kinds" \
		-DNO_EXIT_WAIT -DKINDS=$kinds
done
finds 'wrong payload' 'half by parity, which the wrap breaks' \
	-DODD_WRAP -DEPOCH_HALF -DKINDS=8
finds 'wrong payload' 'words start at an epoch' -DSTALE_START
finds 'wrong payload' 'epoch 0 used' -DZERO_USED
finds 'wrong payload' 'epochs repeat after two calls' -DMODULUS=4

if ((long)); then
	no_reduction=1
	holds '2 ranks, no partial order reduction'
	no_reduction=
	holds '2 ranks, modulus 16, 3 pieces' -DMODULUS=16 -DPIECES=3
	holds '3 ranks, modulus 8, staged' -DRANKS=3 -DDIRECT=0
	holds '3 ranks, all-reduce staged or in place, 3 pieces' \
		"${three[@]}" -DKINDS=3 -DDIRECT=4 -DPIECES=3
	holds '3 ranks, one-shot or direct' "${three[@]}" -DKINDS=1
	holds '3 ranks, one-shot or direct, and a root' \
		"${three[@]}" -DKINDS=9
	holds '3 ranks, one-shot or direct, and all-gather' \
		"${three[@]}" -DKINDS=5
	holds '3 ranks, two-shot or in place, and every root' \
		"${three[@]}" -DKINDS=58 -DDIRECT=5
	holds '3 ranks, all-gather and every root' "${three[@]}" -DKINDS=60
	holds '4 ranks, a root' -DRANKS=4 -DMODULUS=6 -DPIECES=1 -DKINDS=8
	holds '4 ranks, one-shot and a root' \
		-DRANKS=4 -DMODULUS=6 -DPIECES=1 -DDIRECT=0 -DKINDS=9
fi
done_testing
