#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `onehop bench --memory device` whole, on the fakes of the driver, of NCCL and
# of the kernels: what it measures, what it says, and how it ends when ranks
# give wrong results, die or hang. The fake NCCL copies and sums nothing.
. "$(dirname "$0")/../tap.sh"

command -v jq >/dev/null || skip_all "jq is not installed"

bench=("$BUILD/tests/onehop_fake" bench --memory device)
. "$(dirname "$0")/fakes.sh"
export MARK=$scratch

# plays LINE...: what the driver plays from now on
plays()
{
	printf '%s\n' "$@" >"$FAKECUDA_SCRIPT"
}

two=('devices 2' 'peer * * 1' 'device * name Fake H200')
plays "${two[@]}"

# runs CODE ARGUMENT...: must end with that code; leaves out, err and json
runs()
{
	local due=$1 code

	shift
	rm -f "$scratch/json"
	timeout 60 "${bench[@]}" -n 20 -w 1 --calls 9 --json "$scratch/json" "$@" \
		>"$scratch/out" 2>"$scratch/err" </dev/null
	code=$?
	is $code "$due" "bench $*: exit code $due"
	[[ $code == "$due" ]] || note "$(tail -n 5 "$scratch/err")"
}

# told QUERY EXPECTED TEXT: of the JSON
told()
{
	is "$(jq -c "$1" "$scratch/json" 2>&1)" "$2" "$3"
}

# says PART: in the text
says()
{
	has "$(cat "$scratch/out")" "$1" "it says: $1"
}

# complains PART
complains()
{
	has "$(cat "$scratch/err")" "$1" "stderr has: $1"
}

# Nothing of a run is left, some seconds after it.
is_clean()
{
	local left i

	for ((i = 0; i < 100; i++)); do
		left=$(grep -lzsxF "MARK=$scratch" /proc/[0-9]*/environ |
			grep -vE "/proc/($$|self|thread-self|$BASHPID)/" |
			while read -r file; do
				grep -qz -e --worker -e onehop_fake "${file%environ}cmdline" 2>/dev/null &&
					echo "$file"
			done)
		[[ -n $left ]] || break
		sleep 0.1
	done
	is "$left" "" "$1: no rank is left behind"
}

# What it measures
runs 0 --sizes 64,8K
is "$(tail -n 1 "$scratch/out")" "# wrong elements: 0 OK" "the last line says so"
says "GPUs      2: Fake H200; driver 580.95.05, CUDA 12.0"
says "ranks     2 as processes, on GPU 0 1"
says "graph: 9 calls a replay, 20 replays"
says "through GPU memory"
told '[.schema_version, .memory, .ranks, .in_place, .complete, .exit_code]' \
	'[1,"device",2,false,true,0]' "the frame is told"
told 'has("commit") and (.commit | . == null or test("^[0-9a-f]{12,}(-dirty)?$"))' true \
	"and the commit, if there is one"
told '[.device | .gpus, .method, .driver_version, .cuda_version, .forbid_peer, .gpus_are_shared]' \
	'[["Fake H200","Fake H200"],"graph","580.95.05","12.0",null,false]' "the device is told"
told '[.rows[] | [.bytes, .dtype, .op, .subject, .iterations, .calls_per_iteration, .wrong]]' \
	'[[64,"bf16","sum","onehop",20,9,0],[8192,"bf16","sum","onehop",20,9,0]]' \
	"the rows are told"
told '[.rows[] | .us.min > 0 and .us.min <= .us.p50 and .us.p50 <= .us.p99 and .flag_exchange_us > 0]' \
	'[true,true]' "and have times"
told '[.floors | .flag_place, (.flag_exchange_us | .before > 0, .after > 0), (.kernels | map(.bytes, .empty_kernel_us > 0, .flag_exchange_us > 0))]' \
	'["GPU memory",true,true,[64,true,true,8192,true,true]]' "floors are told"
is_clean "after a run"

