# SPDX-License-Identifier: MIT
# The words people expect; Meson does the work, in build. Tests are built when
# they are asked for: `product` is what is installed, and nothing else.
PREFIX ?= /usr/local
JOBS := $(shell nproc)

# Which kernels are built, kept from make to make: CUDA_ARCHS=90,120 or all;
# KERNELS=no, yes or auto. As NAME=VALUE of Meson's options.
comma := ,
kernels_no := disabled
kernels_yes := enabled
kernels_auto := auto
given := $(if $(KERNELS),kernels=$(or $(kernels_$(KERNELS)),$(error \
	KERNELS is '$(KERNELS)', it takes no, yes or auto)))
given += $(if $(CUDA_ARCHS),kernel_archs=$(subst $() ,$(comma),$(strip $(CUDA_ARCHS))))

# The file of the nvcc that is there now, with its size and time.
NVCC = $(shell ls -lLn --time-style=+%s "$$(command -v nvcc || \
	echo /usr/local/cuda/bin/nvcc)" 2>/dev/null)

# Meson has looked for nvcc when build was made. Where it found none that works
# it is asked again once there is another one.
all: configure
	@if [ '$(NVCC)' ] && [ "$$(cat build/nvcc 2>&1)" != '$(NVCC)' ] && \
		grep -qs 'not built' build/gpu_ranks.txt; then \
		meson setup --reconfigure build && echo '$(NVCC)' >build/nvcc; fi
	@if ninja -C build -n src/kernels/kernels.fatbin 2>/dev/null | \
		grep -q fatbin; then cat build/src/kernels/kernels.txt; fi
	@ninja -C build -j $(JOBS) product
	@cat build/gpu_ranks.txt

build/build.ninja:
	@scripts/setup.sh --dry-run build
	@meson setup build -Dtests=disabled $(if $(filter true,$(CI)),--werror) \
		$(given:%=-D'%')
	@echo '$(NVCC)' >build/nvcc

# Meson is told of what is given, unless it knows.
configure: build/build.ninja
	@for option in $(given:%='%'); do \
		grep -qsxF "$${option%%=*} = $${option#*=}" \
			build/meson-private/cmd_line.txt || \
			exec meson setup --reconfigure build $(given:%=-D'%'); \
	done

demo:
	@scripts/setup.sh demo
	@$(MAKE) --no-print-directory all
	@scripts/demo.sh

configure_given = @$(if $(strip $(given)),$(MAKE) -s --no-print-directory configure)
check:
	@scripts/setup.sh check
	$(configure_given)
	@scripts/check.py

check-all:
	@scripts/setup.sh check-all
	$(configure_given)
	@scripts/check.py --all

# On a machine with GPUs, which brings nvcc; installs nothing. Fails where all is
# skipped.
check-gpu:
	$(configure_given)
	@scripts/check.py --gpu

check-gpu-long:
	$(configure_given)
	@scripts/check.py --gpu-long

# DESTDIR goes to Meson by the environment, and would be taken from within build.
# It and PREFIX are looked at before anything is run.
install:
	$(if $(DESTDIR),$(if $(filter /%,$(firstword $(DESTDIR))),,$(error \
		DESTDIR is '$(DESTDIR)', it takes a path that begins with /, such \
		as $(CURDIR)/$(DESTDIR))))
	$(if $(filter /%,$(firstword $(PREFIX))),,$(error PREFIX is '$(PREFIX)', \
		it takes a path that begins with /, such as $(CURDIR)/$(PREFIX)))
	@$(MAKE) -s --no-print-directory configure
	@scripts/set_prefix.sh build '$(PREFIX)'
	@$(MAKE) --no-print-directory all
	@meson install -C build --no-rebuild
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
	@if [ -z '$(DESTDIR)' ]; then scripts/show_paths.sh build; fi

# Meson's list of the last installation says what is removed, not PREFIX. Without
# the list there is nothing more to remove.
installed = build/meson-logs/install-log.txt
uninstall:
	@[ -e $(installed) ] || { echo 'nothing is installed from here:' \
		'there is no $(installed)' >&2; exit 1; }
	@ninja -C build uninstall
	@rm -f $(installed)
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

clean:
	rm -rf build build-*

help:
	@echo 'make             build build/onehop and build/libonehop.so; installs nothing:'
	@echo '                 if packages are missing, it prints the apt line for them'
	@echo 'make demo        install what the build needs and two MPIs (apt), build, time them here'
	@echo 'make check       install what the tests need (apt), build, test'
	@echo 'make check-all   the same with valgrind, MemorySanitizer, aarch64, coverage'
	@echo 'make check-gpu   test GPU ranks on the GPUs that are there'
	@echo 'make check-gpu-long   the same at length, and with compute-sanitizer'
	@echo 'make install     PREFIX=$(PREFIX), DESTDIR=...'
	@echo 'make uninstall   remove what the last make install from here has put there'
	@echo 'make clean       remove build and build-*'
	@echo 'CUDA_ARCHS=90    with each: kernels for these GPUs only (8.0 and 9.0: 80,90; all)'
	@echo 'KERNELS=no       with each: no kernels for GPU ranks (yes: or fail; auto)'

.PHONY: all configure demo check check-all check-gpu check-gpu-long install \
	uninstall clean help
