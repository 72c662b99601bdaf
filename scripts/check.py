#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the matrix, runs the tests and counts them.

Each row of the matrix is a build directory with the suites that make sense
in it. What counts is each check of each TAP program. A program that crashes,
runs out of time, or prints no plan counts as one failure more. The last line
of stdout is "N passed, N failed, N skipped"; the output of what failed stands
before it. Exit code: 0 if nothing failed, else 1; 2 for usage. With --gpu and
--gpu-long 77, and one line more, if all is skipped: nothing was tested. Where
there is no GPU nothing is built for them.
"""
import argparse
import dataclasses
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# kernels are built once, by the first row; at -O2 checks are left out as far as
# the code is, and gcc takes half as long again
SANITIZER = ['-Dbuildtype=debugoptimized', '-Doptimization=1',
             '-Db_ndebug=false', '-Db_lundef=false', '-Dman=disabled',
             '-Dkernels=disabled']

QUICK = {'ONEHOP_TEST_QUICK': '1'}  # less work, for what is slow
CPUS = len(os.sched_getaffinity(0))


@dataclasses.dataclass
class Build:
    """A row of the matrix."""
    directory: str
    what: str
    suites: list
    options: list = dataclasses.field(default_factory=list)
    cc: str = ''
    probe: str = ''   # a flag that the compiler must be able to run
    tools: tuple = ()  # programs without which the row is left out
    gpus: bool = False  # and GPUs
    environment: dict = dataclasses.field(default_factory=dict)
    wrap: str = ''
    slower: int = 1   # times that a test may take longer
    after: list = dataclasses.field(default_factory=list)


CHECK = [
    Build('build', 'release', ['base', 'contract', 'command', 'cpu', 'doctor',
                               'kernels', 'model', 'peers']),
    Build('build-clang', 'clang, release', ['base', 'command', 'cpu', 'doctor',
                                            'fuzz'],
          ['-Dman=disabled', '-Dkernels=disabled'], cc='clang',
          environment=QUICK),
    Build('build-asan', 'AddressSanitizer and UndefinedBehaviorSanitizer',
          ['base', 'command', 'cpu', 'doctor'],
          SANITIZER + ['-Db_sanitize=address,undefined',
                       '-Dc_args=-fno-sanitize-recover=all'],
          cc='gcc', probe='-fsanitize=address,undefined',
          environment={'UBSAN_OPTIONS': 'print_stacktrace=1', **QUICK}, slower=3),
    Build('build-tsan', 'ThreadSanitizer', ['base', 'cpu'],
          SANITIZER + ['-Db_sanitize=thread', '-Dcommand=disabled'],
          cc='clang', probe='-fsanitize=thread',
          environment={'TSAN_OPTIONS': 'halt_on_error=1', **QUICK}, slower=5),
]

GPU = [
    Build('build', 'release, GPUs', ['gpu'], gpus=True),
]

GPU_LONG = [
    Build('build', 'release, GPUs, long tests', ['gpu', 'gpu-long'], gpus=True),
]

LONGER = [
    Build('build', 'release, long tests', ['long']),
    Build('build-msan', 'MemorySanitizer', ['base', 'cpu'],
          SANITIZER + ['-Db_sanitize=memory', '-Dcommand=disabled',
                       '-Dc_args=-fsanitize-ignorelist=' +
                       os.path.join(ROOT, 'scripts', 'msan-ignore.txt')],
          cc='clang', probe='-fsanitize=memory', environment=QUICK,
          slower=4),
    Build('build-valgrind', 'valgrind', ['base', 'cpu'],
          ['-Dbuildtype=debugoptimized', '-Dman=disabled', '-Dkernels=disabled'],
          tools=('valgrind',), environment=QUICK, slower=20,
          wrap='valgrind -q --error-exitcode=99 --leak-check=full'),
    Build('build-aarch64', 'aarch64 under qemu-user', ['aarch64'],
          ['--cross-file', 'scripts/aarch64.ini', '-Dcommand=disabled',
           '-Dman=disabled', '-Dkernels=disabled'],
          tools=('aarch64-linux-gnu-gcc', 'qemu-aarch64'),
          environment=QUICK, slower=10),
    Build('build-coverage', 'coverage', ['base', 'command', 'cpu'],
          ['-Dbuildtype=debug', '-Db_ndebug=false', '-Db_coverage=true',
           '-Dc_args=-fprofile-update=atomic', '-Dman=disabled',
           '-Dkernels=disabled'],
          tools=('gcov',), environment=QUICK, slower=2,
          after=['scripts/coverage.py', 'build-coverage']),
]


@dataclasses.dataclass
class Count:
    """What has been seen so far."""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list = dataclasses.field(default_factory=list)
    reasons: list = dataclasses.field(default_factory=list)  # of programs

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        self.reasons += other.reasons

    def fail(self, title, output=''):
        self.failed += 1
        self.failures.append((title, output))

    def __str__(self):
        return (f'{self.passed} passed, {self.failed} failed, '
                f'{self.skipped} skipped')


TAP_CHECK = re.compile(r'(not )?ok\b[^#]*(?:#\s*(\w+))?')
TAP_PLAN = re.compile(r'1\.\.(\d+)\s*(?:#\s*(skip)\b)?', re.IGNORECASE)
TAP_REASON = re.compile(r'^1\.\.0\s*#\s*skip\S*\s*(.*)',
                        re.IGNORECASE | re.MULTILINE)


def count_tap(text):
    """The checks of one program: passed, failed, skipped and its plan."""
    passed = failed = skipped = 0
    plan = None
    for line in text.splitlines():
        check = TAP_CHECK.match(line)
        if check:
            word = (check[2] or '').lower()
            if word.startswith('skip') or word == 'todo':
                skipped += 1
            elif check[1]:
                failed += 1
            else:
                passed += 1
            continue
        found = TAP_PLAN.match(line)
        if found:
            plan = int(found[1])
            if plan == 0:
                skipped += 1
    return passed, failed, skipped, plan


def count_program(record, build=''):
    """One record of Meson's testlog.json."""
    output = record.get('stdout') or ''
    errors = record.get('stderr') or ''
    passed, failed, skipped, plan = count_tap(output)
    count = Count(passed, failed, skipped)
    title = f'{build}: {record["name"]}'
    said = output + ('\n--- stderr\n' + errors if errors else '')
    reason = TAP_REASON.search(output)
    if reason:
        count.reasons.append(f'{title}: {reason[1]}')
    checks = passed + failed + (skipped if plan else 0)
    if record['result'] == 'TIMEOUT':
        count.fail(f'{title}: out of time', said)
    elif record['returncode'] == 77 and plan == 0:
        pass  # some skip by their exit code too
    elif record['returncode'] not in (0, 1):
        count.fail(f'{title}: ended with {record["returncode"]}', said)
    elif plan is None:
        count.fail(f'{title}: printed no plan', said)
    elif plan and plan != checks:
        count.fail(f'{title}: planned {plan} checks, made {checks}', said)
    elif record['returncode'] and not failed:
        count.fail(f'{title}: exit code 1 without a failed check', said)
    elif failed:
        count.failures.append((f'{title}: {failed} failed', said))
    return count