runs 0 --sizes 64 --eager --threads -d f16 -o avg
says "eager: 9 calls a replay"
says "2 as threads of one process"
told '[.device.method, .threads, .rows[0].op, .rows[0].wrong]' '["eager",true,"avg",0]' \
	"queued calls, of threads"
runs 0 --sizes 64 -d all -o all --collective all
told '[.rows[] | [.dtype, .op, .wrong, .refused]]' \
	'[["f32","sum",0,null],["f32","avg",0,null],["f16","sum",0,null],["f16","avg",0,null],["bf16","sum",0,null],["bf16","avg",0,null]]' \
	"all are those that there are"
is "$(cat "$scratch/err")" "" "and nothing is refused"
timeout 60 "${bench[@]}" --sizes 64 -n 6 --calls 4 >"$scratch/out" 2>&1
is $? 0 "warmed up by time: exit code 0"
# calls by size, see --calls in onehop-bench(1)
timeout 60 "${bench[@]}" --sizes 64,5M,64 -n 2 -w 0 -c 0 >"$scratch/out" 2>&1
is $? 0 "sizes up and down: exit code 0"
says "graph: 20 to 100 calls a replay, 2 replays"
runs 0 --sizes 64 -n 1 -w 0
told '.rows[0].wrong' 0 "rounds of one replay, of which the first half is none"
runs 0 --sizes 64,1000000 --calls 2
told '[.rows[].wrong]' '[0,0]' "fewer calls than buffers"
runs 0 --sizes 64 --csv "$scratch/csv"
is "$(tail -n 1 "$scratch/csv" | cut -d, -f1-9)" "all_reduce,64,32,bf16,sum,,2,0,onehop" \
	"CSV has the row"
told '.settings' '{}' "no setting is told that is at its default"
is "$(grep -cE '^# (ways|settings) ' "$scratch/out")" 0 "nor a way that is as it should be"
told '[.device.ways[] | [.from, .to, .placement]]' '[[0,1,"vram-dst"],[1,0,"vram-dst"]]' \
	"JSON has all ways"
says "# created   in "
told '.device.create_ms > 0 and .device.create_ms < 60000' true \
	"and how long it took to create the communicator"

# Which GPUs, and which ways
runs 0 --sizes 64 --forbid-peer all
says "peers are forbidden: all"
says "# ways      all pairs pinned: ONEHOP_FORBID_PEER forbids it"
told '[.device.ways[] | [.from, .to, .placement, (.reason | test("forbids"))]]' \
	'[[0,1,"pinned",true],[1,0,"pinned",true]]' "the reason of each way"
# figures stand under their headings, however long the path
is "$(awk '$1 == "64" { print index($0, $8) + length($8) }' "$scratch/out" | head -n 1)" \
	"$(awk '/^# *bytes/ { print index($0, "min us") + 6 }' "$scratch/out")" \
	"the path is not longer than its column"
told '[.device.forbid_peer, .floors.flag_place, .rows[0].wrong]' '["all","host memory",0]' \
	"forbidden peers"
ONEHOP_FORBID_PEER=0-1 runs 0 --sizes 64
told '.device.forbid_peer' '"0-1"' "also by the environment"
plays 'devices 2'
runs 0 --sizes 64,8K
told '[.floors.flag_place, .rows[].wrong]' '["host memory",0,0]' "GPUs that are no peers"
says "# ways      all pairs pinned: the driver refused to map the other's memory (CUDA error 101)"
complains "2 of 2 ways between ranks go through host memory, that from rank 0 to 1 because the driver"
plays 'devices 4' 'peer * * 1' 'peer 2 1 0'
runs 0 --sizes 64
is "$(grep -c 'pinned: ' "$scratch/out")" 1 "one pair of many is told alone"
says "# ways      2->1 pinned: the driver refused"
says "64       32 bf16 sum  mixed/"
told '[.floors.flag_place, (.device.ways | length)]' '["host memory",12]' "and flags go the same way"
plays 'devices 4' 'peer 0 1 1'
runs 0 --sizes 64
is "$(grep -c 'pinned: ' "$scratch/out")" 8 "of many ways eight are told"
says "#           and 3 pairs more, see --json"
told '[.device.ways[] | select(.placement == "pinned")] | length' 11 "and JSON has the rest"
plays "${two[@]}"
ONEHOP_DEVICE_SHARE=none ONEHOP_TUNE=off ONEHOP_LOG=error runs 0 --sizes 64
says "# ways      all pairs pinned: ONEHOP_DEVICE_SHARE is none"
says "# settings  ONEHOP_DEVICE_SHARE=none"
says "through host memory"
told '[.settings, .floors.flag_place]' '[{"ONEHOP_DEVICE_SHARE":"none"},"host memory"]' \
	"what changes the calls is told, and nothing else"
