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

for sub in bench doctor env probe run topo; do
	flags=$(help_flags "$sub")
	has "$flags" --help "onehop $sub --help lists flags"
	is "$(page_flags "onehop-$sub.1.scd")" "$flags" \
		"onehop-$sub(1) has the flags of --help"
	is "$(completed onehop "$sub" - | grep '^-' | grep -vx -e --)" "$flags" \
		"the completion of onehop $sub has the flags of --help"
	is "$("$onehop" help "$sub")" "$("$onehop" "$sub" --help)" \
		"onehop help $sub is onehop $sub --help"
done

# the exit codes at the end of --help, and those of the page; run's help names
# a code where it tells of it
for sub in bench doctor probe topo; do
	is "$("$onehop" "$sub" --help | sed -n '/^[Ee]xit code/,$p' | grep -oE '\b[0-9]+\b' |
		sort -un | xargs)" \
		"$(sed -n '/^# EXIT STATUS/,/^# [^E]/p' "$SOURCE/man/onehop-$sub.1.scd" |
			grep -oE '^\*[0-9]+\*' | tr -d '*' | sort -un | xargs)" \
		"onehop $sub --help has the exit codes of onehop-$sub(1)"
done

subcommands=$("$onehop" --help | sed -nE 's/^  ([a-z]+) .*/\1/p' | sort)
is "$(help_flags)" "$(page_flags onehop.1.scd)" "onehop(1) has the flags"
is "$(sed -nE '/^# SUBCOMMANDS/,/^# OPTIONS/s/^\*([a-z]+)\*.*/\1/p' \
	"$SOURCE/man/onehop.1.scd" | sort)" "$subcommands" \
	"onehop(1) has the subcommands"
is "$(completed onehop '' | grep -v '^-')" "$subcommands" \
	"the completion has the subcommands"

has "$("$onehop" bench --help | tr -s ' \n' ' ')" "--in-place one buffer for both sides (default on host memory; not on GPU memory)" \
	"onehop bench --help says where --in-place does not work"

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

kinds=$(sed -n '/kind_names\[\] = {/,/};/p' "$SOURCE/tools/env.c" | grep -oE '"[a-z]+"' |
	tr -d '"' | xargs)
has "$(tr -s '\n\t' ' ' <"$SOURCE/man/onehop-env.1.scd")" "_kind_ (${kinds// /, })" \
	"onehop-env(1) has the kinds"
# what oh__parse_table takes at most
table=$(sed -n '/^\*ONEHOP_DEVICE_TABLE/,/^$/p' "$SOURCE/man/onehop.1.scd" | tr -s '\n\t' ' ')
for limit in 'LAST bytes, at most 1G' 'BLOCKS, at most 1024' 'PAUSE cycles, at most 1000000'; do
	has "$table" "$limit" "onehop(1) has the limits of ONEHOP_DEVICE_TABLE"
done

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

# The completion, word by word. _onehop_program is a function, until a word of
# the shell: neither can be run.
mkdir "$scratch/here"
touch "$scratch/here/onehop-file.json"
cd "$scratch/here" || exit 1
while IFS='|' read -r line expected; do
	read -ra words <<<"$line"
	[[ $line != *' ' ]] || words+=('')
	is "$(completed "${words[@]}" | xargs)" "$expected" "completes '$line'"
done <<'END'
onehop ver|version
onehop help he|help
onehop bench --peer openmpi,m|openmpi,mpich
onehop bench --collective all_reduce,b|all_reduce,broadcast
onehop bench --collective all_reduce,all_|all_reduce,all_gather all_reduce,all_reduce
onehop bench -d f32,u6|f32,u64
onehop bench -o min,ma|min,max
onehop bench --json |onehop-file.json
onehop bench -J onehop|onehop-file.json
onehop bench --csv |onehop-file.json
onehop bench --csv --js|--json
onehop bench --json = one|onehop-file.json
onehop bench --op = mi|min
onehop bench -n |
onehop run |-- --cpu-bind --help --no-prefix --timeout -h -n
onehop run -n 2 |-- --cpu-bind --help --no-prefix --timeout -h -n
onehop run -n 2 one|onehop-file.json
onehop run -n 2 -- _onehop_pro|
onehop run -n 2 -- unti|
onehop run --timeout = 5 -- unti|
onehop run -n 2 -- onehop-f|
onehop run -n 2 -- ./one|./onehop-file.json
END
is "$(completed onehop run -n 2 -- mktem)" mktemp "completes a program"
cd "$SOURCE" || exit 1

header=$SOURCE/include/onehop/onehop.h
functions=$(grep -oE '^\s+oh_\w+;' "$SOURCE/src/libonehop.map" | tr -d ';\t ' | sort)
is "$(grep -E '^\*oh_' "$SOURCE/man/onehop.3.scd" | grep -oE 'oh_\w+' | sort)" \
	"$functions" "onehop(3) has the functions"
is "$(sed -nE 's/^\*(OH_\w+)\* \(([0-9]+)\)$/\1 \2/p' "$SOURCE/man/onehop.3.scd" | sort)" \
	"$(sed -nE 's/.*X\((OH_\w+), ([0-9]+),.*/\1 \2/p' "$header" | sort)" \
	"onehop(3) has the statuses and their values"
done_testing
