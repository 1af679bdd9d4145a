// Unit tests of what the page of all nodes makes of answers of the JSON API.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeAnswer, momentOf, pathOf, profileOf } from '../src/centre';

test('paths have the parameters that are set, escaped', () => {
    assert.equal(pathOf('hosts', { host: '' }), '/api/v1/hosts');
    assert.equal(pathOf('requests', { last: '1h', service: 'a&b', route: '' }), '/api/v1/requests?last=1h&service=a%26b');
});

test('moments are shown to the millisecond', () => {
    assert.equal(momentOf('2026-11-30T18:28:18.570126972Z'), '2026-11-30 18:28:18.570');
    assert.equal(momentOf('2026-11-30T18:28:18Z'), '2026-11-30 18:28:18');
    assert.equal(momentOf(null), '');
});

test('an answer has lists of objects, whatever it consists of', () => {
    assert.deepEqual(decodeAnswer({ version: 1, hosts: [{ host: 'a' }, 7], empty: 3, truncated: 'x' }), { lists: { hosts: [{ host: 'a' }, {}] }, empty: '', truncated: false });
    assert.deepEqual(decodeAnswer(null), { lists: {}, empty: '', truncated: false });
});

test('stacks become a profile whose frames are shared', () => {
    const profile = profileOf([{ stack: ['main', 'work', '[lock: futex]'], ms: 2 }, { stack: ['main'], ms: 1 }, { stack: ['[other stacks]'], ms: 0.5 }], 'off_cpu', 'shop');
    assert.deepEqual(profile.frames.map((f) => `${f.kind} ${f.name}`), ['native main', 'native work', 'wait [lock: futex]', 'truncated [other stacks]']);
    assert.deepEqual(profile.processes[0]!.stacks.map((s) => [...s]), [[0, 1, 2], [0], [3]]);
    assert.equal(profile.weight, 3.5e6);
    assert.deepEqual(profileOf([], 'cpu', 'shop').processes, []);
});
