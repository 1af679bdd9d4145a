// Builds the flame graph from stacks: equal frames under equal callers are merged into one node, and every node gets a position on the
// horizontal axis, whose length is the total weight. Typed arrays instead of objects: a busy machine has a hundred thousand nodes, laid out
// every few seconds. Children are sorted by name, so that a live graph changes widths but not order.

import type { Frame, Process, Profile, Scope } from './profile';
import { inScope } from './profile';

export interface Tree {
    count: number;
    frames: Frame[]; // frames of the profile, then frames of groups
    frame: Int32Array; // of each node; node 0 is the root
    parent: Int32Array; // -1 for the root
    depth: Int32Array;
    start: Float64Array; // offset from the left edge, in the profile's unit
    total: Float64Array;
    self: Float64Array;
    other: Float64Array | null; // in a comparison: total of the side not shown by the widths
    spread: Float64Array | null; // in a comparison: contribution to the variance of a change
    first: Int32Array; // first child, in order; -1: none
    next: Int32Array; // next sibling; -1: none
    order: Int32Array; // nodes sorted by depth, then from left to right
    rows: Int32Array; // start index of each depth in `order`, and the end
}

// A function may have several frames (one per source line of a BPF program); frames that look the same are merged.
function canonical(frames: Frame[]): Int32Array {
    const known = new Map<string, number>();
    return Int32Array.from(frames, (f, i) => {
        const key = `${f.kind}\0${f.mapping}\0${f.name}`;
        const same = known.get(key);
        if (same !== undefined) return same;
        known.set(key, i);
        return i;
    });
}

class Builder {
    frame: number[] = [];
    parent: number[] = [];
    depth: number[] = [];
    total: number[] = [];
    self: number[] = [];
    other: number[] = [];
    spread: number[] = [];
    private children = new Map<number, Map<number, number>>();

    node(parent: number, frame: number): number {
        let of = this.children.get(parent);
        if (!of) this.children.set(parent, (of = new Map()));
        const known = of.get(frame);
        if (known !== undefined) return known;
        const n = this.frame.length;
        of.set(frame, n);
        this.frame.push(frame);
        this.parent.push(parent);
        this.depth.push(parent < 0 ? 0 : this.depth[parent]! + 1);
        this.total.push(0);
        this.self.push(0);
        this.other.push(0);
        this.spread.push(0);
        return n;
    }
}

const group = (name: string, mapping = ''): Frame => ({ name, kind: 'group', mapping, file: '', line: 0, address: '' });

function rootName(profile: Profile, scope: Scope, processes: Process[]): string {
    if (scope.kind === 'process') return processes[0]?.title ?? `pid ${scope.pid}`;
    if (scope.kind === 'container') return `container ${scope.id.slice(0, 12)}`;
    return profile.processes.length === 1 ? profile.processes[0]!.title : 'all processes';
}

function addStacks(b: Builder, p: Process, under: number, same: Int32Array, side: Side): void {
    const [weights, others] = side === 'before' && p.before ? [p.before, p.weights] : [p.weights, p.before];
    p.stacks.forEach((stack, i) => {
        const weight = weights[i]!;
        const other = others?.[i] ?? 0;
        const spread = p.spread?.[i] ?? 0;
        const add = (node: number) => {
            b.total[node]! += weight;
            b.other[node]! += other;
            b.spread[node]! += spread;
        };
        let node = under;
        for (let up = under; up >= 0; up = b.parent[up]!) add(up);
        for (const frame of stack) add((node = b.node(node, same[frame]!)));
        b.self[node]! += weight;
    });
}

// The side of a comparison shown by the widths. Stacks that only the other side has are not visible.
export type Side = 'before' | 'after';

export function buildTree(profile: Profile, scope: Scope, side: Side = 'after'): Tree {
    const processes = profile.processes.filter((p) => inScope(p, scope));
    const frames = profile.frames.slice();
    const same = canonical(frames);
    frames.forEach((f, i) => {
        const one = same[i]!;
        if (frames[one]!.line !== f.line) frames[one] = { ...frames[one]!, line: 0 }; // merged from several lines: no line is shown
    });
    const b = new Builder();
    frames.push(group(rootName(profile, scope, processes)));
    b.node(-1, frames.length - 1);
    const commands = new Map<string, { frame: number; count: number }>();
    const flat = scope.kind === 'process' || profile.processes.length === 1;
    for (const p of processes) {
        let under = 0;
        if (!flat) {
            let known = commands.get(p.command);
            if (!known) {
                frames.push(group(p.command, p.executable));
                commands.set(p.command, (known = { frame: frames.length - 1, count: 0 }));
            }
            known.count++;
            under = b.node(0, known.frame);
        }
        addStacks(b, p, under, same, side);
    }
    for (const { frame, count } of commands.values()) if (count > 1) frames[frame]!.file = `${count} processes`;
    return layOut(b, frames, profile.compared !== null);
}

