#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks for the best table of ONEHOP_DEVICE_TABLE on the GPUs of this machine.

At each size ways, grids and pauses are drawn, then those near the best ones, and
at last the best few are timed again and again: the one with the least median
wins, for one time may be a lucky one. All that was timed goes to FILE as JSON,
the best tables to stdout, also after an interrupt. What came out wrong or failed
is said, and the exit code is 1; 2 for usage, 77 if there are not so many GPUs.
"""
import argparse
import contextlib
import datetime
import errno
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# a row's last size, and the one at which it is timed
ALL_ROWS = [(512, 64), (2 << 10, 1 << 10), (8 << 10, 8 << 10), (32 << 10, 32 << 10),
            (64 << 10, 64 << 10), (128 << 10, 128 << 10), (256 << 10, 256 << 10),
            (512 << 10, 512 << 10), (1 << 20, 1 << 20), (8 << 20, 4 << 20)]
BLOCKS = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 0]
THREADS = [32, 64, 96, 128, 192, 256, 384, 512]
FINALISTS = 4
PATIENCE = 120  # seconds for a table
PROGRESS = 10  # seconds between what is said on the way
FAILURES = 5  # in a row, and nothing more is tried in that memory


def ways_of(size, ranks, memory):
    """What is worth a try: the other ways are far off at that size."""
    ways = []
    if size <= (16 << 10 if memory == 'pinned' else 8 << 10):
        ways.append('flags')
    if size <= (1 << 20 if ranks == 2 else 256 << 10):
        ways.append('one-shot')
    if size >= 16 << 10:
        ways.append('two-shot')
    if memory == 'pinned' and size >= 64 << 10:
        ways.append('chunks')
    return ways


def packs_of(way, size, ranks):
    """What is spread over the threads."""
    packs = max(1, size // 16)
    if way == 'flags':
        return 2 * packs
    if way == 'two-shot':
        return packs * (ranks - 1) // ranks + 1
    if way == 'chunks' and ranks > 2:
        return packs // ranks + 1
    return packs


def is_sensible(candidate, size, ranks, memory):
    way, blocks, threads, _ = candidate
    have = (blocks or 132) * threads
    need = packs_of(way, size, ranks)
    if way == 'chunks' and threads % 64:
        return False
    least = need // 64 if memory == 'pinned' else need // 4
    if have < min(least, 132 * 384):
        return False
    return have <= max(2 * need, 128)


def pauses_of(size, ranks, memory):
    """Cycles until an answer can be there: a round trip, and the data's time."""
    if memory == 'peers':
        return [0, 0, 0, 400, 600, 700, 800, 900, 1000, 1200]
    data = size * (ranks - 1) // 25
    return [0, 200, 400, 600, 1000] + [400 + data * part // 4 for part in (1, 2, 3, 4)]


def draw(size, ranks, memory):
    while True:
        way = random.choice(ways_of(size, ranks, memory))
        pause = 0 if way == 'chunks' else random.choice(pauses_of(size, ranks, memory))
        candidate = (way, random.choice(BLOCKS), random.choice(THREADS), pause)
        if is_sensible(candidate, size, ranks, memory):
            return candidate


def near(candidate, size, ranks, memory):
    """One that differs in one thing."""
    for _ in range(100):
        way, blocks, threads, pause = candidate
        kind = random.randrange(3)
        if kind == 0:
            at = BLOCKS.index(blocks) + random.choice((-1, 1))
            blocks = BLOCKS[max(0, min(at, len(BLOCKS) - 1))]
        elif kind == 1:
            at = THREADS.index(threads) + random.choice((-1, 1))
            threads = THREADS[max(0, min(at, len(THREADS) - 1))]
        elif way != 'chunks':
            pause = max(0, pause + random.choice((-400, -200, -100, 100, 200, 400)))
        other = (way, blocks, threads, pause)
        if other != candidate and is_sensible(other, size, ranks, memory):
            return other
    return candidate


def table_of(rows, candidates):
    return ','.join(f'{last}:{way}:{blocks}x{threads}:{pause}'
                    for (last, _), (way, blocks, threads, pause)
                    in zip(rows, candidates))


def tell(text, stream=sys.stderr):
    """The error where that cannot be written: no reason to lose results."""
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        # the interpreter flushes it once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None


def beside(path):
    """Where a new file is until it takes the place of path; None for a device
    or a pipe, whose place it cannot take."""
    place = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(place):
        return None
    return f'{place}.{os.getpid()}'


def try_file(path):
    """Fails where write_file would; changes nothing, and leaves nothing."""
    if os.path.isdir(os.path.realpath(path)):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    new = beside(path)
    if new:
        with open(new, 'w', encoding='utf-8'):
            os.unlink(new)


def write_file(path, text):
    """A file is at every moment the old one or the new one, whole."""
    new = beside(path)
    try:
        with open(new or path, 'w', encoding='utf-8') as file:
            file.write(text + '\n')
        if new:
            if os.path.exists(path):
                shutil.copymode(path, new)
            os.replace(new, os.path.realpath(path))
    except OSError:
        if new:
            with contextlib.suppress(OSError):
                os.unlink(new)
        raise


def read_answer(line, count):
    """What has failed, None if nothing has, and the times; ValueError and the
    like for what is no answer."""
    answer = json.loads(line)
    if 'error' in answer:
        return str(answer['error']), []
    times = [(float(p50), float(p99)) for p50, p99 in answer['us']]
    if len(times) != count:
        raise ValueError
    return ('wrong results' if answer['wrong'] else None), times


class Sweep:
    def __init__(self, arguments):
        self.ranks = arguments.ranks
        self.program = arguments.program
        self.fine = True
        self.interrupted = False
        self.rows = [row for row in ALL_ROWS if row[1] <= arguments.most]
        # [memory][row][candidate]: the times
        self.seen = {memory: [{} for _ in self.rows] for memory in ('peers', 'pinned')
                     if arguments.memory in (None, memory)}
        self.failures = dict.fromkeys(self.seen, 0)  # in a row
        sizes = ','.join(str(size) for _, size in self.rows)
        try:
            self.process = subprocess.Popen(
                [self.program, str(self.ranks), sizes], text=True, errors='replace',
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            sys.exit(f'sweep_gpus: {self.program}: {error.strerror}; build it '
                     '(ninja -C build sweep_gpus), or name it by --program')
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # nohup's stays ignored
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self.interrupt)

    def interrupt(self, *_):
        """Ends run(); raises nothing, for it comes twice at times."""
        self.interrupted = True
        self.process.kill()

    def complain(self, text):
        tell(f'sweep_gpus: {text}')
        self.fine = False

    def ask(self, memory, candidates):
        """Times one table; False if there is no use in going on."""
        table = table_of(self.rows, candidates)
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(f'{memory} {table}\n')
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ''
        finally:
            timer.cancel()
        if not line.endswith('\n'):
            self.complain_of_end()
            return False
        try:
            error, times = read_answer(line, len(candidates))
        except (ValueError, TypeError, LookupError):
            self.complain(f'{self.program}: {line[:200]!r} is no answer')
            return False
        if error:
            self.complain(f'{memory} {table}: {error}')
            self.failures[memory] += 1
            if self.failures[memory] == FAILURES:
                self.complain(f'{memory}: {FAILURES} failures in a row: gave up')
            return True
        self.failures[memory] = 0
        for row, candidate, us in zip(self.seen[memory], candidates, times):
            row.setdefault(candidate, []).append(us)
        return True

    def complain_of_end(self):
        code = self.process.wait()
        if self.interrupted:
            self.complain('interrupted')
        elif code == 77:
            sys.exit(77)
        else:
            self.complain(f'{self.program} has ended, exit code {code}')

    def best(self, memory, row, count):
        """Candidates by their medians."""
        seen = self.seen[memory][row]
        return sorted(seen, key=lambda c: statistics.median(us for us, _ in seen[c]))[:count]

    def propose(self, memory, row, part):
        size = self.rows[row][1]
        best = self.best(memory, row, FINALISTS)
        if part < 0.45 or not best:
            return draw(size, self.ranks, memory)
        if part < 0.75:
            return near(random.choice(best), size, self.ranks, memory)
        # those of which least is known
        return min(best, key=lambda c: len(self.seen[memory][row][c]))

    def run(self, seconds):
        start = time.monotonic()
        tables = 0
        told = -PROGRESS
        while (part := (time.monotonic() - start) / seconds) < 1:
            left = [memory for memory in self.seen if self.failures[memory] < FAILURES]
            if not left:
                return
            for memory in left:
                candidates = [self.propose(memory, row, part) for row in range(len(self.rows))]
                if not self.ask(memory, candidates):
                    return
                tables += 1
            if part * seconds - told >= PROGRESS:
                told = part * seconds
                tell(f'# {tables} tables, {seconds - told:.0f} s left')
        tell(f'# {tables} tables')

    def end(self):
        self.process.kill()
        self.process.wait()

    def write(self, path):
        rows = [{'memory': memory, 'bytes': self.rows[row][1], 'way': c[0], 'blocks': c[1],
                 'threads': c[2], 'pause': c[3],
                 'p50_us': [us for us, _ in times], 'p99_us': [us for _, us in times]}
                for memory, table in self.seen.items()
                for row, seen in enumerate(table)
                for c, times in sorted(seen.items(), key=lambda item: min(item[1]))]
        if not rows:
            self.complain(f'{path}: not written, nothing was timed')
            return
        now = datetime.datetime.now(datetime.timezone.utc)
        text = '{"ranks": %d, "dtype": "bf16", "end_time": "%s",\n"rows": [\n' % \
            (self.ranks, now.strftime('%Y-%m-%dT%H:%M:%SZ'))
        try:
            write_file(path, text + ',\n'.join(map(json.dumps, rows)) + '\n]}')
        except OSError as error:
            self.complain(f'{path}: {error.strerror}')

    def show(self):
        lines = []
        for memory, table in self.seen.items():
            if not table or not all(table):
                continue
            for row, (_, size) in enumerate(self.rows):
                texts = []
                for c in self.best(memory, row, FINALISTS):
                    times = [us for us, _ in table[row][c]]
                    texts.append(f'{statistics.median(times):.2f} {c[0]} {c[1]}x{c[2]}:{c[3]}'
                                 f' ({len(times)})')
                lines.append(f'{memory} {size}: ' + '; '.join(texts))
            best = [self.best(memory, row, 1)[0] for row in range(len(self.rows))]
            lines.append(f'{memory}: ONEHOP_DEVICE_TABLE={table_of(self.rows, best)}')
        error = tell('\n'.join(lines), sys.stdout) if lines else None
        if error:
            self.complain(f'stdout: {error.strerror}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('file', metavar='FILE', help='where the JSON goes')
    parser.add_argument('--ranks', type=int, required=True, metavar='N')
    parser.add_argument('--seconds', type=float, default=300, help='for all of it (300)')
    parser.add_argument('--memory', choices=('peers', 'pinned'),
                        help='which mailboxes (both)')
    parser.add_argument('--most', type=int, default=4 << 20, metavar='BYTES',
                        help='the largest size (4 MB)')
    parser.add_argument('--seed', type=int, help='of what is drawn')
    parser.add_argument('--program', metavar='PATH',
                        default=os.path.join(ROOT, 'build', 'sweep_gpus'),
                        help='what times them (build/sweep_gpus)')
    arguments = parser.parse_args()
    if not 2 <= arguments.ranks <= 16:
        parser.error('--ranks takes 2 to 16')
    if not 0 < arguments.seconds < float('inf'):
        parser.error('--seconds takes more than 0')
    if arguments.most < ALL_ROWS[0][1]:
        parser.error(f'--most takes {ALL_ROWS[0][1]} or more')
    random.seed(arguments.seed)
    try:
        # before the time is spent
        try_file(arguments.file)
    except OSError as error:
        sys.exit(f'sweep_gpus: {arguments.file}: {error.strerror}')
    sweep = Sweep(arguments)
    sweep.run(arguments.seconds)
    sweep.end()
    sweep.write(arguments.file)
    sweep.show()
    return 0 if sweep.fine else 1


if __name__ == '__main__':
    sys.exit(main())
