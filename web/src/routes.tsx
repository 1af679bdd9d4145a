// Services and routes, most time lost first: cause of the time lost, rate, latency, failures.
// A route opens to its slow requests compared with the usual ones.

import { useState } from 'preact/hooks';
import * as format from './format';
import { capital, decodeGroup, range, sayCount, sayLost, tooFew, ESTIMATED, MEDIAN_MIN, USUAL_MIN, USUAL_MIN_P99, USUAL_PERIOD, type Group } from './groups';
import { list, number, object, text } from './json';
import { classOf, nameOf } from './parts';
import { serviceName } from './service';
import { type Status, statusOf } from './status';
import { Comparison, decodeUsual, type Compared, type Usual } from './usual';

const SHOWN = 8; // until "Show all" is pressed

interface Cause {
    kind: string;
    status: Status | null; // of requests that failed
    group: Group;
}

export interface Route {
    key: string;
    service: string; // with its port
    method: string;
    route: string;
    protocol: string; // '': not reported by the agent
    lacksPath: boolean; // "*" in the route is not known
    rate: number; // requests a second
    failed: number; // share
    failures: number; // how many
    sampled: number; // requests that these rest on; 0: not known
    estimated: boolean;
    known: number; // requests that the usual rests on
    lost: number; // nanoseconds in the period
    lostEstimated: boolean;
    time: number; // nanoseconds that all requests of the period took
    cause: string; // of most of the lost time, in words; '': not known
    causes: Cause[];
    usual: Usual | null;
    slow: Usual | null; // null: no request is slow
    topKind: string; // '': not known
    topCount: number;
}

function decodeCauses(value: unknown): Cause[] {
    return list(value).map(object).flatMap((c) => {
        const group = decodeGroup(c.group);
        return group ? [{ kind: text(c.kind), status: typeof c.status === 'number' ? statusOf(c.status, c.grpc_status) : null, group }] : [];
    });
}

export function decodeRoutes(value: unknown): Route[] {
    if (!Array.isArray(value)) throw new Error('the routes are not a list');
    return list(value).map(object).map((r, i) => {
        const [seconds, requests] = [number(r.span_ns) / 1e9, number(r.requests)];
        const service = serviceName(text(r.service), text(r.unit), number(r.port));
        return {
            key: `${service}\n${text(r.method)}\n${text(r.route)}\n${text(r.protocol)}\n${number(r.sampled) ? '' : i}`,
            service,
            method: text(r.method),
            route: text(r.route),
            protocol: text(r.protocol),
            lacksPath: r.lacks_path === true,
            rate: seconds > 0 ? requests / seconds : 0,
            failed: requests > 0 ? Math.min(1, number(r.failed) / requests) : 0,
            failures: number(r.failed),
            sampled: number(r.sampled),
            estimated: r.estimated === true,
            known: number(r.usual_known),
            lost: number(r.lost_ns),
            lostEstimated: r.lost_estimated === true,
            time: number(r.time_ns),
            cause: text(r.cause),
            causes: decodeCauses(r.causes),
            usual: decodeUsual(r.usual),
            slow: decodeUsual(r.slow),
            topKind: text(r.top_kind),
            topCount: number(r.top_count),
        };
    });
}

const comparedOf = (slow: Usual): Compared => ({ name: 'Slow', p50: slow.p50, p99: slow.p99, requests: Math.max(slow.requests, 2), sums: new Map(slow.parts.map((p) => [p.kind, p])) });

const sum = (causes: Cause[]): Group => ({ requests: causes.reduce((n, c) => n + c.group.requests, 0), lost: 0, estimated: causes.some((c) => c.group.estimated) });

const hasMedian = (r: Route): boolean => (r.usual?.known ?? 0) >= MEDIAN_MIN;

/** The cause of most of the lost time, with its share; of a route without slow requests, what takes most time in it. */
function Cause({ route: r }: { route: Route }) {
    const first = r.causes[0];
    const kind = first?.kind ?? r.topKind;
    if (!kind) return <span class="dim">not known</span>;
    const words = capital(r.cause) || nameOf(kind);
    if (!first || (!r.slow && first.status === null))
        return (
            <>
                <span class="dim">{hasMedian(r) && r.known >= USUAL_MIN ? `Always about ${format.duration(r.usual!.p50)}: ` : 'Most time: '}</span>
                {words}
            </>
        );
    const failures = r.causes.filter((c) => c.status !== null);
    const share = r.lost > 0 ? first.group.lost / r.lost : 0;
    return (
        <>
            {first.status === null && <i class={`swatch ${classOf(kind)}`} />}
            {words}
            <span class="dim">
                {' '}
                ({sayCount(first.group)}
                {share > 0 && r.causes.length > 1 && `, ${format.percent(share)} of the lost time`})
            </span>
            {failures.length > 0 && first.status === null && (
                <p>
                    <span class="bad">Fails: {[...new Set(failures.map((c) => (c.status?.text ? `status ${c.status.text}` : 'no reply')))].join(', ')}</span>
                    <span class="dim"> ({sayCount(sum(failures))})</span>
                </p>
            )}
        </>
    );
}

function Lost({ route: r, most }: { route: Route; most: number }) {
    const isKnown = r.known >= USUAL_MIN || r.lost > 0;
    return (
        <>
            {r.lost > 0 ? <b>{sayLost(r.lost, r.lostEstimated)}</b> : isKnown ? <span class="dim">none</span> : <span class="dim" title={tooFew(r.known, USUAL_MIN)}>–</span>}
            {r.time > 0 && <span class="all-time dim" title="The time that all requests of the route took"> of {sayLost(r.time, r.estimated)}</span>}
            {r.lost > 0 && <i class="lost-bar" aria-hidden="true" style={{ width: `${(r.lost / most) * 100}%` }} />}
        </>
    );
}

