// The slowest requests with their latency breakdown. Each bar is the whole wall time of one request, scaled to full width; unknown time is
// included and hatched.

import { useMemo, useState } from 'preact/hooks';
import { EventsOfRequest } from './events';
import * as format from './format';
import { capital, decodeGroup, ESTIMATED, range, sayCount, sayLost, tooFew, USUAL_MIN, type Group } from './groups';
import { list, number, object, text } from './json';
import { classOf, nameOf, PART_KINDS, Stack, type RequestPart } from './parts';
import { CriticalPath, type Segment } from './path';
import { serviceName } from './service';
import { type Status, statusOf } from './status';
import { decodeStream, StreamLines, type Stream } from './stream';
import { Comparison, decodeUsual, sumsOf, type Usual } from './usual';

const SHOWN = 20; // until "Show all" is pressed
const SHOWN_GROUPS = 8;

export interface Request {
    key: string;
    start: number; // milliseconds since 1970
    duration: number; // nanoseconds
    service: string; // with its port
    pid: number;
    tid: number; // of the thread that served it; 0: not reported by the agent
    container: string | null; // null: not reported by the agent
    method: string;
    route: string;
    protocol: string; // "http/1", "http/2", "grpc"; '': not reported by the agent
    tls: boolean;
    status: Status;
    cause: string;
    model: string; // empty: not known
    stream: Stream | null; // null: its reply is not a stream
    parts: RequestPart[];
    segments: Segment[]; // in time order; none: no critical path is known
    usual: Usual | null; // of its route; null: not known
    known: number; // sampled requests of its route, where they are too few
    group: Group | null; // that it is the example of
    groupCause: string; // what its requests have in common
}

/** Null for a segment that has no place in the request's time. */
function decodeSegment(value: unknown, duration: number): Segment | null {
    const s = object(value);
    const start = number(s.start_ns);
    const ns = Math.min(number(s.ns), duration - start);
    if (ns <= 0 || Number(s.start_ns) !== start) return null;
    return { start, ns, kind: text(s.kind), owner: text(s.owner), inferred: s.evidence !== 'measured', pid: number(s.pid), tid: number(s.tid), thread: text(s.thread), process: text(s.process), detail: text(s.detail), times: list(s.times).map(object).map((t) => ({ kind: text(t.kind), ns: number(t.ns) })), notes: (Array.isArray(s.notes) ? s.notes : []).map(text) };
}

function decodeSegments(value: unknown, duration: number): Segment[] {
    return (Array.isArray(value) ? value : [])
        .map((s) => decodeSegment(s, duration))
        .filter((s) => s !== null)
        .sort((a, b) => a.start - b.start);
}

function decodeRequest(value: unknown): Request {
    const r = object(value);
    const start = number(r.start_time_unix_nano);
    const duration = number(r.duration_ns);
    return {
        key: `${start}:${text(r.service)}:${number(r.pid)}:${duration}`,
        start: start / 1e6,
        duration,
        service: serviceName(text(r.service), text(r.unit), number(r.port)),
        pid: number(r.pid),
        tid: number(r.tid),
        container: typeof r.container_id === 'string' ? r.container_id : null,
        method: text(r.method),
        route: text(r.route),
        protocol: text(r.protocol),
        tls: r.tls === true,
        status: statusOf(number(r.status), r.grpc_status),
        cause: text(r.cause),
        model: text(r.model),
        stream: decodeStream(r.stream),
        parts: (Array.isArray(r.parts) ? r.parts : []).map((p) => {
            const o = object(p);
            return { kind: text(o.kind), ns: number(o.ns), detail: text(o.detail), stack: (Array.isArray(o.stack) ? o.stack : []).map(text) };
        }),
        segments: decodeSegments(r.segments, duration),
        usual: decodeUsual(r.usual),
        known: number(r.usual_known),
        group: decodeGroup(r.group),
        groupCause: text(r.group_cause),
    };
}

export function decodeRequests(value: unknown): Request[] {
    if (!Array.isArray(value)) throw new Error('the requests are not a list');
    const seen = new Map<string, number>();
    return value.map(decodeRequest).map((r) => {
        const n = seen.get(r.key) ?? 0;
        seen.set(r.key, n + 1);
        return n ? { ...r, key: `${r.key}:${n}` } : r;
    });
}

export function byKind(parts: RequestPart[]): [string, number][] {
    const sums = new Map<string, number>();
    for (const p of parts) if (p.ns > 0) sums.set(p.kind, (sums.get(p.kind) ?? 0) + p.ns);
    const place = (kind: string) => {
        const i = PART_KINDS.findIndex(([k]) => k === kind);
        return i < 0 ? PART_KINDS.length : i;
    };
    return [...sums].sort((a, b) => place(a[0]) - place(b[0]));
}

