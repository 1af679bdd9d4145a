// How much of the interval of an answer was observed, why not the rest, and the traffic that cannot be read (src/model/coverage.h).

import * as format from './format';
import { list, number, object, text } from './json';

export interface OpaquePort {
    port: number; // 0: of servers that are not listed one by one
    service: string;
    protocol: string;
    rate: number; // bytes a second
}

export interface Coverage {
    nothing: string; // what an empty answer means
    gaps: { reason: string; text: string }[];
    ports: OpaquePort[];
    omitted: number; // further ports
    overload: string; // requests waited for a CPU much of their time: one sentence; '': they did not
}

export function decodeCoverage(value: unknown): Coverage {
    const c = object(value);
    return {
        nothing: text(c.nothing),
        gaps: list(c.gaps).map(object).map((g) => ({ reason: text(g.reason), text: text(g.text) })),
        ports: list(c.opaque_ports).map(object).map((p) => ({ port: number(p.port), service: text(p.service), protocol: text(p.protocol), rate: number(p.bytes_per_second) })),
        omitted: number(c.opaque_ports_omitted),
        overload: text(c.overload),
    };
}

/** An answer of the API: a list, and its coverage. */
export interface Covered<T> {
    coverage: Coverage;
    list: T[];
}

/** Decodes {"coverage": {...}, [name]: [...]}. */
export const covered =
    <T,>(name: string, decode: (value: unknown) => T[]) =>
    (value: unknown): Covered<T> => ({ coverage: decodeCoverage(object(value).coverage), list: decode(object(value)[name]) });

/** In place of an empty list. */
export function Nothing({ coverage: c }: { coverage: Coverage }) {
    return (
        <>
            <b>{c.nothing}</b>
            {c.gaps.map((g, i) => (
                <p key={i}>{g.text}</p>
            ))}
        </>
    );
}

/** Above all requests: the node is overloaded. */
export function Overload({ coverage: c }: { coverage: Coverage }) {
    return c.overload ? <p class="overload" role="status" data-testid="overload">{c.overload}</p> : null;
}

/** Above a list that does not cover the whole interval. */
export function Gaps({ coverage: c }: { coverage: Coverage }) {
    const lasting = c.gaps.filter((g) => g.reason !== 'before_start');
    if (!lasting.length) return null;
    return (
        <p class="warn" role="status" data-testid="gaps">
            {lasting.map((g) => g.text).join(' ')}
        </p>
    );
}

export function OpaquePorts({ coverage: c }: { coverage: Coverage }) {
    if (!c.ports.length) return null;
    const sum = c.ports.reduce((n, p) => n + p.rate, 0);
    return (
        <details class="opaque-ports" data-testid="opaque-ports">
            <summary>
                {format.count(c.ports.length + c.omitted, 'port')} cannot be read: {[...new Set(c.ports.map((p) => p.protocol))].join(', ')}, {format.bytes(sum)}/s
            </summary>
            <p class="dim">Requests are read from HTTP, and from TLS of OpenSSL and Go. Servers on these ports exchanged something else.</p>
            <table>
                <thead>
                    <tr>
                        <th scope="col" class="number">Port</th>
                        <th scope="col">Service</th>
                        <th scope="col">Protocol</th>
                        <th scope="col" class="number">Bytes/s</th>
                    </tr>
                </thead>
                <tbody>
                    {c.ports.map((p, i) => (
                        <tr key={i}>
                            <td class="number">{p.port || 'others'}</td>
                            <td>{p.service}</td>
                            <td>{p.protocol}</td>
                            <td class="number">{format.bytes(p.rate)}</td>
                        </tr>
                    ))}
                </tbody>
            </table>
            {c.omitted > 0 && <p class="dim">and {c.omitted} more</p>}
        </details>
    );
}
