#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What `make` says of nvcc and when it asks Meson again, what it builds and how it
# installs, with made-up tools; what Meson makes of an nvcc that is absent, broken,
# too old or good, and of the architectures that are asked for.
. "$(dirname "$0")/../tap.sh"
# under CI make is stricter; the others are what a `make check` was given
unset CI MAKEFLAGS CUDA_ARCHS KERNELS PREFIX

fake=$scratch/bin
mkdir -p "$fake" "$scratch/cuda/bin" "$scratch/tree/scripts"
cd "$scratch/tree" || exit 1

# both look in /usr/local/cuda, too
copy()
{
	sed "s|/usr/local/cuda|$scratch/cuda|" "$SOURCE/$1" >"$1"
}
for tool in meson make ninja; do
	found=$(command -v "$tool") || skip_all "$tool is not installed"
	ln -s "$found" "$scratch/$tool"
done
# no nvcc of this machine
for tool in sh bash env ls cat grep sed id nproc mkdir touch rm; do
	ln -s "$(command -v "$tool")" "$fake/$tool"
done

# fake FILE: a program that does what stands on stdin
fake()
{
	rm -f "$1"
	{
		echo "#!$(command -v bash)"
		cat
	} >"$1"
	chmod +x "$1"
}

copy Makefile
fake scripts/setup.sh <<<''
cp "$SOURCE"/scripts/{set_prefix,show_paths}.sh scripts/
fake "$fake/ninja" <<'END'
[[ $* != *' -n '* ]] || exec cat todo
echo "$*" >built
END
: >todo
fake "$fake/meson" <<'END'
echo "$*" >>calls
[[ $1 == setup ]] || exit 0
echo configured
prefix=/usr/local
[[ $* != *--prefix* ]] || prefix=${*: -1}
[[ $prefix != /broken ]] || exit 1
mkdir -p build/meson-private
touch build/build.ninja
echo "prefix=$prefix" >build/meson-private/onehop.pc
echo "libdir=\${prefix}/lib" >>build/meson-private/onehop.pc
for word; do
	[[ $word != -D* ]] || sed 's/^-D//; s/=/ = /' <<<"$word"
done >build/meson-private/cmd_line.txt
mkdir -p build/src/kernels
echo 'compiling kernels' >build/src/kernels/kernels.txt
echo "GPU ranks: $(cat ranks)" >build/gpu_ranks.txt
END

# makes RANKS ARGUMENT...: with a Meson that says so; leaves calls and out
makes()
{
	echo "$1" >ranks
	shift
	: >calls
	PATH=$fake "$scratch/make" --no-print-directory "$@" >out 2>&1
	is $? 0 "make $*, Meson says $(<ranks): exit code 0"
}

makes 'not built: nvcc was not found'
is "$(cat calls)" "setup build -Dtests=disabled" "Meson is asked once"
is "$(tail -n 1 out)" "GPU ranks: not built: nvcc was not found" \
	"the last line says that there are no kernels, and why"
makes built
is "$(cat calls)" "" "nothing is new: it is not asked again"
fake "$scratch/cuda/bin/nvcc" <<<'exit 1'
makes 'not built: nvcc does not work'
is "$(cat calls)" "setup --reconfigure build" "there is an nvcc: it is asked again"
makes built
is "$(cat calls)" "" "but once"
fake "$fake/nvcc" <<<'exit 0 # another'
makes built
is "$(cat calls)" "setup --reconfigure build" "there is another one: again"
is "$(tail -n 1 out)" "GPU ranks: built" "the last line says that there are kernels"
fake "$fake/nvcc" <<<'exit 0 # a third one'
makes 'not built'
is "$(cat calls)" "" "what is built stays"
rm "$fake/nvcc" "$scratch/cuda/bin/nvcc"
makes 'not built'
is "$(cat calls)" "" "also where nvcc is not in the path of \`sudo make install\`"
is "$(cat built)" "-C build -j $(nproc) product" "what is built is the product"

