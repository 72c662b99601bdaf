#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The library exports the header's functions and nothing else, has its soname,
# and needs libc and its loader only.
. "$(dirname "$0")/../tap.sh"

library=$BUILD/libonehop.so
functions=$(gcc -E -P "$SOURCE/include/onehop/onehop.h" | tr '\n' ' ' |
	grep -oP 'visibility\("default"\)\)\)[^;]*?\boh_\w+(?=\()' |
	grep -oE 'oh_\w+$' | sort)
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
mapped=$(grep -oE '^\s+oh_\w+' "$SOURCE/src/libonehop.map" | tr -d '\t ' | sort)

has "$functions" oh_all_reduce "the header's functions were found"
is "$exported" "$functions" "exported: the functions of onehop.h"
is "$mapped" "$functions" "the symbol map: the functions of onehop.h"

dynamic=$(readelf -dW "$library")
is "$(grep -c 'SONAME.*\[libonehop\.so\.0\]' <<<"$dynamic")" 1 "the soname is libonehop.so.0"
needed=$(grep -oP 'NEEDED.*\[\K[^]]+' <<<"$dynamic" |
	grep -vE '^(libc\.so\.6|libpthread\.so\.0|ld-linux.*)$')
is "$needed" "" "DT_NEEDED: libc and its loader"
is "$(grep -cE 'RPATH|RUNPATH' <<<"$dynamic")" 0 "no path to libraries is built in"
is "$(readelf -lW "$library" | grep -c 'GNU_STACK.*RWE')" 0 "the stack is not executable"
is "$(grep -c TEXTREL <<<"$dynamic")" 0 "no relocation in the text"
done_testing
