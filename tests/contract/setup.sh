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
[[ \$* != *' -s' ]] || exec cat $scratch/changes
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
: >"$scratch/changes"
set_up 1000 1 none --dry-run build
is $? 3 "--dry-run, all is missing: exit code 3"
line=$(grep '^apt-get install' "$scratch/out")
has "$line" "-y --no-install-recommends --no-upgrade" "the line to run is shown"
has "$line" " libhwloc-dev" "with the packages"
is "$(cat "$scratch/calls")" "" "and nothing is called"
build=${line#*upgrade }

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
cat >"$scratch/changes" <<END
NOTE: This is only a simulation!
Inst systemd [252.36-1] (252.39-1 Debian:12.15/oldstable [amd64]) []
Inst libudev1 [252.36-1] (252.39-1 Debian:12.15/oldstable [amd64])
Inst libudev-dev (252.39-1 Debian:12.15/oldstable [amd64])
Inst meson (1.0.1-5 Debian:12.15/oldstable [all])
Conf libudev-dev (252.39-1 Debian:12.15/oldstable [amd64])
END
set_up 0 1 none build
is "$(cat "$scratch/out")" "setup: installing 2 packages: libudev-dev meson
setup: and, because those need them newer than they are: systemd libudev1" \
	"what will be new is said before, and what newer"
set_up 0 1 install build
is $? 3 "apt-get install fails: exit code 3"
has "$(tail -n 1 "$scratch/out")" "$line" "the line to run is shown"

tr ' ' '\n' <<<"$build" | grep -vx scdoc >"$scratch/installed"
set_up 0 1 none build
has "$(cat "$scratch/calls")" "install -y --no-install-recommends --no-upgrade scdoc noninteractive" \
	"only what is missing is installed"
tr ' ' '\n' <<<"$build" >"$scratch/installed"
set_up 0 1 none build
is $? 0 "nothing is missing: exit code 0"
is "$(cat "$scratch/calls" "$scratch/out")" "" "without a word or a call"
set_up 1000 1 none --dry-run build
is $? 0 "--dry-run, nothing is missing: exit code 0"

# Meson: another one than the package's, one that is too old, and one that would be
grep -vx meson "$scratch/installed" >"$scratch/without"
mv "$scratch/without" "$scratch/installed"
fake meson <<<'echo 1.4.0'
set_up 0 1 none build
is "$? $(cat "$scratch/calls" "$scratch/out")" "0 " "a Meson that is no package: it will do"
fake meson <<<'echo 0.61.2'
for words in build "--dry-run build" check; do
	read -ra words <<<"$words"
	set_up 0 1 none "${words[@]}"
	is "$? $(cat "$scratch/calls")" "3 " "${words[*]}, Meson 0.61.2: exit code 3, and nothing is called"
	is "$(cat "$scratch/out")" \
		"setup: the Meson here is 0.61.2; 1.0 or later is needed: pip install meson" "it says why"
done
rm "$fake/meson"
fake apt-cache <<<'printf "meson:\n  Installed: (none)\n  Candidate: 0.61.2-1\n"'
set_up 0 1 none build
is "$? $(cat "$scratch/calls")" "3 " "apt has 0.61.2: the same"
fake apt-cache <<END
[[ ! -s $scratch/calls ]] || echo "  Candidate: 0.61.2-1"
END
set_up 0 1 none build
is "$? $(grep -c install "$scratch/calls")" "3 0" "this is known once apt-get has updated: the same"
fake apt-cache <<<'echo "  Candidate: (none)"'
set_up 0 1 none build
is $? 0 "apt knows none: it is left to apt-get"
fake apt-cache <<<'echo "  Candidate: 1.0.1-5"'
set_up 0 1 none build
has "$(cat "$scratch/calls")" "--no-upgrade meson noninteractive" "apt has 1.0.1: it is installed"
rm "$fake/apt-cache"
echo meson >>"$scratch/installed"

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
fake meson <<<'echo 0.63.3'
set_up 0 1 none build
is $? 3 "no Debian, Meson 0.63.3: exit code 3"
has "$(cat "$scratch/out")" "the Meson here is 0.63.3; 1.0 or later" "it says why"
fake meson <<<'exit 0'
set_up 0 1 none check
is $? 0 "no Debian, check: exit code 0"
has "$(cat "$scratch/out")" "skip" "tests may skip, it says"
done_testing
