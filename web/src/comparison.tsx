// Parts of a differential flame graph around the graph: the legend, the two recordings, and the table of functions by change of their
// share of the total.

import { useMemo } from 'preact/hooks';
import { changeColor, changeOfParts, type Change } from './change';
import * as format from './format';
import type { Profile, Recording } from './profile';
import { byFunction, type Matches, type Side, type Tree } from './tree';

const TABLE_ROWS = 200;

export function ComparisonLegend({ dark }: { dark: boolean }) {
    const meanings: [name: string, help: string, change: Change][] = [
        ['more', 'larger share of the total after than before', { before: 0, after: 1, noise: 0, significant: true }],
        ['less', 'smaller share of the total after than before', { before: 1, after: 0, noise: 0, significant: true }],
        ['no clear change', 'changed within sampling noise', { before: 0, after: 0, noise: 0, significant: false }],
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
        [samples > 0 ? format.count(samples, 'sample') : '', duration > 0 ? `in ${format.span(duration)}` : '', notObserved > 0 ? `(not monitored for ${format.span(notObserved)} more)` : ''].filter(Boolean).join(' ') || 'of unknown length';
    return (
        <p class="sum" data-testid="recordings">
            before <b>{one(compared.before)}</b>, after <b>{one(compared.after)}</b>
        </p>
    );
}

export const sayChange = (c: Change): string => `before ${format.percent(c.before)}, after ${format.percent(c.after)}${c.significant ? '' : ', within sampling noise'}`;

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

// Largest growth first, largest shrinkage last; changes within sampling noise are omitted.
export function ChangeTable({ tree, root, side, compared, dark, matches }: TableProps) {
    const rows = useMemo(
        () =>
            byFunction(tree, root)
                .filter((r) => !matches || matches.frames[r.frame])
                .map((r) => ({ frame: r.frame, change: changeOfParts(r.total, r.other, r.spread, tree, side, compared) }))
                .filter((r) => r.change.significant)
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
                        <th scope="col">Function with its callees</th>
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
            {rows.length > TABLE_ROWS && <p class="more">{format.integer(rows.length - TABLE_ROWS)} smaller changes are not shown; use the search to narrow the list.</p>}
            {rows.length === 0 && <p class="more">No function changed beyond sampling noise.</p>}
        </div>
    );
}
