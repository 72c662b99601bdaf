#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --help, the manual pages and the completion tell of the same flags and
# subcommands; onehop(3) and onehop(1) of the same functions, statuses and
# settings as the header and the table.
. "$(dirname "$0")/../tap.sh"

onehop=$BUILD/onehop

# The flags that stand at the beginning of a line of --help: "-b, --begin B"
# gives -b and --begin.
help_flags()
{
	"$onehop" "$@" --help 2>&1 | grep -E '^ +-' |
		sed -E 's/^ +//; s/  .*//' |
		grep -oE '(^|[ ,])--?[a-zA-Z][a-z-]*' | tr -d ' ,' | sort -u
}

# The same in a page: lines like "*-b*, *--begin* _B_".
page_flags()
{
	grep -E '^\*-' "$SOURCE/man/$1" | grep -oE '\*--?[a-zA-Z][a-z-]*\*' |
		tr -d '*' | sort -u
}

# What the completion offers for a line that ends with an empty word.
completed()
{
	(
		# shellcheck source=scripts/completions/onehop
		. "$SOURCE/scripts/completions/onehop"
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		_onehop
		printf '%s\n' "${COMPREPLY[@]}" | sort -u
	)
}

for sub in bench env run; do
	flags=$(help_flags "$sub")
	has "$flags" --help "onehop $sub --help lists flags"
	is "$(page_flags "onehop-$sub.1.scd")" "$flags" \
		"onehop-$sub(1) has the flags of --help"
	is "$(completed onehop "$sub" - | grep '^-')" "$flags" \
		"the completion of onehop $sub has the flags of --help"
	is "$("$onehop" help "$sub")" "$("$onehop" "$sub" --help)" \
		"onehop help $sub is onehop $sub --help"
done

subcommands=$("$onehop" --help | sed -nE 's/^  ([a-z]+) .*/\1/p' | sort)
is "$(help_flags)" "$(page_flags onehop.1.scd)" "onehop(1) has the flags"
is "$(sed -nE '/^# SUBCOMMANDS/,/^# OPTIONS/s/^\*([a-z]+)\*.*/\1/p' \
	"$SOURCE/man/onehop.1.scd" | sort)" "$subcommands" \
	"onehop(1) has the subcommands"
is "$(completed onehop '' | grep -v '^-')" "$subcommands" \
	"the completion has the subcommands"

# flags of nccl-tests that the benchmark has not
is "$(sed -n '/^# FLAGS OF NCCL-TESTS/,/^# COLUMNS/p' "$SOURCE/man/onehop-bench.1.scd" |
	grep '^[- ] ' | grep -oE '\*--?[a-zA-Z_]+\*' | tr -d '*' | sort)" \
	"$(sed -n '/} absent/,/^};/p' "$SOURCE/tools/bench_absent.c" |
		grep -oE '"--?[a-zA-Z_]+"' | tr -d '"' | sort)" \
	"onehop-bench(1) has nccl-tests' flags that are absent"
output=$(sed -n '/} absent/,/^};/p' "$SOURCE/tools/bench_absent.c" |
	grep -oE '"--?[a-zA-Z_]+"' | tr -d '"' | while read -r flag; do
	"$onehop" bench "$flag" 2>&1 </dev/null | grep -qF "'$flag' is a flag of nccl-tests only: " ||
		echo "$flag"
done)
is "$output" "" "onehop bench has an answer to each"

settings=$(grep -oE '"ONEHOP_[A-Z_]+"' "$SOURCE/src/base/settings.def" | tr -d '"' | sort)
is "$(grep -E '^\*ONEHOP_' "$SOURCE/man/onehop.1.scd" |
	grep -oE 'ONEHOP_[A-Z_]+' | sort)" "$settings" \
	"onehop(1) has the settings"

# name and default of each setting that has one
defaults=$("$onehop" env --json | jq -r '.settings[] | select(.default) | "\(.name) \(.default)"' 2>/dev/null |
	sort)
documented=$(awk '/^\*ONEHOP_/ { name = $1; gsub(/[*,]/, "", name) }
	/Default [^ ]*\.$/ { sub(/\.$/, "", $NF); print name, $NF }' \
	"$SOURCE/man/onehop.1.scd" | sort)
if command -v jq >/dev/null; then
	is "$documented" "$defaults" "onehop(1) has the defaults"
else
	skip "onehop(1) has the defaults" "jq is not installed"
fi

# name and choices of each setting that has some
if command -v jq >/dev/null; then
	choices=$("$onehop" env --json | jq -r '.settings[] | select(.kind == "choice") |
		"\(.name) \(.takes | split("|") | sort | join(" "))"' | sort)
	# the words in front of the colon: "_on_ or _off_: what it does"
	documented=$(awk '/^\*ONEHOP_/ { name = $1; gsub(/[*,]/, "", name); text = "" }
		/^\t/ { text = text $0 }
		/^$/ && text { print name, text; text = "" }' "$SOURCE/man/onehop.1.scd" |
		grep ^ONEHOP_ | sed 's/:.*//' | grep -E '\s_[a-z0-9-]+_' |
		while read -r name rest; do
			echo "$name" "$(grep -oE '\b_[a-z0-9-]+_' <<<"$rest" | tr -d _ | sort | xargs)"
		done | sort)
	is "$documented" "$choices" "onehop(1) has the choices"
else
	skip "onehop(1) has the choices" "jq is not installed"
fi

header=$SOURCE/include/onehop/onehop.h
functions=$(grep -oE '^\s+oh_\w+;' "$SOURCE/src/libonehop.map" | tr -d ';\t ' | sort)
is "$(grep -E '^\*oh_' "$SOURCE/man/onehop.3.scd" | grep -oE 'oh_\w+' | sort)" \
	"$functions" "onehop(3) has the functions"
is "$(sed -nE 's/^\*(OH_\w+)\* \(([0-9]+)\)$/\1 \2/p' "$SOURCE/man/onehop.3.scd" | sort)" \
	"$(sed -nE 's/.*X\((OH_\w+), ([0-9]+),.*/\1 \2/p' "$header" | sort)" \
	"onehop(3) has the statuses and their values"
done_testing
