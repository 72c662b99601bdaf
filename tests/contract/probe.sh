#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `onehop probe` whole, on the fakes of the driver and of the kernels: its
# outputs and how it ends.
. "$(dirname "$0")/../tap.sh"

onehop=$BUILD/tests/onehop_fake
. "$(dirname "$0")/fakes.sh"
cd "$scratch" || exit 1

# runs CODE LINES ARGUMENT...: on a driver that plays the lines; leaves out, err
runs()
{
	local code=$1

	printf '%b' "$2" >cuda
	shift 2
	timeout 60 "$onehop" probe --bytes 64K "$@" >out 2>err </dev/null
	is $? "$code" "probe $*: exit code $code"
}

two='devices 2\npeer * * 1\ndevice * name NVIDIA H200\n'
runs 0 "$two"
has "$(head -n 1 out)" "onehop 0." "begins with what was at work"
has "$(head -n 1 out)" "; driver 580.95.05, CUDA 12.0; Linux " "and the driver"
has "$(cat out)" "0->1   right" "shows a pair"
has "$(cat out)" "Findings"$'\n'none "finds nothing"
is "$(cat err)" "" "and talks of nothing"
runs 0 "$two" --quick
has "$(cat out)" "0 of 16384, 0 of 16384" "counts what it has checked"
runs 1 'devices 2\n'
has "$(cat out)" "the driver refuses peer access (cuMemSetAccess, CUDA error 101" "shows a refusal"
runs 0 'devices 1\n'
runs 0 'devices 16\npeer * * 1\n' --quick
runs 77 'devices 0\n'
has "$(cat err)" "finds no GPU" "says that there is none"
is "$(cat out)" "" "and nothing on stdout"
runs 2 'devices 0\n' --bytes 1
if LD_LIBRARY_PATH='' ldconfig -p | grep -qF libcuda.so.1; then
	skip "no driver" "there is one"
else
	LD_LIBRARY_PATH='' runs 77 ''
	is "$(grep -o 'libcuda.so.1' err | wc -l)" 1 "no driver: says so once"
	has "$(cat err)" "install NVIDIA's driver" "and what to do"
fi
runs 2 "$two" --only 0,2
has "$(cat err)" "there is no GPU 2" "names the GPU that is not there"
runs 3 'devices 1\nerror cuDevicePrimaryCtxRetain 46\n'
has "$(cat out)" "CUDA_ERROR_DEVICE_UNAVAILABLE" "shows why it cannot be used"
SECONDS=0
runs 124 "$two"'error cuStreamQuery 600\n' --timeout 1
ok "$((SECONDS > 30))" "does not hang with the GPU"
has "$(cat out)" "not finished in time" "says so"
CUDA_VISIBLE_DEVICES=1 runs 0 "$two" --json json
has "$(cat out)" "0000:02:00.0" "CUDA_VISIBLE_DEVICES counts"

if command -v jq >/dev/null; then
	is "$(jq -c '[.schema_version, (.gpus | length), .gpus[0].pci]' json)" \
		'[1,1,"0000:02:00.0"]' "and JSON beside the text"
	runs 0 "$two" --json
	is "$(jq -c '[.pairs[] | [.from, .to, .state, .check.store.wrong]]' out)" \
		'[[0,1,"right",0],[1,0,"right",0]]' "JSON on stdout"
	is "$(jq -c '[(.end_time | test("^20[0-9-]+T[0-9:]+Z$")), (.machine.kernel | test("^Linux ")), .device, .arguments]' out)" \
		'[true,true,{"driver_version":"580.95.05","cuda_version":"12.0"},["--bytes","64K","--json"]]' \
		"says when, where and how"
	is "$(jq 'has("commit") and (.commit | . == null or test("^[0-9a-f]{12,}(-dirty)?$"))' out)" true \
		"and of which commit"
	is "$(jq '.gpus[0].own.peak_gb_s == 4800' out)" true "knows the GPU's peak"
	is "$(jq '[.pairs[] | .gb_s, .gb_s_together, .latency_us, .latency_us_together |
		.[] | .median] | map(select(. > 0)) | length' out)" 24 "no figure is missing"
	unknown=$'\xef\xbf\xbd' # U+FFFD
	printf 'gpus 1\ndriver 58\xff0\n' >nvml
	runs 0 'devices 1\ndevice 0 name Bad\xff GPU\n' --json --quick
	printf 'gpus 1\ndriver 580.95.05\n' >nvml
	is "$(jq -c '[.device.driver_version, .gpus[0].name]' out)" "[\"58${unknown}0\",\"Bad$unknown GPU\"]" \
		"what is no UTF-8 is told"
else
	skip "JSON" "jq is not installed"
fi
runs 0 "$two" --json - --quick
is "$(head -c 1 out)" "{" "- is stdout"
runs 3 "$two" --json /dev/full
has "$(cat err)" "/dev/full: writing failed: No space left" "a full device"
runs 3 "$two" --json /nowhere/file
has "$(cat err)" "/nowhere/file: cannot be written: No such file" "a file that cannot be written"
is "$(cat out)" "" "nothing is measured for it"
# The file is whole, the old one, or not there. 1 KiB is less than any JSON.
printf '%b' "$two" >cuda
mkdir files
echo old >files/json
(
	ulimit -f 1
	timeout 60 "$onehop" probe --bytes 64K --quick --json files/json 2>&1 >/dev/null | cat
	exit "${PIPESTATUS[0]}"
) >err
is $? 3 "no room for the whole file: exit code 3"
has "$(cat err)" "onehop probe: files/json: writing failed: File too large" "it says why"
is "$(head -c 9 files/json)" old "the old one is unharmed"
runs 77 'devices 0\n' --json files/new
is "$(ls files)" json "and nothing is left half or empty"
ONEHOP_DEVICE_SHARE=fd runs 3 "$two" --quick
is "$(cat err)" "onehop probe: ONEHOP_DEVICE_SHARE is 'fd', it takes one of auto|descriptor|ipc|none" \
	"a setting that is malformed is an error, said once"
ONEHOP_DEVICE_SHARE=none runs 0 "$two" --quick
done_testing
