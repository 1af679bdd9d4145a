// Formats numbers for people: three significant digits and a unit.

// Seconds are used up to 600 s, for comparison with time spans that are given in seconds.
const DURATIONS: [from: number, unit: number, name: string][] = [[600e9, 60e9, 'min'], [1e9, 1e9, 's'], [1e6, 1e6, 'ms'], [1e3, 1e3, 'µs'], [1, 1, 'ns']];

const three = (v: number): string => (v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2));

export function duration(ns: number): string {
    if (ns <= 0) return '0 s';
    const [, size, unit] = DURATIONS.find(([from]) => ns >= from * 0.9995) ?? [1, 1, 'ns'];
    return unit === 'ns' ? `${Math.round(ns)} ns` : `${three(ns / size)} ${unit}`;
}

export function percent(share: number): string {
    const p = share * 100;
    if (!Number.isFinite(p) || p <= 0) return '0 %';
    if (p < 0.01) return '< 0.01 %';
    return `${p >= 99.95 ? '100' : p >= 10 ? p.toFixed(1) : p.toFixed(2)} %`;
}

// The difference of two shares, in percentage points.
export function points(difference: number): string {
    const size = Math.abs(difference * 100).toFixed(2);
    return `${size === '0.00' ? '' : difference < 0 ? '\u2212' : '+'}${size}`;
}

// A configured time span: whole seconds without decimals.
export const span = (ns: number): string => (ns >= 1e9 && ns < 600e9 && ns % 1e9 < 1e6 ? `${Math.round(ns / 1e9)} s` : duration(ns));

// A configured value: without the trailing zeros of a measured one.
export const plain = (text: string): string => text.replace(/\.0+(?= )/, '');

export function bytes(n: number): string {
    let unit = 0;
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    while (n >= 1024 && unit < units.length - 1) {
        n /= 1024;
        unit++;
    }
    return `${unit ? three(n) : n} ${units[unit]}`;
}

export const integer = (n: number): string => Math.round(n).toLocaleString('en-US').replaceAll(',', '\u202f');

// A weight in the profile's unit (profile.ts).
export const amount = (n: number, unit: 'nanoseconds' | 'count' | 'bytes'): string => (unit === 'nanoseconds' ? duration(n) : unit === 'bytes' ? bytes(n) : integer(n));

export const count = (n: number, one: string, many = `${one}s`): string => `${integer(n)} ${n === 1 ? one : many}`;

const two = (n: number): string => String(n).padStart(2, '0');

export function clock(ms: number): string {
    const d = new Date(ms);
    return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

export const moment = (ms: number): string => `${clock(ms)}.${String(Math.floor(ms) % 1000).padStart(3, '0')}`;

// The last component of a path.
export const baseName = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
