// Decodes and validates the profile of /api/v1/profile?format=json (docs/formats.md, "speedscope JSON") into a compact form. The input
// may be an untrusted file: every number is checked before it is used as an index.

export type Kind = 'native' | 'kernel' | 'bpf' | 'interpreted' | 'v8js' | 'jvm' | 'dotnet' | 'truncated' | 'wait' | 'gpu' | 'group';
const KINDS: ReadonlySet<string> = new Set(['native', 'kernel', 'bpf', 'interpreted', 'v8js', 'jvm', 'dotnet', 'truncated', 'wait', 'gpu']);

// Type of the weights: CPU time, off-CPU time, both, time on a GPU (in files only), or event counts.
export type Time = 'cpu' | 'off_cpu' | 'wall' | 'gpu' | 'events';
export const TIMES: Time[] = ['cpu', 'off_cpu', 'wall'];
const TIMES_OF_FILES: Time[] = [...TIMES, 'gpu'];

// Unit of the weights.
export type Unit = 'nanoseconds' | 'count' | 'bytes';
const UNITS: Unit[] = ['nanoseconds', 'count', 'bytes'];

export interface Frame {
    name: string;
    kind: Kind; // 'group' is added by the page: the node and its processes
    mapping: string;
    file: string;
    line: number;
    address: string;
}

export interface Process {
    key: string;
    title: string;
    pid: number;
    command: string;
    executable: string;
    service: string;
    container: string;
    unit: string;
    weight: number; // in the profile's unit
    samples: number;
    stacks: Uint32Array[]; // indices into Profile.frames, outermost first
    weights: Float64Array;
    before: Float64Array | null; // in a comparison: weights of the same stacks before; both sides are normalised to the same total
    spread: Float64Array | null; // in a comparison: contribution of the stack to the variance of a change of shares
    counts: Float64Array;
}

export interface Recording {
    samples: number; // 0: not known
    duration: number; // nanoseconds; 0: not known
    notObserved: number; // nanoseconds of the requested time that were not monitored
}

export interface Profile {
    time: Time;
    event: string; // its name; '' when the weights are time
    unit: Unit;
    frames: Frame[];
    processes: Process[]; // heaviest first
    start: number; // milliseconds since 1970
    duration: number; // nanoseconds
    notObserved: number; // further nanoseconds of the requested time without monitoring; 'wall': of waits
    period: number; // nanoseconds per sample; events: one sample per so many events, 0: all recorded
    samples: number;
    weight: number;
    dropped: number;
    nothing: string; // why there are no samples; '': not known
    compared: { before: Recording; after: Recording } | null; // in a comparison; weights are from the second profile
}

type Json = Record<string, unknown>;

const object = (v: unknown): Json => (v !== null && typeof v === 'object' && !Array.isArray(v) ? (v as Json) : {});
const list = (v: unknown): unknown[] => (Array.isArray(v) ? v : []);
const text = (v: unknown): string => (typeof v === 'string' ? v : '');
const number = (v: unknown): number => (typeof v === 'number' && Number.isFinite(v) && v >= 0 ? v : 0);

function decodeFrame(value: unknown): Frame {
    const f = object(value);
    const kind = text(f.kind);
    const address = f.address;
    return {
        name: text(f.name) || '[unnamed]',
        kind: (KINDS.has(kind) ? kind : 'native') as Kind,
        mapping: text(f.mapping),
        file: text(f.file),
        line: number(f.line),
        address: typeof address === 'number' ? `0x${address.toString(16)}` : text(address),
    };
}

function decodeProcess(value: unknown, frameCount: number): Process {
    const p = object(value);
    const own = object(p.sonde);
    const resource = object(own.resource);
    const weights = list(p.weights);
    const counts = list(own.counts);
    const before = Array.isArray(own.before) ? own.before : null;
    const stacks: Uint32Array[] = [];
    const kept: number[] = [];
    list(p.samples).forEach((sample, i) => {
        const stack = list(sample);
        if (stack.every((f) => Number.isInteger(f) && (f as number) >= 0 && (f as number) < frameCount)) {
            stacks.push(Uint32Array.from(stack as number[]));
            kept.push(i);
        }
    });
    const pid = number(resource['process.pid']);
    const command = text(resource['process.command']) || text(p.name) || '?';
    const w = Float64Array.from(kept, (i) => number(weights[i]));
    const c = Float64Array.from(kept, (i) => number(counts[i]));
    return {
        key: `${pid}:${command}`,
        title: text(p.name) || command,
        pid,
        command,
        executable: text(resource['process.executable.path']),
        service: text(resource['service.name']),
        container: text(resource['container.id']),
        unit: text(resource['systemd.unit']),
        weight: w.reduce((a, b) => a + b, 0),
        samples: c.reduce((a, b) => a + b, 0),
        stacks,
        weights: w,
        before: before && Float64Array.from(kept, (i) => number(before[i])),
        spread: before && Float64Array.from(kept, (i) => number(list(own.spread)[i])),
        counts: c,
    };
}

function decodeRecording(value: unknown): Recording {
    const r = object(value);
    return { samples: number(r.samples), duration: number(r.duration_ns), notObserved: number(r.not_observed_ns) };
}

function decodeCompared(value: unknown): Profile['compared'] {
    if (value === undefined) return null;
    const c = object(value);
    return { before: decodeRecording(c.before), after: decodeRecording(c.after) };
}

export function decodeProfile(value: unknown): Profile {
    const root = object(value);
    const own = object(root.sonde);
    if (!Array.isArray(root.profiles) || !Array.isArray(object(root.shared).frames))
        throw new Error('this is not a speedscope file: it has no profiles or no shared.frames');
    const frames = list(object(root.shared).frames).map(decodeFrame);
    const processes = list(root.profiles).map((p) => decodeProcess(p, frames.length));
    processes.sort((a, b) => b.weight - a.weight);
    const isEvents = text(own.unit) !== '';
    return {
        time: isEvents ? 'events' : TIMES_OF_FILES.find((t) => t === text(own.type)) ?? 'cpu',
        event: isEvents ? text(own.type) : '',
        unit: UNITS.find((u) => u === own.unit) ?? (isEvents ? 'count' : 'nanoseconds'),
        frames,
        processes,
        start: number(own.start_time_unix_ms),
        duration: number(own.duration_ns),
        notObserved: number(own.not_observed_ns),
        period: number(isEvents ? own.period : own.period_ns),
        samples: processes.reduce((a, p) => a + p.samples, 0),
        weight: processes.reduce((a, p) => a + p.weight, 0),
        dropped: number(own.dropped),
        nothing: text(own.nothing),
        compared: decodeCompared(own.compared),
    };
}

// Selection on the page: the node, a process or a container.
export type Scope = { kind: 'node' } | { kind: 'process'; pid: number } | { kind: 'container'; id: string };

export function inScope(p: Process, scope: Scope): boolean {
    if (scope.kind === 'process') return p.pid === scope.pid;
    if (scope.kind === 'container') return p.container === scope.id;
    return true;
}

export const sameScope = (a: Scope, b: Scope): boolean => JSON.stringify(a) === JSON.stringify(b);
