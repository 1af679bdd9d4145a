// Colours of frames by kind, for both themes. Within a kind the mapping (library, module) selects the shade, which shows where the code of
// one file ends. Text on them has a contrast of more than 4.5 to 1.

import type { Frame, Kind } from './profile';

interface Shade {
    hue: number;
    spread: number; // of the hue
    chroma: number; // saturation, percent
}

const SHADES: Record<Kind, Shade> = {
    native: { hue: 32, spread: 9, chroma: 76 },
    kernel: { hue: 214, spread: 12, chroma: 46 },
    interpreted: { hue: 146, spread: 12, chroma: 38 },
    v8js: { hue: 64, spread: 7, chroma: 40 },
    jvm: { hue: 176, spread: 8, chroma: 44 },
    dotnet: { hue: 312, spread: 10, chroma: 38 },
    bpf: { hue: 278, spread: 14, chroma: 44 },
    truncated: { hue: 0, spread: 0, chroma: 0 },
    wait: { hue: 340, spread: 0, chroma: 52 },
    gpu: { hue: 108, spread: 12, chroma: 58 },
    group: { hue: 220, spread: 0, chroma: 8 },
};

export const KIND_NAMES: [Kind, string, string][] = [
    ['native', 'user', 'compiled code in user space'],
    ['kernel', 'kernel', 'the Linux kernel and its modules'],
    ['interpreted', 'interpreter', 'code that an interpreter runs'],
    ['v8js', 'JavaScript', 'JIT-compiled JavaScript of V8 (Node.js)'],
    ['jvm', 'Java', 'JIT-compiled code of HotSpot (Java)'],
    ['dotnet', '.NET', 'JIT-compiled .NET code'],
    ['bpf', 'bpf', 'BPF programs in the kernel'],
    ['truncated', 'truncated', 'the stack continues here, but could not be unwound further'],
    ['wait', 'wait', 'why the thread did not run'],
    ['gpu', 'GPU', 'kernels and copies on a GPU, on top of the stack that launched them'],
];

function hash(text: string): number {
    let h = 2166136261;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
    return (h >>> 0) / 4294967296;
}

export function frameColor(kind: Kind, mapping: string, dark: boolean): string {
    const { hue, spread, chroma } = SHADES[kind];
    const h = mapping ? hash(mapping) : 0.5;
    const tint = mapping ? hash(`${mapping}/`) : 0.5;
    const lightness = dark ? 25 + tint * 9 : 73 + tint * 11;
    const saturation = dark ? chroma * 0.6 : chroma;
    if (kind === 'group') return dark ? 'hsl(220 7% 24%)' : 'hsl(220 12% 89%)';
    return `hsl(${(hue + (h - 0.5) * 2 * spread).toFixed(0)} ${saturation.toFixed(0)}% ${lightness.toFixed(0)}%)`;
}

// Colour of a bar without text on the page background: a contrast of more than 3 to 1.
export function barColor(kind: Kind, dark: boolean): string {
    const { hue, chroma } = SHADES[kind];
    return `hsl(${hue} ${dark ? chroma * 0.75 : chroma}% ${dark ? 58 : 37}%)`;
}

export const colorsOf = (frames: Frame[], dark: boolean): string[] => {
    const known = new Map<string, string>();
    return frames.map((f) => {
        const key = `${f.kind}\0${f.mapping}`;
        let color = known.get(key);
        if (!color) known.set(key, (color = frameColor(f.kind, f.mapping, dark)));
        return color;
    });
};

export interface CanvasColors {
    text: string;
    back: string;
    dimmed: string;
    dimmedText: string;
    match: string;
    matchText: string;
    hatch: string;
}

export const canvasColors = (dark: boolean): CanvasColors =>
    dark
        ? { text: '#f1eee8', back: '#15171a', dimmed: '#25292e', dimmedText: '#8b929a', match: '#c2298a', matchText: '#ffffff', hatch: '#5a6068' }
        : { text: '#23201b', back: '#ffffff', dimmed: '#eeeeec', dimmedText: '#62666b', match: '#c2298a', matchText: '#ffffff', hatch: '#b4b4b0' };
