// Decodes and validates /api/v1/heatmap (CPU time by slots of 20 ms), and computes levels, times and regions for drawing. A time is a slot
// number on the node's monotonic clock; only displayed times are wall-clock times.

import type { Scope, Time } from './profile';

export const SLOTS = 50; // per second
export const SLOT_MS = 20;

export interface Second {
    samples: number[];
    weights: number[]; // nanoseconds of CPU time
}

export interface Heatmap {
    first: number; // second; the picture's first column
    offset: number; // milliseconds from the monotonic clock to Unix time
    now: number; // milliseconds
    period: number; // nanoseconds of CPU time per sample, at full detail
    seconds: (Second | null)[]; // null: samples are no longer kept by slot
}

// [from, to), slot numbers.
export interface Region {
    from: number;
    to: number;
}

const number = (v: unknown): number => (typeof v === 'number' && Number.isFinite(v) && v >= 0 ? v : 0);
const object = (v: unknown): Record<string, unknown> => (v !== null && typeof v === 'object' ? (v as Record<string, unknown>) : {});
const fifty = (v: unknown): number[] => Array.from({ length: SLOTS }, (_, i) => number((Array.isArray(v) ? v : [])[i]));

export function decodeHeatmap(value: unknown): Heatmap {
    const h = object(value);
    if (!Array.isArray(h.seconds) || h.slot_ms !== SLOT_MS) throw new Error('this is not a heatmap of slots of 20 ms');
    const start = number(h.start_ms);
    return {
        first: Math.floor(start / 1000),
        offset: number(h.start_unix_ms) - start,
        now: number(h.now_ms),
        period: number(h.period_ns),
        seconds: h.seconds.slice(0, 3600).map((s) => (object(s).kept === true ? { samples: fifty(object(s).samples), weights: fifty(object(s).weights_ns) } : null)),
    };
}

export const secondOf = (slot: number): number => Math.floor(slot / SLOTS);
export const wholeSecond = (slot: number): Region => ({ from: secondOf(slot) * SLOTS, to: (secondOf(slot) + 1) * SLOTS });
export const sameRegion = (a: Region, b: Region): boolean => a.from === b.from && a.to === b.to;
export const between = (a: number, b: number): Region => ({ from: Math.min(a, b), to: Math.max(a, b) + 1 });
export const unixOf = (h: Heatmap, slot: number): number => slot * SLOT_MS + h.offset;

// CPU time in full-detail samples: with less detail a sample has a larger weight.
export const worth = (h: Heatmap, weight: number): number => (h.period > 0 ? Math.round(weight / h.period) : 0);

export interface Cell {
    samples: number;
    weight: number;
}

// Sum over the slots of a region; null when some are not known.
export function sumOf(h: Heatmap, region: Region): Cell | null {
    const sum = { samples: 0, weight: 0 };
    for (let slot = region.from; slot < region.to; slot++) {
        const second = h.seconds[secondOf(slot) - h.first];
        if (!second) return null;
        sum.samples += second.samples[slot % SLOTS]!;
        sum.weight += second.weights[slot % SLOTS]!;
    }
    return sum;
}

const LEVELS_MAX = 7;

// Lower bound of each colour, starting at 0, and finally the maximum plus one: one colour per value if there are few, otherwise ranges of
// about equal width.
export function levelsOf(h: Heatmap): number[] {
    let most = 1;
    for (const s of h.seconds) for (const w of s?.weights ?? []) most = Math.max(most, worth(h, w));
    const levels = [0];
    const step = most / Math.min(most, LEVELS_MAX);
    for (let i = 0; i < Math.min(most, LEVELS_MAX); i++) levels.push(Math.floor(1 + i * step));
    return [...levels, most + 1];
}

export function levelOf(levels: number[], value: number): number {
    let level = 0;
    while (level + 2 < levels.length && value >= levels[level + 1]!) level++;
    return level;
}

export function levelName(levels: number[], level: number): string {
    const from = levels[level]!;
    const next = levels[level + 1]!;
    return next - from === 1 ? String(from) : `${from}–${next - 1}`;
}

// From zero to the maximum: light to dark in the light theme, dark to light in the dark theme.
export function heatColor(level: number, levels: number[], dark: boolean): string {
    if (level === 0) return dark ? '#1d2125' : '#efefec';
    const share = levels.length > 3 ? (level - 1) / (levels.length - 3) : 0.5;
    return dark ? `hsl(${(18 + 28 * share).toFixed(0)} ${(55 + 40 * share).toFixed(0)}% ${(30 + 40 * share).toFixed(0)}%)` : `hsl(${(42 - 32 * share).toFixed(0)} ${(88 - 10 * share).toFixed(0)}% ${(76 - 44 * share).toFixed(0)}%)`;
}

// ---- queries to the agent ----

export const scopeQuery = (scope: Scope): string => (scope.kind === 'process' ? `&pid=${scope.pid}` : scope.kind === 'container' && scope.id.length >= 12 ? `&container=${scope.id}` : '');
const span = (r: Region, name = ''): string => `${name}from=${r.from * SLOT_MS}&${name}to=${r.to * SLOT_MS}`;

export const heatmapPath = (seconds: number, scope: Scope): string => `/api/v1/heatmap?seconds=${seconds}${scopeQuery(scope)}`;
// CPU time is the default.
export const timeQuery = (time: Time): string => (time === 'cpu' ? '' : `&time=${time}`);
export const regionQuery = (region: Region, scope: Scope | null): string => span(region) + (scope ? scopeQuery(scope) : '');
export const compareQuery = (baseline: Region, region: Region, scope: Scope): string => `${span(baseline, 'baseline_')}&${span(region)}${scopeQuery(scope)}`;
