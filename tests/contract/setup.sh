#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts/setup.sh with made-up package tools: what it asks for and when.
. "$(dirname "$0")/../tap.sh"

fake=$scratch/bin
mkdir "$fake"
for tool in bash env cat printf sed grep; do
	ln -s "$(command -v "$tool")" "$fake/$tool"
done

# fake NAME: a program that does what stands on stdin
fake()
{
	{
		echo "#!$(command -v bash)"
		cat
	} >"$fake/$1"
	chmod +x "$fake/$1"
}

# what is installed stands in $scratch/installed, what was called in calls
fake dpkg-query <<END
grep -qx "\${*: -1}" $scratch/installed && echo -n installed
END
fake apt-get <<END
echo "apt-get \$*" "\$DEBIAN_FRONTEND" >>$scratch/calls
[[ \$1 != "\$(cat $scratch/broken)" ]]
END
fake sudo <<END
[[ \$1 == -n ]] && exit \$(cat $scratch/sudo)
echo "sudo" >>$scratch/calls
exec "\$@"
END
fake id <<END
cat $scratch/uid
END

# set_up UID SUDO BROKEN ARGUMENT...
set_up()
{
	echo "$1" >"$scratch/uid"
	echo "$2" >"$scratch/sudo"
	echo "$3" >"$scratch/broken"
	: >"$scratch/calls"
	shift 3
	PATH=$fake bash "$SOURCE/scripts/setup.sh" "$@" </dev/null \
		>"$scratch/out" 2>&1
}

: >"$scratch/installed"
set_up 1000 1 none --dry-run build
is $? 3 "--dry-run, all is missing: exit code 3"
line=$(grep '^apt-get install' "$scratch/out")
has "$line" "-y --no-install-recommends" "the line to run is shown"
has "$line" " libhwloc-dev" "with the packages"
is "$(cat "$scratch/calls")" "" "and nothing is called"
build=${line#*recommends }

set_up 1000 1 none build
is $? 3 "neither root nor sudo: exit code 3"
is "$(grep '^apt-get install' "$scratch/out")" "$line" "the line to run is shown"
is "$(cat "$scratch/calls")" "" "and nothing is called"

set_up 0 1 none build
is $? 0 "root: exit code 0"
is "$(cat "$scratch/calls")" "apt-get update -q noninteractive
$line noninteractive" "apt-get update, then install, without questions"

set_up 1000 0 none build
is $? 0 "sudo that asks nothing: exit code 0"
is "$(cat "$scratch/calls")" "sudo
apt-get update -q noninteractive
sudo
$line noninteractive" "both by sudo"

set_up 0 1 update build
is $? 0 "apt-get update fails: the lists that are there may do"
set_up 0 1 install build
is $? 3 "apt-get install fails: exit code 3"
has "$(tail -n 1 "$scratch/out")" "$line" "the line to run is shown"

tr ' ' '\n' <<<"$build" | grep -vx scdoc >"$scratch/installed"
set_up 0 1 none build
has "$(cat "$scratch/calls")" "install -y --no-install-recommends scdoc noninteractive" \
	"only what is missing is installed"
tr ' ' '\n' <<<"$build" >"$scratch/installed"
set_up 0 1 none build
is $? 0 "nothing is missing: exit code 0"
is "$(cat "$scratch/calls" "$scratch/out")" "" "without a word or a call"
set_up 1000 1 none --dry-run build
is $? 0 "--dry-run, nothing is missing: exit code 0"

set_up 1000 1 none --dry-run check
has "$(cat "$scratch/out")" " shellcheck" "check needs more"
has "$(cat "$scratch/out")" " clang" "clang is among it"
is "$(grep -c valgrind "$scratch/out")" 0 "but not valgrind"
set_up 1000 1 none --dry-run check-all
has "$(cat "$scratch/out")" " valgrind" "check-all does"
set_up 0 1 none nothing
is $? 2 "an unknown group: exit code 2"
set_up 0 1 none
is $? 2 "no group: exit code 2"

rm "$fake/dpkg-query" "$fake/apt-get"
set_up 0 1 none build
is $? 3 "no Debian, programs are missing: exit code 3"
has "$(cat "$scratch/out")" "meson" "they are named"
has "$(cat "$scratch/out")" "hwloc" "and the libraries"
# those that the build asks for, each by itself
while read -r library; do
	for tool in cc meson ninja; do
		fake "$tool" <<<'exit 0'
	done
	fake pkg-config <<<"[[ \$2 != $library ]]"
	set_up 0 1 none build
	is $? 3 "no Debian, $library is missing: exit code 3"
	is "$(grep -c '^  ' "$scratch/out")" 1 "nothing else is"
	has "$(cat "$scratch/out")" "$library" "and it is named"
done < <(sed -nE "s/.*dependency\('(\w+)', required.*/\1/p" "$SOURCE/meson.build")
for tool in cc meson ninja pkg-config; do
	fake "$tool" <<<'exit 0'
done
set_up 0 1 none build
is $? 0 "no Debian, all is there: exit code 0"
is "$(cat "$scratch/out")" "" "without a word"
set_up 0 1 none check
is $? 0 "no Debian, check: exit code 0"
has "$(cat "$scratch/out")" "skip" "tests may skip, it says"
done_testing