ONEHOP_DEVICE_SHARE=ipc runs 0 --sizes 64 --threads
says "# settings  ONEHOP_DEVICE_SHARE=ipc"
says "through host memory"
ONEHOP_DEVICE_SHARE=auto runs 0 --sizes 64
told '[.settings, .floors.flag_place]' '[{},"GPU memory"]' "a default that is set is none"
ONEHOP_DEVICE_BYTES=67108864 runs 0 --sizes 64
told '.settings' '{}' "nor one in other digits"
is "$(grep -c '^# settings' "$scratch/out")" 0 "in the text too"
ONEHOP_DEVICE_BYTES=67108880 runs 0 --sizes 64
told '.settings' '{"ONEHOP_DEVICE_BYTES":"67108880"}' "another number is told"
table=1K:flags:1x32:100,8K:one-shot:2x64:0,64K:two-shot:2x96:0,128K:chunks:4x64:0
ONEHOP_DEVICE_TABLE=$table runs 0 --sizes 64,4K,16K,200K --calls 3
says "# settings  ONEHOP_DEVICE_TABLE=$table"
told '[.rows[] | [.path, .wrong]]' \
	'[["vram-dst/one-shot with flags",0],["vram-dst/one-shot",0],["vram-dst/two-shot",0],["vram-dst/one-shot in chunks",0]]' \
	"a table that is given is the one that serves"
ONEHOP_DEVICE_TABLE=1K:ring:1x32:0 runs 3 --sizes 64
pairs=$(for ((i = 0; i < 16; i++)); do
	for ((j = i + 1; j < 16; j++)); do echo "$i-$j"; done
done | paste -sd,)
timeout 60 "${bench[@]}" --ranks 16 --sizes 64 -n 1 -w 0 --calls 1 --threads --forbid-peer "$pairs" \
	--json "$scratch/json" >"$scratch/out" 2>"$scratch/err"
is $? 0 "every pair of 16 ranks: exit code 0"
says "peers are forbidden: $pairs"
told '[.device | .forbid_peer, ([.ways[] | .placement] | unique)]' "[\"$pairs\",[\"pinned\"]]" \
	"every pair meets in host memory"
for pair in 0-5 1-2 14-15; do
	runs 2 --sizes 64 --ranks 2 --forbid-peer 0-1,$pair
	complains "--forbid-peer: $pair is no pair of the 2 ranks"
done
plays 'devices 1'
runs 0 --sizes 64
says "ranks share GPUs"
told '[.ranks, .device.gpus_are_shared, .floors[], .rows[].wrong]' \
	'[2,true,{"before":null,"after":null},[],null,[],0]' "one GPU for two ranks"
says "exchange of flags not measured: ranks share GPUs"
complains "ranks 0 and 1 are on one GPU"
plays 'devices 1' 'lazy-graphs'
runs 0 --sizes 64 --threads
told '[.device.gpus_are_shared, .rows[].wrong]' '[true,0]' "a graph is uploaded before ranks wait"
plays 'devices 1'
runs 0 --sizes 64
complains "take turns of milliseconds"
plays 'devices 4' 'peer * * 1'
runs 0 --sizes 64,200000
told '[.ranks, .rows[].wrong]' '[4,0,0]' "a rank for each GPU"
plays "${two[@]}"

