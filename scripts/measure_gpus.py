#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes the figures of docs/measurements/gpu.md on the GPUs of this machine.

First the ways between the GPUs (onehop probe), then for each number of ranks
all-reduce beside NCCL as it chooses, on symmetric windows and on host memory,
then with peers' memory forbidden. Raw JSON goes to DIR; the tables of it to
stdout. What did not run is said, and the exit code is 1; 2 for usage.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZES = '64,1K,8K,32K,64K,128K,256K,512K,1M,4M'
# words of onehop bench in all their forms: what sets the sizes, where it writes
SETS_SIZES = re.compile(r'-[befi]|--(sizes|minbytes|maxbytes|stepfactor|stepbytes)(=|$)')
WRITES = re.compile(r'-J|--(json|csv)(=|$)')
# name: what the benchmark is told
WAYS = {
    'peers': ['--peer', 'all'],
    'pinned': ['--forbid-peer', 'all', '--peer', 'nccl-shm'],
}


def read(path):
    with open(path, encoding='utf-8') as file:
        return json.load(file)


def size(count):
    for unit, shift in (('MB', 20), ('KB', 10)):
        if count >> shift:
            return f'{count >> shift} {unit}'
    return f'{count} B'


def figure(us):
    if us is None:
        return '-'
    return f'{us:.2f}' if us < 10 else f'{us:.1f}' if us < 100 else f'{us:.0f}'


def p50(row):
    """None for a row that is not there, or was refused."""
    return row['us']['p50'] if row and row['us'] else None


def table(path):
    """One file of the benchmark as Markdown."""
    data = read(path)
    peers = [peer['name'] for peer in data['peers']]
    head = ['bytes', 'path', 'onehop p50', 'p99', *peers, 'best peer / onehop']
    lines = ['| ' + ' | '.join(head) + ' |', '|---' * len(head) + '|']
    rows = {}
    for row in data['rows']:
        rows.setdefault(row['bytes'], {})[row['subject']] = row
    for count, subjects in sorted(rows.items()):
        own = subjects['onehop']
        theirs = [p50(subjects.get(peer)) for peer in peers]
        there = [us for us in theirs if us]
        best = min(there) / p50(own) if there and p50(own) else None
        cells = [size(count), own['path'] or '-', figure(p50(own)),
                 figure(own['us']['p99'] if own['us'] else None),
                 *map(figure, theirs), f'{best:.2f}' if best else '-']
        lines.append('| ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def show(text):
    """Where nobody reads on, the files are what is left to write."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Measurement:
    """Runs of the command, all of them before a deadline."""

    def __init__(self, arguments):
        self.onehop = arguments.onehop
        if os.path.dirname(self.onehop):
            self.onehop = os.path.abspath(self.onehop)
        self.directory = arguments.directory
        self.deadline = time.monotonic() + arguments.seconds
        self.extra = arguments.extra
        if not any(map(SETS_SIZES.match, self.extra)):
            self.extra += ['--sizes', SIZES]
        self.fine = True

    def complain(self, text):
        print(f'measure_gpus: {text}', file=sys.stderr)
        self.fine = False

    def run(self, name, arguments):
        """The path of its JSON, None if there is none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            self.complain(f'{name}: not run, there is no time left')
            return None
        # run in DIR: the JSON has the command line, and no folder of this machine
        command = [self.onehop, *arguments, '--json', name + '.json']
        print('$', ' '.join(command), file=sys.stderr, flush=True)
        # NVLink multicast is another transport than the one that is compared
        environment = {'NCCL_NVLS_ENABLE': '0', **os.environ}
        try:
            code = subprocess.run(command, timeout=left, check=False,
                                  env=environment, cwd=self.directory,
                                  stdout=subprocess.DEVNULL).returncode
        except subprocess.TimeoutExpired:
            self.complain(f'{name}: out of time')
            return None
        except OSError as error:
            sys.exit(f'measure_gpus: {self.onehop}: {error.strerror}; '
                     'build it (make), or name it by --onehop')
        # the probe's 1: it has found something that is wrong with a way
        if code == 0 or (code == 1 and arguments[0] == 'probe'):
            return os.path.join(self.directory, name + '.json')
        self.complain(f'{name}: exit code {code}')
        return None

    def measure(self, ranks):
        probe = self.run('gpu-probe', ['probe'])
        if not ranks and probe:
            ranks = [len(read(probe)['gpus'])]
        for count in ranks or []:
            for way, arguments in WAYS.items():
                name = f'gpu-{count}-{way}'
                path = self.run(name,
                                ['bench', '--memory', 'device', '--ranks',
                                 str(count), *arguments, *self.extra])
                if not path:
                    continue
                show(f'\n{count} ranks, {way}: {path}\n\n{table(path)}')
                for peer in read(path)['peers']:
                    if not peer['ran']:
                        self.complain(f"{name}: {peer['name']} did not run: {peer['reason']}")


def numbers(text):
    return [int(part) for part in text.split(',')]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('directory', nargs='?', metavar='DIR',
                        help='where the JSON goes')
    parser.add_argument('--ranks', type=numbers, metavar='N,N',
                        help='numbers of ranks (as many as there are GPUs)')
    parser.add_argument('--seconds', type=float, default=3600,
                        help='for all of it (3600)')
    parser.add_argument('--onehop', metavar='PATH',
                        default=os.path.join(ROOT, 'build', 'onehop'),
                        help='the command (build/onehop)')
    parser.add_argument('--table', nargs='+', metavar='FILE',
                        help='measure nothing: the tables of these files')
    parser.add_argument('extra', nargs='*', metavar='-- ARGUMENT',
                        help='what else onehop bench is told')
    arguments = parser.parse_args()
    if arguments.table:
        # nobody reads on: the end, without a word
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for path in arguments.table or []:
        try:
            print(table(path), end='\n\n')
        except (OSError, ValueError, LookupError, TypeError) as error:
            sys.exit(f'measure_gpus: {path}: {error!r}; it takes what '
                     'onehop bench --memory device --json has written')
    if arguments.table:
        return 0
    if not arguments.directory:
        parser.error('DIR is missing')
    for word in filter(WRITES.match, arguments.extra):
        parser.error(f'{word}: each run writes its own JSON to DIR, and nothing else')
    try:
        os.makedirs(arguments.directory, exist_ok=True)
    except OSError as error:
        sys.exit(f'measure_gpus: {arguments.directory}: no directory can be made there: '
                 f'{error.strerror}')
    measurement = Measurement(arguments)
    try:
        measurement.measure(arguments.ranks)
    except KeyboardInterrupt:
        # what has run to its end has been written, and shown
        measurement.complain('interrupted')
    return 0 if measurement.fine else 1


if __name__ == '__main__':
    sys.exit(main())
