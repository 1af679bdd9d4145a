// What became of a part of the whole, in a comparison of two profiles: by how much, and whether the number of samples can tell it.

import type { Profile } from './profile';
import type { Side, Tree } from './tree';

export interface Change {
    before: number; // shares, 0 to 1
    after: number;
    noise: number; // what the number of samples alone may make of the difference: three standard deviations; 0: not known
    told: boolean;
}

export function changeOf(before: number, after: number, compared: Profile['compared']): Change {
    const n = compared?.before.samples ?? 0;
    const m = compared?.after.samples ?? 0;
    let noise = 0;
    if (n > 0 && m > 0) {
        const p = Math.min(1, (before * n + after * m) / (n + m));
        noise = 3 * Math.sqrt(p * (1 - p) * (1 / n + 1 / m));
    }
    return { before, after, noise, told: Math.abs(after - before) > noise };
}

// Both sides have the same sum: that of the widths.
export function changeOfParts(total: number, other: number, tree: Tree, side: Side, compared: Profile['compared']): Change {
    const all = Math.max(tree.total[0]!, tree.other?.[0] ?? 0, 1);
    return side === 'after' ? changeOf(other / all, total / all, compared) : changeOf(total / all, other / all, compared);
}

export const changeOfNode = (tree: Tree, node: number, side: Side, compared: Profile['compared']): Change =>
    changeOfParts(tree.total[node]!, tree.other?.[node] ?? 0, tree, side, compared);

// Red became more, blue less; the paler, the smaller a part of it that is. No colour: the samples cannot tell.
export function changeColor(c: Change, dark: boolean): string {
    const part = (c.after - c.before) / Math.max(c.after, c.before, 1e-12); // -1 to 1
    if (!c.told || part === 0) return dark ? 'hsl(40 4% 27%)' : 'hsl(40 12% 88%)';
    const strength = Math.sqrt(Math.abs(part));
    const hue = part > 0 ? 8 : 212;
    return dark ? `hsl(${hue} ${(20 + 45 * strength).toFixed(0)}% ${(27 + 6 * strength).toFixed(0)}%)` : `hsl(${hue} ${(40 + 45 * strength).toFixed(0)}% ${(88 - 16 * strength).toFixed(0)}%)`;
}

export const colorsOfNodes = (tree: Tree, side: Side, compared: Profile['compared'], dark: boolean): string[] =>
    Array.from({ length: tree.count }, (_, n) => changeColor(changeOfNode(tree, n, side, compared), dark));
