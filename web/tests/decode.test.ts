import assert from 'node:assert/strict';
import test from 'node:test';
import { changeColor, changeOf } from '../src/change';
import * as format from '../src/format';
import { decodeStatus } from '../src/health';
import { parse } from '../src/json';
import { sayNotObserved } from '../src/observed';
import { canvasColors, frameColor, KIND_NAMES } from '../src/palette';
import { decodeProfile } from '../src/profile';
import { lanesOf, sayLane, saySegment, stackOf, ticksOf } from '../src/path';
import { byKind, decodeRequests } from '../src/requests';
import { sayStream } from '../src/stream';

test('an invalid profile is rejected with a reason', () => {
    for (const bad of [null, 1, 'x', [], {}, { profiles: [] }, { shared: { frames: [] } }]) assert.throws(() => decodeProfile(bad), /not a speedscope file/);
});

test('numbers in a profile are validated', () => {
    const p = decodeProfile({
        shared: { frames: [{ name: 'a', kind: 'nonsense' }, {}] },
        profiles: [{ samples: [[0, 1], [2], [-1], [0.5], ['0'], 'x', null], weights: [5, 6, 7, 8, 9, NaN, -3], sonde: null }, null],
    });
    assert.equal(p.frames[0]!.kind, 'native');
    assert.equal(p.frames[1]!.name, '[unnamed]');
    assert.deepEqual(p.processes[0]!.stacks.map((s) => [...s]), [[0, 1], [], []]);
    assert.equal(p.processes[0]!.weight, 5);
    assert.equal(p.weight, 5);
});

test('events have their own unit, time profiles have nanoseconds', () => {
    const of = (sonde: unknown) => decodeProfile({ shared: { frames: [] }, profiles: [], sonde });
    const faults = of({ type: 'page-faults', unit: 'count', period: 10 });
    assert.deepEqual([faults.time, faults.event, faults.unit, faults.period], ['events', 'page-faults', 'count', 10]);
    assert.equal(of({ type: 'mmap', unit: 'bytes' }).unit, 'bytes');
    assert.equal(of({ type: 'cpu', unit: 'furlongs' }).unit, 'count');
    const waits = of({ type: 'off_cpu', period_ns: 7 });
    assert.deepEqual([waits.time, waits.event, waits.unit, waits.period], ['off_cpu', '', 'nanoseconds', 7]);
    const gpu = of({ type: 'gpu' });
    assert.deepEqual([gpu.time, gpu.event, gpu.unit], ['gpu', '', 'nanoseconds']);
    assert.deepEqual((['nanoseconds', 'count', 'bytes'] as const).map((unit) => format.amount(2048, unit)), ['2.05 µs', '2\u202f048', '2.00 KiB']);
});

test('time that was not monitored is reported', () => {
    const of = (sonde: unknown) => sayNotObserved(decodeProfile({ shared: { frames: [] }, profiles: [], sonde }));
    assert.equal(of({ type: 'off_cpu', duration_ns: 6e10 }), '');
    assert.match(of({ type: 'off_cpu', duration_ns: 1.5e10, not_observed_ns: 4.5e10 }), /^For 45 s of this interval waits were not monitored/);
    assert.match(of({ type: 'wall', duration_ns: 0, not_observed_ns: 6e10 }), /^In this interval waits were not monitored/);
    assert.match(of({ type: 'cpu', duration_ns: 1e9, not_observed_ns: 2e9 }), /^For 2.*s of this interval CPU time was not monitored/);
    const { compared } = decodeProfile({ shared: { frames: [] }, profiles: [], sonde: { compared: { before: { not_observed_ns: 5 }, after: {} } } });
    assert.deepEqual([compared!.before.notObserved, compared!.after.notObserved], [5, 0]);
});

test('requests: must be a list; numbers are checked; keys are distinct', () => {
    assert.throws(() => decodeRequests({}), /not a list/);
    const same = { start_time_unix_nano: '1767225600000000000', duration_ns: 5, service: 's', pid: 1 };
    const [a, b, c] = decodeRequests([same, same, { status: 'x', parts: [null, { kind: 'cpu', ns: -1 }] }]);
    assert.equal(a!.start, 1767225600000);
    assert.notEqual(a!.key, b!.key);
    assert.deepEqual(c!.status, { text: '', state: 'dim', failed: true });
    assert.deepEqual(decodeRequests([{ grpc_status: 14 }, { grpc_status: null }]).map((r) => [r.status.text, r.status.failed]), [['UNAVAILABLE', true], ['unknown', false]]);
    assert.deepEqual(byKind(c!.parts), []);
    const [d] = decodeRequests([{ ...same, parts: [{ kind: 'sleep', ns: 5, stack: ['sleep_ms', 'main'] }, { kind: 'cpu', ns: 1, stack: 'x' }] }]);
    assert.deepEqual(d!.parts.map((p) => p.stack), [['sleep_ms', 'main'], []]);
});

