// What a flame graph of two profiles shows beside the picture: what its colours mean, the two recordings, and the functions by how
// much their part of the whole changed.

import { useMemo } from 'preact/hooks';
import { changeColor, changeOfParts, type Change } from './change';
import * as format from './format';
import type { Profile, Recording } from './profile';
import { byFunction, type Matches, type Side, type Tree } from './tree';

const TABLE_ROWS = 200;

export function ComparisonLegend({ dark }: { dark: boolean }) {
    const meanings: [name: string, help: string, change: Change][] = [
        ['more', 'has a larger part of the whole after than before', { before: 0, after: 1, noise: 0, told: true }],
        ['less', 'has a smaller part of the whole after than before', { before: 1, after: 0, noise: 0, told: true }],
        ['not told', 'changed by less than chance among the samples may make of it', { before: 0, after: 0, noise: 0, told: false }],
    ];
    return (
        <ul class="legend" aria-label="Colours">
            {meanings.map(([name, help, change]) => (
                <li key={name} title={help}>
                    <i class="swatch" style={{ background: changeColor(change, dark) }} />
                    {name}
                </li>
            ))}
        </ul>
    );
}

export function Recordings({ compared }: { compared: NonNullable<Profile['compared']> }) {
    const one = ({ samples, duration, notObserved }: Recording) =>
        [samples > 0 ? format.count(samples, 'sample') : '', duration > 0 ? `in ${format.span(duration)}` : '', notObserved > 0 ? `(nobody looked for ${format.span(notObserved)} more)` : ''].filter(Boolean).join(' ') || 'of unknown length';
    return (
        <p class="sum" data-testid="recordings">
            before <b>{one(compared.before)}</b>, after <b>{one(compared.after)}</b>
        </p>
    );
}

export const sayChange = (c: Change): string => `before ${format.percent(c.before)}, after ${format.percent(c.after)}${c.told ? '' : ', which may be chance'}`;

export function ChangeDetails({ change }: { change: Change }) {
    return (
        <dl>
            <div>
                <dt>before</dt>
                <dd>{format.percent(change.before)}</dd>
            </div>
            <div>
                <dt>after</dt>
                <dd>{format.percent(change.after)}</dd>
            </div>
            <div>
                <dt>change</dt>
                <dd>
                    {format.points(change.after - change.before)} <small>{change.noise > 0 && `± ${(change.noise * 100).toFixed(2)} points`}</small>
                </dd>
            </div>
        </dl>
    );
}

interface TableProps {
    tree: Tree;
    root: number;
    side: Side;
    compared: Profile['compared'];
    dark: boolean;
    matches: Matches | null;
}

// The largest growth first, what shrank most last; what samples cannot tell is not listed.
export function ChangeTable({ tree, root, side, compared, dark, matches }: TableProps) {
    const rows = useMemo(
        () =>
            byFunction(tree, root)
                .filter((r) => !matches || matches.frames[r.frame])
                .map((r) => ({ frame: r.frame, change: changeOfParts(r.total, r.other, r.spread, tree, side, compared) }))
                .filter((r) => r.change.told)
                .sort((a, b) => b.change.after - b.change.before - (a.change.after - a.change.before)),
        [tree, root, side, compared, matches],
    );
    const shown = rows.length > TABLE_ROWS ? [...rows.slice(0, TABLE_ROWS / 2), ...rows.slice(-TABLE_ROWS / 2)] : rows;
    return (
        <div class="table-scroll" tabIndex={0} role="region" aria-label="Functions">
            <table class="functions">
                <thead>
                    <tr>
                        <th scope="col" class="number">
                            Change, points
                        </th>
                        <th scope="col" class="number">
                            Before
                        </th>
                        <th scope="col" class="number">
                            After
                        </th>
                        <th scope="col">Function and all that it called</th>
                    </tr>
                </thead>
                <tbody>
                    {shown.map(({ frame, change }) => (
                        <tr key={frame}>
                            <td class="number">{format.points(change.after - change.before)}</td>
                            <td class="number">{format.percent(change.before)}</td>
                            <td class="number">{format.percent(change.after)}</td>
                            <td class="code marked">
                                <i class="swatch" style={{ background: changeColor(change, dark) }} />
                                {tree.frames[frame]!.name}
                            </td>
                        </tr>
                    ))}
                </tbody>
            </table>
            {rows.length > TABLE_ROWS && <p class="more">{format.integer(rows.length - TABLE_ROWS)} smaller changes are left out; search narrows them down.</p>}
            {rows.length === 0 && <p class="more">Nothing changed by more than chance among the samples may make of it.</p>}
        </div>
    );
}