# NCCL
runs 0 --sizes 64 -c 0 --peer all
told '[.rows[] | [.subject, .wrong, .ratio > 0]]' \
	'[["onehop",null,true],["nccl",null,true],["nccl-symm",null,true],["nccl-shm",null,true]]' \
	"all of NCCL takes its turn"
told '[.peers[] | [.name, .ran, .version]]' \
	'[["nccl",true,"2.28.9"],["nccl-symm",true,"2.28.9"],["nccl-shm",true,"2.28.9"]]' \
	"with its version"
NCCL_NVLS_ENABLE=0 runs 0 --sizes 64 -c 0 --peer nccl
told '.peers[0].version' '"2.28.9 NCCL_NVLS_ENABLE=0"' "and what changes how it calls"
runs 1 --sizes 64 --peer nccl
complains "nccl: wrong result of all_reduce bf16 sum, 64 bytes, on rank"
told '[.exit_code, (.rows[] | .wrong > 0)]' '[1,false,true]' "a peer's wrong results are its own"
is "$(tail -n 1 "$scratch/out" | sed 's/[0-9]\+/N/')" "# wrong elements: N of nccl FAILED" \
	"the last line says whose they are"
# what is no UTF-8 is U+FFFD
unknown=$'\xef\xbf\xbd'
plays 'devices 3' 'peer * * 1' $'device 1 name Bad\xff GPU'
printf 'gpus 1\ndriver 58\xff0\n' >"$FAKENVML_SCRIPT"
NCCL_ALGO=$'\xff' runs 0 --sizes 64 -c 0 --peer nccl
told '[.peers[0].version, .device.gpus[1], .device.driver_version, (.device.gpus | length)]' \
	"[\"2.28.9 NCCL_ALGO=$unknown\",\"Bad$unknown GPU\",\"58${unknown}0\",3]" "any bytes are told"
printf 'gpus 1\ndriver 580.95.05\n' >"$FAKENVML_SCRIPT"
plays "${two[@]}"
NCCL_P2P_DISABLE=1 runs 0 --sizes 64 -c 0 --peer nccl,nccl-shm
told '[.peers[] | [.name, .ran]]' '[["nccl",false],["nccl-shm",true]]' \
	"NCCL without peers is not called nccl"
echo 'windows 0' >"$FAKENCCL_SCRIPT"
runs 0 --sizes 64 -c 0 --peer nccl-symm
told '[.peers[] | .ran, (.reason | test("no symmetric window"))]' '[false,true]' \
	"no windows, no nccl-symm"
plays 'devices 1'
runs 0 --sizes 64 -c 0 --peer nccl
told '.peers[0].reason | test("both on GPU 0")' true "NCCL takes no GPU twice"
plays "${two[@]}"
echo 'rank 1 ncclAllReduce 5 ' >"$FAKENCCL_SCRIPT"
runs 1 --sizes 64,128 -c 0 --peer nccl --csv "$scratch/csv"
complains "ncclAllReduce failed, code 5"
is "$(head -n 1 "$scratch/csv" | sed 's/.*,//') $(sed -n 3p "$scratch/csv" | sed 's/.*,//')" \
	'refused "failed"' "CSV says why a row has no times"
told '[.rows[] | [.bytes, .subject, .refused]]' \
	'[[64,"onehop",null],[64,"nccl","failed"],[128,"onehop",null]]' \
	"the run goes on without a peer that failed"
