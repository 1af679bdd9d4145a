// Usual durations of a route's requests, by components, next to the durations of one request or the slow ones.

import * as format from './format';
import { list, number, object, text } from './json';
import { classOf, nameOf, PART_KINDS, type RequestPart } from './parts';

export interface Usual {
    requests: number; // sampled ones that the durations rest on
    p50: number; // nanoseconds
    p99: number; // 0: not known
    known: number; // the same as requests of equal weight
    explained: number; // sampled ones that the components rest on; 0: too few
    parts: { kind: string; p50: number; p99: number }[];
}

/** Null if nothing is known. */
export function decodeUsual(value: unknown): Usual | null {
    const u = object(value);
    const requests = number(u.requests);
    if (!requests) return null;
    const explained = number(u.explained);
    return {
        requests,
        p50: number(u.p50_ns),
        p99: number(u.p99_ns),
        known: number(u.known),
        explained,
        parts: (explained ? list(u.parts) : []).map(object).map((p) => ({ kind: text(p.kind), p50: number(p.p50_ns), p99: number(p.p99_ns) })),
    };
}

export interface Compared {
    name: string;
    p50: number;
    p99: number; // 0: not known
    requests: number;
    sums: ReadonlyMap<string, { p50: number; p99: number }>; // by kind
}

export function sumsOf(parts: RequestPart[]): Map<string, { p50: number; p99: number }> {
    const sums = new Map<string, { p50: number; p99: number }>();
    for (const p of parts) sums.set(p.kind, { p50: (sums.get(p.kind)?.p50 ?? 0) + p.ns, p99: 0 });
    return sums;
}

export interface Difference {
    kind: string;
    usual: number;
    usualP99: number;
    other: number;
    otherP99: number;
    more: number; // of `other`; negative: less
}

/** The kinds of either, what takes most longer first. */
export function differences(usual: Usual, other: Compared): Difference[] {
    const known = new Map(usual.parts.map((p) => [p.kind, p]));
    const kinds = new Set([...known.keys(), ...other.sums.keys()]);
    const place = (kind: string) => PART_KINDS.findIndex(([k]) => k === kind);
    return [...kinds]
        .map((kind) => {
            const [u, o] = [known.get(kind), other.sums.get(kind)];
            return { kind, usual: u?.p50 ?? 0, usualP99: u?.p99 ?? 0, other: o?.p50 ?? 0, otherP99: o?.p99 ?? 0, more: (o?.p50 ?? 0) - (u?.p50 ?? 0) };
        })
        .sort((a, b) => b.more - a.more || place(a.kind) - place(b.kind));
}

const time = (ns: number): string => (ns > 0 ? format.duration(ns) : '\u2013');
const change = (ns: number): string => (ns === 0 ? '\u2013' : `${ns > 0 ? '+' : '\u2212'}${format.duration(Math.abs(ns))}`);

export function Comparison({ usual, other }: { usual: Usual; other: Compared }) {
    const rows = usual.explained ? differences(usual, other) : [];
    const most = Math.max(...rows.map((d) => Math.max(d.usual, d.other)), 1);
    const hasP99 = other.requests > 1;
    const about = `Usual: medians of ${format.count(usual.requests, 'sampled request')}${usual.explained && usual.explained < usual.requests ? ` (components: of ${usual.explained})` : ''}`;
    return (
        <div class="usual-scroll">
            <table class="usual">
                <caption>
                    Compared with the usual <span class="dim">{about}</span>
                </caption>
                <thead>
                    <tr>
                        <th scope="col">Kind</th>
                        <th scope="col" class="number">{other.name}</th>
                        {hasP99 && <th scope="col" class="number">99th percentile</th>}
                        <th scope="col" class="number">Usual</th>
                        <th scope="col" class="number">99th percentile</th>
                        <th scope="col" class="number">Difference</th>
                        <th scope="col" aria-hidden="true" />
                    </tr>
                </thead>
                <tbody>
                    <tr class="whole">
                        <th scope="row">whole request</th>
                        <td class="number">{time(other.p50)}</td>
                        {hasP99 && <td class="number dim">{time(other.p99)}</td>}
                        <td class="number">{time(usual.p50)}</td>
                        <td class="number dim">{time(usual.p99)}</td>
                        <td class="number">{change(other.p50 - usual.p50)}</td>
                        <td />
                    </tr>
                    {rows.map((d) => (
                        <tr key={d.kind}>
                            <th scope="row">
                                <i class={`swatch ${classOf(d.kind)}`} />
                                {nameOf(d.kind)}
                            </th>
                            <td class="number">{time(d.other)}</td>
                            {hasP99 && <td class="number dim">{time(d.otherP99)}</td>}
                            <td class="number">{time(d.usual)}</td>
                            <td class="number dim">{time(d.usualP99)}</td>
                            <td class="number">{change(d.more)}</td>
                            <td class="pair" aria-hidden="true">
                                <i class={classOf(d.kind)} style={{ width: `${(d.other / most) * 100}%` }} />
                                <i class={`then ${classOf(d.kind)}`} style={{ width: `${(d.usual / most) * 100}%` }} />
                            </td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}
