// Decodes the JSON of `sonde io report --json` (docs/signals/io.md), and adds up what the page shows.

import { decodeCoverage, type Coverage } from './coverage';
import { list, number, object, text, type Json } from './json';

export const BINS = ['to 100 B', 'to 1 KiB', 'to 10 KiB', 'to 100 KiB', 'to 1 MiB', 'to 4 MiB', 'to 10 MiB', 'to 100 MiB', 'to 1 GiB', 'more'];

export interface Accesses {
    operations: number;
    bytes: number;
    time: number; // nanoseconds
    sizes: number[]; // operations by bin
    located: number; // operations whose offset is known
    followed: number; // those with one before them: the next two are among them
    sequential: number;
    consecutive: number;
    unaligned: number;
    slowest: number; // nanoseconds
    slowestBytes: number;
}

/** A file as all processes used it. */
export interface File {
    path: string; // '': calls that name a path
    mount: string;
    fileSystem: string;
    processes: number;
    reads: Accesses;
    writes: Accesses;
    metadata: number; // operations
    metadataTime: number; // nanoseconds
    errors: number;
    time: number; // nanoseconds, of all operations
}

export interface Finding {
    name: string;
    operation: string; // '': of neither reads nor writes alone
    severity: string;
    share: number;
    change: string;
    about: string; // the file or the process, and how many others
}

/** Operations that failed alike. */
export interface Failure {
    error: string; // 'ENOSPC'
    operation: string;
    path: string; // '': not known
    expected: boolean; // programs expect this error
    process: string;
    count: number;
}

export interface Process {
    pid: number;
    command: string;
    reads: number[]; // bytes by interval
    writes: number[];
}

export interface Report {
    title: string;
    executable: string;
    job: string;
    uid: number;
    start: number; // milliseconds since 1970
    duration: number; // nanoseconds
    coverage: Coverage;
    lost: number; // operations
    pending: number; // operations that had not ended
    findings: Finding[];
    failures: Failure[]; // unexpected errors first
    files: File[]; // those with the most time first
    processes: Process[];
    interval: number; // nanoseconds
    intervals: number;
}

export const NO_PATH = '(calls that name a path)';

function decodeAccesses(value: unknown): Accesses {
    const a = object(value);
    return {
        operations: number(a.operations),
        bytes: number(a.bytes),
        time: number(a.time_ns),
        sizes: BINS.map((_, i) => number(list(a.sizes)[i])),
        located: number(a.located),
        followed: number(a.followed),
        sequential: number(a.sequential),
        consecutive: number(a.consecutive),
        unaligned: number(a.unaligned),
        slowest: number(a.slowest_ns),
        slowestBytes: number(a.slowest_bytes),
    };
}

/** Adds what another process did. */
function addAccesses(sum: Accesses, a: Accesses): void {
    for (const key of ['operations', 'bytes', 'time', 'located', 'followed', 'sequential', 'consecutive', 'unaligned'] as const) sum[key] += a[key];
    a.sizes.forEach((n, i) => (sum.sizes[i]! += n));
    if (a.slowest > sum.slowest) [sum.slowest, sum.slowestBytes] = [a.slowest, a.slowestBytes];
}

export function sumOf(files: File[], direction: 'reads' | 'writes'): Accesses {
    const sum = decodeAccesses({});
    for (const f of files) addAccesses(sum, f[direction]);
    return sum;
}

const METADATA = ['opens', 'creates', 'closes', 'stats', 'syncs', 'truncates', 'lists', 'others'];

function decodeFile(f: Json): File {
    const [reads, writes, metadataTime] = [decodeAccesses(f.reads), decodeAccesses(f.writes), number(object(f.metadata).time_ns)];
    return {
        path: text(f.path),
        mount: text(f.mount_point),
        fileSystem: text(f.file_system),
        processes: 1,
        reads,
        writes,
        metadata: METADATA.reduce((sum, key) => sum + number(f[key]), 0),
        metadataTime,
        errors: number(f.errors),
        time: reads.time + writes.time + metadataTime,
    };
}