has "$(tail -n 1 "$scratch/out")" "# complete, but nccl rank 1: " "the last line says of whom"
told '.complete' true "as JSON does"
echo 'stuck 1 ncclAllReduce' >"$FAKENCCL_SCRIPT"
runs 124 --sizes 64,128 -c 0 --peer nccl --timeout 2
complains "did not answer after 2 s (--timeout)"
told '.complete' true "and without one that hangs"
is_clean "a peer that hangs"
echo 'stuck 0 ncclCommInitRank' >"$FAKENCCL_SCRIPT"
runs 0 --sizes 64 -c 0 --peer nccl,nccl-shm --timeout 2
told '[.peers[].ran]' '[false,false]' "one that hangs at its start is left out"
is_clean "a peer that hangs at its start"
: >"$FAKENCCL_SCRIPT"
ln -sf "$BUILD/tests/fakenccl_broken.so" "$scratch/libnccl.so.2"
runs 0 --sizes 64 --peer nccl
told '.peers[0] | .ran, (.reason | test("libnccl.so.2 has no ncclCommInitRank"))' "false
true" "an NCCL that cannot be used is left out"
ln -sf "$BUILD/tests/fakenccl.so" "$scratch/libnccl.so.2"

# Wrong results of ours
export FAKEKERNELS_FAULT='wrong 1 40'
runs 1 --sizes 64
complains "onehop: wrong result of all_reduce bf16 sum, 64 bytes, on rank 1: call "
told '[.exit_code, .rows[0].wrong > 0]' '[1,true]' "wrong elements are counted"
is "$(tail -n 1 "$scratch/out" | sed 's/[0-9]\+/N/')" "# wrong elements: N FAILED" \
	"and the last line says so"
runs 0 --sizes 64 -c 0
says "# wrong elements: not checked"

# A rank that hangs, one that dies
export FAKEKERNELS_FAULT='stuck 1 40'
runs 124 --sizes 64 --timeout 2
says "# not complete: onehop rank 0: OH_ERR_TIMEOUT: calls on the GPU have failed: a rank did not arrive before the deadline (rank 1)"
is_clean "a kernel that never ends"
# nobody knows yet whom it waits for
ONEHOP_CALL_TIMEOUT_MS=60000 runs 124 --sizes 64 --timeout 2
complains "onehop: ranks 0 1 did not answer after 2 s (--timeout)"
unset FAKEKERNELS_FAULT
timeout 60 "${bench[@]}" --sizes 64,128 -n 100000 --calls 20 -w 1 \
	>"$scratch/out" 2>"$scratch/err" &
# those that measured the floors have gone, and the ranks may not be there yet
for ((i = 0; i < 300; i++)); do
	grep -q '^# *bytes' "$scratch/out" &&
		rank=$(pgrep -P "$(pgrep -P $!)" -f worker.device: | tail -n 1) &&
		[[ -n $rank ]] && break
	sleep 0.1
done
sleep 0.2
kill -KILL "$rank"
wait $!
is $? 1 "a rank is killed: exit code 1"
has "$(tail -n 1 "$scratch/out")" "# not complete: onehop rank" "the last line says so"
is_clean "a rank that was killed"

# An error of the driver
plays "${two[@]}" 'error cuGraphInstantiateWithFlags 999'
runs 1 --sizes 64
complains "cuGraphInstantiateWithFlags failed, code 999"
plays "${two[@]}" 'error cuMemAlloc_v2 2'
runs 3 --sizes 64
complains "OH_ERR_NO_MEMORY"
# 7 buffers of 8M and 512 bytes on two sides are 112 MiB and 7 KiB
plays "${two[@]}" 'device * memory 134217728'
runs 3 --sizes 8M
complains "OH_ERR_NO_MEMORY: cuMemAlloc_v2 failed, code 2: buffers need 113 MiB of GPU memory, of which "
complains " MiB are free; give smaller --sizes"
plays "${two[@]}" 'error cuCtxEnablePeerAccess 999'
runs 0 --sizes 64
complains "floor rank"
told '[.floors.flag_exchange_us.before, .floors.flag_place, .rows[0].flag_exchange_us]' \
	'[null,null,null]' "floors that cannot be had are not told"
