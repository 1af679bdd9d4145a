// Tables of an I/O report: totals, access sizes, and files.

import { useMemo, useState } from 'preact/hooks';
import * as format from './format';
import { BINS, NO_PATH, sumOf, type Accesses, type Failure, type File, type Report } from './io';

const SHOWN = 50; // files, until "Show all" is pressed

const share = (part: number, whole: number): string => format.percent(part / Math.max(whole, 1));
const orDash = (n: number, say: (n: number) => string): string => (n > 0 ? say(n) : '–');

export function Totals({ report }: { report: Report }) {
    const [reads, writes] = [sumOf(report.files, 'reads'), sumOf(report.files, 'writes')];
    const metadata = report.files.reduce((sum, f) => ({ operations: sum.operations + f.metadata, time: sum.time + f.metadataTime }), { operations: 0, time: 0 });
    const all = reads.time + writes.time + metadata.time;
    const row = (name: string, operations: number, bytes: number, time: number) => (
        <tr>
            <th scope="row">{name}</th>
            <td class="number">{orDash(operations, format.integer)}</td>
            <td class="number">{orDash(bytes, format.bytes)}</td>
            <td class="number">{orDash(time, format.duration)}</td>
            <td class="number">{share(time, all)}</td>
            <td class="number">{bytes > 0 && time > 0 ? `${format.bytes(Math.round((bytes * 1e9) / time))}/s` : '–'}</td>
        </tr>
    );
    return (
        <table class="io-totals" data-testid="totals">
            <thead>
                <tr>
                    <th scope="col">
                        <span class="unseen">Operation</span>
                    </th>
                    <th scope="col" class="number">Operations</th>
                    <th scope="col" class="number">Bytes</th>
                    <th scope="col" class="number" title="Sum over all threads">Time</th>
                    <th scope="col" class="number">Of I/O time</th>
                    <th scope="col" class="number" title="Bytes by the time of the calls">Bandwidth</th>
                </tr>
            </thead>
            <tbody>
                {row('Reads', reads.operations, reads.bytes, reads.time)}
                {row('Writes', writes.operations, writes.bytes, writes.time)}
                {row('Metadata', metadata.operations, 0, metadata.time)}
            </tbody>
        </table>
    );
}

function Pattern({ name, accesses: a }: { name: string; accesses: Accesses }) {
    if (!a.operations) return null;
    const order = a.located ? `${share(a.sequential, a.followed)} sequential, ${share(a.consecutive, a.followed)} consecutive, ${share(a.unaligned, a.located)} unaligned; ` : '';
    return (
        <p>
            <b>{name}:</b> {order}slowest {format.duration(a.slowest)} for {format.bytes(a.slowestBytes)}
        </p>
    );
}

export function Sizes({ files }: { files: File[] }) {
    const sums = [sumOf(files, 'reads'), sumOf(files, 'writes')];
    const cells = (a: Accesses, bin: number, style: string) => (
        <>
            <td class="number">{orDash(a.sizes[bin]!, format.integer)}</td>
            <td class="io-bar">{a.sizes[bin]! > 0 && <i class={style} style={{ width: `${(a.sizes[bin]! / a.operations) * 100}%` }} />}</td>
        </>
    );
    return (
        <section aria-labelledby="sizes-title">
            <header class="bar">
                <h2 id="sizes-title">Access sizes</h2>
            </header>
            <table class="io-sizes" data-testid="sizes">
                <thead>
                    <tr>
                        <th scope="col">Size</th>
                        <th scope="col" class="number">Reads</th>
                        <th scope="col">
                            <span class="unseen">Share of reads</span>
                        </th>
                        <th scope="col" class="number">Writes</th>
                        <th scope="col">
                            <span class="unseen">Share of writes</span>
                        </th>
                    </tr>
                </thead>
                <tbody>
                    {BINS.map((name, i) => (
                        <tr key={name}>
                            <th scope="row">{name}</th>
                            {cells(sums[0]!, i, 'io-reads')}
                            {cells(sums[1]!, i, 'io-writes')}
                        </tr>
                    ))}
                </tbody>
            </table>
            <Pattern name="Reads" accesses={sums[0]!} />
            <Pattern name="Writes" accesses={sums[1]!} />
        </section>
    );
}

const FAILURES = 10; // shown until "Show all" is pressed