function Bar({ request }: { request: Request }) {
    const kinds = byKind(request.parts);
    const whole = Math.max(request.duration, 1);
    const words = kinds.map(([kind, ns]) => `${nameOf(kind)} ${format.duration(ns)}`).join(', ');
    return (
        <div class="breakdown" role="img" aria-label={words || 'no breakdown'} title={words}>
            {kinds.map(([kind, ns]) => (
                <i key={kind} class={classOf(kind)} style={{ width: `${(ns / whole) * 100}%` }} />
            ))}
        </div>
    );
}

/** The detail of a component; expanded, the stack of the wait, innermost frame first. */
function Detail({ part: p }: { part: RequestPart }) {
    const detail = p.detail || <span class="dim">{PART_KINDS.find(([k]) => k === p.kind)?.[2]}</span>;
    if (!p.stack.length) return <>{detail}</>;
    return (
        <details class="stack">
            <summary>{detail}</summary>
            <Stack frames={p.stack} />
        </details>
    );
}

function Parts({ request }: { request: Request }) {
    const parts = request.parts.slice().sort((a, b) => b.ns - a.ns);
    return (
        <table class="parts">
            <caption class="unseen">Components of this request</caption>
            <thead class="unseen">
                <tr>
                    <th scope="col">Kind</th>
                    <th scope="col">Time</th>
                    <th scope="col">Share</th>
                    <th scope="col">Detail</th>
                </tr>
            </thead>
            <tbody>
                {parts.map((p, i) => (
                    <tr key={i}>
                        <th scope="row">
                            <i class={`swatch ${classOf(p.kind)}`} />
                            {nameOf(p.kind)}
                        </th>
                        <td class="number">{format.duration(p.ns)}</td>
                        <td class="number dim">{format.percent(p.ns / Math.max(request.duration, 1))}</td>
                        <td class="code">
                            <Detail part={p} />
                        </td>
                    </tr>
                ))}
            </tbody>
        </table>
    );
}

const isLostKnown = (r: Request): boolean => Boolean(r.usual || !r.group || r.group.lost > 0);

/** What the signs in a table of groups mean, where it has them. */
function Signs({ requests }: { requests: Request[] }) {
    const unknown = requests.filter((r) => !isLostKnown(r));
    const words = [
        requests.some((r) => r.group?.estimated) && ESTIMATED,
        unknown.length > 0 && `\u2013 for time lost: ${tooFew(range(unknown.map((r) => r.known)), USUAL_MIN)}; until then the time of its requests ranks a group`,
    ].filter(Boolean);
    return words.length ? <p class="signs dim">{words.join('. ')}.</p> : null;
}

/** The first cell: what the group lost, else the duration. */
function Figure({ request: r, open, toggle, id }: { request: Request; open: boolean; toggle: () => void; id: string }) {
    const known = isLostKnown(r);
    const figure = !r.group ? format.duration(r.duration) : known ? sayLost(r.group.lost, r.group.estimated) : '\u2013';
    return (
        <td class="number duration" title={known ? undefined : tooFew(r.known, USUAL_MIN)}>
            <button type="button" aria-expanded={open} aria-controls={id} onClick={toggle} aria-label={r.group ? `${figure}: time lost by ${r.method} ${r.route}, ${r.groupCause}` : `${figure}: parts of ${r.method} ${r.route}`}>
                <svg viewBox="0 0 8 8" width="8" height="8" aria-hidden="true">
                    <path d="M2 1l4 3l-4 3z" />
                </svg>
                {figure}
            </button>
        </td>
    );
}