runs 0 --sizes 64 --csv "$scratch/csv"
is "$(tail -n 1 "$scratch/csv" | cut -d, -f17)" "" "neither in CSV"
# two prepare the long exchange, two the case's first floor
plays "${two[@]}" 'error cuMemHostGetDevicePointer_v2 999 4'
runs 1 --sizes 64,128
complains "cuMemHostGetDevicePointer_v2 failed, code 999"
told '[.rows[] | [.bytes, .wrong, .flag_exchange_us]], (.floors | [.kernels, .flag_exchange_us.after])' \
	'[[64,0,null],[128,0,null]]
[[],null]' "the run goes on without floors that fail in it"

# A floor fails in the first round, and rank 1 gets stuck behind it: a round of 4
# replays has 3 warm ones beside them, of 9 calls each.
FAKEKERNELS_FAULT='stuck 1 150' runs 124 --sizes 64 --timeout 2
complains "cuMemHostGetDevicePointer_v2 failed, code 999"
has "$(tail -n 1 "$scratch/out")" "# not complete: onehop rank 0: OH_ERR_TIMEOUT" \
	"the reason told is the one that has ended the run"

# Nothing to run on
plays 'devices 0'
runs 77
complains "GPU memory: the CUDA driver finds no GPU"
runs 3 --csv /nowhere/file
complains "/nowhere/file"
plays 'devices 2'
CUDA_VISIBLE_DEVICES='' runs 77
complains "CUDA_VISIBLE_DEVICES"
plays 'devices 2' 'error cuInit 999'
runs 3
complains "cuInit failed, code 999"
if LD_LIBRARY_PATH='' ldconfig -p | grep -qF libcuda.so.1; then
	skip "no driver" "there is one"
else
	LD_LIBRARY_PATH='' runs 77
	is "$(grep -o 'libcuda.so.1' "$scratch/err" | wc -l)" 1 "no driver: said once"
	complains "install NVIDIA's driver"
fi
"$BUILD/onehop" bench --memory device --sizes 64 -n 1 >"$scratch/out" 2>"$scratch/err"
code=$?
if grep -q nvcc "$scratch/err"; then
	is $code 77 "a build without kernels: exit code 77"
else
	skip "a build without kernels: exit code 77" "this one has them"
fi

# Flags: what is wrong with them comes before what is missing
plays 'devices 0'
while IFS='|' read -r arguments message; do
	# shellcheck disable=SC2086
	timeout 60 "$BUILD/tests/onehop_fake" bench $arguments >"$scratch/out" 2>"$scratch/err"
	is $? 2 "bench $arguments: exit code 2"
	has "$(cat "$scratch/err")" "$message" "bench $arguments: $message"
done <<'END'
--graph|--graph: only with --memory device
--eager|--eager: only with --memory device
--graph --eager --memory device|--graph: not together with --eager
--memory device -d f32,i32|--dtype: i32 does not work on GPU memory so far, only f32, f16, bf16
--memory device -d i8|--dtype: i8 does not work on GPU memory so far, only f32, f16, bf16
--memory device -o sum,prod|--op: prod does not work on GPU memory so far, only sum, avg
--calls 5|--calls: only with --memory device
--forbid-peer all|--forbid-peer: only with --memory device
--memory device --forbid-peer 0-1,nonsense|--forbid-peer: '0-1,nonsense' is none of what it takes: pairs
--calls 0 --memory device|--calls: '0' is none of what it takes
--memory device -r 1|-r: all_reduce has no root
--memory device --in-place|--in-place: not with --memory device
--memory device --alloc comm|--alloc comm: oh_comm_alloc gives host memory
--memory device --collective broadcast|--collective: broadcast does not work on GPU memory so far, only all_reduce
--peer nccl|nccl works on GPU memory: it wants --memory device
--peer openmpi --memory device|openmpi works on host memory: it wants --memory host
--memory gpu|--memory: 'gpu' is none of what it takes: host or device
END
done_testing
