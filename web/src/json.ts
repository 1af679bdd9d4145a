// Checked access to parsed JSON: a value that is missing or has another type is empty.

/** Parses JSON from the agent, with U+FFFD for control characters (also of C1, and marks of the direction of text; not for line feeds and tabs): names come from observed programs.
 * The agent escapes each of them, so that only escapes need a look. */
export function parse(json: string): unknown {
    const control = /^\\u(000[0-8b-f]|00[189][0-9a-f]|007f|061c|200[ef]|202[89a-e]|206[6-9])$/i;
    return JSON.parse(json.replace(/\\(u[0-9a-f]{4}|.)/gi, (escape) => (control.test(escape) ? '\\ufffd' : escape)));
}

export type Json = Record<string, unknown>;
export const object = (v: unknown): Json => (v !== null && typeof v === 'object' ? (v as Json) : {});
export const list = (v: unknown): unknown[] => (Array.isArray(v) ? v : []);
export const text = (v: unknown): string => (typeof v === 'string' ? v : '');
export const number = (v: unknown): number => {
    const n = typeof v === 'string' ? Number(v) : v; // 64-bit numbers may be strings
    return typeof n === 'number' && Number.isFinite(n) && n >= 0 ? n : 0;
};