def count_log(path, build=''):
    """All records of a testlog.json."""
    total = Count()
    with open(path, encoding='utf-8', errors='replace') as log:
        for line in log:
            total.add(count_program(json.loads(line), build))
    return total


def say(text):
    print(text, flush=True)


def run(command, environment=None):
    """Runs a command quietly; its exit code and its output."""
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True,
                          errors='replace', stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    return done.returncode, done.stdout


def can_run(cc, flag):
    """None, or why a program built with this flag does not run here; the
    wrapper that it needs comes second."""
    with tempfile.TemporaryDirectory() as place:
        source = os.path.join(place, 'probe.c')
        program = os.path.join(place, 'probe')
        with open(source, 'w', encoding='utf-8') as file:
            file.write('int main(void) { return 0; }\n')
        code, output = run([cc, flag, '-o', program, source])
        if code:
            return f'{cc} {flag} does not link: {output.strip()}', ''
        # sanitizers may need address randomization off
        for wrap in ([], ['setarch', '-R']):
            code, output = run(wrap + [program])
            if not code:
                return None, ' '.join(wrap)
        return f'a program built with {cc} {flag} does not run', ''


def missing(build):
    """Why a row cannot be built here, or None."""
    for tool in build.tools + ((build.cc,) if build.cc else ()):
        if not shutil.which(tool):
            return f'{tool} is not installed'
    if build.gpus:
        # where it cannot know, tests find out
        code, output = run([os.path.join(ROOT, 'scripts', 'count_gpus.py')])
        if code == 77:
            return output.strip()
    if build.probe:
        reason, wrap = can_run(build.cc, build.probe)
        build.wrap = build.wrap or wrap
        return reason
    return None


def configure(build, environment):
    """meson setup, anew if the options are others than last time."""
    options = ['-Dtests=enabled'] + build.options
    # gcc warns of what is not so where a sanitizer has changed the code
    strict = os.environ.get('CI') == 'true' and not build.probe
    options.append(f'-Dwerror={str(strict).lower()}')
    wanted = json.dumps([build.cc, options])
    directory = os.path.join(ROOT, build.directory)
    stamp = os.path.join(directory, '.check-options')
    command = ['meson', 'setup', build.directory] + options
    if os.path.exists(os.path.join(directory, 'build.ninja')):
        if os.path.exists(stamp):
            with open(stamp, encoding='utf-8') as file:
                if file.read() == wanted:
                    return 0, ''
        command.insert(2, '--wipe' if build.cc else '--reconfigure')
    elif os.path.isdir(directory):
        shutil.rmtree(directory)  # a setup that failed
    code, output = run(command, environment)
    if not code:
        with open(stamp, 'w', encoding='utf-8') as file:
            file.write(wanted)
    return code, output


