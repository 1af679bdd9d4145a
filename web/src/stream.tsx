// A reply that is a stream of server-sent events: its tokens, and what the time to the first of them was spent on.

import * as format from './format';
import { list, number, object, text } from './json';
import { nameOf } from './parts';

export interface Stream {
    unit: 'token' | 'chunk';
    count: number;
    first: number; // nanoseconds since the request began
    step: number; // from one to the next; 0: not known
    least: boolean; // there may have been more
    firstParts: { kind: string; ns: number }[];
}

/** Null if the reply is not a stream. */
export function decodeStream(value: unknown): Stream | null {
    const s = object(value);
    const count = number(s.count);
    if (!count) return null;
    return {
        unit: s.unit === 'token' ? 'token' : 'chunk',
        count,
        first: number(s.first_ns),
        step: number(s.step_ns),
        least: s.is_late === true || s.is_incomplete === true,
        firstParts: list(s.first_parts).map(object).map((p) => ({ kind: text(p.kind), ns: number(p.ns) })).filter((p) => p.ns > 0).sort((a, b) => b.ns - a.ns),
    };
}

export const sayStream = (s: Stream): string =>
    [`First ${s.unit} after ${format.duration(s.first)}`, s.step > 0 && `then ${format.duration(s.step)} per ${s.unit}`, `${s.least ? 'at least ' : ''}${format.count(s.count, s.unit)}`].filter(Boolean).join(', ');

/** Nothing for a request without a stream and a model. */
export function StreamLines({ stream, model }: { stream: Stream | null; model: string }) {
    return (
        <>
            {model && <p class="dim">Model {model}</p>}
            {stream && <p data-testid="stream">{sayStream(stream)}</p>}
            {stream && stream.firstParts.length > 0 && <p class="dim">Until the first: {stream.firstParts.map((p) => `${nameOf(p.kind)} ${format.duration(p.ns)}`).join(', ')}</p>}
        </>
    );
}
