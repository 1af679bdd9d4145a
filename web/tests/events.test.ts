// Events of the node: decoded, and those during a request.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeEvents, eventsDuring } from '../src/events';

const event = (end_ms: number, duration_ms: number, pid = 0) => ({ time_unix_nano: end_ms * 1e6, duration_ns: duration_ms * 1e6, name: 'io.slow', text: 'slow', attributes: pid ? { 'process.pid': String(pid) } : {} });

test('an event has an interval, and alike ones have keys of their own', () => {
    const events = decodeEvents([event(5000, 1000, 7), event(5000, 1000, 7)]);
    assert.deepEqual({ ...events[0], key: '' }, { key: '', start: 4000, end: 5000, name: 'io.slow', text: 'slow', pid: 7 });
    assert.notEqual(events[0]!.key, events[1]!.key);
    assert.equal(decodeEvents([event(6000, 0), event(5000, 1000, 7)])[1]!.key, events[0]!.key, 'a new event changes no key');
});

test('other input has no events', () => {
    for (const wrong of [null, {}, 'x']) assert.deepEqual(decodeEvents(wrong), []);
    assert.deepEqual(decodeEvents([null]).map((e) => [e.start, e.end, e.name, e.pid]), [[0, 0, '', 0]]);
});

test('a request has the events that overlap it, events of its own process first', () => {
    const events = decodeEvents([event(3000, 0), event(2500, 100), event(2100, 5000, 7), event(1999, 500), event(2000, 500)]);
    const request = { start: 2000, duration: 500e6, pid: 7 };
    assert.deepEqual(eventsDuring(events, request).map((e) => e.end), [2100, 2500, 2000]);
    assert.deepEqual(eventsDuring(events, { ...request, start: 9000 }), []);
});
