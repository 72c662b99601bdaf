#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The outputs in docs/doctor.md are those of the commands above them.
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
done_testing