/** The report has each file once for each process. */
function mergeFiles(values: unknown[]): File[] {
    const files = new Map<string, File>();
    for (const f of values.map(object).map(decodeFile)) {
        const key = `${f.path}\0${f.mount}`;
        const sum = files.get(key);
        if (!sum) {
            files.set(key, f);
            continue;
        }
        addAccesses(sum.reads, f.reads);
        addAccesses(sum.writes, f.writes);
        for (const name of ['processes', 'metadata', 'metadataTime', 'errors', 'time'] as const) sum[name] += f[name];
    }
    return [...files.values()].sort((a, b) => b.time - a.time);
}

function decodeFinding(f: Json, processes: Process[]): Finding {
    const process = processes[number(f.process)];
    const others = number(f.other_files);
    const file = typeof f.file === 'string' ? f.file || NO_PATH : null;
    return {
        name: text(f.name),
        operation: text(f.operation),
        severity: text(f.severity),
        share: number(f.share),
        change: text(f.change),
        about: [
            ...(file !== null ? [`${file}${others ? ` and ${others} other ${others === 1 ? 'file' : 'files'}` : ''}`] : []),
            ...(process && (file === null || processes.length > 1) ? [`${file !== null ? 'costs ' : ''}process ${process.pid} ${process.command}${file !== null ? ' most' : ''}`] : []),
        ].join('; '),
    };
}

function decodeFailure(f: Json, processes: Process[]): Failure {
    const process = processes[number(f.process)];
    return {
        error: text(f.error),
        operation: text(f.operation),
        path: text(f.path),
        expected: f.is_expected === true,
        process: process ? `${process.command} ${process.pid}` : '',
        count: number(f.count),
    };
}

export function decodeReport(value: unknown): Report {
    const r = object(value);
    if (!Array.isArray(r.files) || !Array.isArray(r.processes)) throw new Error('this is not an I/O report');
    const heatmap = object(r.heatmap);
    const cells = list(heatmap.processes).map(object);
    const processes = r.processes.map(object).map((p, i) => ({
        pid: number(p.pid),
        command: text(p.command),
        reads: list(cells[i]?.read_bytes).map(number),
        writes: list(cells[i]?.write_bytes).map(number),
    }));
    return {
        title: text(r.title),
        executable: text(r.executable),
        job: text(r.job_id),
        uid: number(r.uid),
        start: number(r.start_unix_ns) / 1e6,
        duration: number(r.duration_ns),
        coverage: decodeCoverage(r.coverage),
        lost: number(r.lost_operations),
        pending: number(r.pending_operations),
        findings: list(r.findings).map(object).map((f) => decodeFinding(f, processes)),
        failures: list(r.failures).map(object).map((f) => decodeFailure(f, processes)),
        files: mergeFiles(r.files),
        processes,
        interval: number(heatmap.interval_ns),
        intervals: Math.max(0, ...processes.map((p) => p.reads.length)),
    };
}

// ---- heatmap ----

export type Direction = 'both' | 'reads' | 'writes';
export const LEVELS = 7;

export const bytesAt = (p: Process, i: number, direction: Direction): number =>
    (direction === 'writes' ? 0 : (p.reads[i] ?? 0)) + (direction === 'reads' ? 0 : (p.writes[i] ?? 0));

export const bytesOf = (p: Process, direction: Direction): number => p.reads.reduce((sum, _, i) => sum + bytesAt(p, i, direction), 0);

/** The largest number of bytes of each level from 1 on: each a fourth of the next, as amounts of I/O differ by powers of ten. */
export const levelsOf = (most: number): number[] => Array.from({ length: LEVELS }, (_, i) => most / 4 ** (LEVELS - 1 - i));

export const levelOf = (levels: number[], bytes: number): number => (bytes > 0 ? 1 + levels.findIndex((limit) => bytes <= limit) : 0);
