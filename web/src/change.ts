// Change of a share of the total between two profiles, and whether it exceeds sampling noise.

import type { Profile } from './profile';
import type { Side, Tree } from './tree';

export interface Change {
    before: number; // shares, 0 to 1
    after: number;
    noise: number; // sampling noise of the difference: three standard deviations; 0: unknown, or every event was recorded
    significant: boolean; // the difference exceeds the noise
}

// `spread`: variance contribution of the part; `whole`: variance contribution of the whole profile.
// Must match profile_diff_change in model/profile_diff.c.
export function changeOf(before: number, after: number, spread: number, whole: number, compared: Profile['compared']): Change {
    const n = compared?.before.samples ?? 0;
    const m = compared?.after.samples ?? 0;
    let noise = 0;
    if (n > 0 && m > 0) {
        const p = (before * n + after * m) / (n + m);
        noise = Math.min(1, 3 * Math.sqrt((1 - p) ** 2 * spread + p ** 2 * Math.max(0, whole - spread)));
    }
    return { before, after, noise, significant: Math.abs(after - before) > noise };
}

// Both sides are normalised to the same total.
export function changeOfParts(total: number, other: number, spread: number, tree: Tree, side: Side, compared: Profile['compared']): Change {
    const all = Math.max(tree.total[0]!, tree.other?.[0] ?? 0, 1);
    const [before, after] = side === 'after' ? [other, total] : [total, other];
    return changeOf(before / all, after / all, spread, tree.spread?.[0] ?? 0, compared);
}

export const changeOfNode = (tree: Tree, node: number, side: Side, compared: Profile['compared']): Change =>
    changeOfParts(tree.total[node]!, tree.other?.[node] ?? 0, tree.spread?.[node] ?? 0, tree, side, compared);

// Red: growth, blue: shrinkage; the paler, the smaller the relative change. Grey: within sampling noise.
export function changeColor(c: Change, dark: boolean): string {
    const part = (c.after - c.before) / Math.max(c.after, c.before, 1e-12); // -1 to 1
    if (!c.significant || part === 0) return dark ? 'hsl(40 4% 27%)' : 'hsl(40 12% 88%)';
    const strength = Math.sqrt(Math.abs(part));
    const hue = part > 0 ? 8 : 212;
    return dark ? `hsl(${hue} ${(20 + 45 * strength).toFixed(0)}% ${(27 + 6 * strength).toFixed(0)}%)` : `hsl(${hue} ${(40 + 45 * strength).toFixed(0)}% ${(88 - 16 * strength).toFixed(0)}%)`;
}

export const colorsOfNodes = (tree: Tree, side: Side, compared: Profile['compared'], dark: boolean): string[] =>
    Array.from({ length: tree.count }, (_, n) => changeColor(changeOfNode(tree, n, side, compared), dark));
