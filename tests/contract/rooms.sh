#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Arrows point down: a room of src/ includes itself and the rooms below it,
# and nothing in src/ includes from tools/, doctor/ or bench/.
. "$(dirname "$0")/../tap.sh"

cd "$SOURCE" || exit 1
rooms=(base vendor machine comm mailbox cpu kernels gpu collective) # from the bottom up

# includes FILE: what stands in its #include "..." lines
includes()
{
	sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]+"([^"]+)".*/\1/p' "$1"
}

below="onehop"
for room in "${rooms[@]}"; do
	below+=" $room"
	bad=$(for file in src/"$room"/*.[ch] src/"$room"/*.def; do
		[[ -e $file ]] || continue
		for name in $(includes "$file"); do
			[[ " $below " == *" ${name%%/*} "* ]] || echo "$file includes $name"
		done
	done)
	is "$bad" "" "$room includes from $below only"
done

known=$(printf '%s\n' "${rooms[@]}" | sort)
is "$(find src -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)" "$known" \
	"src/ has these rooms only"
bad=$(grep -rnE '^\s*#\s*include\s+"(\.\./|tools/|doctor/|bench/|tests/)' src)
is "$bad" "" "src/ includes nothing from outside"
bad=$(grep -nE '^\s*#\s*include\s+"' include/onehop/*.h)
is "$bad" "" "the public header includes system headers only"
bad=$(grep -rnE '\b(exit|_exit|abort|printf|puts|putchar|assert)\(' src --include='*.c' |
	grep -vE '(fprintf|snprintf|vsnprintf|oh_comm_abort|__\w+)\(' | grep -vE ':\s*(\*|/\*)')
is "$bad" "" "library code does not exit, assert or print to stdout"
done_testing
