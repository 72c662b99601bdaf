#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The header alone compiles without a warning in each language it is for.
. "$(dirname "$0")/../tap.sh"

flags=(-Wall -Wextra -pedantic -Werror -fsyntax-only -I "$SOURCE/include")
for row in gcc:c11 gcc:c17 g++:c++17 clang:c11 clang:c17 clang++:c++17; do
	compiler=${row%:*}
	standard=${row#*:}
	text="onehop.h with $compiler -std=$standard"
	if ! command -v "$compiler" >/dev/null; then
		skip "$text" "$compiler is not installed"
		continue
	fi
	suffix=c
	[[ $standard == c++* ]] && suffix=cc
	# twice: the include guard holds
	printf '#include <onehop/onehop.h>\n#include <onehop/onehop.h>\nint main(void) { return OH_OK; }\n' \
		>"$scratch/alone.$suffix"
	passes "$text" "$compiler" "-std=$standard" "${flags[@]}" "$scratch/alone.$suffix"
done

version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$SOURCE/meson.build")
number()
{
	sed -n "s/^#define OH_VERSION_$1 //p" "$SOURCE/include/onehop/onehop.h"
}
is "$(number MAJOR).$(number MINOR).$(number PATCH)" "$version" \
	"the header's version is the project's"
done_testing
