import assert from 'node:assert/strict';
import test from 'node:test';
import { changeOfNode } from '../src/change';
import { decodeProfile } from '../src/profile';
import { buildTree, byFunction, nodeAt, pathOf, rowCount, search, type Tree } from '../src/tree';

type Stack = [frames: number[], weight: number];

function profile(processes: { pid: number; command: string; container?: string; stacks: Stack[] }[], names: string[]) {
    return decodeProfile({
        sonde: { duration_ns: 1e9 },
        shared: { frames: names.map((name) => ({ name, kind: 'native', mapping: '/usr/z' })) },
        profiles: processes.map((p) => ({
            name: `${p.command} (pid ${p.pid})`,
            samples: p.stacks.map(([frames]) => frames),
            weights: p.stacks.map(([, weight]) => weight),
            sonde: { counts: p.stacks.map(() => 1), resource: { 'process.pid': p.pid, 'process.command': p.command, ...(p.container ? { 'container.id': p.container } : {}) } },
        })),
    });
}

const names = ['main', 'b', 'a', 'a']; // frames 2 and 3 look the same to a reader
const two = profile(
    [
        { pid: 1, command: 'x', stacks: [[[0, 1], 30], [[0, 2], 10], [[0, 3], 5], [[0], 5]] },
        { pid: 2, command: 'y', container: 'c'.repeat(64), stacks: [[[0], 50]] },
        { pid: 3, command: 'x', stacks: [[[0, 1, 1], 20], [[], 7]] },
    ],
    names,
);

test('a function sampled at several lines is one frame without a line', () => {
    const frame = (name: string, line: number) => ({ name, kind: 'bpf', mapping: '[bpf]', file: 'a.bpf.c', line });
    const t = buildTree(
        decodeProfile({
            shared: { frames: [frame('walk', 3), frame('walk', 7), frame('step', 9), frame('step', 9)] },
            profiles: [{ samples: [[0, 2], [1, 3]], weights: [10, 20] }],
        }),
        { kind: 'node' },
    );
    assert.deepEqual([t.total[find(t, 'walk')], t.frames[t.frame[find(t, 'walk')]!]!.line], [30, 0]);
    assert.deepEqual([t.total[find(t, 'walk', 'step')], t.frames[t.frame[find(t, 'walk', 'step')]!]!.line], [30, 9]);
});

const find = (t: Tree, ...path: string[]): number => {
    let node = 0;
    for (const name of path) {
        let c = t.first[node]!;
        while (c >= 0 && t.frames[t.frame[c]!]!.name !== name) c = t.next[c]!;
        assert.ok(c >= 0, `no ${name} below ${path.join(' > ')}`);
        node = c;
    }
    return node;
};

test('equal frames under equal callers are merged, also across processes of one command', () => {
    const t = buildTree(two, { kind: 'node' });
    assert.equal(t.total[0], 127);
    assert.equal(t.total[find(t, 'x')], 77);
    assert.equal(t.self[find(t, 'x')], 7, 'a sample without frames is time of the process itself');
    assert.equal(t.frames[t.frame[find(t, 'x')]!]!.file, '2 processes');
    assert.equal(t.total[find(t, 'x', 'main')], 70);
    assert.equal(t.total[find(t, 'x', 'main', 'a')], 15, 'frames that look the same are one');
    assert.equal(t.total[find(t, 'x', 'main', 'b')], 50);
    assert.equal(t.self[find(t, 'x', 'main', 'b')], 30);
    assert.equal(t.self[find(t, 'x', 'main')], 5);
});

test('self times add up to the total, and children never exceed their caller', () => {
    const t = buildTree(two, { kind: 'node' });
    assert.equal(t.self.reduce((a, b) => a + b, 0), t.total[0]);
    for (let n = 0; n < t.count; n++) {
        let below = t.self[n]!;
        for (let c = t.first[n]!; c >= 0; c = t.next[c]!) below += t.total[c]!;
        assert.equal(below, t.total[n]);
    }
});

test('siblings are sorted by name, without gaps, within their caller', () => {
    const t = buildTree(two, { kind: 'node' });
    for (let n = 0; n < t.count; n++) {
        let at = t.start[n]!;
        let before = '';
        for (let c = t.first[n]!; c >= 0; c = t.next[c]!) {
            assert.equal(t.start[c], at);
            assert.equal(t.depth[c], t.depth[n]! + 1);
            assert.ok(before <= t.frames[t.frame[c]!]!.name);
            before = t.frames[t.frame[c]!]!.name;
            at += t.total[c]!;
        }
    }
});

