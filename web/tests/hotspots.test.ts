// Functions over time: input is validated; rates are relative to monitored time; bars are visible.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeHotspots, exactly, hotspotsPath, isWhole, othersOf, rateOf, ratesOf, regionOf } from '../src/hotspots';
import { barColor, KIND_NAMES } from '../src/palette';
import { matcher } from '../src/tree';

const window = (from_ms: number, duration_ns: number, weight_ns: number, others_ns?: number) => ({ from_ms, to_ms: from_ms + 5000, duration_ns, weight_ns, others_ns });
const two = decodeHotspots({
    start_ms: 5000, start_unix_ms: 1005000, functions: 3,
    windows: [window(5000, 2e9, 4e9, 1e9), window(10000, 5e9, 1e9, 0), window(15000, 1e8, 2e8, 1e8)],
    rows: [{ name: 'f', kind: 'kernel', mapping: '[k]', weight_ns: 4.1e9, weights_ns: [3e9, 1e9, 1e8] }],
});

test('rates, averages and maxima refer to monitored time', () => {
    assert.deepEqual(two.windows.map(isWhole), [false, true, false]);
    assert.equal(rateOf(two.windows[0]!, 3e9), 1.5);
    assert.deepEqual(ratesOf(two, two.rows[0]!.weights), { average: 4.1 / 7.1, most: 0.2, at: 1 });
    assert.deepEqual(ratesOf(two, [0, 0, 0]), { average: 0, most: 0, at: -1 });
    assert.deepEqual(othersOf(two), [1e9, 0, 1e8]);
    assert.deepEqual(regionOf(two.windows[1]!), { from: 500, to: 750 });
    assert.equal(two.offset, 1000000);
});

test('other input is rejected, and invalid numbers become 0', () => {
    for (const wrong of [null, 7, {}, { windows: 1, rows: [] }, { windows: [] }]) assert.throws(() => decodeHotspots(wrong));
    const h = decodeHotspots({ windows: [5, { from_ms: -1, duration_ns: 'x' }], rows: [null, { name: 7, kind: 'x', weights_ns: [1, -2, 3] }] });
    assert.deepEqual(h.windows.map((w) => [w.from, w.duration, w.others]), [[0, 0, null], [0, 0, null]]);
    assert.deepEqual(h.rows.map((r) => [r.name, r.kind, r.weights]), [['[unnamed]', 'native', [0, 0]], ['[unnamed]', 'native', [1, 0]]]);
    assert.equal(othersOf(h), null);
    assert.equal(rateOf(h.windows[0]!, 5), 0);
    assert.equal(decodeHotspots({ windows: [], rows: Array(100000).fill(null) }).rows.length, 1000);
});

test('queries to the agent and to the flame graph', () => {
    assert.equal(hotspotsPath(120, { kind: 'process', pid: 7 }, 'total', 'change', 8), '/api/v1/hotspots?seconds=120&max=8&by=total&order=change&pid=7');
    const frame = (name: string) => ({ name, kind: 'native' as const, mapping: '/f', file: 'f', line: 0, address: '' });
    for (const name of ['f', 'operator"" _s', 'a/b', 'std::f(int*)']) {
        assert.ok(matcher(exactly(name))(frame(name)), name);
        assert.ok(!matcher(exactly(name))(frame(`${name}x`)), name);
    }
});

// Contrast ratio as defined by WCAG.
function luminance(r: number, g: number, b: number): number {
    const [x, y, z] = [r, g, b].map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)) as [number, number, number];
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
}

function ofHsl(color: string): number {
    const [h, s, l] = /^hsl\(([\d.]+) ([\d.]+)% ([\d.]+)%\)$/.exec(color)!.slice(1).map(Number) as [number, number, number];
    const a = (s / 100) * Math.min(l / 100, 1 - l / 100);
    const channel = (n: number) => l / 100 - a * Math.max(-1, Math.min(((n + h / 30) % 12) - 3, 9 - ((n + h / 30) % 12), 1));
    return luminance(channel(0), channel(8), channel(4));
}

test('every bar has enough contrast with its background', () => {
    for (const [dark, grounds] of [[false, [0xff, 0xf1, 0xe7]], [true, [0x15, 0x1e, 0x28]]] as [boolean, number[]][])
        for (const [kind] of KIND_NAMES)
            for (const ground of grounds) {
                const [a, b] = [ofHsl(barColor(kind, dark)), luminance(ground / 255, ground / 255, ground / 255)];
                const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                assert.ok(contrast > 3, `${kind}, ${dark ? 'dark' : 'light'}, ${ground}: ${contrast}`);
            }
});