is "$(grep -c compiling out)" 0 "no kernels are to be compiled: nothing is said of them"
echo '[1/1] Generating src/kernels/kernels.fatbin with a custom command' >todo
makes built
is "$(head -n 1 out)" "compiling kernels" "some are: it is said first"
: >todo
makes built CUDA_ARCHS=90
is "$(cat calls)" "setup --reconfigure build -Dkernel_archs=90" "CUDA_ARCHS: Meson is told"
makes built CUDA_ARCHS=90
is "$(cat calls)" "" "but once"
makes built
is "$(cat calls)" "" "without it nothing is told, and it stays"
makes built CUDA_ARCHS='90  120' KERNELS=yes
is "$(cat calls)" "setup --reconfigure build -Dkernels=enabled -Dkernel_archs=90,120" \
	"a list, and KERNELS"
makes built KERNELS=yes CUDA_ARCHS=120
is "$(cat calls)" "setup --reconfigure build -Dkernels=enabled -Dkernel_archs=120" \
	"one of two is new: it is told both"
rm -r build
makes built KERNELS=no
is "$(cat calls)" "setup build -Dtests=disabled -Dkernels=disabled" "no build yet: told at once"
: >calls
PATH=$fake "$scratch/make" --no-print-directory KERNELS=maybe >out 2>&1
is "$? $(cat calls)" "2 " "KERNELS=maybe: nothing is run"
has "$(cat out)" "KERNELS is 'maybe', it takes no, yes or auto" "it says why"
fake scripts/check.py <<<'echo "check $*" >>calls'
for target in check check-all check-gpu check-gpu-long; do
	makes built "$target" "CUDA_ARCHS=$((++arch))"
	is "$(head -n 1 calls)" "setup --reconfigure build -Dkernel_archs=$arch" \
		"make $target: Meson is told"
	makes built "$target"
	is "$(grep -c setup calls)" 0 "without it nothing is told"
done

# installs CODE ARGUMENT...: leaves calls and out
installs()
{
	local code=$1

	shift
	: >calls
	PATH=$fake DESTDIR=$scratch/root "$scratch/make" --no-print-directory \
		install "$@" >out 2>&1
	is $? "$code" "make install $*: exit code $code"
}

installs 0
is "$(cat calls)" "install -C build --no-rebuild" "Meson is asked to install only"
installs 0 PREFIX=/opt/onehop
is "$(cat calls)" "setup --reconfigure build --prefix /opt/onehop
install -C build --no-rebuild" "another prefix: it is told"
is "$(grep -c configured out)" 0 "of which nothing is shown"
installs 0 PREFIX=/opt/onehop
is "$(cat calls)" "install -C build --no-rebuild" "but once"
installs 2 PREFIX=/broken
has "$(cat out)" configured "it fails: what it says is shown"
is "$(grep -c ^install calls)" 0 "and nothing is installed"
rm -r "$scratch/tree/build"
installs 2 PREFIX=here
is "$(cat calls)" "" "a relative prefix: nothing is run"
has "$(cat out)" "PREFIX is 'here', it takes a path that begins with /" "it says why"
for folder in here "here/and there"; do
	: >calls
	PATH=$fake "$scratch/make" --no-print-directory install "DESTDIR=$folder" >out 2>&1
	is "$? $(cat calls)" "2 " "make install DESTDIR=$folder: nothing is run"
	has "$(cat out)" "DESTDIR is '$folder', it takes a path that begins with /" "it says why"
done
installs 2 PREFIX=
is "$(cat calls)" "" "an empty one: nothing is run"
installs 0 PREFIX=/opt/onehop
is "$(head -n 1 calls)" "setup build -Dtests=disabled" "no build yet: it is made"

# uninstalls CODE: leaves out, and what ninja was called with in built
uninstalls()
{
	echo nothing >built
	PATH=$fake DESTDIR=$scratch/root "$scratch/make" --no-print-directory \
		uninstall >out 2>&1
	is $? "$1" "make uninstall: exit code $1"
}

uninstalls 2
has "$(cat out)" "nothing is installed from here" "it says that there is nothing"
is "$(cat built)" nothing "and nothing is run"
mkdir build/meson-logs
touch build/meson-logs/install-log.txt
uninstalls 0
is "$(cat built)" "-C build uninstall" "Meson knows what was installed"
uninstalls 2

# Meson, on the folder of the kernels alone
mkdir -p src
cp -r "$SOURCE/src/kernels" src/
cp "$SOURCE/scripts/embed.py" scripts/
cp "$SOURCE/meson_options.txt" .
copy src/kernels/meson.build
cat >meson.build <<'END'
project('kernels', 'c')
subdir('src/kernels')
message(with_kernels ? 'built' : 'not built: ' + no_kernels)
END

