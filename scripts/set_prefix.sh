#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Before `make install`: gives a build another prefix, and says nothing unless
# that fails. With the prefix that it has Meson is not asked: under sudo it may
# find other tools than the user has.
#
# usage: scripts/set_prefix.sh BUILD_FOLDER PREFIX
set -euo pipefail

now=$(sed -n 's/^prefix=//p' "$1/meson-private/onehop.pc" | sed 's/\\ / /g')
[[ $now != "$2" ]] || exit 0
if ! meson setup --reconfigure "$1" --prefix "$2" >"$1/set_prefix.log" 2>&1; then
	cat "$1/set_prefix.log" >&2
	exit 1
fi
