// The critical path of an opened request as swimlanes: one lane per thread, one box per segment. Boxes are in the document in time order, so
// that keyboard and screen readers go through the path; lanes are only positions.

import { useRef, useState } from 'preact/hooks';
import * as format from './format';
import { classOf, nameOf, Stack, type RequestPart } from './parts';

export interface Segment {
    start: number; // nanoseconds after the request's start
    ns: number;
    kind: string;
    owner: string;
    inferred: boolean;
    pid: number;
    tid: number; // 0: the thread is not known
    thread: string;
    process: string; // of another process than the request's; "": not known
    detail: string;
    times: { kind: string; ns: number }[]; // where it stands for short steps of several kinds
    notes: string[]; // its evidence, a line each
}

interface PathRequest {
    duration: number;
    pid: number;
    tid: number;
    parts: RequestPart[];
    segments: Segment[];
}

export interface Lane {
    tid: number;
    pid: number;
    name: string;
    process: string;
}

// Must match request_owner_name() in src/model/request.c.
export const OWNERS: Record<string, string> = { this: 'this request', other: 'another request', several: 'one of several requests', unknown: 'owner not known' };

const LANE = 24; // pixels
const BOX = 16;

/** One lane per thread, in the order of their first segments. */
export function lanesOf(segments: Segment[]): Lane[] {
    const lanes = new Map<number, Lane>();
    for (const s of segments) {
        const lane = lanes.get(s.tid);
        if (!lane) lanes.set(s.tid, { tid: s.tid, pid: s.pid, name: s.thread, process: s.process });
        else lane.name ||= s.thread;
    }
    return [...lanes.values()];
}

/** At most seven round times in nanoseconds from 0 to `duration`, equally far apart. */
export function ticksOf(duration: number): number[] {
    const power = 10 ** Math.floor(Math.log10(Math.max(duration, 1) / 6));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => duration / n <= 6)!;
    return Array.from({ length: Math.floor(duration / step + 1e-9) + 1 }, (_, i) => i * step);
}

const sayProcess = (lane: Lane): string => `process ${lane.pid}${lane.process && ` (${lane.process})`}`;

export const sayLane = (lane: Lane, ownPid: number): string =>
    lane.tid ? [lane.name, lane.tid, ...(lane.pid && lane.pid !== ownPid ? [sayProcess(lane)] : [])].filter(Boolean).join(' ') : 'thread not known';

const sayOwner = (owner: string): string => (Object.hasOwn(OWNERS, owner) ? OWNERS[owner]! : OWNERS.unknown!);

/** " (with 3.00 ms on CPU)"; empty for a segment of one kind. */
function sayOthers(s: Segment): string {
    const others = s.times.filter((t) => t.kind !== s.kind).map((t) => `${format.duration(t.ns)} ${nameOf(t.kind)}`);
    return others.length ? ` (with ${others.join(', ')})` : '';
}

export const saySegment = (s: Segment): string =>
    `+${format.duration(s.start)}, ${format.duration(s.ns)} ${nameOf(s.kind)}${sayOthers(s)}${s.detail && ': '}${s.detail}; ${sayOwner(s.owner)}; ${s.inferred ? 'inferred' : 'measured'}`;

/** The stack of the request's own thread in a wait of this kind; empty if none was recorded, or if the segment is another thread's. */
export function stackOf(request: PathRequest, s: Segment): string[] {
    if (!s.tid || s.tid !== request.tid) return [];
    const parts = request.parts.filter((p) => p.kind === s.kind && p.stack.length).sort((a, b) => b.ns - a.ns);
    return (parts.find((p) => p.detail === s.detail) ?? parts[0])?.stack ?? [];
}

const longest = (segments: Segment[]): number => segments.reduce((best, s, i) => (s.ns > segments[best]!.ns ? i : best), 0);

function boxClass(s: Segment): string {
    return ['path-box', classOf(s.kind), s.inferred && 'inferred', s.owner === 'other' && 'others'].filter(Boolean).join(' ');
}

function Marks({ segments }: { segments: Segment[] }) {
    const marks: [string, string, boolean][] = [
        ['path-box inferred', 'inferred', segments.some((s) => s.inferred && s.kind !== 'unattributed')],
        ['path-box others', 'another request\u2019s work', segments.some((s) => s.owner === 'other')],
    ];
    return (
        <ul class="legend path-marks" aria-hidden="true">
            {marks.filter(([, , present]) => present).map(([style, name]) => (
                <li key={name}>
                    <i class={`swatch ${style}`} />
                    {name}
                </li>
            ))}
        </ul>
    );
}

