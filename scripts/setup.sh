#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs the packages that a target needs, on Debian and what is made from
# it, and says before which will be new and which newer. Nothing is asked of the
# package manager when nothing is missing.
#
# usage: scripts/setup.sh [--dry-run] build|demo|check|check-all
#
# --dry-run installs nothing: it says what is missing and exits with 3.
# Without dpkg it looks for the programs and libraries themselves: those of
# the build must be there, tests that miss theirs skip.
set -euo pipefail

build=(gcc libc6-dev make meson ninja-build pkg-config libjansson-dev
	libhwloc-dev libpci-dev scdoc)
# the demo compares with the MPI libraries
mpi=(openmpi-bin libopenmpi-dev mpich libmpich-dev)
check=(binutils g++ clang clang-format-14 libclang-rt-14-dev llvm python3 jq
	procps spin shellcheck universal-ctags)
check_all=(valgrind gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)

say()
{
	printf 'setup: %s\n' "$*" >&2
}

list_packages()
{
	case $1 in
	build) printf '%s\n' "${build[@]}" ;;
	demo) printf '%s\n' "${build[@]}" "${mpi[@]}" ;;
	check) printf '%s\n' "${build[@]}" "${mpi[@]}" "${check[@]}" ;;
	check-all)
		printf '%s\n' "${build[@]}" "${mpi[@]}" "${check[@]}" \
			"${check_all[@]}"
		;;
	*)
		say "'$1' is not one of build, demo, check, check-all"
		exit 2
		;;
	esac
}

is_installed()
{
	# shellcheck disable=SC2016 # dpkg-query's own format
	[[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# The Meson that is there, or that would come; nothing if that is not known.
meson_version()
{
	if command -v meson >/dev/null; then
		meson --version
	elif command -v apt-cache >/dev/null; then
		apt-cache policy meson 2>/dev/null | sed -n 's/^ *Candidate: *\([0-9].*\)/\1/p'
	fi
}

# meson.build asks for 1.0; Ubuntu 22.04 has 0.61.
check_meson()
{
	local version

	version=$(meson_version) || version=
	if [[ $version =~ ^[0-9]+ ]] && ((BASH_REMATCH[0] < 1)); then
		say "the Meson here is $version; 1.0 or later is needed: pip install meson"
		exit 3
	fi
}

# How to become root: "" if we are, "sudo", or "no".
become_root()
{
	if [[ $(id -u) == 0 ]]; then
		echo
	elif ! command -v sudo >/dev/null; then
		echo no
	elif [[ -t 0 ]] || sudo -n true 2>/dev/null; then
		echo sudo
	else
		echo no
	fi
}

# What the installation will change, as apt-get's simulation has it: lines such as
# Inst libudev1 [252.36] (252.39 Debian:12 [amd64]), without [252.36] if it is new.
# --no-upgrade keeps what is asked for as it is, not what a new package needs of its
# own version, as libudev-dev does libudev1.
say_changes()
{
	local word package version
	local -a new=() newer=()

	while read -r word package version; do
		[[ $word == Inst ]] || continue
		if [[ $version == '['* ]]; then
			newer+=("$package")
		else
			new+=("$package")
		fi
	done < <(LC_ALL=C "$@" -s 2>/dev/null)
	if ((${#new[@]})); then
		say "installing ${#new[@]} packages: ${new[*]}"
	fi
	if ((${#newer[@]})); then
		say "and, because those need them newer than they are: ${newer[*]}"
	fi
}

install_packages()
{
	local root
	local -a line=(apt-get install -y --no-install-recommends --no-upgrade "$@")

	root=$(become_root)
	if [[ $dry_run == yes || $root == no ]]; then
		say "these packages are missing: $*"
		say "run this as root, then try again:"
		printf '%s\n' "${line[*]}" >&2
		exit 3
	fi
	if ! ${root:+sudo} env DEBIAN_FRONTEND=noninteractive apt-get update -q </dev/null >&2; then
		say "apt-get update failed; going on with the lists that are there"
	fi
	check_meson
	say_changes "${line[@]}"
	if ! ${root:+sudo} env DEBIAN_FRONTEND=noninteractive "${line[@]}" </dev/null >&2; then
		say "the packages could not be installed; as root:"
		printf '%s\n' "${line[*]}" >&2
		exit 3
	fi
}

on_debian()
{
	local package packages
	local -a missing=()

	packages=$(list_packages "$1")
	check_meson
	for package in $packages; do
		# one of pip's will do
		[[ $package != meson ]] || ! command -v meson >/dev/null || continue
		is_installed "$package" || missing+=("$package")
	done
	if ((${#missing[@]})); then
		install_packages "${missing[@]}"
	fi
}

elsewhere()
{
	local name
	local -a missing=()

	list_packages "$1" >/dev/null
	for name in "${CC:-cc}" meson ninja pkg-config; do
		command -v "$name" >/dev/null || missing+=("$name")
	done
	for name in jansson hwloc libpci; do
		pkg-config --exists "$name" 2>/dev/null || missing+=("$name (library, with pkg-config file)")
	done
	if ((${#missing[@]})); then
		say "this is not a Debian system; install these by its own means:"
		printf '  %s\n' "${missing[@]}" >&2
		exit 3
	fi
	check_meson
	if [[ $1 == check* ]]; then
		say "this is not a Debian system; tests whose programs are missing skip"
	fi
}

dry_run=no
if [[ ${1-} == --dry-run ]]; then
	dry_run=yes
	shift
fi
if (($# != 1)); then
	say "usage: scripts/setup.sh [--dry-run] build|demo|check|check-all"
	exit 2
fi
if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
	on_debian "$1"
else
	elsewhere "$1"
fi
