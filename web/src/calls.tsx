// Which services of the node call which others: how often, and how long they wait for the replies.

import { useState } from 'preact/hooks';
import * as format from './format';
import { list, number, object, text } from './json';

const SHOWN = 8; // until "Show all" is pressed

export interface Call {
    client: string;
    server: string; // '': not known
    address: string; // '': a Unix socket
    protocol: string; // '': of several, which are counted together
    calls: number;
    rate: number; // calls a second
    failed: number;
    waited: number; // nanoseconds, of all calls
    p99: number; // nanoseconds
    kinds: { name: string; calls: number; waited: number }[];
}

export function decodeCalls(value: unknown): Call[] {
    if (!Array.isArray(value)) throw new Error('the calls are not a list');
    return list(value).map(object).map((c) => ({
        client: text(c.client),
        server: text(c.server),
        address: text(c.address),
        protocol: text(c.protocol),
        calls: number(c.calls),
        rate: number(c.calls_per_second),
        failed: number(c.failed),
        waited: number(c.wait_ns),
        p99: number(c.p99_ns),
        kinds: list(c.kinds).map(object).map((k) => ({ name: text(k.kind), calls: number(k.calls), waited: number(k.wait_ns) })),
    }));
}

const mean = (waited: number, calls: number): string => format.duration(calls > 0 ? waited / calls : 0);

/** "60 SELECT of 150 ms" */
const sayKind = (k: Call['kinds'][0]): string => `${k.calls} ${k.name} of ${mean(k.waited, k.calls)}`;

function Server({ call: c }: { call: Call }) {
    if (!c.protocol) return <>others</>;
    return (
        <>
            {c.server || c.address || 'a Unix socket'}
            {c.server && c.address && <span class="dim"> at {c.address}</span>}
        </>
    );
}

function Row({ call: c, most }: { call: Call; most: number }) {
    return (
        <tr>
            <td class="number lost">
                <b>{format.duration(c.waited)}</b>
                <i class="lost-bar" aria-hidden="true" style={{ width: `${(c.waited / most) * 100}%` }} />
            </td>
            <td>{c.client}</td>
            <td>
                <Server call={c} />
            </td>
            <td>{c.protocol}</td>
            <td class="dim">{c.kinds.map(sayKind).join(', ')}</td>
            <td class="number">{c.rate.toFixed(2)}</td>
            <td class="number">{mean(c.waited, c.calls)}</td>
            <td class="number">{format.duration(c.p99)}</td>
            <td class={c.failed > 0 ? 'number status bad' : 'number zero'}>{c.failed}</td>
        </tr>
    );
}

export function Calls({ calls, seconds, error }: { calls: Call[]; seconds: number; error: string }) {
    const [all, setAll] = useState(false);
    if (!calls.length && !error) return null;
    const shown = all ? calls : calls.slice(0, SHOWN);
    const most = Math.max(...calls.map((c) => c.waited), 1);
    return (
        <section class="requests calls" aria-labelledby="calls-title">
            <header class="bar">
                <h2 id="calls-title">Which services call which</h2>
                {calls.length > 0 && <p class="sum dim">All calls of the last {seconds} s, over HTTP, gRPC, PostgreSQL, MySQL and Redis, and how long they waited for a reply; calls at the same time count each</p>}
            </header>
            {error && <p class="failed" role="alert">{error}</p>}
            {calls.length > 0 && (
                <div class="table-scroll">
                    <table class="call-table">
                        <thead>
                            <tr>
                                <th scope="col" class="number">Waited</th>
                                <th scope="col">Service</th>
                                <th scope="col">Calls</th>
                                <th scope="col">Protocol</th>
                                <th scope="col">Most time in</th>
                                <th scope="col" class="number">Calls/s</th>
                                <th scope="col" class="number">Mean</th>
                                <th scope="col" class="number">99th pct.</th>
                                <th scope="col" class="number">Failed</th>
                            </tr>
                        </thead>
                        <tbody>
                            {shown.map((c) => (
                                <Row key={`${c.client}\n${c.server}\n${c.address}\n${c.protocol}`} call={c} most={most} />
                            ))}
                        </tbody>
                    </table>
                    {calls.length > SHOWN && (
                        <button type="button" class="all" onClick={() => setAll(!all)}>
                            {all ? `Show ${SHOWN}` : `Show all ${calls.length} rows`}
                        </button>
                    )}
                </div>
            )}
        </section>
    );
}