test('rows list every frame once, each row from left to right', () => {
    const t = buildTree(two, { kind: 'node' });
    assert.equal(rowCount(t), 5);
    assert.deepEqual([...t.order].sort((a, b) => a - b), Array.from({ length: t.count }, (_, i) => i));
    for (let row = 0; row < rowCount(t); row++)
        for (let i = t.rows[row]!; i < t.rows[row + 1]!; i++) {
            assert.equal(t.depth[t.order[i]!], row);
            if (i > t.rows[row]!) assert.ok(t.start[t.order[i - 1]!]! < t.start[t.order[i]!]!);
        }
});

test('a process or a container is shown alone', () => {
    const one = buildTree(two, { kind: 'process', pid: 3 });
    assert.equal(one.total[0], 27);
    assert.equal(one.frames[one.frame[0]!]!.name, 'x (pid 3)');
    assert.equal(one.total[find(one, 'main', 'b', 'b')], 20);
    const container = buildTree(two, { kind: 'container', id: 'c'.repeat(64) });
    assert.equal(container.total[0], 50);
    const none = buildTree(two, { kind: 'process', pid: 99 });
    assert.equal(none.total[0], 0);
    assert.equal(none.count, 1);
});

test('search counts time once, and only below the zoomed frame', () => {
    const t = buildTree(two, { kind: 'node' });
    const b = search(t, 'B', 0)!;
    assert.equal(b.weight, 50, 'b below b is part of the outer b');
    assert.equal(b.nodes, 2);
    assert.equal(search(t, 'main', find(t, 'x'))!.weight, 70);
    assert.equal(search(t, '/^(a|y)$/', 0)!.weight, 65);
    assert.equal(search(t, 'no such', 0)!.weight, 0);
    assert.equal(search(t, '', 0), null);
    assert.throws(() => search(t, '/(/', 0));
});

test('by function: recursion counts once in total, wholly in self', () => {
    const t = buildTree(two, { kind: 'process', pid: 3 });
    const b = byFunction(t, 0).find((r) => t.frames[r.frame]!.name === 'b')!;
    assert.deepEqual([b.self, b.total], [20, 20]);
    const all = byFunction(buildTree(two, { kind: 'node' }), 0);
    assert.equal(all.reduce((a, r) => a + r.self, 0), 120, 'all but the sample without frames');
});

test('a path leads to the same node in the next profile, or to its deepest ancestor', () => {
    const t = buildTree(two, { kind: 'node' });
    const path = pathOf(t, find(t, 'x', 'main', 'b', 'b'));
    assert.equal(nodeAt(t, path), find(t, 'x', 'main', 'b', 'b'));
    const less = buildTree(profile([{ pid: 1, command: 'x', stacks: [[[0, 1], 1]] }, { pid: 2, command: 'y', stacks: [[[0], 1]] }], names), { kind: 'node' });
    assert.equal(nodeAt(less, path), find(less, 'x', 'main', 'b'));
});

test('twenty thousand frames deep and wide', () => {
    const many = Array.from({ length: 1000 }, (_, i) => `f${i}`);
    const stacks: Stack[] = Array.from({ length: 40 }, (_, i) => [Array.from({ length: 512 }, (_unused, d) => (d * 7 + i) % 1000), 1]);
    const t = buildTree(profile([{ pid: 1, command: 'x', stacks }], many), { kind: 'node' });
    assert.equal(t.count, 1 + 40 * 512);
    assert.equal(rowCount(t), 513);
    assert.equal(t.total[0], 40);
});

test('comparison: widths of one side, with the values of the other', () => {
    const p = decodeProfile({
        sonde: { compared: { before: { samples: 100, duration_ns: 1e9 }, after: { samples: 1000, duration_ns: 10e9 } } },
        shared: { frames: names.map((name) => ({ name })) },
        profiles: [{ name: 'x', samples: [[0, 1], [0, 2], [0]], weights: [800, 0, 200], sonde: { before: [100, 600, 300], spread: [3, 4, 5] } }],
    });
    const after = buildTree(p, { kind: 'node' });
    assert.deepEqual([after.total[0], after.other![0]], [1000, 1000]);
    assert.deepEqual([after.total[find(after, 'main', 'b')], after.other![find(after, 'main', 'b')]], [800, 100]);
    assert.deepEqual(changeOfNode(after, find(after, 'main', 'a'), 'after', p.compared).before, 0.6);
    assert.deepEqual([after.spread![0], after.spread![find(after, 'main', 'a')]], [12, 4]);
    const before = buildTree(p, { kind: 'node' }, 'before');
    assert.deepEqual([before.total[find(before, 'main', 'a')], before.other![find(before, 'main', 'a')]], [600, 0]);
    assert.deepEqual(changeOfNode(before, find(before, 'main', 'a'), 'before', p.compared).after, 0);
    assert.deepEqual(byFunction(before, 0).find((r) => before.frames[r.frame]!.name === 'main'), { frame: 0, self: 300, total: 1000, other: 1000, spread: 12 });
    assert.equal(buildTree(two, { kind: 'node' }).other, null);
});