function Row({ request: r, open, toggle }: { request: Request; open: boolean; toggle: () => void }) {
    const id = `parts-${r.key.replaceAll(/\s/g, '_')}`; // aria-controls is a list
    return (
        <>
            <tr class={open ? 'request open' : 'request'} onClick={(e) => !(e.target as HTMLElement).closest('button') && !getSelection()?.toString() && toggle()}>
                <Figure request={r} open={open} toggle={toggle} id={id} />
                <td class="code what">
                    <span class="method">{r.method}</span> {r.route}
                </td>
                <td class={`number status ${r.status.state}`}>{r.status.text || '–'}</td>
                <td class="service" title={`${r.service}, pid ${r.pid}`}>
                    {r.service} {!r.group && <span class="dim">{r.pid}</span>}
                </td>
                <td class="bar-cell">
                    <Bar request={r} />
                </td>
                <td class="cause" title={r.cause}>
                    {r.group ? capital(r.groupCause) : r.cause}
                </td>
                <td class="number dim time">{r.group ? `${r.group.estimated ? '~' : ''}${format.integer(Math.max(1, r.group.requests))}` : format.clock(r.start)}</td>
            </tr>
            {open && (
                <tr class="request-parts" id={id}>
                    <td colSpan={7}>
                        <p class="who">
                            <span class="code">
                                {r.method} {r.route}
                            </span>{' '}
                            <span class="dim">
                                {r.service}, process {r.pid}, began {format.clock(r.start)}
                                {r.protocol && r.protocol !== 'http/1' && `, ${r.protocol}`}
                                {r.tls && ', over TLS'}
                                {r.group && `, the slowest of ${sayCount(r.group)}`}
                            </span>
                        </p>
                        <p class="cause-again">{r.cause}</p>
                        <EventsOfRequest request={r} />
                        <StreamLines stream={r.stream} model={r.model} />
                        {r.status.failed && <p class="dim">Sonde sees that the request failed, not the error itself: see the log of process {r.pid}.</p>}
                        <CriticalPath request={r} />
                        <Parts request={r} />
                        {!r.usual && <p class="dim">The usual times of this route are not known: {tooFew(r.known, USUAL_MIN)}.</p>}
                        {r.usual && <Comparison usual={r.usual} other={{ name: 'This request', p50: r.duration, p99: 0, requests: 1, sums: sumsOf(r.parts) }} />}
                    </td>
                </tr>
            )}
        </>
    );
}

/** `opened`: whether all are open at first. `choose`: what selects between groups and single requests. */
export function Requests({ requests, empty, error, opened = false, choose }: { requests: Request[]; empty: preact.ComponentChildren; error: string; opened?: boolean; choose?: preact.ComponentChildren }) {
    const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set(opened ? requests.map((r) => r.key) : []));
    const [all, setAll] = useState(false);
    const grouped = requests.some((r) => r.group);
    const first = grouped ? SHOWN_GROUPS : SHOWN;
    const kinds = useMemo(() => new Set(requests.flatMap((r) => r.parts.filter((p) => p.ns > 0).map((p) => p.kind))), [requests]);
    const toggle = (key: string) => {
        const next = new Set(open);
        if (!next.delete(key)) next.add(key);
        setOpen(next);
    };
    return (
        <section class="requests" aria-labelledby="requests-title">
            <header class="bar">
                <h2 id="requests-title">{grouped ? 'Requests by cause' : 'Slowest requests'}</h2>
                {choose}
                {requests.length > 0 && <p class="sum dim">{grouped ? 'Most time lost first' : `${format.count(requests.length, 'request')}, slowest first`}; a bar is {grouped ? 'the slowest request’s' : 'one request’s'} whole time</p>}
                <ul class="legend" aria-label="Parts">
                    {PART_KINDS.filter(([kind]) => kinds.has(kind)).map(([kind, name, help]) => (
                        <li key={kind} title={help}>
                            <i class={`swatch ${classOf(kind)}`} />
                            {name}
                        </li>
                    ))}
                </ul>
            </header>
            {error && <p class="failed" role="alert">{error}</p>}
            {requests.length === 0 ? (
                !error && <div class="empty">{empty}</div>
            ) : (
                <div class="table-scroll">
                    <table class={grouped ? 'request-table grouped' : 'request-table'}>
                        <thead>
                            <tr>
                                <th scope="col" class="number">{grouped ? 'Time lost' : 'Duration'}</th>
                                <th scope="col">Request</th>
                                <th scope="col" class="number">Status</th>
                                <th scope="col">{grouped ? 'Service' : 'Service, pid'}</th>
                                <th scope="col">Where the time went</th>
                                <th scope="col">Cause</th>
                                <th scope="col" class="number">{grouped ? 'Requests' : 'Began'}</th>
                            </tr>
                        </thead>
                        <tbody>
                            {(all ? requests : requests.slice(0, first)).map((r) => (
                                <Row key={r.key} request={r} open={open.has(r.key)} toggle={() => toggle(r.key)} />
                            ))}
                        </tbody>
                    </table>
                    <Signs requests={all ? requests : requests.slice(0, first)} />
                    {requests.length > first && (
                        <button type="button" class="all" onClick={() => setAll(!all)}>
                            {all ? `Show ${first}` : `Show all ${requests.length}`}
                        </button>
                    )}
                </div>
            )}
        </section>
    );
}
