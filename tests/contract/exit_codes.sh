#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Exit codes, and which of stdout and stderr is spoken to.
. "$(dirname "$0")/../tap.sh"

# runs CODE STREAM ARGUMENT...: onehop must end with CODE and write to STREAM
# (stdout, stderr) only
runs()
{
	local code=$1 stream=$2 text

	shift 2
	text="onehop $*"
	"$BUILD/onehop" "$@" >"$scratch/stdout" 2>"$scratch/stderr" </dev/null
	is $? "$code" "$text: exit code $code"
	for file in stdout stderr; do
		if [[ $file == "$stream" ]]; then
			[[ -s $scratch/$file ]]
			ok $? "$text: writes to $file"
		else
			is "$(head -c 300 "$scratch/$file")" "" "$text: nothing on $file"
		fi
	done
}

runs 0 stdout --help
runs 0 stdout -h
runs 0 stdout help
runs 0 stdout --version
runs 0 stdout version
runs 0 stdout help help
runs 0 stdout help version
runs 0 stdout help run
runs 0 stdout help env
runs 0 stdout help bench
runs 0 stdout env
runs 0 stdout env --json
runs 2 stderr
runs 2 stderr nothing
runs 2 stderr help nothing
runs 2 stderr help run nothing
runs 2 stderr version nothing
runs 2 stderr --nothing
runs 2 stderr env --nothing
runs 2 stderr env nothing
runs 2 stderr bench --nothing
runs 0 stdout help probe
runs 2 stderr probe --nothing
runs 2 stderr probe nothing
runs 2 stderr probe --bytes 1K
runs 2 stderr probe --bytes
runs 2 stderr probe --only 0,0
runs 2 stderr probe --only 0,
runs 2 stderr probe --timeout 0
runs 3 stderr probe --json /nowhere/file
runs 3 stderr probe --json "$scratch"
runs 2 stderr run
runs 2 stderr run -n
runs 2 stderr run -n 2
runs 2 stderr run -n 0 true
runs 2 stderr run -n 17 true
runs 2 stderr run -n 2x true
runs 2 stderr run -n -1 true
runs 2 stderr run --timeout 0 -n 1 true
runs 2 stderr run --timeout 1s -n 1 true
runs 2 stderr run --nothing -n 1 true

# refuses TEXT ARGUMENT...: with 2 and that text, whole
refuses()
{
	local text=$1

	shift
	"$BUILD/onehop" "$@" >"$scratch/stdout" 2>"$scratch/stderr" </dev/null
	is "$? $(cat "$scratch/stderr")" "2 onehop $1: $text" "onehop $*: says why"
}

# the same words in all, and no name that is only a part of one
for sub in bench doctor env probe run topo; do
	for flag in --nothing -Z --jso --hel=x; do
		refuses "'$flag' is not known; \`onehop $sub --help\` lists the flags" "$sub" "$flag"
	done
	refuses "--help=x: a flag without a value" "$sub" --help=x
done
for words in "doctor --t" "env --js" "probe --qui" "run --no-p" "topo --do" "bench --no-p"; do
	read -r sub flag <<<"$words"
	refuses "'$flag' is not known; \`onehop $sub --help\` lists the flags" "$sub" "$flag"
done
for words in "doctor --tp" "probe --bytes" "run --timeout" "run -n"; do
	read -r sub flag <<<"$words"
	refuses "$flag: a value is missing; \`onehop $sub --help\` says what it takes" "$sub" "$flag"
done
# behind a file, too; what belongs to the program of run is its own
report=$SOURCE/tests/cases/glm5-eight-rtx-pro-6000/report.txt
refuses "'--jso' is not known; \`onehop topo --help\` lists the flags" topo "$report" --jso
runs 0 stdout topo "$report" --json
runs 2 stderr topo -- "$report" --json
runs 0 stdout run -n 1 echo --jso
runs 0 stdout run -n1 -- echo --jso