def introspect(build, what):
    path = os.path.join(ROOT, build.directory, 'meson-info',
                        f'intro-{what}.json')
    with open(path, encoding='utf-8') as file:
        return json.load(file)


def targets_of(build, suites):
    """What is built by default, and what tests of these suites need; not all
    that Meson's "all" has, which is the kernels with faults too."""
    needed = {target for test in introspect(build, 'tests')
              for target in test['depends']
              if {suite.split(':')[-1] for suite in test['suite']} & set(suites)}
    directory = os.path.join(ROOT, build.directory)
    return sorted({os.path.relpath(file, directory)
                   for target in introspect(build, 'targets')
                   if target['build_by_default'] or target['id'] in needed
                   for file in target['filename']})


def compile_for(build, environment, suites):
    ninja = ['ninja', '-C', build.directory, '-j', str(CPUS)]
    # first what the targets are
    code, output = run(ninja + ['build.ninja'], environment)
    if not code:
        code, output = run(ninja + targets_of(build, suites), environment)
    return code, output


def run_tests(build, environment, suites):
    for counts in glob.glob(os.path.join(ROOT, build.directory, '**',
                                         '*.gcda'), recursive=True):
        os.unlink(counts)
    # with a wrapper its name comes into the log's
    pattern = os.path.join(ROOT, build.directory, 'meson-logs',
                           'testlog*.json')
    for log in glob.glob(pattern):
        os.unlink(log)
    # some wait, while others have all processors
    command = ['meson', 'test', '-C', build.directory, '--no-rebuild',
               '--num-processes', str(CPUS + 1),
               '--timeout-multiplier', str(build.slower)]
    for suite in suites:
        command += ['--suite', suite]
    if build.wrap:
        command += ['--wrap', build.wrap]
    subprocess.run(command, cwd=ROOT, env=environment, check=False,
                   stdin=subprocess.DEVNULL)
    count = Count()
    for log in glob.glob(pattern):
        count.add(count_log(log, build.directory))
    return count


def check(build, suites):
    """One row: its count."""
    count = Count()
    say(f'== {build.directory}: {build.what}')
    reason = missing(build)
    if reason:
        say(f'skipped: {reason}')
        count.skipped += 1
        return count
    environment = dict(os.environ, **build.environment)
    if build.cc:
        environment['CC'] = build.cc
    code, output = configure(build, environment)
    if not code:
        code, output = compile_for(build, environment, suites)
    if code:
        count.fail(f'{build.directory}: does not build', output)
        return count
    count.add(run_tests(build, environment, suites))
    if build.after and not count.failed:
        say(run(build.after)[1])
    return count


def shorten(output):
    """A failure's output without the checks that passed, at most 200 lines;
    the last passed one stays, it tells where a crash was."""
    lines = output.splitlines()
    passed = [i for i, line in enumerate(lines) if line.startswith('ok ')]
    lines = [line for i, line in enumerate(lines)
             if i not in passed or i == passed[-1]]
    if len(lines) > 200:
        lines[100:-100] = [f'({len(lines) - 200} lines are left out)']
    return '\n'.join(lines)


def report(total):
    for reason in total.reasons:
        say(f'skipped {reason}')
    for title, output in total.failures:
        say(f'\n== FAILED {title}')
        say(shorten(output))
    say(f'\n{total}')


def conclude(total, gpu):
    """Reports; the exit code."""
    tested = total.passed or total.failed
    # where there is no GPU, all of its tests say so
    absent = gpu and not tested and total.skipped
    if not tested and not absent:
        total.fail('no test was run')
    report(total)
    if absent:
        say('nothing was tested: every test was skipped, for the reasons above')
        return 77
    return 1 if total.failed else 0


def chosen(arguments):
    """The rows to be run. A directory named alone is its first row."""
    if arguments.gpu or arguments.gpu_long:
        return GPU_LONG if arguments.gpu_long else GPU
    rows = CHECK + (LONGER if arguments.all else [])
    if not arguments.build:
        return rows
    rows = {}
    for build in CHECK + LONGER:
        if build.directory in arguments.build:
            rows.setdefault(build.directory, build)
    return list(rows.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--all', action='store_true',
                        help='the longer part of the matrix too')
    parser.add_argument('--gpu', action='store_true',
                        help='what needs GPUs, and nothing else')
    parser.add_argument('--gpu-long', action='store_true',
                        help='the same, and the longer part of it')
    parser.add_argument('--build', action='append', metavar='DIRECTORY',
                        help='only these build directories')
    parser.add_argument('--suite', action='append',
                        help='only these suites')
    arguments = parser.parse_args()
    total = Count()
    for build in chosen(arguments):
        suites = [suite for suite in build.suites
                  if not arguments.suite or suite in arguments.suite]
        if suites:
            total.add(check(build, suites))
    return conclude(total, arguments.gpu or arguments.gpu_long)


if __name__ == '__main__':
    sys.exit(main())
