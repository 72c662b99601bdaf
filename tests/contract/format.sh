#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The tree's form: clang-format, shellcheck, a licence line in each file, no
# function over 80 lines, no file of code over 700.
. "$(dirname "$0")/../tap.sh"

cd "$SOURCE" || exit 1
mapfile -t code < <(tree_files '*.c' '*.h' '*.cpp')
[[ ${#code[@]} -gt 20 ]]
ok $? "there is code (${#code[@]} files)"

if command -v clang-format-14 >/dev/null; then
	bad=$(clang-format-14 --style=file --dry-run "${code[@]}" 2>&1 |
		grep -oE '^[^:]+\.(c|h|cpp):' | sort -u)
	is "$bad" "" "clang-format-14 would change nothing"
else
	skip "clang-format-14 would change nothing" "clang-format-14 is not installed"
fi

mapfile -t shell < <(tree_files '*.sh' '.ci/run')
if command -v shellcheck >/dev/null; then
	passes "shellcheck has nothing to say" shellcheck -x -P SCRIPTDIR \
		"${shell[@]}" scripts/completions/onehop
else
	skip "shellcheck has nothing to say" "shellcheck is not installed"
fi

bad=$(for file in "${code[@]}" "${shell[@]}" $(tree_files '*.def' '*.py' \
	'*.pml' '*.scd' '*.map' '*.ini' 'meson.build' '*/meson.build' Makefile meson_options.txt); do
	head -n 5 "$file" | grep -q 'SPDX-License-Identifier: MIT' || echo "$file"
done)
is "$bad" "" "each file names its licence"

bad=$(for file in "${code[@]}"; do
	lines=$(wc -l <"$file")
	((lines <= 700)) || echo "$file: $lines"
done)
is "$bad" "" "no file has more than 700 lines"

if command -v ctags >/dev/null && ctags --version | grep -q Universal; then
	# a name without a small letter is a macro that ctags takes for one
	bad=$(ctags --languages=C --langmap=C:.c.h --kinds-C=f --fields=+ne -f - "${code[@]}" |
		sed -nE 's/^([^\t]+)\t([^\t]+)\t.*line:([0-9]+).*end:([0-9]+).*/\1 \2 \3 \4/p' |
		awk '$1 ~ /[a-z]/ { if ($4 - $3 + 1 > 80) print $2 ": " $1 ", " $4 - $3 + 1 }')
	is "$bad" "" "no function has more than 80 lines"
else
	skip "no function has more than 80 lines" "Universal Ctags is not installed"
fi

bad=$(grep -nE '\b(TODO|FIXME|XXX)\b' "${code[@]}")
is "$bad" "" "nothing is left to be done in a comment"
done_testing