"$BUILD/onehop" bnech 2>"$scratch/stderr"
has "$(cat "$scratch/stderr")" "did you mean 'bench'" "a near miss is answered"
"$BUILD/onehop" zebra 2>"$scratch/stderr"
is "$(grep -c 'did you mean' "$scratch/stderr")" 0 "a far one is not"

is "$("$BUILD/onehop" version)" "$("$BUILD/onehop" --version)" \
	"version is --version"

for arguments in --help --version env; do
	# shellcheck disable=SC2086
	"$BUILD/onehop" $arguments >/dev/full 2>"$scratch/stderr"
	is $? 3 "onehop $arguments to a full device: exit code 3"
	has "$(cat "$scratch/stderr")" "writing to stdout failed" "and says so"
	# shellcheck disable=SC2086
	"$BUILD/onehop" $arguments >&- 2>"$scratch/stderr"
	is $? 3 "onehop $arguments with stdout closed: exit code 3"
	has "$(cat "$scratch/stderr")" "writing to stdout failed" "and says so"
done

# a diagnosis that nobody can read has not found anything
for flag in "" --json; do
	# shellcheck disable=SC2086
	"$BUILD/onehop" doctor $flag "$report" >/dev/full 2>"$scratch/stderr"
	is "$? $(cat "$scratch/stderr")" \
		"3 onehop: writing to stdout failed: No space left on device" \
		"onehop doctor $flag to a full device: exit code 3, said once"
done

# onehop(1): to these a malformed ONEHOP_LOG is its default
for sub in doctor topo; do
	due=$("$BUILD/onehop" "$sub" "$report"; echo $?)
	is "$(ONEHOP_LOG=malformed "$BUILD/onehop" "$sub" "$report"; echo $?)" \
		"$due" "onehop $sub: a malformed ONEHOP_LOG changes nothing"
done

# warnings go to stderr, and the rest is read
case=$(dirname "$report")
head -c 2031 "$case/metrics.prom" >"$scratch/cut.prom"
out=$("$BUILD/onehop" doctor --json "$scratch/cut.prom" 2>"$scratch/stderr")
is "$(cat "$scratch/stderr")" "onehop doctor: $scratch/cut.prom:$(($(wc -l <"$scratch/cut.prom") + 1)): \
the text ends within this line of metrics, which was left out: scrape again" \
	"metrics that are cut are warned of"
has "$(tr -d ' \n' <<<"$out")" '"mean_ms":null' "and their sum is not read"
first=$("$BUILD/onehop" doctor "$report" 2>&1 | head -n 3)
for end in '\r' '\0'; do
	is "$(tr '\n' "$end" <"$report" | "$BUILD/onehop" doctor - 2>&1 | head -n 3)" \
		"$first" "a report whose lines end with $end is read alike"
done
{
	printf '{"model_type":"llama","hidden_size":64,'
	head -c 5000000 /dev/zero | tr '\0' ' '
	printf '"a":1}'
} >"$scratch/big.json"
refuses "$scratch/big.json: it is larger than 2097152 bytes, the most that a config.json may have" \
	doctor "$scratch/big.json"
# a figure beyond what makes sense would come out with 300 digits
while read -r flag value takes; do
	"$BUILD/onehop" doctor "--$flag" "$value" "$report" >"$scratch/stdout" 2>"$scratch/stderr"
	is "$? $(cat "$scratch/stdout" "$scratch/stderr")" \
		"2 onehop doctor: --$flag is '$value', it takes a number from $takes" \
		"onehop doctor --$flag $value: exit code 2"
done <<'END'
tokens-per-second 1e-300 0.001 to 1e6, such as 57.5
tokens-per-second nan 0.001 to 1e6, such as 57.5
batch 1000001 0.001 to 1e6, such as 8
active-bytes 1e300 1 to 1e15, such as 28e9
checkpoint-bytes 0 1 to 1e15, such as 402e9
peak-gb-s inf 0.001 to 1e6, such as 1792
claimed-gb-s -1 0.001 to 1e6, such as 1500
END
done_testing
