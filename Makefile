# SPDX-License-Identifier: MIT
# The words people expect; Meson does the work, in build. Tests are built when
# they are asked for: `product` is what is installed, and nothing else.
PREFIX ?= /usr/local
JOBS := $(shell nproc)

# The file of the nvcc that is there now, with its size and time.
NVCC = $(shell ls -lLn --time-style=+%s "$$(command -v nvcc || \
	echo /usr/local/cuda/bin/nvcc)" 2>/dev/null)

# Meson has looked for nvcc when build was made. Where it found none that works
# it is asked again once there is another one.
all: build/build.ninja
	@if [ '$(NVCC)' ] && [ "$$(cat build/nvcc 2>&1)" != '$(NVCC)' ] && \
		grep -qs 'not built' build/gpu_ranks.txt; then \
		meson setup --reconfigure build && echo '$(NVCC)' >build/nvcc; fi
	@ninja -C build -j $(JOBS) product
	@cat build/gpu_ranks.txt

build/build.ninja:
	@scripts/setup.sh --dry-run build
	@meson setup build -Dtests=disabled $(if $(filter true,$(CI)),--werror)
	@echo '$(NVCC)' >build/nvcc

demo:
	@scripts/setup.sh demo
	@$(MAKE) --no-print-directory all
	@scripts/demo.sh

check:
	@scripts/setup.sh check
	@scripts/check.py

check-all:
	@scripts/setup.sh check-all
	@scripts/check.py --all

# On a machine with GPUs, which brings nvcc; installs nothing. Fails where all is
# skipped.
check-gpu:
	@scripts/check.py --gpu

check-gpu-long:
	@scripts/check.py --gpu-long

# DESTDIR goes to Meson by the environment, and would be taken from within build.
# It and PREFIX are looked at before anything is run.
install:
	$(if $(DESTDIR),$(if $(filter /%,$(firstword $(DESTDIR))),,$(error \
		DESTDIR is '$(DESTDIR)', it takes a path that begins with /, such \
		as $(CURDIR)/$(DESTDIR))))
	$(if $(filter /%,$(firstword $(PREFIX))),,$(error PREFIX is '$(PREFIX)', \
		it takes a path that begins with /, such as $(CURDIR)/$(PREFIX)))
	@$(MAKE) -s --no-print-directory build/build.ninja
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

.PHONY: all demo check check-all check-gpu check-gpu-long install uninstall clean \
	help
