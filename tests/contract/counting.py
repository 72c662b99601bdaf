#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scripts/check.py counts what TAP programs say, and what they fail to say."""
import contextlib
import importlib.util
import io
import json
import os
import sys
import tempfile

SOURCE = os.environ.get('SOURCE') or os.path.join(os.path.dirname(
    os.path.abspath(__file__)), '..', '..')
spec = importlib.util.spec_from_file_location(
    'check', os.path.join(SOURCE, 'scripts', 'check.py'))
check = importlib.util.module_from_spec(spec)
sys.modules['check'] = check
sys.dont_write_bytecode = True
spec.loader.exec_module(check)

# what it is, stdout, Meson's result, exit code, passed, failed, skipped
CASES = [
    ('all pass', 'ok 1 - a\nok 2 - b\n1..2\n', 'OK', 0, 2, 0, 0),
    ('the plan comes first', '1..1\nok 1\n', 'OK', 0, 1, 0, 0),
    ('one fails', 'ok 1 - a\nnot ok 2 - b\n1..2\n', 'FAIL', 1, 1, 1, 0),
    ('one fails, exit code 0', 'not ok 1 - b\n1..1\n', 'FAIL', 0, 0, 1, 0),
    ('one is skipped', 'ok 1 - a # SKIP no\nok 2\n1..2\n', 'OK', 0, 1, 0, 1),
    ('a # in a name', 'ok 1 - a #3 b\n1..1\n', 'OK', 0, 1, 0, 0),
    ('notes are not counted', '# not ok\nok 1\n1..1\n', 'OK', 0, 1, 0, 0),
    ('all is skipped', '1..0 # SKIP no\n', 'SKIP', 0, 0, 0, 1),
    ('skipped by exit code too', '1..0 # SKIP no\n', 'ERROR', 77, 0, 0, 1),
    ('an exit code of 77 is no plan', 'ok 1\n', 'ERROR', 77, 1, 1, 0),
    ('a crash', 'ok 1\nok 2\n', 'ERROR', -11, 2, 1, 0),
    ('a crash after a failure', 'not ok 1\n', 'ERROR', -6, 0, 2, 0),
    ('a crash after the plan', 'ok 1\n1..1\n', 'ERROR', -11, 1, 1, 0),
    ('a sanitizer\'s exit code', 'ok 1\n1..1\n', 'ERROR', 66, 1, 1, 0),
    ('out of time', 'ok 1\n', 'TIMEOUT', -15, 1, 1, 0),
    ('no plan', 'ok 1\n', 'OK', 0, 1, 1, 0),
    ('nothing at all', '', 'ERROR', 1, 0, 1, 0),
    ('fewer than planned', '1..3\nok 1\n', 'ERROR', 0, 1, 1, 0),
    ('more than planned', '1..1\nok 1\nok 2\n', 'ERROR', 0, 2, 1, 0),
    ('exit code 1 and no failure', 'ok 1\n1..1\n', 'ERROR', 1, 1, 1, 0),
    ('bails out', 'ok 1\nBail out! no\n', 'ERROR', 1, 1, 1, 0),
]

# what it is, passed, failed, skipped, with --gpu, exit code, the last line
VERDICTS = [
    ('nothing failed', (1, 0, 1), False, 0, '1 passed, 0 failed, 1 skipped'),
    ('one failed', (1, 1, 0), False, 1, '1 passed, 1 failed, 0 skipped'),
    ('all skipped is a failure', (0, 0, 3), False, 1,
     '0 passed, 1 failed, 3 skipped'),
    ('GPUs: nothing failed', (1, 0, 3), True, 0,
     '1 passed, 0 failed, 3 skipped'),
    ('GPUs: one failed', (0, 1, 3), True, 1, '0 passed, 1 failed, 3 skipped'),
    ('GPUs: all skipped', (0, 0, 3), True, 77, 'nothing was tested'),
    ('GPUs: no test at all', (0, 0, 0), True, 1,
     '0 passed, 1 failed, 0 skipped'),
]


def main():
    number = failed = 0

    def ok(good, text, note=''):
        nonlocal number, failed
        number += 1
        print(f'{"" if good else "not "}ok {number} - {text}')
        if not good:
            failed += 1
            print(f'# {note}')

    with tempfile.NamedTemporaryFile('w', suffix='.json') as log:
        for text, stdout, result, code, *expected in CASES:
            record = {'name': text, 'stdout': stdout, 'result': result,
                      'returncode': code}
            count = check.count_program(record)
            got = [count.passed, count.failed, count.skipped]
            ok(got == expected, text, f'{got}, expected {expected}')
            ok(bool(count.failures) == bool(expected[1]),
               f'{text}: shown if it failed', count.failures)
            log.write(json.dumps(record) + '\n')
        log.flush()
        total = check.count_log(log.name)
        sums = [sum(case[4 + i] for case in CASES) for i in range(3)]
        ok(str(total) == f'{sums[0]} passed, {sums[1]} failed, '
           f'{sums[2]} skipped', 'a log is summed', total)
    for text, counts, gpu, due, last in VERDICTS:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = check.conclude(check.Count(*counts), gpu)
        line = said.getvalue().splitlines()[-1]
        ok(code == due and line.startswith(last), text, f'{code}, {line}')
    print(f'1..{number}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