function Row({ route: r, most, period, open, toggle, id }: { route: Route; most: number; period: string; open: boolean; toggle: () => void; id: string }) {
    const about = r.estimated ? '~' : '';
    const what = r.method ? `${r.method} ${r.route}` : r.route;
    const compares = r.usual && r.slow;
    return (
        <>
            <tr class={open ? 'route open' : 'route'}>
                <td class="number lost">
                    <Lost route={r} most={most} />
                </td>
                <td class="what">
                    {compares ? (
                        <button type="button" class="unfold-route" aria-expanded={open} aria-controls={id} onClick={toggle} aria-label={`${what}: slow requests compared with the usual`}>
                            <svg viewBox="0 0 8 8" width="8" height="8" aria-hidden="true">
                                <path d="M2 1l4 3l-4 3z" />
                            </svg>
                        </button>
                    ) : (
                        <span class="no-unfold" />
                    )}
                    <span class="code">
                        <span class="method">{r.method}</span> {r.route} {r.protocol !== 'http/1' && <span class="dim">{r.protocol}</span>}
                    </span>{' '}
                    <span class="dim service">{r.service}</span>
                </td>
                <td class="route-cause">
                    <Cause route={r} />
                </td>
                <td class="number" data-label="requests/s">{r.sampled ? `${about}${r.rate.toFixed(2)}` : '\u2013'}</td>
                <td class="number" data-label="median"><span title={r.usual && !hasMedian(r) ? `of ${format.count(r.usual.requests, 'request')}` : undefined}>{hasMedian(r) ? `${about}${format.duration(r.usual!.p50)}` : '\u2013'}</span></td>
                <td class="number p99" data-label="99th percentile" title={r.usual && !r.usual.p99 ? tooFew(r.usual.known, USUAL_MIN_P99, period) : undefined}>
                    {r.usual?.p99 ? `${about}${format.duration(r.usual.p99)}` : '\u2013'}
                </td>
                <td class={`number ${r.failed >= 0.01 ? 'status bad' : r.failed > 0 ? '' : 'zero'}`} data-label="failed">{!r.sampled ? (r.failures > 0 ? `${r.failures} failed` : '\u2013') : r.failed > 0 ? `${about}${format.percent(r.failed)}` : `${about}0 %`}</td>
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

/** What the signs in the table mean, where it has them. */
function Signs({ routes, period }: { routes: Route[]; period: string }) {
    const unknown = routes.filter((r) => r.known < USUAL_MIN && !r.lost);
    const noMedian = routes.filter((r) => r.usual && !hasMedian(r));
    const noP99 = routes.filter((r) => r.usual && !r.usual.p99);
    const words = [
        routes.some((r) => r.estimated || r.lostEstimated) && ESTIMATED,
        unknown.length > 0 && `– for time lost: ${tooFew(range(unknown.map((r) => r.known)), USUAL_MIN)}; until then the time of all its requests ranks a route`,
        routes.some((r) => r.lacksPath) && '* is not known, as the connection is older than the agent, or bytes of it were missed; it is known on new connections',
        noMedian.length > 0 && `– for the median: ${tooFew(range(noMedian.map((r) => r.usual!.known)), MEDIAN_MIN, period)}`,
        noP99.length > 0 && `– for the 99th percentile: ${tooFew(range(noP99.map((r) => r.usual!.known)), USUAL_MIN_P99, period)}`,
    ].filter(Boolean);
    return words.length ? <p class="signs dim">{words.join('. ')}.</p> : null;
}

export function Routes({ routes, seconds, error }: { routes: Route[]; seconds: number; error: string }) {
    const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
    const [all, setAll] = useState(false);
    const toggle = (key: string) => {
        const next = new Set(open);
        if (!next.delete(key)) next.add(key);
        setOpen(next);
    };
    if (!routes.length && !error) return null;
    const period = `${seconds} s`;
    const shown = all ? routes : routes.slice(0, SHOWN);
    return (
        <section class="requests routes" aria-labelledby="routes-title">
            <header class="bar">
                <h2 id="routes-title">Where requests lose time</h2>
                {routes.length > 0 && <p class="sum dim">How much longer the slow requests of the last {period} took than the median of their route in {USUAL_PERIOD}</p>}
            </header>
            {error && <p class="failed" role="alert">{error}</p>}
            {routes.length > 0 && (
                <div class="table-scroll">
                    <table class="route-table">
                        <thead>
                            <tr>
                                <th scope="col" class="number">Time lost</th>
                                <th scope="col">Route, service</th>
                                <th scope="col">Cause</th>
                                <th scope="col" class="number">Requests/s</th>
                                <th scope="col" class="number">Median</th>
                                <th scope="col" class="number">99th pct.</th>
                                <th scope="col" class="number">Failed</th>
                            </tr>
                        </thead>
                        <tbody>
                            {shown.map((r, i) => (
                                <Row key={r.key} route={r} most={Math.max(...routes.map((x) => x.lost), 1)} period={period} open={open.has(r.key)} toggle={() => toggle(r.key)} id={`route-${i}`} />
                            ))}
                        </tbody>
                    </table>
                    <Signs routes={shown} period={period} />
                    {routes.length > SHOWN && (
                        <button type="button" class="all" onClick={() => setAll(!all)}>
                            {all ? `Show ${SHOWN}` : `Show all ${routes.length} routes`}
                        </button>
                    )}
                </div>
            )}
        </section>
    );
}
