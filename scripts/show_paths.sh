#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# After `make install`: the lines to set for a prefix where neither the shell,
# nor pkg-config, nor the loader looks. Meson's own pkg-config file says where
# the library is, on Debian lib/x86_64-linux-gnu.
#
# usage: scripts/show_paths.sh BUILD_FOLDER
set -euo pipefail

file=$1/meson-private/onehop.pc
value()
{
	sed -n "s/^$1=//p" "$file" | sed 's/\\ / /g'
}

prefix=$(value prefix)
case $prefix in
/usr | /usr/local) exit ;;
esac
libdir=$(value libdir)
# shellcheck disable=SC2016 # the file's own way to say it
libdir=${libdir/'${prefix}'/$prefix}

# add NAME FOLDER: the folder in front of what is set, quoted for a shell
# shellcheck disable=SC2016 # the lines are for another shell
add()
{
	printf '  export %s=%q${%s:+:$%s}\n' "$1" "$2" "$1" "$1"
}

echo
echo "$prefix is where no program looks by itself; to use what is there:"
add PATH "$prefix/bin"
add PKG_CONFIG_PATH "$libdir/pkgconfig"
add LD_LIBRARY_PATH "$libdir"
printf 'Linked with -Wl,-rpath,%q a program needs no LD_LIBRARY_PATH.\n' "$libdir"