function layOut(b: Builder, frames: Frame[], compared: boolean): Tree {
    const count = b.frame.length;
    const tree: Tree = {
        count,
        frames,
        frame: Int32Array.from(b.frame),
        parent: Int32Array.from(b.parent),
        depth: Int32Array.from(b.depth),
        start: new Float64Array(count),
        total: Float64Array.from(b.total),
        self: Float64Array.from(b.self),
        other: compared ? Float64Array.from(b.other) : null,
        spread: compared ? Float64Array.from(b.spread) : null,
        first: new Int32Array(count).fill(-1),
        next: new Int32Array(count).fill(-1),
        order: new Int32Array(count),
        rows: new Int32Array(0),
    };
    // Ranks frames once, instead of comparing strings for every pair of siblings.
    const rank = new Int32Array(frames.length);
    frames
        .map((f, i) => [f.name, f.mapping, i] as const)
        .sort((x, y) => (x[0] < y[0] ? -1 : x[0] > y[0] ? 1 : x[1] < y[1] ? -1 : x[1] > y[1] ? 1 : x[2] - y[2]))
        .forEach(([, , i], r) => (rank[i] = r));
    // Inserting at the front, from the last name to the first, leaves the children sorted by name.
    const byName = Int32Array.from({ length: count }, (_, i) => i).sort((x, y) => rank[tree.frame[y]!]! - rank[tree.frame[x]!]!);
    for (const n of byName) {
        const parent = tree.parent[n]!;
        if (parent < 0) continue;
        tree.next[n] = tree.first[parent]!;
        tree.first[parent] = n;
    }
    place(tree);
    return tree;
}

function place(tree: Tree): void {
    const rows = [0];
    let filled = 1;
    for (let begin = 0, end = 1; begin < end; begin = end, end = filled) {
        rows.push(end);
        for (let i = begin; i < end; i++) {
            const n = tree.order[i]!;
            let at = tree.start[n]!;
            for (let c = tree.first[n]!; c >= 0; c = tree.next[c]!) {
                tree.start[c] = at;
                at += tree.total[c]!;
                tree.order[filled++] = c;
            }
        }
    }
    tree.rows = Int32Array.from(rows);
}

export const rowCount = (t: Tree): number => t.rows.length - 1;

// The path of names down to a node, which identifies the same position in the next graph.
export function pathOf(t: Tree, node: number): string[] {
    const path: string[] = [];
    for (let n = node; n > 0; n = t.parent[n]!) {
        const f = t.frames[t.frame[n]!]!;
        path.push(`${f.kind}\0${f.mapping}\0${f.name}`);
    }
    return path.reverse();
}

// The node at a path, or its deepest ancestor that still exists.
export function nodeAt(t: Tree, path: string[]): number {
    let node = 0;
    for (const key of path) {
        let c = t.first[node]!;
        for (; c >= 0; c = t.next[c]!) {
            const f = t.frames[t.frame[c]!]!;
            if (`${f.kind}\0${f.mapping}\0${f.name}` === key) break;
        }
        if (c < 0) break;
        node = c;
    }
    return node;
}

export interface Matches {
    frames: Uint8Array; // of Tree.frames: 1 where it matches
    weight: number; // sum of the topmost matching nodes below the root, so that no time is counted twice
    nodes: number;
}

// Parses a search expression: "/.../" is a regular expression, a quoted name matches exactly, other text is a substring.
export function matcher(words: string): (f: Frame) => boolean {
    const regex = /^\/(.+)\/$/.exec(words);
    if (regex) {
        const r = new RegExp(regex[1]!, 'i'); // throws on a syntax error, which the caller shows
        return (f) => r.test(f.name) || r.test(f.mapping) || r.test(f.file);
    }
    const name = /^"(.+)"$/.exec(words)?.[1];
    if (name) return (f) => f.name === name;
    const low = words.toLowerCase();
    return (f) => f.name.toLowerCase().includes(low) || f.mapping.toLowerCase().includes(low) || f.file.toLowerCase().includes(low);
}

export function search(t: Tree, words: string, root: number): Matches | null {
    if (!words) return null;
    const test = matcher(words);
    const frames = Uint8Array.from(t.frames, (f) => (test(f) ? 1 : 0));
    let weight = 0;
    let nodes = 0;
    const stack = [root];
    const counted = new Uint8Array(t.count); // 1: an ancestor matches
    while (stack.length) {
        const n = stack.pop()!;
        const hit = frames[t.frame[n]!] === 1;
        if (hit) {
            nodes++;
            if (!counted[n]) weight += t.total[n]!;
        }
        for (let c = t.first[n]!; c >= 0; c = t.next[c]!) {
            counted[c] = hit || counted[n] ? 1 : 0;
            stack.push(c);
        }
    }
    return { frames, weight, nodes };
}

export interface FunctionRow {
    frame: number;
    self: number;
    total: number;
    other: number; // of Tree.other
    spread: number; // of Tree.spread
}

// Time by function below `root`; recursion is counted once.
export function byFunction(t: Tree, root: number): FunctionRow[] {
    const rows = new Map<number, FunctionRow>();
    const open = new Int32Array(t.frames.length);
    const stack: number[] = [root];
    while (stack.length) {
        const n = stack.pop()!;
        if (n < 0) {
            open[t.frame[~n]!]!--;
            continue;
        }
        const frame = t.frame[n]!;
        let row = rows.get(frame);
        if (!row) rows.set(frame, (row = { frame, self: 0, total: 0, other: 0, spread: 0 }));
        row.self += t.self[n]!;
        if (open[frame]!++ === 0) {
            row.total += t.total[n]!;
            row.other += t.other?.[n] ?? 0;
            row.spread += t.spread?.[n] ?? 0;
        }
        stack.push(~n);
        for (let c = t.first[n]!; c >= 0; c = t.next[c]!) stack.push(c);
    }
    return [...rows.values()].filter((r) => t.frames[r.frame]!.kind !== 'group').sort((a, b) => b.self - a.self || b.total - a.total);
}
