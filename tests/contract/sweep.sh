#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts/sweep_gpus.py and what times tables for it, on the driver's fake.
. "$(dirname "$0")/../tap.sh"

. "$(dirname "$0")/fakes.sh"
printf '%s\n' 'devices 3' 'peer * * 1' 'device * name Fake H200' >"$FAKECUDA_SCRIPT"
program=$BUILD/tests/sweep_fake
script=$SOURCE/scripts/sweep_gpus.py
export ONEHOP_LOG=off

# answers RANKS SIZES LINE...: leaves out
answers()
{
	local ranks=$1 sizes=$2

	shift 2
	printf '%s\n' "$@" | timeout 60 "$program" "$ranks" "$sizes" >"$scratch/out" 2>"$scratch/err"
}
answers 3 64,8K "peers 512:one-shot:1x64:0,8K:two-shot:2x64:0" \
	"pinned 512:flags:1x64:0,64K:chunks:2x64:0"
is $? 0 "tables are timed"
is "$(grep -cE '^\{"us": \[\[[0-9.]+, [0-9.]+\], \[[0-9.]+, [0-9.]+\]\], "wrong": 0\}$' \
	"$scratch/out")" 2 "and what they return is right"
FAKEKERNELS_FAULT='wrong 1 0' answers 3 64 "peers 512:one-shot:1x64:0"
[[ $(<"$scratch/out") =~ \"wrong\":\ [1-9] ]]
ok $? "what is wrong is noticed"
answers 2 64 "peers 5" "peers 8K:one-shot:1x64:0"
has "$(head -n 1 "$scratch/out")" '{"error": "ONEHOP_DEVICE_TABLE is ' "a table that is none is refused"
has "$(tail -n 1 "$scratch/out")" '"wrong": 0' "and the next one is timed"
ways=("peers 8K:one-shot:1x64:0" "pinned 8K:one-shot:1x64:0")
ONEHOP_DEVICE_SHARE=none answers 3 64 "${ways[@]}"
is "$(head -n 1 "$scratch/out")" \
	'{"error": "not timed, the way from rank 0 to 1 is pinned and not vram-dst: ONEHOP_DEVICE_SHARE is none; unset it to try"}' \
	"a table for peers is not timed on host memory"
has "$(tail -n 1 "$scratch/out")" '"wrong": 0' "one for host memory is"
ONEHOP_DEVICE_SHARE=ipc answers 3 64 "${ways[@]}"
has "$(cat "$scratch/out")" "not vram-dst: both are ranks of one process" "CUDA IPC is no way for threads"
printf '%s\n' 'devices 3' 'peer * * 1' 'peer 2 1 0' >"$FAKECUDA_SCRIPT"
answers 3 64 "${ways[@]}"
has "$(head -n 1 "$scratch/out")" "the way from rank 2 to 1 is pinned and not vram-dst: the driver refused" \
	"one pair that is no peers suffices"
printf '%s\n' 'devices 3' 'peer * * 1' 'device * name Fake H200' >"$FAKECUDA_SCRIPT"
answers 4 64 "peers 8K:one-shot:1x64:0"
is $? 77 "more ranks than GPUs: exit code 77"
for line in peers "both 8K:one-shot:1x64:0"; do
	answers 2 64 "$line"
	is $? 2 "'$line' is no line: exit code 2"
done
for sizes in 0 7 "64,," 1G; do
	answers 2 "$sizes" "peers 8K:one-shot:1x64:0"
	is $? 2 "'$sizes' are no sizes: exit code 2"
done

# sweeps CODE ARGUMENT...: leaves out and err
sweeps()
{
	local due=$1

	shift
	timeout 60 "$script" --program "$program" "$@" \
		>"$scratch/out" 2>"$scratch/err"
	is $? "$due" "sweep_gpus.py $*: exit code $due"
}
sweeps 0 --ranks 3 --seconds 8 --most 1024 --seed 1 "$scratch/sweep.json"
for memory in peers pinned; do
	table=$(sed -n "s/^$memory: ONEHOP_DEVICE_TABLE=//p" "$scratch/out")
	has "$(ONEHOP_DEVICE_TABLE=$table "$BUILD/onehop" env)" " $table " \
		"$memory: the best table is one that the library takes"
done
if command -v jq >/dev/null; then
	is "$(jq '[.rows[] | select(.bytes == 1024 and (.p50_us | length) > 1)] | length > 1' \
		"$scratch/sweep.json")" true "the best were timed again"
else
	skip "the best were timed again" "jq is not installed"
fi
FAKEKERNELS_FAULT='wrong 1 0' sweeps 1 --ranks 2 --seconds 1 --most 64 --memory peers \
	"$scratch/sweep.json"
has "$(cat "$scratch/err")" "wrong results" "wrong results are said"
ONEHOP_DEVICE_SHARE=none sweeps 1 --ranks 2 --seconds 4 --most 64 "$scratch/sweep.json"
is "$(grep -c "ONEHOP_DEVICE_SHARE is none" "$scratch/err")" 5 "no peers: said five times"
has "$(cat "$scratch/err")" "peers: 5 failures in a row: gave up" "and no more"
has "$(cat "$scratch/out")" "pinned: ONEHOP_DEVICE_TABLE=512:" "host memory has its table"
mkdir "$scratch/empty"
sweeps 77 --ranks 9 --seconds 1 "$scratch/empty/sweep.json"
sweeps 2 --seconds 1 "$scratch/sweep.json"
for bad in "--ranks 0" "--ranks 17" "--seconds 0" "--seconds nan" "--most 1"; do
	read -ra words <<<"$bad"
	sweeps 2 --ranks 2 "${words[@]}" "$scratch/sweep.json"
done
for file in "$scratch/none/sweep.json" "$scratch/empty" /dev/full; do
	sweeps 1 --ranks 2 --seconds 1 --most 64 "$file"
	has "$(cat "$scratch/err")" "sweep_gpus: $file: " "a file that cannot be written is said"
done
has "$(cat "$scratch/out")" "ONEHOP_DEVICE_TABLE=512:" "and what was found is shown"
# plays_program LINE...: a program that is no better
plays_program()
{
	printf '%s\n' '#!/bin/sh' "$@" >"$scratch/program"
	chmod +x "$scratch/program"
}
short=(--program "$scratch/program" --ranks 2 --seconds 0.5 --most 64)
echo kept >"$scratch/kept"
for words in "exit 3" "printf '{\"us\": [[1,'"; do
	plays_program "$words"
	sweeps 1 "${short[@]}" "$scratch/kept"
	has "$(cat "$scratch/err")" "has ended, exit code" "a program that dies is said"
done
for words in 5 '"error"' '[]' '{"us": [[1, 2, 3]], "wrong": 0}' '{"us": [], "wrong": 0}' '{"us": [[1,'; do
	plays_program "while read -r line; do echo '$words'; done"
	sweeps 1 "${short[@]}" "$scratch/kept"
	has "$(cat "$scratch/err")" "$scratch/program: '$words\n' is no answer" "so is one that babbles"
	is "$(wc -l <"$scratch/err")" 2 "and that nothing was timed"
done
is "$(cat "$scratch/kept")" kept "and the file is as it was"
sweeps 1 "${short[@]}" "$scratch/empty/sweep.json"

plays_program "while read -r line; do echo '{\"us\": [[1, 2]], \"wrong\": 0}'; done"
# 1 KB is less than the file, and more than anything else that is written.
(ulimit -f 1 && exec "$script" "${short[@]}" "$scratch/kept" >"$scratch/out" 2>"$scratch/err")
is $? 1 "a full disk: exit code 1"
has "$(cat "$scratch/err")" "sweep_gpus: $scratch/kept: File too large" "is said"
has "$(cat "$scratch/out")" "ONEHOP_DEVICE_TABLE=512:" "what was found is shown"
is "$(cat "$scratch/kept")" kept "the older file stays"
is "$(ls -A "$scratch/empty"; ls "$scratch"/kept*)" "$scratch/kept" "and no other one"
chmod 640 "$scratch/kept"
ln -s kept "$scratch/link"
sweeps 0 "${short[@]}" "$scratch/link"
is "$(stat -c '%F %a' "$scratch/link" "$scratch/kept" | sed 1s/.777//)" "symbolic link
regular file 640" "a link and a file's mode stay"
has "$(cat "$scratch/link")" '"ranks": 2' "and the file is written"
# had_no_stdout CODE ERROR
had_no_stdout()
{
	is "$1" 1 "stdout: $2: exit code 1"
	is "$(grep -v '^#' "$scratch/err")" "sweep_gpus: stdout: $2" "is said"
	has "$(cat "$scratch/kept")" '"ranks": 2' "and the file is written"
	echo kept >"$scratch/kept"
}
echo kept >"$scratch/kept"
"$script" "${short[@]}" "$scratch/kept" 2>"$scratch/err" >/dev/full
had_no_stdout $? "No space left on device"
"$script" "${short[@]}" "$scratch/kept" 2>"$scratch/err" > >(true)
had_no_stdout $? "Broken pipe"
"$script" "${short[@]}" "$scratch/kept" 2>/dev/full >"$scratch/out"
is $? 0 "stderr that cannot be written: exit code 0"

# starts COMMAND...: in the background, leaves sweeping
starts()
{
	rm -f "$scratch/err"
	"$@" >"$scratch/out" 2>"$scratch/err" &
	sweeping=$!
	until grep -qs tables, "$scratch/err" || ! kill -0 "$sweeping" 2>/dev/null; do
		sleep 0.1
	done
}
# A shell ignores the interrupt in what it starts beside itself. timeout passes
# signals on twice.
for signal in INT TERM HUP; do
	rm -f "$scratch/cut.json"
	starts env --default-signal="$signal" timeout 300 "$script" --program "$program" \
		--ranks 2 --seconds 100 --most 64 "$scratch/cut.json"
	kill -"$signal" "$sweeping"
	wait "$sweeping"
	is $? 1 "SIG$signal: exit code 1"
	has "$(cat "$scratch/out" "$scratch/err")" "interrupted" "an interrupt is said"
	has "$(cat "$scratch/out")" "ONEHOP_DEVICE_TABLE=512:" "and what there is, too"
	[[ -s $scratch/cut.json ]]
	ok $? "in the file as well"
done
starts env --ignore-signal=HUP "$script" "${short[@]}" "$scratch/cut.json"
kill -HUP "$sweeping"
wait "$sweeping"
is $? 0 "SIGHUP that is ignored stays so"
sweeps 1 --program "$scratch/none" --ranks 2 "$scratch/sweep.json"
has "$(cat "$scratch/err")" "none: No such file" "a program that is not there is said"
done_testing
