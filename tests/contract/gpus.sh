#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts/count_gpus.py, and that `make check-gpu` builds nothing where there is no
# GPU. On the fake driver.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fakes.sh"

mkdir -p "$scratch/tree/scripts" "$scratch/tree/build"
cd "$scratch/tree" || exit 1
cp "$SOURCE"/scripts/{check.py,count_gpus.py} scripts/

# counts CODE ANSWER LINES: what the driver plays, and what is printed
counts()
{
	printf '%b' "$3" >"$FAKECUDA_SCRIPT"
	scripts/count_gpus.py >out 2>err
	is "$? $(cat out)" "$1 $2" "count_gpus.py: exit code $1, '$2'"
}

counts 0 2 'devices 2\npeer * * 1\n'
is "$(cat err)" "" "nothing else is said"
CUDA_VISIBLE_DEVICES=1 counts 0 1 'devices 2\npeer * * 1\n'
counts 77 "" 'devices 0\n'
has "$(cat err)" "there is no GPU" "it is said"
counts 3 "" 'devices 2\nerror cuInit 999\n'
has "$(cat err)" "CUDA error 999" "a driver that fails is no machine without GPUs"
for device in /dev/nvidia* /dev/dxg; do
	[[ ! -e $device ]] || break
done
if [[ -e $device ]] || LD_LIBRARY_PATH='' ldconfig -p | grep -qF libcuda.so.1; then
	skip "no driver" "there is one, or a device"
else
	LD_LIBRARY_PATH='' counts 77 "" ''
	has "$(cat err)" "libcuda.so.1" "it is said what is not there"
fi

# nothing is built: there is no Meson, and nothing to build
printf 'devices 0\n' >"$FAKECUDA_SCRIPT"
for flag in --gpu --gpu-long; do
	scripts/check.py "$flag" >out 2>&1
	is $? 77 "check.py $flag, no GPU: exit code 77"
	has "$(cat out)" "skipped: there is no GPU" "it says why"
	is "$(tail -n 2 out)" "0 passed, 0 failed, 1 skipped
nothing was tested: every test was skipped, for the reasons above" "and that nothing was tested"
done
is "$(ls build)" "" "and nothing was built"
printf 'devices 1\nerror cuInit 999\n' >"$FAKECUDA_SCRIPT"
scripts/check.py --gpu >out 2>&1
is $? 1 "a driver that fails: it goes on, and here that fails"
has "$(cat out)" "does not build" "in what it builds"
done_testing
