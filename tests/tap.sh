# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Test Anything Protocol for shell programs, the counterpart of tap.h. Source
# it; Meson sets SOURCE and BUILD, by hand they are this tree and its build.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SOURCE=${SOURCE:-$here}
BUILD=${BUILD:-$here/build}
export SOURCE BUILD LC_ALL=C
# what the caller has set does not come in
unset "${!ONEHOP_@}"
tap_count=0
tap_failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# ok STATUS TEXT: one check, passed if STATUS is 0
ok()
{
	((++tap_count))
	if [[ $1 == 0 ]]; then
		echo "ok $tap_count - $2"
	else
		echo "not ok $tap_count - $2"
		((++tap_failed))
	fi
}

note()
{
	printf '%s\n' "$*" | sed 's/^/# /'
}

# is GOT EXPECTED TEXT
is()
{
	if [[ $1 == "$2" ]]; then
		ok 0 "$3"
	else
		ok 1 "$3"
		note "got:      $1"
		note "expected: $2"
	fi
}

# has TEXT PART DESCRIPTION
has()
{
	if [[ $1 == *"$2"* ]]; then
		ok 0 "$3"
	else
		ok 1 "$3"
		note "'$2' is not in:"
		note "$1"
	fi
}

# passes DESCRIPTION COMMAND...: a command that must end with 0
passes()
{
	local text=$1 output status

	shift
	output=$("$@" 2>&1)
	status=$?
	ok "$status" "$text"
	if ((status)); then
		note "$* ended with $status"
		note "$output"
	fi
}

skip()
{
	((++tap_count))
	echo "ok $tap_count - $1 # SKIP $2"
}

skip_all()
{
	echo "1..0 # SKIP $1"
	exit 0
}

done_testing()
{
	echo "1..$tap_count"
	((tap_failed == 0))
	exit
}

# The files of the tree that match, as git knows them, or find where there is
# no git.
tree_files()
{
	if git -C "$SOURCE" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		git -C "$SOURCE" ls-files -co --exclude-standard -- "$@"
	else
		(
			cd "$SOURCE" || exit
			for pattern; do
				find . -path './build*' -prune -o -name "$pattern" -print
			done
		) | sed 's|^\./||' | sort -u
	fi
}
