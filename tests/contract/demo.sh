#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What scripts/demo.sh runs with how many GPUs, and how it ends. On the fake driver,
# with a command that only says what it was called with.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fakes.sh"

mkdir -p "$scratch/tree/scripts" "$scratch/tree/build"
cd "$scratch/tree" || exit 1
cp "$SOURCE"/scripts/{count_gpus.py,demo.sh} scripts/

# a command that ends as the file of its name says
cat >build/onehop <<'END'
#!/bin/sh
echo "ran $*"
exit "$(cat "code-$1" 2>/dev/null || echo 0)"
END
chmod +x build/onehop

# demonstrates CODE LINES: leaves out, err, and in ran which commands ran
demonstrates()
{
	printf '%b' "$2" >"$FAKECUDA_SCRIPT"
	scripts/demo.sh >out 2>err </dev/null
	is $? "$1" "demo.sh: exit code $1"
	sed -nE 's/^ran (\w+).*/\1/p' out | xargs >ran
}

two='devices 2\npeer * * 1\n'
for few in 'devices 0\n' 'devices 1\n' "${two}error cuInit 999\n"; do
	demonstrates 0 "$few"
	is "$(cat ran)" "doctor bench" "no two GPUs: the case, and this machine's processors"
	is "$(grep -c -- "--peer nccl" out)" 0 "NCCL is not named"
done
demonstrates 0 "$two"
is "$(cat ran)" "doctor topo doctor probe bench" "two GPUs: they are shown and checked"
has "$(cat out)" "\$ build/onehop probe --quick
ran probe --quick" "by the quick probe"
has "$(tail -n 1 out)" "build/onehop bench --memory device --peer nccl" "what is next stands last"
has "$(cat out)" "between the 2 GPUs" "and between how many"
for code in 1 3 77 124; do
	echo "$code" | tee code-topo code-probe >/dev/null
	demonstrates 0 "$two"
	is "$(cat ran)" "doctor topo doctor probe bench" "topo and probe end with $code: it goes on"
	is "$(grep -c "exit code $code" err)" $((code == 1 ? 0 : 2)) "what is no finding is said"
	is "$(grep -c -- "--peer nccl" out)" $((code == 1)) "NCCL is named where the probe has measured"
done
echo 3 >code-bench
demonstrates 3 "$two"
echo 2 >code-doctor
demonstrates 2 "$two"
is "$(cat ran)" doctor "the case cannot be read: that is all"
done_testing