# configures CODE ARGUMENT...: leaves out
configures()
{
	local code=$1

	shift
	rm -rf build
	PATH=$fake:$rest NINJA=$scratch/ninja "$scratch/meson" setup build "$@" >out 2>&1
	is $? "$code" "meson setup $*: exit code $code"
}

# says PART
says()
{
	has "$(cat out)" "$1" "it says: $1"
}

rm "$fake/meson" "$fake/ninja"
rest=$(tr : '\n' <<<"$PATH" | while read -r directory; do
	[[ -x $directory/nvcc ]] || printf '%s:' "$directory"
done)
if ! PATH=$rest command -v sed >/dev/null; then
	skip "without nvcc" "it is where the rest is"
else
	configures 0
	says "not built: nvcc was not found; install"
	configures 1 -Dkernels=enabled
fi
fake "$fake/nvcc" <<<'echo "unsupported GNU version!" >&2; exit 3'
configures 0
says "WARNING: no kernels for GPU ranks: $fake/nvcc does not work: exit code 3, unsupported GNU version!; mend it"
configures 1 -Dkernels=enabled
says "ERROR: Problem encountered: $fake/nvcc does not work: exit code 3, unsupported GNU version!"
configures 0 -Dkernels=disabled
says "not built: switched off by -Dkernels"
fake "$fake/nvcc" <<<'exit 4'
configures 0
says "does not work: exit code 4, without a word;"
for version in 11.8 12.0; do
	fake "$fake/nvcc" <<END
case \$1 in
--version)
	echo "Copyright (c) 2005-2022 NVIDIA Corporation"
	echo "Cuda compilation tools, release $version, V$version.89"
	;;
--list-gpu-arch) echo compute_75 ;;
esac
END
	configures 0
	case $version in
	11.8) says "not built: $fake/nvcc is of CUDA 11.8" ;;
	*) says "Message: built" ;;
	esac
done

# one that writes what it was asked for
fake "$fake/nvcc" <<'END'
case $1 in
--version) echo "Cuda compilation tools, release 13.0, V13.0.88" ;;
--list-gpu-arch) printf 'compute_%s\n' 72 75 80 90 121 120 ;;
*)
	while (($#)); do
		case $1 in
		-o) out=$2 ;;
		-MF) depfile=$2 ;;
		-gencode*) codes+="${codes:+ }${1##*code=}" ;;
		esac
		shift
	done
	echo "$codes" >"$out"
	[[ ! $depfile ]] || echo "$out:" >"$depfile"
	;;
esac
END

# builds CODES ARGUMENT...: what the image is made of
builds()
{
	local codes=$1

	shift
	configures 0 "$@"
	PATH=$fake:$rest "$scratch/ninja" -C build src/kernels/kernels_image.c >out 2>&1
	is $? 0 "it builds"
	is "$(cat build/src/kernels/kernels.fatbin)" "$codes" "code and PTX of what is asked for"
}

builds "sm_75 compute_75 sm_80 sm_90 compute_90 sm_120 compute_120"
has "$(cat build/src/kernels/kernels.txt)" "kernels for 4 architectures (75 80 90 120)" \
	"make can say so"
builds "sm_90 compute_90" -Dkernel_archs=90
has "$(cat build/src/kernels/kernels.txt)" "kernels for 1 architecture (90)" "make can say so"
builds "sm_80 compute_80" -Dkernel_archs=80,80
# PTX of the oldest, of the newest, and of 90: from there on kernels may be placed early
builds "sm_121 compute_121 sm_80 compute_80 sm_120" -Dkernel_archs=121,80,120
builds "sm_120 compute_120 sm_90 compute_90 sm_75 compute_75" -Dkernel_archs=120,90,75
for wrong in 91 9.0 sm_90 72 all,90 '90 120'; do
	configures 1 "-Dkernel_archs=$wrong"
	says "kernel_archs has '${wrong%,*}'; $fake/nvcc builds kernels for 75, 80, 90, 121, 120; \
write 90 for compute capability 9.0"
done
configures 1 -Dkernel_archs=
says "kernel_archs names none; write 90"
configures 0 -Dkernel_archs=91 -Dkernels=disabled
done_testing
