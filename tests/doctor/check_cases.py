#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Machines and logs from public reports, and the answers due.

Each directory of tests/cases and tests/reports holds what a person pasted and
an expect.json. `onehop doctor --json` is run on the files, and every key of
the expectation that the JSON has is compared: figures to 0.1 % (they are
rounded in the expectation), lists and words exactly, findings as those that
must be there. Keys that are sentences are for the reader. With an argument
only directories whose name contains it are tried.
"""
import glob
import json
import math
import os
import subprocess
import sys

SOURCE = os.environ['SOURCE']
ONEHOP = os.path.join(os.environ['BUILD'], 'onehop')
TOLERANCE = 1e-3

# sentences for the reader
PROSE = {
    'source', 'observed', 'meaning_of_findings', 'why_useful', 'note', 'why',
    'do_not_say', 'acceptable', 'check', 'exact', 'published', 'quant',
    'head_dim_basis', 'truncated', 'visible_links', 'glued', 'nic_rows',
    'refuse', 'advice', 'fault', 'p2p', 'version_note', 'ranks', 'slowest',
    'nccl_version', 'version', 'path', 'inference', 'symm_mem',
    'backend_list', 'fixture', 'ttft_count_is_not_requests', 'sockets',
    'nic_closest_gpu', 'nics', 'nics_near_gpus', 'nic_rows_are_not_gpus',
    'cpu_affinity', 'numa_affinity', 'gpus_in_header', 'gpus_seen',
    'weight_bytes', 'head_dim', 'parameters_active_accepted', 'tp', 'given',
}

# what is tried with data
PROBED = {'peer_never_examined', 'iommu_translated',
          'custom_enabled_on_pcie_pair'}

count = failures = 0


def ok(fine, text, *notes):
    global count, failures
    count += 1
    print('%sok %d - %s' % ('' if fine else 'not ', count, text))
    if not fine:
        failures += 1
        for note in notes:
            print('# ' + str(note)[:2000].replace('\n', '\n# '))


def doctor(files, options):
    done = subprocess.run([ONEHOP, 'doctor', '--json', *options, *files],
                          capture_output=True, text=True, timeout=60)
    answer = None
    if done.returncode in (0, 1):
        answer = json.loads(done.stdout)
    return done.returncode, answer, done.stderr


def same(got, due):
    if isinstance(due, bool) or due is None or isinstance(due, str):
        return got == due
    if isinstance(due, (int, float)):
        return (isinstance(got, (int, float)) and not isinstance(got, bool)
                and math.isclose(got, due, rel_tol=TOLERANCE))
    if isinstance(due, list):
        return (isinstance(got, list) and len(got) == len(due) and
                all(same(g, d) for g, d in zip(got, due)))
    return (isinstance(got, dict) and
            all(same(got.get(key), value) for key, value in due.items()))


def compare(name, what, got, due):
    ok(same(got, due), '%s: %s' % (name, what), 'got %r' % (got,),
       'due %r' % (due,))


def find_gate(answer, engine, feature):
    for gate in answer['gates']:
        if gate['engine'] == engine and gate['feature'] == feature:
            return gate
    return {}


def compare_vllm(name, what, answer, due):
    gate = find_gate(answer, 'vllm', 'custom_all_reduce')
    words = {key: due[key] for key in ('verdict', 'rule') if key in due}
    compare(name, what, {key: gate.get(key) for key in words}, words)
    if 'needs' in due:
        unknown = [step for step in gate['chain']
                   if step['answer'] == 'unknown']
        ok(unknown and gate['if_yes'] and gate['if_no'],
           '%s: %s, says on what and both outcomes' % (name, what), gate)


def compare_budget(name, budget, due):
    accepted = due.get('parameters_active_accepted', [])
    for key, value in due.items():
        if key == 'parameters_active' and accepted:
            ok(any(same(budget.get(key), a) for a in [value, *accepted]),
               '%s: budget.%s' % (name, key), budget.get(key), value)
        elif key == 'not_bound_by':
            ok(set(value) <= set(budget[key]), '%s: budget.%s' % (name, key),
               budget[key])
        elif key not in PROSE:
            compare(name, 'budget.' + key, budget.get(key), value)


def compare_findings(name, answer, due):
    got = [finding['id'] for finding in answer['findings']]
    ok(set(due) <= set(got), '%s: findings' % name, got, due)
    ok(all(f['title'] and f['evidence'] and (f['remedy'] or
                                             f['severity'] == 'info')
           for f in answer['findings']),
       '%s: each finding says what, by what evidence, and what to do' % name,
       answer['findings'])
    for finding in answer['findings']:
        if finding['id'] in PROBED:
            ok('onehop probe' in finding['remedy'],
               '%s: %s names the probe' % (name, finding['id']), finding)


def compare_links(name, machine, due):
    for pair, kind in due.items():
        if pair == 'all GPU pairs':
            cells = [cell for i, row in enumerate(machine['links'])
                     for k, cell in enumerate(row) if i != k]
            ok(set(cells) == {kind}, '%s: links' % name, cells)
            continue
        a, b = map(int, pair.split('-'))
        compare(name, 'link ' + pair, machine['links'][a][b], kind)


# facts of a report that stand elsewhere in the JSON
def compare_fact(name, answer, key, due):
    machine, log = answer['machine'], answer['log']
    if key == 'gpus':
        compare(name, key, len(machine['gpus']), due)
    elif key == 'links':
        compare_links(name, machine, due)
    elif key == 'nvlinks_per_pair':
        compare_links(name, machine,
                      {pair: 'NV%d' % n for pair, n in due.items()})
    elif key == 'numa':
        for node, gpus in due.items():
            compare(name, 'numa ' + node,
                    [g['index'] for g in machine['gpus']
                     if g['numa_node'] == int(node)], gpus)
    elif key == 'gpu_model':
        compare(name, key, {g['name'] for g in machine['gpus']} == {due}, True)
    elif key == 'mixed_models':
        compare_findings(name, answer, ['mixed_models'])
    elif key == 'p2p_status':
        for pair, status in due.items():
            a, b = map(int, pair.split('-'))
            compare(name, 'peer read ' + pair,
                    machine['peer']['read'][a][b], status)
    elif key in ('islands', 'switch_groups', 'driver_says_peer'):
        compare(name, key, machine.get(key), due)
    elif key == 'driver':
        compare(name, key, machine['host']['driver'], due)
    elif key == 'vllm_version':
        compare(name, key, machine['host']['vllm'], due)
    elif key == 'vllm':
        compare_vllm(name, key, answer, due)
    elif key == 'nccl_default_transport':
        compare(name, key,
                find_gate(answer, 'nccl', 'transport').get('transport'), due)
    elif key == 'log':
        for fact, value in due.items():
            compare(name, 'log.' + fact, log.get(fact), value)
    elif key == 'budget':
        compare_budget(name, answer['budget'], due)
    elif key == 'findings':
        compare_findings(name, answer, due)
    elif key == 'metrics':
        compare(name, key, answer['metrics'], due)
    elif key in ('backends', 'pairs', 'disabled_warnings', 'visible_devices',
                 'p2p_cache', 'v2'):
        compare(name, 'log.' + key, log.get(key), due)
    elif answer['metrics'] and key in answer['metrics']:
        compare(name, 'metrics.' + key, answer['metrics'][key], due)
    else:
        return False
    return True


def check_facts(name, answer, facts, files):
    log_ranks = isinstance(facts.get('ranks'), int)
    if log_ranks:
        compare(name, 'log.ranks', answer['log']['ranks'], facts['ranks'])
    for key, due in facts.items():
        if key.startswith('vllm_tp'):
            words = key[len('vllm_tp'):].split('_on_')
            options = ['--tp', words[0]]
            if len(words) > 1:
                options += ['--visible-devices', ','.join(words[1])]
            _, other, _ = doctor(files, options)
            compare_vllm(name, key, other, due)
        elif key in PROSE or compare_fact(name, answer, key, due):
            pass
        else:
            ok(False, '%s: the key %s is compared' % (name, key), due)


def given_options(expect):
    options = []
    if expect.get('tp'):
        options += ['--tp', str(expect['tp'])]
    for key, value in expect.get('given', {}).items():
        flag = key.replace('active_bytes_per_token', 'active_bytes')
        options += ['--' + flag.replace('_', '-'), '%.17g' % value]
    return options


def check_directory(directory):
    name = os.path.basename(directory)
    with open(os.path.join(directory, 'expect.json'),
              encoding='utf-8') as file:
        expect = json.load(file)
    files = sorted(f for f in glob.glob(os.path.join(directory, '*'))
                   if not f.endswith('expect.json'))
    facts = {**{k: v for k, v in expect.items()
                if k not in ('kind', 'facts')}, **expect.get('facts', {})}
    code, answer, complaint = doctor(files, given_options(expect))
    if facts.get('error'):
        ok(code == 2 and complaint.startswith('onehop doctor: '),
           '%s: is refused with a reason' % name, code, complaint, answer)
        return
    ok(answer is not None, '%s: is answered' % name, code, complaint)
    if answer is None:
        return
    ok((code == 1) == any(f['severity'] != 'info'
                          for f in answer['findings']),
       '%s: exit code %d tells whether something was found' % (name, code))
    ok(answer['schema_version'] == 1, '%s: schema_version' % name)
    if 'kind' in expect:
        ok(expect['kind'] in [i['kind'] for i in answer['inputs']],
           '%s: taken for %s' % (name, expect['kind']), answer['inputs'])
    check_facts(name, answer, facts, files)


def main():
    for kind in ('cases', 'reports'):
        for directory in sorted(glob.glob(os.path.join(SOURCE, 'tests', kind,
                                                       '*'))):
            if len(sys.argv) < 2 or sys.argv[1] in directory:
                check_directory(directory)
    print('1..%d' % count)
    return 1 if failures else 0


sys.exit(main())
