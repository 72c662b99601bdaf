#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The outputs in docs/doctor.md are those of the commands above them, that in
# README.md is the beginning of the first, and what they tell to run can be run;
# what a message has.
. "$(dirname "$0")/../tap.sh"

cd "$SOURCE/tests/cases" || exit 1
PATH=$BUILD:$PATH
page=$SOURCE/docs/doctor.md

# A block is "$ COMMAND", perhaps continued by a backslash, and its output.
blocks=$(grep -c '^\$ onehop' "$page")
((blocks >= 3))
ok $? "there are outputs to compare ($blocks)"
for ((n = 1; n <= blocks; n++)); do
	block=$(awk -v n="$n" '
		/^```/ { open = !open; if (!open) within = 0; next }
		open && /^\$ onehop/ { within = ++count == n }
		within' "$page")
	command=$(awk 'NR == 1 || more { print; more = /\\$/; next } { exit }' <<<"$block")
	due=$(tail -n +$(($(wc -l <<<"$command") + 1)) <<<"$block")
	is "$(eval "${command#\$ }" 2>&1)" "$due" "output $n is real"
done

summary=$(awk '/^\$ build\/onehop doctor/ { on = 1; next } /^$/ { on = 0 } on' \
	"$SOURCE/README.md")
has "$(cat "$page")" "$summary" "README.md has the same summary"

# a source of times is named in parentheses, perhaps with more behind a comma
sources=$(tr -d '\n\t' <"$SOURCE/doctor/path_time.c" | sed 's/"  *"//g; s/""//g' |
	grep -oE '"[^"]*"' | grep -oE '\([^()]*\)' | sed -E 's/^\(//; s/[,)].*//' | sort -u)
(($(wc -l <<<"$sources") >= 12))
ok $? "the times have sources"
while read -r source; do
	grep -qF "| $source | " "$page"
	ok $? "the page has what $source is"
done <<<"$sources"

# what one message has, of 12288 bytes otherwise, in the rules and in the budget
for words in "--bytes 98304" "--batch 8"; do
	read -ra flags <<<"$words"
	out=$(onehop doctor --json --tp 8 "${flags[@]}" glm5-eight-rtx-pro-6000/{report.txt,config.json})
	has "$out" '98304 bytes, remainder 0' "doctor $words: the rules look at it"
	has "$(tr -d ' \n' <<<"$out")" '"message_bytes_per_token":98304' "and so does the budget"
done

# a log alone: what it says is found, with the line
report=../reports/vllm-023-speculative-flag/input.txt
out=$(onehop doctor --json "$report")
is $? 1 "the kernel is switched off, says a log alone: exit code 1"
has "$out" "disable_custom_all_reduce=True ($report:1)" "and the line"
report=../reports/vllm-027-ray-workers-ipc-handle/input.txt
has "$(onehop doctor "$report")" "Read the lines behind $report:5" \
	"lines to read have a number"
out=$(onehop doctor --engine nccl glm5-eight-rtx-pro-6000/report.txt | head -n 1)
is "$out" "transport   NCCL goes through host memory (SHM) at 8 ranks, by rule level_allows" \
	"NCCL alone is asked: the first line is about it"


# what takes a message, where another path comes before the engine's own kernel
out=$(onehop doctor --engine vllm@0.30 --tokens-per-second 50 \
	eight-nvswitch/report.txt glm5-eight-rtx-pro-6000/config.json | head -n 4 | tr -s ' \n' ' ')
has "$out" "the fusion of all-reduce and RMSNorm (ALLREDUCE_RMS_FUSION) takes a message" \
	"the first line names the path that the dispatch names"
has "$out" "156 all-reduces a token of 12288 bytes; no time is known for them" \
	"and no other path's times are taken for its"

# as far as the flags go: no GPU is visible
told=$(tr -s ' \n' ' ' <"$page" |
	grep -oE 'onehop (probe|bench --memory device)( --?[a-z]+ [0-9a-zA-Z]+)*' | sort -u)
(($(wc -l <<<"$told") >= 4))
ok $? "the page names commands"
while read -ra words; do
	CUDA_VISIBLE_DEVICES='' timeout 30 "${words[@]}" >"$scratch/said" 2>&1
	code=$?
	((code == 77)) || note "$(cat "$scratch/said")"
	is "$code" 77 "${words[*]}: its flags are taken, there is no GPU"
done <<<"$told"
done_testing
