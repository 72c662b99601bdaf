#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts/measure_gpus.py: the tables of docs/measurements are those of the raw
# files, and what it does on the fakes of the driver and of NCCL. The
# figures of README.md's beginning are of them, too.
. "$(dirname "$0")/../tap.sh"

measure=$SOURCE/scripts/measure_gpus.py
raw=$SOURCE/docs/measurements
for file in "$raw"/gpu-*-{peers,pinned}.json "$raw"/host-*-{any,comm}.json; do
	case $file in
	*-moved-*) continue ;; # for one figure of its own
	*/gpu-*) page=$(<"$raw/gpu.md") ;;
	*) page=$(<"$raw/README.md") ;;
	esac
	out=$("$measure" --table "$file")
	is $? 0 "$(basename "$file"): has a table"
	((${#out} > 500))
	ok $? "$(basename "$file"): of some length"
	has "$page" "$out" "$(basename "$file"): the page has it as it is"
done
for file in "$raw"/*.json; do
	name=$(basename "$file")
	# host-near-64K-two-shot-string.json is host-near-64K-ALGORITHM-STORES.json
	pattern=$(sed -E 's/(host-(near|far)-(64K|sizes))-.*/\1-/; s/host-xeon-.*/host-xeon-RANKS-ALLOC/' \
		<<<"$name")
	has "$(cat "$raw"/*.md)" "$pattern" "$name: a page names it"
done

# before and now, on one GPU
rows=$(python3 - "$SOURCE" <<'END'
import importlib.util, sys
root = sys.argv[1]
spec = importlib.util.spec_from_file_location('measure', root + '/scripts/measure_gpus.py')
measure = importlib.util.module_from_spec(spec)
spec.loader.exec_module(measure)
rows = {}
for runs in '2ranks-peers', '4ranks-peers', '2ranks-pinned':
    for build in 'before', 'now':
        name = f'{root}/docs/measurements/gpu-1-h200-{runs}-{build}.json'
        for row in measure.read(name)['rows']:
            rows.setdefault(row['bytes'], []).append(measure.figure(measure.p50(row)))
for count, cells in rows.items():
    print('|', ' | '.join([measure.size(count), *cells]), '|')
END
)
is "$(wc -l <<<"$rows")" 10 "one GPU, before and now: ten sizes"
has "$(<"$raw/gpu.md")" "$rows" "the page has them as they are"

# at_8k WAY SUBJECT: p50 in us, to one place
at_8k()
{
	jq --arg subject "$2" '.rows[] | select(.bytes == 8192 and .subject == $subject) |
		.us.p50 * 10 | round / 10' "$SOURCE/docs/measurements/gpu-2-h200-$1.json"
}

if command -v jq >/dev/null; then
	begin=$(head -n 20 "$SOURCE/README.md" | tr '\n' ' ')
	has "$begin" "takes $(at_8k peers onehop) us, NCCL" "README.md has 8 KB's figure"
	has "$begin" "$(at_8k peers nccl-symm) to $(at_8k peers nccl) us; by way" "and NCCL's"
	has "$begin" "$(at_8k pinned onehop) us, NCCL $(at_8k pinned nccl-shm) us" \
		"and those of host memory"
else
	skip "README.md's figures" "jq is not installed"
fi

# The doctor's figures of Onehop. Strings that the compiler joins are joined.
figures=$(tr -d '\n\t' <"$SOURCE/doctor/path_time.c" | sed 's/" *"//g' |
	grep -oE '"[^"]*" OWN_PAGE' | grep -oE '\b[0-9]+\.[0-9]+\b' | sort -u)
cells=$(grep -E '^\||on another' "$SOURCE/docs/measurements/gpu.md" -A 1 |
	grep -oE '\b[0-9]+\.[0-9]+\b' | sort -u)
known=$(wc -w <<<"$figures")
((known >= 15))
ok $? "the doctor has figures of gpu.md ($known)"
is "$(comm -23 <(echo "$figures") <(echo "$cells"))" "" "and gpu.md has them all"

. "$(dirname "$0")/fakes.sh"
printf '%s\n' 'devices 2' 'peer * * 1' 'device * name Fake H200' >"$FAKECUDA_SCRIPT"

# measures CODE ARGUMENT...: leaves out, err and the folder json
measures()
{
	local due=$1

	shift
	rm -rf "$scratch/json"
	timeout 300 "$measure" --onehop "$BUILD/tests/onehop_fake" "$@" \
		>"$scratch/out" 2>"$scratch/err" </dev/null
	is $? "$due" "measure_gpus.py $*: exit code $due"
}

short=(-- -n 6 -w 1 --calls 4 --sizes 64)
measures 0 --ranks 2 "$scratch/json" "${short[@]}" -c 0
is "$(cd "$scratch/json" && echo *)" \
	"gpu-2-peers.json gpu-2-pinned.json gpu-probe.json" "raw files"
has "$(cat "$scratch/out")" "| 64 B | pinned/" "and a table"
if command -v jq >/dev/null; then
	measures 0 --ranks 2 "$scratch/json" -- -n 2 -w 1 --calls 2 -c 0 -b64 --maxbytes=64
	is "$(jq -c '[.rows[] | select(.subject == "onehop") | .bytes]' "$scratch/json/gpu-2-peers.json")" \
		"[64]" "sizes that are given are those that run"
	is "$(jq -c '.arguments[-2:]' "$scratch/json/gpu-2-peers.json")" \
		'["--json","gpu-2-peers.json"]' "no folder of the machine is in the JSON"
else
	skip "sizes that are given are those that run" "jq is not installed"
fi
# one that measures nothing, for what it is told
cat >"$scratch/onehop" <<'END'
#!/bin/sh
[ "$5-$6" != 3---forbid-peer ] || exec sleep 300
for file; do :; done
echo '{"gpus": [], "peers": [], "rows": []}' >"$file"
END
chmod +x "$scratch/onehop"
# the last --onehop counts
stub=(--onehop "$scratch/onehop" --ranks 2 "$scratch/json")
for words in --sizes=64 "--sizes 64" "-b 64" -b64 -b=64 --minbytes=64 "-e 64" -e64 "--maxbytes 64" \
	-f2 --stepfactor=2 "-i 64" --stepbytes=64; do
	read -ra words <<<"$words"
	measures 0 "${stub[@]}" -- "${words[@]}"
	is "$(grep -c -- "--peer all ${words[*]} --json" "$scratch/err")" 1 "no other sizes"
done
measures 0 "${stub[@]}" -- --iters 64 -n 6
has "$(cat "$scratch/err")" "--iters 64 -n 6 --sizes 64,1K,8K," "sizes where none are given"
(cd "$scratch" && "$measure" --onehop ./onehop --ranks 2 json) >"$scratch/out" 2>&1
is $? 0 "a command beside the working directory is found"
for words in "--json $scratch/other" "--json=$scratch/other" "-J $scratch/other" "-J$scratch/other" \
	--csv "--csv=$scratch/other"; do
	read -ra words <<<"$words"
	measures 2 --ranks 2 "$scratch/json" "${short[@]}" "${words[@]}"
	has "$(cat "$scratch/err")" "${words[0]}: each run writes its own JSON" "and why"
done
ln -sf "$BUILD/tests/fakenccl_old.so" "$scratch/libnccl.so.2"
measures 1 --ranks 2 "$scratch/json" "${short[@]}" -c 0
is "$(grep -c '^measure_gpus: ' "$scratch/err")" 1 "one peer did not run"
has "$(cat "$scratch/err")" "measure_gpus: gpu-2-peers: nccl-symm did not run: " "which and why is said"
has "$(cat "$scratch/out")" "2 ranks, pinned" "and the rest goes on"
ln -sf "$BUILD/tests/fakenccl.so" "$scratch/libnccl.so.2"
# the fake NCCL sums nothing
measures 1 --ranks 2 "$scratch/json" "${short[@]}"
has "$(cat "$scratch/err")" "gpu-2-peers: exit code" "what failed is said"
measures 1 --seconds 0 "$scratch/json"
has "$(cat "$scratch/err")" "gpu-probe: not run, there is no time left" "out of time is said"
measures 2
for directory in "$FAKECUDA_SCRIPT" "$FAKECUDA_SCRIPT/json"; do
	measures 1 "$directory"
	is "$(cat "$scratch/err")" "measure_gpus: $directory: no directory can be made there: \
$([[ $directory == */json ]] && echo "Not a directory" || echo "File exists")" "is said in a line"
done
for file in gpu-2-h200-probe.json gpu.md none; do
	measures 1 --table "$SOURCE/docs/measurements/$file"
	has "$(cat "$scratch/err")" "$file: " "and says of which file"
done
# a reader that is gone
{ sleep 0.3; "$measure" --table "$raw"/gpu-2-h200-p{eers,inned}.json 2>"$scratch/err"; } | true
is "${PIPESTATUS[0]} $(cat "$scratch/err")" "141 " "tables that nobody reads: the end without a word"
rm -rf "$scratch/json"
{ sleep 0.3; timeout 300 "$measure" "${stub[@]}" 2>"$scratch/err"; } | true
is "${PIPESTATUS[0]} $(grep -v '^\$' "$scratch/err")" "0 " "a measurement goes on"
[[ -s $scratch/json/gpu-2-pinned.json ]]
ok $? "to its last file"
measures 1 --onehop "$scratch/none" "$scratch/json"
has "$(cat "$scratch/err")" "none: No such file" "a command that is not there is said"
# A shell ignores the interrupt in what it starts beside itself.
rm -rf "$scratch/json" "$scratch/err"
env --default-signal=INT timeout 300 "$measure" "${stub[@]}" --ranks 2,3 >"$scratch/out" \
	2>"$scratch/err" &
measuring=$!
until grep -qs -- '3 --forbid-peer' "$scratch/err" || ! kill -0 "$measuring" 2>/dev/null; do
	sleep 0.1
done
kill -INT "$measuring"
wait "$measuring"
is $? 1 "an interrupt: exit code 1"
is "$(grep -v '^\$' "$scratch/err")" "measure_gpus: interrupted" "is said in a line"
has "$(cat "$scratch/out")" "3 ranks, peers" "what there is, is shown"
[[ -s $scratch/json/gpu-3-peers.json ]]
ok $? "and written"
done_testing
