// What became of a part of the whole, in a comparison of two profiles: by how much, and whether the samples can tell it from chance.

import type { Profile } from './profile';
import type { Side, Tree } from './tree';

export interface Change {
    before: number; // shares, 0 to 1
    after: number;
    noise: number; // what chance among the samples may make of the difference: three standard deviations; 0: not known, or nothing was sampled
    told: boolean;
}

// `spread`: of the part, `whole`: of everything; the same sum as profile_diff_change of model/profile_diff.c.
export function changeOf(before: number, after: number, spread: number, whole: number, compared: Profile['compared']): Change {
    const n = compared?.before.samples ?? 0;
    const m = compared?.after.samples ?? 0;
    let noise = 0;
    if (n > 0 && m > 0) {
        const p = (before * n + after * m) / (n + m);
        noise = Math.min(1, 3 * Math.sqrt((1 - p) ** 2 * spread + p ** 2 * Math.max(0, whole - spread)));
    }
    return { before, after, noise, told: Math.abs(after - before) > noise };
}

// Both sides have the same sum: that of the widths.
export function changeOfParts(total: number, other: number, spread: number, tree: Tree, side: Side, compared: Profile['compared']): Change {
    const all = Math.max(tree.total[0]!, tree.other?.[0] ?? 0, 1);
    const [before, after] = side === 'after' ? [other, total] : [total, other];
    return changeOf(before / all, after / all, spread, tree.spread?.[0] ?? 0, compared);
}

export const changeOfNode = (tree: Tree, node: number, side: Side, compared: Profile['compared']): Change =>
    changeOfParts(tree.total[node]!, tree.other?.[node] ?? 0, tree.spread?.[node] ?? 0, tree, side, compared);

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
