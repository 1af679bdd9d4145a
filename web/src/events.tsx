// What happened on the node: a list, marks on the heatmap's time axis, and links to it from the requests that were served meanwhile.

import { createContext } from 'preact';
import { useContext, useEffect, useRef, useState } from 'preact/hooks';
import * as format from './format';
import { list, number, object, text } from './json';

export const EVENTS_SECONDS = 300; // as long as requests are kept
const SHOWN = 5; // until "Show all" is pressed
const SHOWN_OF_REQUEST = 3;
const MARK_MIN_PX = 6;

export interface NodeEvent {
    key: string;
    start: number; // milliseconds since 1970
    end: number;
    name: string; // "drops.packets"
    text: string;
    pid: number; // of the process that it happened to; 0: of none
}

export function decodeEvents(value: unknown): NodeEvent[] {
    const seen = new Map<string, number>();
    return list(value).map(object).map((e) => {
        const end = number(e.time_unix_nano) / 1e6;
        const key = `${end}:${text(e.name)}:${text(e.text)}`;
        const n = seen.get(key) ?? 0;
        seen.set(key, n + 1);
        return { key: n ? `${key}:${n}` : key, start: end - number(e.duration_ns) / 1e6, end, name: text(e.name), text: text(e.text), pid: number(object(e.attributes)['process.pid']) };
    });
}

/** The events during a request, with the events of its own process first. */
export function eventsDuring(events: NodeEvent[], request: { start: number; duration: number; pid: number }): NodeEvent[] {
    const during = events.filter((e) => e.start <= request.start + request.duration / 1e6 && e.end >= request.start);
    return [...during.filter((e) => e.pid === request.pid), ...during.filter((e) => e.pid !== request.pid)];
}

/** `choose` scrolls to an event in the list. A new object each time: an event can be chosen again. */
export const Events = createContext<{ events: NodeEvent[]; chosen: { key: string } | null; choose: (key: string) => void }>({ events: [], chosen: null, choose: () => {} });

const sayEvent = (e: NodeEvent): string => `${format.clock(e.end)} ${e.name}: ${e.text}`;

/** On the axis of `seconds` from `from`, in milliseconds since 1970. The list has the same for readers of the screen and the keyboard. */
export function EventMarks({ from, seconds }: { from: number; seconds: number }) {
    const { events, chosen, choose } = useContext(Events);
    const shown = events.filter((e) => e.end >= from && e.start < from + seconds * 1000);
    if (!shown.length) return null;
    const at = (ms: number): number => Math.max(0, Math.min(100, (ms - from) / (seconds * 10)));
    return (
        <div class="event-marks" aria-hidden="true" data-testid="event-marks">
            {shown.map((e) => (
                <i
                    key={e.key}
                    class={e.key === chosen?.key ? 'chosen' : ''}
                    title={sayEvent(e)}
                    style={{ left: `min(${at(e.start)}%, 100% - ${MARK_MIN_PX}px)`, width: `max(${at(e.end) - at(e.start)}%, ${MARK_MIN_PX}px)` }}
                    onClick={() => choose(e.key)}
                />
            ))}
        </div>
    );
}

/** Nothing without events. */
export function EventList() {
    const { events, chosen } = useContext(Events);
    const [all, setAll] = useState(false);
    const chosenRow = useRef<HTMLLIElement>(null);
    const first = Math.max(SHOWN, events.findIndex((e) => e.key === chosen?.key) + 1);
    useEffect(() => chosenRow.current?.focus(), [chosen]); // scrolls to it
    if (!events.length) return null;
    return (
        <section class="events" aria-labelledby="events-title">
            <header class="bar">
                <h2 id="events-title">Events of the node</h2>
                <p class="sum dim">
                    Last {EVENTS_SECONDS / 60} minutes, newest first; <code>sonde events</code> says what to do
                </p>
            </header>
            <ul>
                {(all ? events : events.slice(0, first)).map((e) => (
                    <li key={e.key} ref={e.key === chosen?.key ? chosenRow : null} class={e.key === chosen?.key ? 'chosen' : ''} tabIndex={-1}>
                        <span class="dim">{format.clock(e.end)}</span> <b class="code">{e.name}</b> <span>{e.text}</span>
                    </li>
                ))}
            </ul>
            {events.length > first && (
                <button type="button" class="all" onClick={() => setAll(!all)}>
                    {all ? `Show ${first}` : `Show all ${events.length}`}
                </button>
            )}
        </section>
    );
}

/** Links from an opened request; nothing without events. */
export function EventsOfRequest({ request }: { request: { start: number; duration: number; pid: number } }) {
    const { events, choose } = useContext(Events);
    const during = eventsDuring(events, request);
    if (!during.length) return null;
    return (
        <ul class="event-links" aria-label="Events of the node during this request">
            {during.slice(0, SHOWN_OF_REQUEST).map((e) => (
                <li key={e.key}>
                    <button type="button" class="link" onClick={() => choose(e.key)}>
                        {e.name}
                    </button>{' '}
                    {e.text}
                </li>
            ))}
            {during.length > SHOWN_OF_REQUEST && <li class="dim">and {during.length - SHOWN_OF_REQUEST} more</li>}
        </ul>
    );
}
