#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks the CUDA driver how many GPUs there are, and prints that. Needs no build.

The library loads the same driver, so what this one finds tests find too.
Exit code: 0; 77 with why on stderr if there is none; 3 if that is not known.
"""
import ctypes
import glob
import sys

NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
# NVIDIA's own, Windows' for Linux, Tegra's
DEVICES = ['/dev/nvidia[0-9]*', '/dev/nvidiactl', '/dev/dxg', '/dev/nvhost-gpu',
           '/dev/nvgpu']


def count():
    """The number and the exit code, or what is said instead."""
    try:
        cuda = ctypes.CDLL('libcuda.so.1')
    except OSError as error:
        # this Python's loader may look elsewhere than the C compiler's
        present = [path for pattern in DEVICES for path in glob.glob(pattern)]
        if present:
            return f'{error}, but there is {present[0]}', 3
        return f'there is no GPU: {error}, and no /dev/nvidia0', 77
    number = ctypes.c_int()
    code = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(number))
    if code not in (0, NO_DEVICE):
        return f'the CUDA driver fails: CUDA error {code}', 3
    if not number.value:
        return 'there is no GPU: the CUDA driver finds none', 77
    return number.value, 0


def main():
    answer, code = count()
    print(answer, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == '__main__':
    sys.exit(main())
