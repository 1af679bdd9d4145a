// Decodes and validates /api/v1/hotspots (functions over time), and computes rates for drawing. Rates are CPU seconds per second, i.e. CPUs.

import { scopeQuery, SLOT_MS, type Region } from './heat';
import type { Kind, Scope } from './profile';

export type By = 'self' | 'total';
export type Order = 'most' | 'change';

export interface Window {
    from: number; // milliseconds of the monotonic clock
    to: number;
    duration: number; // nanoseconds that were monitored
    weight: number; // nanoseconds of CPU time
    others: number | null; // weight of functions without a row; null when rows overlap
}

export interface Row {
    name: string;
    kind: Kind;
    mapping: string;
    weight: number;
    weights: number[]; // by window
}

export interface Hotspots {
    offset: number; // milliseconds from the monotonic clock to Unix time
    functions: number; // number of functions with samples
    windows: Window[];
    rows: Row[];
}

const KINDS: readonly string[] = ['native', 'kernel', 'bpf', 'interpreted', 'v8js', 'jvm', 'dotnet', 'truncated', 'wait', 'gpu'];
const number = (v: unknown): number => (typeof v === 'number' && Number.isFinite(v) && v >= 0 ? v : 0);
const object = (v: unknown): Record<string, unknown> => (v !== null && typeof v === 'object' ? (v as Record<string, unknown>) : {});
const list = (v: unknown): unknown[] => (Array.isArray(v) ? v : []);
const text = (v: unknown): string => (typeof v === 'string' ? v : '');

function decodeWindow(value: unknown): Window {
    const w = object(value);
    const from = number(w.from_ms);
    return { from, to: Math.max(from + SLOT_MS, number(w.to_ms)), duration: number(w.duration_ns), weight: number(w.weight_ns), others: w.others_ns === undefined ? null : number(w.others_ns) };
}

function decodeRow(value: unknown, windows: number): Row {
    const r = object(value);
    const weights = list(r.weights_ns);
    return {
        name: text(r.name) || '[unnamed]',
        kind: (KINDS.includes(text(r.kind)) ? r.kind : 'native') as Kind,
        mapping: text(r.mapping),
        weight: number(r.weight_ns),
        weights: Array.from({ length: windows }, (_, i) => number(weights[i])),
    };
}

export function decodeHotspots(value: unknown): Hotspots {
    const h = object(value);
    if (!Array.isArray(h.windows) || !Array.isArray(h.rows)) throw new Error('these are not functions over time');
    const windows = h.windows.slice(0, 3600).map(decodeWindow);
    return {
        offset: number(h.start_unix_ms) - number(h.start_ms),
        functions: number(h.functions),
        windows,
        rows: h.rows.slice(0, 1000).map((r) => decodeRow(r, windows.length)),
    };
}

export const othersOf = (h: Hotspots): number[] | null => (h.windows.some((w) => w.others === null) ? null : h.windows.map((w) => w.others!));

export const rateOf = (w: Window, weight: number): number => (w.duration > 0 ? weight / w.duration : 0);

// Windows monitored for less than half have unreliable rates. The agent uses the same criterion for ranking.
export const isWhole = (w: Window): boolean => w.duration > 0 && w.duration * 2 >= (w.to - w.from) * 1e6;

export interface Rates {
    average: number;
    most: number;
    at: number; // window with the highest rate; -1: none
}

export function ratesOf(h: Hotspots, weights: number[]): Rates {
    const rates = { average: 0, most: 0, at: -1 };
    let duration = 0;
    h.windows.forEach((w, i) => {
        duration += w.duration;
        rates.average += weights[i]!;
        if (isWhole(w) && rateOf(w, weights[i]!) > rates.most) {
            rates.most = rateOf(w, weights[i]!);
            rates.at = i;
        }
    });
    rates.average = duration > 0 ? rates.average / duration : 0;
    return rates;
}

// The window extended to whole slots, as a region for the flame graph.
export const regionOf = (w: Window): Region => ({ from: Math.floor(w.from / SLOT_MS), to: Math.ceil(w.to / SLOT_MS) });

// Search expression of the flame graph for exactly this name.
export const exactly = (name: string): string => `"${name}"`;

export const hotspotsPath = (seconds: number, scope: Scope, by: By, order: Order, max: number): string =>
    `/api/v1/hotspots?seconds=${seconds}&max=${max}&by=${by}&order=${order}${scopeQuery(scope)}`;