/** Nothing if no path is known. */
export function CriticalPath({ request }: { request: PathRequest }) {
    const { segments } = request;
    const [chosen, setChosen] = useState<number | null>(null); // null: the longest
    const plot = useRef<HTMLDivElement>(null);
    if (!segments.length) return null;
    const whole = Math.max(request.duration, 1);
    const lanes = lanesOf(segments);
    const laneOf = new Map(lanes.map((lane, i) => [lane.tid, i]));
    const selected = Math.min(chosen ?? longest(segments), segments.length - 1); // an update may have fewer segments
    const stack = stackOf(request, segments[selected]!);
    const hasStacks = segments.some((s) => stackOf(request, s).length);
    const at = (ns: number): string => `${(ns / whole) * 100}%`;

    const onKeyDown = (e: KeyboardEvent) => {
        const to = { ArrowLeft: selected - 1, ArrowUp: selected - 1, ArrowRight: selected + 1, ArrowDown: selected + 1, Home: 0, End: segments.length - 1 }[e.key];
        if (to === undefined || e.altKey || e.ctrlKey || e.metaKey) return;
        e.preventDefault();
        const next = Math.max(0, Math.min(to, segments.length - 1));
        setChosen(next);
        plot.current!.querySelectorAll<HTMLElement>('[role=option]')[next]!.focus();
    };

    return (
        <div class="path">
            <div class="path-head">
                <h3>Critical path</h3>
                <Marks segments={segments} />
            </div>
            <div class="path-scroll">
                <ol class="path-lanes" aria-label="Threads of the critical path">
                    {lanes.map((lane) => (
                        <li key={lane.tid} style={{ height: `${LANE}px` }} title={lane.tid === request.tid ? `${sayLane(lane, request.pid)}: served the request` : sayLane(lane, request.pid)}>
                            <span class={lane.tid === request.tid ? 'own' : ''}>{lane.tid ? lane.name || 'thread' : 'thread not known'}</span>
                            {lane.tid > 0 && <span class="dim"> {lane.tid}{lane.pid > 0 && lane.pid !== request.pid && `, ${sayProcess(lane)}`}</span>}
                        </li>
                    ))}
                </ol>
                <div class="path-plot">
                    <div class="path-axis" aria-hidden="true">
                        {ticksOf(request.duration).map((ns) => (
                            // The first and the last label stay inside.
                            <span key={ns} class="dim" style={{ left: at(ns), transform: `translateX(${ns === 0 ? 0 : ns / whole > 0.94 ? -100 : -50}%)` }}>
                                {Number((ns / 1e6).toPrecision(6))} ms
                            </span>
                        ))}
                    </div>
                    <div ref={plot} class="path-boxes" role="listbox" aria-orientation="horizontal" aria-label="Critical path, in time order" style={{ height: `${lanes.length * LANE}px` }} onKeyDown={onKeyDown}>
                        {lanes.map((lane, i) => (
                            <i key={`lane ${lane.tid}`} class="path-lane" role="presentation" style={{ top: `${i * LANE}px`, height: `${LANE}px` }} />
                        ))}
                        {ticksOf(request.duration).map((ns) => (
                            <i key={`tick ${ns}`} class="path-tick" role="presentation" style={{ left: at(ns) }} />
                        ))}
                        {segments.slice(1).map((s, i) => {
                            const [from, to] = [laneOf.get(segments[i]!.tid)!, laneOf.get(s.tid)!].sort((a, b) => a - b);
                            return from === to ? null : <i key={`link ${i}`} class="path-link" role="presentation" style={{ left: at(s.start), top: `${(from! + 0.5) * LANE}px`, height: `${(to! - from!) * LANE}px` }} />;
                        })}
                        {segments.map((s, i) => {
                            const lane = laneOf.get(s.tid)!;
                            const words = `${saySegment(s)}; ${sayLane(lanes[lane]!, request.pid)}`;
                            return (
                                <div
                                    key={i}
                                    class={boxClass(s)}
                                    role="option"
                                    aria-label={words}
                                    aria-selected={i === selected}
                                    title={words}
                                    tabIndex={i === selected ? 0 : -1}
                                    style={{ left: `min(${at(s.start)}, 100% - 1px)`, width: at(s.ns), top: `${lane * LANE + (LANE - BOX) / 2}px`, height: `${BOX}px` }}
                                    onFocus={() => setChosen(i)}
                                    onClick={(e) => (setChosen(i), (e.currentTarget as HTMLElement).focus())}
                                />
                            );
                        })}
                    </div>
                </div>
            </div>
            <p class="path-line" aria-live="polite" data-testid="path-line">{saySegment(segments[selected]!)}</p>
            {segments[selected]!.notes.map((note) => <p key={note} class="path-note">{note}</p>)}
            {hasStacks && <div class="path-stack code">{stack.length ? <Stack frames={stack} /> : <p class="dim">No stack of this segment</p>}</div>}
        </div>
    );
}
