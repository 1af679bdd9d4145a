// Answers of the JSON API of `sonde server` (docs/api.md), and what the page of all nodes makes of them.

import { list, number, object, text, type Json } from './json';
import type { Frame, Profile, Time } from './profile';

export interface Selection {
    last: string; // "1h"
    service: string; // "": any; so for the following
    host: string;
    route: string;
}

/** The path of an endpoint with the parameters that are set. */
export function pathOf(endpoint: string, parameters: Record<string, string>): string {
    const given = Object.entries(parameters).filter(([, value]) => value);
    return `/api/v1/${endpoint}${given.length ? `?${new URLSearchParams(given)}` : ''}`;
}

export interface Answer {
    lists: Record<string, Json[]>;
    empty: string; // why there are no rows; "": there are some
    truncated: boolean;
}

export function decodeAnswer(json: unknown): Answer {
    const root = object(json);
    const lists = Object.entries(root).filter(([, value]) => Array.isArray(value));
    return { lists: Object.fromEntries(lists.map(([name, rows]) => [name, list(rows).map(object)])), empty: text(root.empty), truncated: root.truncated === true };
}

const kindOf = (name: string): Frame['kind'] => (name === '[other stacks]' ? 'truncated' : name.startsWith('[') ? 'wait' : 'native');

/** The rows of /api/v1/profile as a profile of one process, which the flame graph draws. */
export function profileOf(rows: Json[], time: Time, title: string): Profile {
    const numbers = new Map<string, number>();
    const stacks = rows.map((row) =>
        Uint32Array.from(list(row.stack), (name) => {
            const n = numbers.get(text(name)) ?? numbers.size;
            numbers.set(text(name), n);
            return n;
        }),
    );
    const weights = Float64Array.from(rows, (row) => number(row.ms) * 1e6);
    const weight = weights.reduce((a, b) => a + b, 0);
    const frames = [...numbers.keys()].map((name) => ({ name: name || '[unnamed]', kind: kindOf(name), mapping: '', file: '', line: 0, address: '' }));
    const whole = { key: title, title, pid: 0, command: title, executable: '', service: title, container: '', unit: '', weight, samples: 0, stacks, weights, before: null, spread: null, counts: new Float64Array(rows.length) };
    return { time, event: '', unit: 'nanoseconds', frames, processes: rows.length ? [whole] : [], start: 0, duration: 0, notObserved: 0, period: 0, samples: 0, weight, dropped: 0, nothing: '', compared: null };
}

/** "2026-11-30 18:28:18.570" */
export const momentOf = (value: unknown): string => text(value).replace('T', ' ').replace(/(\.\d{3})\d*Z$/, '$1').replace(/Z$/, '');