test('streams: in words, and nothing where there is none', () => {
    const of = (stream: unknown) => decodeRequests([{ duration_ns: 100, stream }])[0]!.stream;
    for (const none of [undefined, null, 'x', {}, { count: 'x' }]) assert.equal(of(none), null);
    const whole = of({ unit: 'token', count: 96, first_ns: 412e6, step_ns: 21.3e6, first_parts: [{ kind: 'cpu', ns: 5 }, null, { kind: 'sleep', ns: 7 }] })!;
    assert.equal(sayStream(whole), 'First token after 412 ms, then 21.3 ms per token, 96 tokens');
    assert.deepEqual(whole.firstParts.map((p) => p.kind), ['sleep', 'cpu']);
    assert.equal(sayStream(of({ count: 1, first_ns: 1e6, is_late: true })!), 'First chunk after 1.00 ms, at least 1 chunk');
});

test('segments without a place in the request are dropped, the others are in time order', () => {
    const of = (segments: unknown) => decodeRequests([{ duration_ns: 100, pid: 1, tid: 2, segments }])[0]!;
    for (const bad of [undefined, null, 7, 'x', {}, [null, 1, 'x', [], {}]]) assert.deepEqual(of(bad).segments, []);
    const { segments } = of([{ start_ns: 60, ns: 90, kind: 'surprise' }, { start_ns: '20', ns: '40', kind: 'lock', owner: 'this', evidence: 'measured', tid: 2 }, { start_ns: -1, ns: 5 }, { start_ns: 100, ns: 5 }, { start_ns: 5 }, { start_ns: 5, ns: NaN }]);
    assert.deepEqual(segments.map((s) => [s.start, s.ns, s.kind, s.inferred, s.tid]), [[20, 40, 'lock', false, 2], [60, 40, 'surprise', true, 0]]);
    const mixed = of([{ start_ns: 0, ns: 9, kind: 'lock', owner: 'this', evidence: 'measured', times: [{ kind: 'lock', ns: 6 }, { kind: 'cpu', ns: 3 }] }, { start_ns: 9, ns: 1, times: 7 }]).segments;
    assert.equal(saySegment(mixed[0]!), '+0 s, 9 ns lock (with 3 ns on CPU); this request; measured');
    assert.deepEqual(mixed[1]!.times, []);
    assert.deepEqual(segments.map(saySegment), ['+20 ns, 40 ns lock; this request; measured', '+60 ns, 40 ns surprise; owner not known; inferred']);
});

test('a lane is a thread; its name may come with a later segment', () => {
    const at = (tid: number, thread: string) => ({ start: 0, ns: 1, kind: 'cpu', owner: 'this', inferred: false, pid: 1, tid, thread, process: 'web :80', detail: '', times: [], notes: [] });
    const lanes = lanesOf([at(5, ''), at(0, ''), at(5, 'loop'), at(5, 'other')]);
    assert.deepEqual(lanes, [{ tid: 5, pid: 1, name: 'loop', process: 'web :80' }, { tid: 0, pid: 1, name: '', process: 'web :80' }]);
    assert.deepEqual([sayLane(lanes[0]!, 1), sayLane(lanes[0]!, 2)], ['loop 5', 'loop 5 process 1 (web :80)']);
});

test('the ticks of a time axis are round and few', () => {
    assert.deepEqual(ticksOf(430e6), [0, 100e6, 200e6, 300e6, 400e6]);
    assert.deepEqual(ticksOf(3e6), [0, 500e3, 1e6, 1.5e6, 2e6, 2.5e6, 3e6]);
    for (const duration of [0, 1, 7, 59, 61, 999, 1e9, 123456789, 3.6e12]) {
        const ticks = ticksOf(duration);
        assert.ok(ticks.length >= 1 && ticks.length <= 7 && ticks.at(-1)! <= duration, `${duration}: ${ticks}`);
    }
});

test('the stack of a segment comes from a component of its kind, on the request\'s own thread only', () => {
    const [r] = decodeRequests([{
        duration_ns: 9, pid: 1, tid: 2,
        parts: [{ kind: 'lock', ns: 3, detail: 'a', stack: ['a'] }, { kind: 'lock', ns: 4, detail: 'b', stack: ['b'] }, { kind: 'cpu', ns: 2 }],
        segments: [['lock', 2, 'a'], ['lock', 2, 'x'], ['lock', 3, 'a'], ['cpu', 2, ''], ['lock', 0, 'a']].map(([kind, tid, detail], i) => ({ start_ns: i, ns: 1, kind, tid, detail })),
    }]);
    assert.deepEqual(r!.segments.map((s) => stackOf(r!, s)), [['a'], ['b'], [], [], []]);
});

test('the bar merges components of one kind, in the order of the legend, unattributed last', () => {
    const parts = [['unattributed', 1], ['lock', 2], ['cpu', 3], ['lock', 4], ['surprise', 5]].map(([kind, ns]) => ({ kind: String(kind), ns: Number(ns), detail: '', stack: [] }));
    assert.deepEqual(byKind(parts), [['cpu', 3], ['lock', 6], ['unattributed', 1], ['surprise', 5]]);
});