export function Failures({ failures }: { failures: Failure[] }) {
    const [all, setAll] = useState(false);
    if (failures.length === 0) return null;
    const count = (expected: boolean) => failures.reduce((sum, f) => sum + (f.expected === expected ? f.count : 0), 0);
    return (
        <section aria-labelledby="failures-title">
            <header class="bar">
                <h2 id="failures-title">Failed operations</h2>
                <p class="sum dim">
                    {format.integer(count(false))}; {format.integer(count(true))} more failed as programs expect, for example while they look for files
                </p>
            </header>
            <div class="table-scroll" tabIndex={0} role="region" aria-label="Failed operations">
                <table class="io-files" data-testid="failures">
                    <thead>
                        <tr>
                            <th scope="col" class="number">Failed</th>
                            <th scope="col">Error</th>
                            <th scope="col">Operation</th>
                            <th scope="col">File</th>
                            <th scope="col">Process</th>
                        </tr>
                    </thead>
                    <tbody>
                        {(all ? failures : failures.slice(0, FAILURES)).map((f, i) => (
                            <tr key={i} class={f.expected ? 'dim' : ''}>
                                <td class="number">{format.integer(f.count)}</td>
                                <td>{f.error}</td>
                                <td>{f.operation}</td>
                                <td class={f.path ? 'code' : 'dim'}>{f.path || 'path not known'}</td>
                                <td class="dim">{f.process}</td>
                            </tr>
                        ))}
                    </tbody>
                </table>
                {failures.length > FAILURES && (
                    <button type="button" class="all" onClick={() => setAll(!all)}>
                        {all ? `Show ${FAILURES}` : `Show all ${failures.length}`}
                    </button>
                )}
            </div>
        </section>
    );
}

type Key = 'time' | 'read' | 'written' | 'accesses' | 'metadata' | 'errors' | 'processes' | 'path';

const COLUMNS: [key: Key, label: string, value: (f: File) => number, say: (n: number) => string][] = [
    ['time', 'Time', (f) => f.time, format.duration],
    ['read', 'Read', (f) => f.reads.bytes, format.bytes],
    ['written', 'Written', (f) => f.writes.bytes, format.bytes],
    ['accesses', 'Accesses', (f) => f.reads.operations + f.writes.operations, format.integer],
    ['metadata', 'Metadata', (f) => f.metadata, format.integer],
    ['errors', 'Errors', (f) => f.errors, format.integer],
    ['processes', 'Processes', (f) => f.processes, format.integer],
];

export function Files({ files }: { files: File[] }) {
    const [sort, setSort] = useState<Key>('time');
    const [all, setAll] = useState(false);
    const whole = files.reduce((sum, f) => sum + f.time, 0);
    const sorted = useMemo(() => {
        const value = COLUMNS.find(([key]) => key === sort)?.[2];
        return files.slice().sort((a, b) => (value ? value(b) - value(a) : a.path < b.path ? -1 : Number(a.path > b.path)));
    }, [files, sort]);
    const head = (key: Key, label: string, numeric: boolean) => (
        <th key={key} scope="col" class={numeric ? 'number' : ''} aria-sort={sort === key ? (numeric ? 'descending' : 'ascending') : 'none'}>
            <button type="button" class="sort" onClick={() => setSort(key)}>
                {label}
                <span aria-hidden="true">{sort === key ? (numeric ? ' ↓' : ' ↑') : ''}</span>
            </button>
        </th>
    );
    return (
        <section aria-labelledby="files-title">
            <header class="bar">
                <h2 id="files-title">Files</h2>
                <p class="sum dim">{format.count(files.length, 'file')}</p>
            </header>
            <div class="table-scroll" tabIndex={0} role="region" aria-label="Files">
                <table class="io-files" data-testid="files">
                    <thead>
                        <tr>
                            {COLUMNS.map(([key, label]) => head(key, label, true))}
                            {head('path', 'File', false)}
                            <th scope="col">File system</th>
                        </tr>
                    </thead>
                    <tbody>
                        {(all ? sorted : sorted.slice(0, SHOWN)).map((f) => (
                            <tr key={`${f.path}\0${f.mount}`}>
                                {COLUMNS.map(([key, , value, say]) => (
                                    <td key={key} class="number">
                                        {orDash(value(f), say)}
                                        {key === 'time' && <small> {share(f.time, whole)}</small>}
                                    </td>
                                ))}
                                <td class={f.path ? 'code' : 'dim'}>{f.path || NO_PATH}</td>
                                <td class="dim">{f.mount && `${f.mount} (${f.fileSystem})`}</td>
                            </tr>
                        ))}
                    </tbody>
                </table>
                {files.length > SHOWN && (
                    <button type="button" class="all" onClick={() => setAll(!all)}>
                        {all ? `Show ${SHOWN}` : `Show all ${files.length}`}
                    </button>
                )}
            </div>
        </section>
    );
}
