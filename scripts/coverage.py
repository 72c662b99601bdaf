#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which lines of src/ and tools/ the tests have run.

usage: scripts/coverage.py BUILD-DIRECTORY

Reads what gcov says of every object. A line counts as run if it was in any
object: the library's own, or that of the tests with faults.
"""
import collections
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = ('src/', 'tools/')


def find_counts(directory):
    for place, _, names in os.walk(directory):
        for name in names:
            if name.endswith('.gcda'):
                yield os.path.abspath(os.path.join(place, name))


def read_counts(directory, path):
    """(file, line, count) of one object."""
    done = subprocess.run(['gcov', '--json-format', '--stdout', path],
                          cwd=directory, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    for text in done.stdout.splitlines():
        for file in json.loads(text)['files']:
            name = os.path.relpath(os.path.join(directory, file['file']),
                                   ROOT)
            if name.startswith(ROOMS):
                for line in file['lines']:
                    yield name, line['line_number'], line['count']


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    directory = os.path.abspath(sys.argv[1])
    lines = collections.defaultdict(dict)
    for path in find_counts(directory):
        for name, number, count in read_counts(directory, path):
            # threads that count at once may lose some, and go below zero
            ran = count != 0
            lines[name][number] = lines[name].get(number, False) or ran
    if not lines:
        print('no counts: was it built with -Db_coverage=true, and run?',
              file=sys.stderr)
        return 1
    print(f'{"file":36} {"lines":>6} {"run":>6} {"%":>6}  not run')
    for name in sorted(lines):
        row(name, lines[name].values(),
            [n for n in sorted(lines[name]) if not lines[name][n]])
    row('all', [ran for file in lines.values() for ran in file.values()], [])
    return 0


def row(name, ran, missed):
    ran = list(ran)
    text = ','.join(str(number) for number in missed)
    if len(text) > 60:
        text = text[:57] + '...'
    print(f'{name:36} {len(ran):6} {sum(ran):6} '
          f'{100 * sum(ran) / len(ran):6.1f}  {text}'.rstrip())


if __name__ == '__main__':
    sys.exit(main())
