#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Builds tests/test_reduce.c for 64-bit Arm and runs it in an emulator. Without
# a cross compiler or the emulator it prints why and ends with 77.
# AARCH64_CC, AARCH64_CFLAGS and QEMU_AARCH64 may name others.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cc=${AARCH64_CC:-aarch64-linux-gnu-gcc}
qemu=${QEMU_AARCH64:-qemu-aarch64}

for tool in "$cc" "$qemu"; do
	if ! command -v "$tool" >/dev/null; then
		echo "1..0 # SKIP $tool is not installed"
		exit 77
	fi
done

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# static: the emulator then needs no libraries of the other architecture
# shellcheck disable=SC2086
"$cc" -std=gnu17 -D_GNU_SOURCE -O3 -ffp-contract=off -Wall -Wextra -Werror \
	${AARCH64_CFLAGS:-} -static \
	-I "$root/include" -I "$root/src" -I "$root/tests" \
	"$root"/src/cpu/reduce_plain.c "$root"/src/cpu/reduce_neon.c \
	"$root"/src/cpu/reduce_pick.c "$root"/tests/test_reduce.c \
	-o "$dir/test_reduce" -lm

"$qemu" "$dir/test_reduce"
