// Services and routes: rate, latency, failures and the top cause. A route opens to its slow requests compared with the usual ones.

import { useState } from 'preact/hooks';
import * as format from './format';
import { list, number, object, text } from './json';
import { nameOf } from './parts';
import { Comparison, decodeUsual, type Compared, type Usual } from './usual';

const SHOWN = 10; // until "Show all" is pressed

export interface Route {
    key: string;
    service: string;
    method: string;
    route: string;
    rate: number; // requests a second
    failed: number; // share
    sampled: number; // requests that these rest on; 0: not known
    estimated: boolean;
    usual: Usual | null;
    slow: Usual | null; // null: no request is slow
    topKind: string; // '': not known
    topCount: number;
}

export function decodeRoutes(value: unknown): Route[] {
    if (!Array.isArray(value)) throw new Error('the routes are not a list');
    return list(value).map(object).map((r, i) => {
        const [seconds, requests] = [number(r.span_ns) / 1e9, number(r.requests)];
        return {
            key: `${text(r.service)}\n${text(r.method)}\n${text(r.route)}\n${number(r.sampled) ? '' : i}`,
            service: text(r.service),
            method: text(r.method),
            route: text(r.route),
            rate: seconds > 0 ? requests / seconds : 0,
            failed: requests > 0 ? number(r.failed) / requests : 0,
            sampled: number(r.sampled),
            estimated: r.estimated === true,
            usual: decodeUsual(r.usual),
            slow: decodeUsual(r.slow),
            topKind: text(r.top_kind),
            topCount: number(r.top_count),
        };
    });
}

const sayCause = (r: Route): string => (!r.topKind ? '\u2013' : r.topCount && r.slow ? `${nameOf(r.topKind)} in ${r.topCount} of ${r.slow.requests} slow` : nameOf(r.topKind));

const comparedOf = (slow: Usual): Compared => ({ name: 'Slow', p50: slow.p50, p99: slow.p99, requests: Math.max(slow.requests, 2), sums: new Map(slow.parts.map((p) => [p.kind, p])) });

function Row({ route: r, open, toggle, id }: { route: Route; open: boolean; toggle: () => void; id: string }) {
    const about = r.estimated ? '~' : '';
    const what = r.method ? `${r.method} ${r.route}` : r.route;
    const compares = r.usual && r.slow;
    return (
        <>
            <tr class={open ? 'route open' : 'route'}>
                <td class="code what">
                    {compares ? (
                        <button type="button" class="unfold-route" aria-expanded={open} aria-controls={id} onClick={toggle} aria-label={`${what}: slow requests compared with the usual`}>
                            <svg viewBox="0 0 8 8" width="8" height="8" aria-hidden="true">
                                <path d="M2 1l4 3l-4 3z" />
                            </svg>
                        </button>
                    ) : (
                        <span class="no-unfold" />
                    )}
                    <span class="method">{r.method}</span> {r.route}
                </td>
                <td class="service">{r.service}</td>
                <td class="number">{r.sampled ? `${about}${r.rate.toFixed(2)}` : '\u2013'}</td>
                <td class="number">{r.usual ? format.duration(r.usual.p50) : '\u2013'}</td>
                <td class="number">{r.usual?.p99 ? format.duration(r.usual.p99) : '\u2013'}</td>
                <td class={`number ${r.failed >= 0.01 ? 'warn' : ''}`}>{r.sampled ? `${about}${format.percent(r.failed)}` : '\u2013'}</td>
                <td>{sayCause(r)}</td>
            </tr>
            {open && compares && (
                <tr class="route-comparison" id={id}>
                    <td colSpan={7}>
                        <Comparison usual={r.usual!} other={comparedOf(r.slow!)} />
                        <p class="dim">Slow: {format.count(r.slow!.requests, 'recorded request')} that took at least three times the median of the route, and 1 ms more.</p>
                    </td>
                </tr>
            )}
        </>
    );
}

export function Routes({ routes, error }: { routes: Route[]; error: string }) {
    const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
    const [all, setAll] = useState(false);
    const toggle = (key: string) => {
        const next = new Set(open);
        if (!next.delete(key)) next.add(key);
        setOpen(next);
    };
    if (!routes.length && !error) return null;
    return (
        <section class="requests" aria-labelledby="routes-title">
            <header class="bar">
                <h2 id="routes-title">Routes</h2>
                {routes.some((r) => r.estimated) && <p class="sum dim">~ is estimated from a random sample of the requests</p>}
            </header>
            {error && <p class="failed" role="alert">{error}</p>}
            {routes.length > 0 && (
                <div class="table-scroll">
                    <table class="route-table">
                        <thead>
                            <tr>
                                <th scope="col">Route</th>
                                <th scope="col">Service</th>
                                <th scope="col" class="number">Requests/s</th>
                                <th scope="col" class="number">Median</th>
                                <th scope="col" class="number">99th percentile</th>
                                <th scope="col" class="number">Failed</th>
                                <th scope="col">Top cause</th>
                            </tr>
                        </thead>
                        <tbody>
                            {(all ? routes : routes.slice(0, SHOWN)).map((r, i) => (
                                <Row key={r.key} route={r} open={open.has(r.key)} toggle={() => toggle(r.key)} id={`route-${i}`} />
                            ))}
                        </tbody>
                    </table>
                    {routes.length > SHOWN && (
                        <button type="button" class="all" onClick={() => setAll(!all)}>
                            {all ? `Show ${SHOWN}` : `Show all ${routes.length}`}
                        </button>
                    )}
                </div>
            )}
        </section>
    );
}