test('an empty status does not break the page', () => {
    const s = decodeStatus(null);
    assert.deepEqual(s.losses, []);
    assert.deepEqual(s.probes, []);
    assert.equal(decodeStatus({ probes: [{ probe: 'x' }] }).probes[0]!.attached, false);
});

test('number formats', () => {
    assert.deepEqual([0, 1, 999, 1000, 1234567, 99.96e6, 999.9e6, 1e9, 59.9e9, 60e9, 96.1e9, 599e9, 600e9].map(format.duration), ['0 s', '1 ns', '999 ns', '1.00 µs', '1.23 ms', '100 ms', '1.00 s', '1.00 s', '59.9 s', '60.0 s', '96.1 s', '599 s', '10.0 min']);
    assert.deepEqual([0, 0.00001, 0.0123, 0.5, 0.9996, 1].map(format.percent), ['0 %', '< 0.01 %', '1.23 %', '50.0 %', '100 %', '100 %']);
    assert.deepEqual([0, 1023, 1024, 42 * 1048576].map(format.bytes), ['0 B', '1023 B', '1.00 KiB', '42.0 MiB']);
    assert.equal(format.integer(1234567), '1\u202f234\u202f567');
    assert.equal(format.span(60e9), '60 s');
    assert.equal(format.plain('1.00 %'), '1 %');
});

// WCAG 2's contrast ratio of two colours, "#rrggbb" or "hsl(h s% l%)".
function luminance(color: string): number {
    let rgb: number[];
    const hsl = /^hsl\((\d+) (\d+)% (\d+)%\)$/.exec(color);
    if (hsl) {
        const [h, s, l] = [Number(hsl[1]), Number(hsl[2]) / 100, Number(hsl[3]) / 100];
        rgb = [0, 8, 4].map((n) => l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(((n + h / 30) % 12) - 3, 9 - ((n + h / 30) % 12), 1)));
    } else {
        rgb = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16) / 255);
    }
    const [r, g, b] = rgb.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

test('names are readable on every colour, in both themes', () => {
    const contrast = (x: string, y: string) => {
        const [low, high] = [luminance(x), luminance(y)].sort((p, q) => p - q);
        return (high! + 0.05) / (low! + 0.05);
    };
    for (const dark of [false, true]) {
        const c = canvasColors(dark);
        assert.ok(contrast(c.matchText, c.match) >= 4.5, `match, dark ${dark}: ${contrast(c.matchText, c.match)}`);
        assert.ok(contrast(c.dimmedText, c.dimmed) >= 4.5, `dimmed, dark ${dark}: ${contrast(c.dimmedText, c.dimmed)}`);
        for (let i = -100; i <= 100; i++) {
            const color = changeColor({ before: 0.5 - i / 200, after: 0.5 + i / 200, noise: 0, significant: i !== 0 }, dark);
            assert.ok(contrast(c.text, color) >= 4.5, `change ${i} ${color}, dark ${dark}: ${contrast(c.text, color)}`);
        }
        for (const [kind] of KIND_NAMES)
            for (let i = 0; i < 200; i++) {
                const color = frameColor(kind, `/usr/lib/lib${i}.so`, dark);
                assert.ok(contrast(c.text, color) >= 4.5, `${kind} ${color}, dark ${dark}: ${contrast(c.text, color)}`);
            }
    }
});

test('a change is significant when it exceeds sampling noise', () => {
    const recordings = (n: number, m: number) => ({ before: { samples: n, duration: 0 }, after: { samples: m, duration: 0 } });
    const whole = 2 / 10000; // of equal weights
    const noise = (before: number, after: number, spread: number) => changeOf(before, after, spread, whole, recordings(10000, 10000)).noise;
    assert.ok(Math.abs(noise(0.1, 0.11, 0.105 * whole) - 3 * Math.sqrt(0.105 * 0.895 * whole)) < 1e-12, 'that of two shares of samples');
    assert.equal(changeOf(0.1, 0.11, 0.105 * whole, whole, recordings(10000, 10000)).significant, false); // three times 0.43 points
    assert.equal(changeOf(0.1, 0.12, 0.11 * whole, whole, recordings(10000, 10000)).significant, true);
    assert.equal(changeOf(0.1, 0.12, 0.9, 0.91, recordings(10000, 10000)).significant, false, 'few heavy samples');
    assert.equal(noise(1, 1, whole), 0);
    assert.equal(changeOf(0.1, 0.1001, 0, 0, recordings(0, 10000)).significant, true, 'unknown number of samples');
    assert.deepEqual([0.123, -0.5, -0.00001, 0].map(format.points), ['+12.30', '\u221250.00', '0.00', '0.00']);
});

test('control characters of names are not shown, and all else is kept', () => {
    const escaped = String.raw`{"a":"\u001b[2J\u009b1m\u202e x \u00e9 \n \t \u000a \\u001b \"\u2028"}`;
    assert.deepEqual(parse(escaped), { a: '\ufffd[2J\ufffd1m\ufffd x \u00e9 \n \t \n \\u001b "\ufffd' });
    assert.throws(() => parse('{'));
});
