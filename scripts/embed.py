#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""embed.py IMAGE OUTPUT: a file as an array in C, for src/kernels/image.h."""
import sys

LIMIT = 10 << 20  # a library of more bytes is nothing to carry around

with open(sys.argv[1], 'rb') as image:
    data = image.read()
if len(data) > LIMIT:
    sys.exit(f'embed.py: {sys.argv[1]} has {len(data)} bytes, {LIMIT} at most '
             'are allowed')
padded = data + bytes(-len(data) % 8)
words = [int.from_bytes(padded[i:i + 8], 'little')
         for i in range(0, len(padded), 8)]
with open(sys.argv[2], 'w', encoding='ascii') as output:
    output.write('#include "kernels/image.h"\n\n'
                 'const uint64_t oh__kernels_image[] = {\n')
    for i in range(0, len(words), 4):
        output.write(' '.join(f'{word:#x},' for word in words[i:i + 4]) + '\n')
    output.write('};\n'
                 f'const size_t oh__kernels_image_bytes = {len(data)};\n')
