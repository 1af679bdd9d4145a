// Checked access to parsed JSON: a value that is missing or has another type is empty.

export type Json = Record<string, unknown>;
export const object = (v: unknown): Json => (v !== null && typeof v === 'object' ? (v as Json) : {});
export const list = (v: unknown): unknown[] => (Array.isArray(v) ? v : []);
export const text = (v: unknown): string => (typeof v === 'string' ? v : '');
export const number = (v: unknown): number => {
    const n = typeof v === 'string' ? Number(v) : v; // 64-bit numbers may be strings
    return typeof n === 'number' && Number.isFinite(n) && n >= 0 ? n : 0;
};
