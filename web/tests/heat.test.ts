// Heatmaps: input is validated, colours have value ranges, regions have sums.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { between, compareQuery, decodeHeatmap, heatColor, heatmapPath, levelName, levelOf, levelsOf, regionQuery, sumOf, unixOf, wholeSecond, worth } from '../src/heat';

const fifty = (given: Record<number, number>) => Array.from({ length: 50 }, (_, i) => given[i] ?? 0);
const PERIOD = 50e6;

function heatmap(...counts: (Record<number, number> | null)[]) {
    const seconds = counts.map((c) => (c ? { kept: true, samples: fifty(c), weights_ns: fifty(c).map((n) => n * PERIOD) } : { kept: false }));
    return decodeHeatmap({ start_ms: 7000, start_unix_ms: 1007000, now_ms: 10000, slot_ms: 20, period_ns: PERIOD, seconds });
}

test('a heatmap is decoded', () => {
    const h = heatmap({ 3: 2 }, null);
    assert.equal(h.first, 7);
    assert.equal(h.seconds[0]!.samples[3], 2);
    assert.equal(h.seconds[1], null);
    assert.equal(unixOf(h, 7 * 50 + 1), 1007020);
});

test('other input is rejected, and invalid numbers become 0', () => {
    for (const wrong of [null, 7, {}, { seconds: 1, slot_ms: 20 }, { seconds: [], slot_ms: 10 }]) assert.throws(() => decodeHeatmap(wrong));
    const h = decodeHeatmap({ slot_ms: 20, seconds: [{ kept: true, samples: [-1, 'x', 1e999], weights_ns: null }, 5, null] });
    assert.deepEqual(h.seconds, [{ samples: fifty({}), weights: fifty({}) }, null, null]);
    assert.equal(decodeHeatmap({ slot_ms: 20, seconds: Array(100000).fill(null) }).seconds.length, 3600);
});

test('every value has a colour, and the scale shows it', () => {
    for (const most of [1, 2, 6, 7, 8, 9, 40, 1000]) {
        const h = heatmap({ 0: most });
        const levels = levelsOf(h);
        const names = levels.slice(1).map((_, i) => levelName(levels, i));
        assert.equal(names.length, Math.min(most, 7) + 1);
        assert.equal(new Set(names.map((_, i) => heatColor(i, levels, true) + heatColor(i, levels, false))).size, names.length);
        for (let value = 0; value <= most; value++) {
            const name = names[levelOf(levels, value)]!;
            const [from, to] = name.split('\u2013').map(Number) as [number, number?];
            assert.ok(value >= from && value <= (to ?? from), `${value} is at ${name}`);
        }
    }
    assert.deepEqual(levelsOf(heatmap({})), [0, 1, 2]);
    const half = heatmap({});
    assert.equal(worth(half, 2 * PERIOD), 2, 'at half the rate a sample counts for two');
});

test('regions are in time order, whatever the direction of the drag', () => {
    const h = heatmap({ 49: 1 }, { 0: 2, 10: 4 }, null);
    assert.deepEqual(between(400, 399), { from: 399, to: 401 });
    assert.deepEqual(between(5, 5), { from: 5, to: 6 });
    assert.deepEqual(wholeSecond(449), { from: 400, to: 450 });
    assert.deepEqual(sumOf(h, between(400, 399)), { samples: 3, weight: 3 * PERIOD });
    assert.deepEqual(sumOf(h, { from: 350, to: 450 }), { samples: 7, weight: 7 * PERIOD });
    assert.equal(sumOf(h, { from: 449, to: 451 }), null);
    assert.equal(sumOf(h, { from: 300, to: 310 }), null);
});

test('queries to the agent', () => {
    const [a, b] = [{ from: 1, to: 2 }, { from: 50, to: 100 }];
    assert.equal(heatmapPath(120, { kind: 'process', pid: 7 }), '/api/v1/heatmap?seconds=120&pid=7');
    assert.equal(heatmapPath(120, { kind: 'node' }), '/api/v1/heatmap?seconds=120');
    assert.equal(regionQuery(b, { kind: 'container', id: '0123456789ab' }), 'from=1000&to=2000&container=0123456789ab');
    assert.equal(compareQuery(a, b, { kind: 'node' }), 'baseline_from=20&baseline_to=40&from=1000&to=2000');
});
