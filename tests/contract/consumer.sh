#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What `make install` lays down is enough to build and run a program: with
# pkg-config, from a DESTDIR, README.md's examples; that for GPUs where there is a
# CUDA toolkit, and runs where there are two GPUs.
. "$(dirname "$0")/../tap.sh"

root=$scratch/root
passes "installs to a DESTDIR" env DESTDIR="$root" \
	meson install -C "$BUILD" --no-rebuild --quiet

find_one()
{
	find "$root" -path "*$1" | head -n 1
}
for file in /include/onehop/onehop.h /libonehop.so /libonehop.so.0 \
	/pkgconfig/onehop.pc /bin/onehop /bash-completion/completions/onehop; do
	[[ -e $(find_one "$file") ]]
	ok $? "installs $file"
done
if [[ -e $BUILD/man/onehop.3 ]]; then
	for page in man1/onehop.1 man1/onehop-run.1 man1/onehop-bench.1 \
		man1/onehop-env.1 man3/onehop.3; do
		[[ -s $(find_one "/$page") ]]
		ok $? "installs $page"
	done
else
	skip "installs manual pages" "this build has none"
fi

# what `make` builds is that, and nothing else
if command -v jq >/dev/null; then
	is "$(ninja -C "$BUILD" -t query product | sed -nE '/outputs:/q; s/^    (\|+ )?//p' | sort)" \
		"$(jq -r --arg build "$BUILD/" '.[] | select(.installed) |
			.filename[] | ltrimstr($build)' \
			"$BUILD/meson-info/intro-targets.json" | sort)" \
		"make builds what is installed"
else
	skip "make builds what is installed" "jq is not installed"
fi

# and it goes again, with the folders that it made
mkdir "$scratch/tree"
ln -s "$BUILD" "$scratch/tree/build"
kept=$root
root=$scratch/gone
mkdir "$root"
passes "installs to another one" env DESTDIR="$root" \
	meson install -C "$BUILD" --no-rebuild --quiet
touch "$root/other"
[[ -e $(find_one /bin/onehop) ]]
ok $? "where the command is then"
passes "make uninstall" make -C "$scratch/tree" -f "$SOURCE/Makefile" \
	DESTDIR="$root" uninstall
is "$(cd "$root" && find . -mindepth 1 -not -type d)" ./other \
	"removes what was installed, and nothing else"
root=$kept

directory=$(dirname "$(find_one /pkgconfig/onehop.pc)")
config()
{
	PKG_CONFIG_LIBDIR=$directory PKG_CONFIG_SYSROOT_DIR=$root \
		PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 \
		pkg-config "$@" onehop
}
is "$(config --modversion)" "$("$BUILD/onehop" --version | cut -d ' ' -f 2)" \
	"pkg-config gives the version"
is "$(config --libs | grep -cE 'jansson|hwloc')" 0 \
	"a program needs nothing but libonehop"

# example N: the N-th block of C
example()
{
	awk -v n="$1" '/^```c$/ { on = ++count == n; next } /^```/ { on = 0 } on' \
		"$SOURCE/README.md"
}
example 1 >"$scratch/example.c"
[[ -s $scratch/example.c ]]
ok $? "README.md has an example in C"
read -ra flags < <(config --cflags --libs)
passes "the example compiles without a warning" \
	"${CC:-gcc}" -Wall -Wextra -Werror -o "$scratch/example" \
	"$scratch/example.c" "${flags[@]}"

cuda=/usr/local/cuda
gpus=0
example 2 >"$scratch/gpu.c"
has "$(cat "$scratch/gpu.c")" "cuda_runtime.h" "README.md has one for GPUs"
if [[ -e $cuda/include/cuda_runtime.h && -e $cuda/lib64/libcudart.so ]]; then
	passes "it compiles without a warning" \
		"${CC:-gcc}" -Wall -Wextra -Werror -o "$scratch/gpu" "$scratch/gpu.c" \
		"${flags[@]}" -isystem "$cuda/include" -L"$cuda/lib64" \
		-Wl,-rpath,"$cuda/lib64" -lcudart
	gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
else
	skip "it compiles without a warning" "there is no CUDA toolkit in $cuda"
fi

# What a prefix of one's own needs to be set, as `make install` says it; the
# build's prefix is /usr/local unless somebody chose another.
made=$scratch/made
mkdir -p "$made/meson-private"
with_prefix()
{
	sed "s|^prefix=.*|prefix=$1|" "$BUILD/meson-private/onehop.pc" \
		>"$made/meson-private/onehop.pc"
	"$SOURCE/scripts/show_paths.sh" "$made"
}
for prefix in /usr /usr/local; do
	is "$(with_prefix "$prefix")" "" "$prefix: nothing is to be set"
done
mkdir -p "$scratch/own prefix"
mv "$root/$(sed -n 's/^prefix=//p' "$BUILD/meson-private/onehop.pc")"/* "$scratch/own prefix"
with_prefix "$scratch/own prefix" >"$scratch/lines"
note "$(cat "$scratch/lines")"
(
	unset PKG_CONFIG_PATH LD_LIBRARY_PATH
	eval "$(grep export "$scratch/lines")"
	[[ $(command -v onehop) == "$scratch/own prefix/bin/onehop" ]] &&
		[[ -e $LD_LIBRARY_PATH/libonehop.so.0 ]] &&
		[[ -e $PKG_CONFIG_PATH/onehop.pc ]]
)
ok $? "another one: the lines lead to what was installed"
root="$scratch/own prefix"

export LD_LIBRARY_PATH
LD_LIBRARY_PATH=$(dirname "$(find_one /libonehop.so)")
output=$("$(find_one /bin/onehop)" run -n 2 --timeout 60 -- "$scratch/example" 2>&1)
is $? 0 "the example runs on 2 ranks"
note "$output"
is "$(grep -c '^\[[01]\] ' <<<"$output")" 2 "each rank prints a line"
if [[ -x $scratch/gpu ]]; then
	output=$(env -u ONEHOP_RANK "$scratch/gpu" 2>&1)
	is "$? $output" "1 no launcher: onehop run -n 2 -- ./gpu" \
		"the one for GPUs takes none without a launcher"
	# of a number that no GPU has
	for name in ONEHOP_RANK LOCAL_RANK OMPI_COMM_WORLD_LOCAL_RANK \
		MPI_LOCALRANKID SLURM_LOCALID; do
		output=$(env "$name=77" "$scratch/gpu" 2>&1)
		[[ $? == 1 && $output =~ invalid\ device|CUDA\ driver ]]
		ok $? "with $name it asks for that GPU"
	done
fi
if ((gpus < 2)); then
	skip "the one for GPUs runs on 2 ranks" "no CUDA toolkit, or fewer than 2 GPUs"
elif grep -q 'not built' "$BUILD/gpu_ranks.txt"; then
	skip "the one for GPUs runs on 2 ranks" "this build has no kernels"
else
	output=$("$(find_one /bin/onehop)" run -n 2 --timeout 60 -- "$scratch/gpu" 2>&1)
	is "$(sort <<<"$output")" "[0] rank 0 of 2: 2 4 6 8
[1] rank 1 of 2: 2 4 6 8" "the one for GPUs runs on 2 ranks"
fi
done_testing
