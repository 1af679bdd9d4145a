import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { LOSS_HELP } from '../src/health';
import { PART_KINDS } from '../src/parts';
import { OWNERS } from '../src/path';

// Names and help texts of an X-macro list in src/model: X(ID, "name", "help").
function listOf(header: string): [string, string][] {
    const text = readFileSync(`../src/model/${header}`, 'utf8');
    return [...text.matchAll(/^ +X\(\w+, +"(\w+)",[ \\\n]+"([^"]*)"\)/gm)].map(([, name, help]) => [name!, help!]);
}

test('every loss reason has the same explanation as in the agent', () => {
    const reasons = listOf('loss.h');
    assert.ok(reasons.length > 10);
    assert.deepEqual(Object.entries(LOSS_HELP), reasons);
});

test('every kind of component has a colour and a help text', () => {
    const text = readFileSync('../src/model/request.h', 'utf8');
    const kinds = [...text.matchAll(/^ +X\(\w+, "(\w+)"\) +\/\* ([^*]+) \*\//gm)].map(([, name, help]) => [name!, help!]);
    assert.ok(kinds.length > 5);
    assert.deepEqual(PART_KINDS.map(([name, , help]) => [name, help]), kinds);
    const style = readFileSync('src/style.css', 'utf8');
    assert.deepEqual(kinds.map(([name]) => name).filter((name) => !style.includes(`.part-${name} { background: `)), []);
});

test('every owner of a segment has words', () => {
    const names = /names\[REQUEST_OWNER_COUNT\] = \{([^}]*)\}/.exec(readFileSync('../src/model/request.c', 'utf8'))![1]!;
    assert.deepEqual(Object.keys(OWNERS), names.split(', ').map((name) => JSON.parse(name)));
});
