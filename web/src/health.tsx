// Status of the agent: number of samples, losses by reason, the agent's own cost compared with its budget, and probes that are not
// attached.

import { useRef } from 'preact/hooks';
import * as format from './format';
import type { Time } from './profile';

export interface Probe {
    probe: string;
    attached: boolean;
    method: string;
    fallbackReason: string;
    limitation: string;
}

export interface Status {
    version: string;
    host: string;
    kernel: string;
    uptime: number; // seconds
    hasWaits: boolean; // off-CPU time is recorded
    samples: number;
    sampleHz: number;
    losses: [string, number][];
    stacks: number; // that were resolved
    incompleteStacks: number; // among `stacks`
    detail: string;
    reduced: string[]; // signals that record less than configured at this level of detail, in words
    outlook: string; // why it may use more CPU time than allowed now, and how long; '': it does not
    complete: string[]; // signals that record as configured
    cpu: number; // share of one CPU
    cpuAllowed: number;
    memory: number; // bytes
    memoryAllowed: number;
    probes: Probe[];
}

type Json = Record<string, unknown>;
const object = (v: unknown): Json => (v !== null && typeof v === 'object' ? (v as Json) : {});
const text = (v: unknown): string => (typeof v === 'string' ? v : '');
const texts = (v: unknown): string[] => (Array.isArray(v) ? v.map(text).filter(Boolean) : []);
const number = (v: unknown): number => (typeof v === 'number' && Number.isFinite(v) ? v : 0);

export function decodeStatus(value: unknown): Status {
    const s = object(value);
    const budget = object(s.budget);
    return {
        version: text(s.version),
        host: text(s.host),
        kernel: text(s.kernel),
        uptime: number(s.uptime_seconds),
        hasWaits: typeof s.waits === 'number',
        samples: number(s.samples),
        sampleHz: number(s.sample_hz),
        losses: Object.entries(object(s.losses)).map(([reason, n]) => [reason, number(n)]),
        stacks: number(s.stacks),
        incompleteStacks: number(s.incomplete_stacks),
        detail: text(budget.detail),
        reduced: texts(budget.reduced),
        outlook: text(budget.outlook),
        complete: texts(budget.complete),
        cpu: number(budget.one_cpu_share),
        cpuAllowed: number(budget.one_cpu_share_allowed),
        memory: number(budget.memory_bytes),
        memoryAllowed: number(budget.memory_bytes_allowed),
        probes: (Array.isArray(s.probes) ? s.probes : []).map((p) => {
            const o = object(p);
            return { probe: text(o.probe), attached: o.attached === true, method: text(o.method), fallbackReason: text(o.fallback_reason), limitation: text(o.limitation) };
        }),
    };
}

// Must match src/model/loss.h; an unknown reason is shown by its name only.
export const LOSS_HELP: Record<string, string> = {
    ring_full: 'records that found the ring buffer to user space full',
    map_full: 'entries that found a kernel table full',
    throttled: 'samples the kernel withheld because sampling took too long',
    missed: 'runs of a probe that were skipped, mostly because another one was running on the same CPU',
    no_unwind_table: 'stacks cut because unwind tables or mappings were not known yet',
    truncated: "stacks not walked to the thread's entry, for another reason",
    unnamed: 'samples with frames that have no symbol',
    interpreted: "stacks without all of an interpreter's frames, or with some that have no name",
    file_unanswered: 'samples with frames whose file system does not respond',
    sideband: 'process lifecycle events that were lost; read again from /proc',
    no_process: 'samples of processes that could not be identified',
    not_kept: 'samples, or events of the node, dropped because the memory for them was full',
    unlinked: 'samples, or stacks of waits, taken during a traced request and kept without a link to it',
    unlabelled: 'samples, or stacks of waits, without all labels of their goroutine, or with one cut',
    link_forgotten: 'threads whose traced request was forgotten while they worked for it',
    shed: "samples left out by the agent's own budget",
    request_unmatched: 'requests whose end was never seen',
    request_unbound: 'requests over TLS whose connection was not found',
    request_not_detailed: 'requests counted without their latency breakdown, to keep within limits',
    stream_unread: 'sends of event streams that were not read to their end: too few tokens are counted',
    call_uncounted: 'calls of other services that found a kernel table full',
    not_resolved: 'records and waits that were not resolved in time when Sonde ended',
    decode: 'malformed event records',
};

function Meter({ label, value, allowed, show, unit = '' }: { label: string; value: number; allowed: number; show: (n: number) => string; unit?: string }) {
    const share = allowed > 0 ? value / allowed : 0;
    const state = share > 1 ? 'over' : share > 0.85 ? 'near' : 'fine';
    return (
        <span class="meter" title={`${label}: ${show(value)}${unit}, ${show(allowed)} allowed`}>
            {label} <b>{show(value)}</b>
            <span class="dim"> of {format.plain(show(allowed))}{unit}</span>
            <i class={`gauge ${state}`} aria-hidden="true">
                <i style={{ width: `${Math.min(100, share * 100)}%` }} />
            </i>
        </span>
    );
}

// Allows line breaks at underscores only ("no_unwind_table").
const breakable = (name: string) => name.split('_').map((word, i) => (i ? [<wbr key={i} />, `_${word}`] : word));

// Counted for samples that are there, with a stack that lacks frames or names: the same as loss_is_of_stack in src/model/loss.c.
export const STACK_LOSSES = ['no_unwind_table', 'truncated', 'unnamed', 'interpreted', 'file_unanswered'];

// Losses of the last minute are the difference between now and the oldest reading of at most a minute ago, which is kept here.
function useRecent(status: Status): Map<string, number> | null {
    const kept = useRef<{ uptime: number; losses: Map<string, number> }[]>([]);
    const all: [string, number][] = [...status.losses, ['stacks', status.stacks], ['incomplete', status.incompleteStacks]];
    const now = { uptime: status.uptime, losses: new Map(all) };
    const last = kept.current.at(-1);
    if (last && last.uptime > now.uptime) kept.current = []; // the agent has restarted
    if (!last || last.uptime !== now.uptime) kept.current.push(now);
    while (kept.current.length > 1 && kept.current[0]!.uptime < now.uptime - 61) kept.current.shift();
    if (kept.current.length < 2) return null;
    const then = kept.current[0]!.losses;
    return new Map(all.map(([reason, n]) => [reason, n - (then.get(reason) ?? 0)]));
}

export function Health({ status, samples, time, dropped }: { status: Status; samples: number; time: Time; dropped: number }) {
    const recent = useRecent(status);
    const lost = status.losses.filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
    const others = lost.filter(([reason]) => !STACK_LOSSES.includes(reason));
    const [stacks, incomplete] = recent?.get('stacks') ? [recent.get('stacks')!, recent.get('incomplete') ?? 0] : [status.stacks, status.incompleteStacks];
    const missing = status.probes.filter((p) => !p.attached);
    return (
        <details class="health" data-testid="health">
            <summary>
                <span class="item">
                    <b>{format.integer(samples)}</b> {{ cpu: 'samples', off_cpu: 'waits', wall: 'samples and waits', gpu: 'executions', events: 'events' }[time]}{time === 'cpu' && status.sampleHz > 0 && <span class="dim"> at {status.sampleHz} Hz</span>}
                </span>
                <span class="item losses" data-testid="losses">
                    {incomplete > 0 && (
                        <span title={lost.filter(([reason]) => STACK_LOSSES.includes(reason)).map(([reason, n]) => `${LOSS_HELP[reason]}: ${format.integer(n)}`).join('; ')}>
                            <b>{format.percent(incomplete / Math.max(stacks, 1))}</b> of the stacks are incomplete
                        </span>
                    )}
                    {others.length === 0 ? (
                        incomplete === 0 && 'nothing lost'
                    ) : (
                        <>
                            {incomplete > 0 && ', '}
                            lost:{' '}
                            {others.slice(0, 3).map(([reason, n], i) => (
                                <span key={reason} title={LOSS_HELP[reason] ?? ''}>
                                    {i > 0 && ', '}
                                    {reason.replaceAll('_', ' ')} <b>{format.integer(n)}</b>
                                </span>
                            ))}
                            {others.length > 3 && `, ${others.length - 3} more`}
                        </>
                    )}
                </span>
                {dropped > 0 && <span class="item warn">{format.count(dropped, 'sample')} did not fit into memory: raise budget.memory</span>}
                <span class="item">
                    <Meter label="agent" value={status.cpu} allowed={status.cpuAllowed} show={format.percent} unit=" of one CPU" />
                    {status.outlook && <span class="dim"> {status.outlook}</span>}
                </span>
                <span class="item">
                    <Meter label="memory" value={status.memory} allowed={status.memoryAllowed} show={format.bytes} />
                </span>
                {status.reduced.length > 0 && (
                    <span class="item warn todo" title={`Complete: ${status.complete.join('; ')}.`}>
                        To keep to its CPU limit: {status.reduced.join('; ')}. To record everything, raise budget.one_cpu
                    </span>
                )}
                {status.memoryAllowed > 0 && status.memory > status.memoryAllowed && <span class="item warn todo">The oldest samples are dropped to keep to the memory limit: raise budget.memory</span>}
                {missing.length > 0 && (
                    <span class="item warn todo">
                        Not attached: {missing.map((p) => p.probe).join(', ')}. <code>sonde doctor</code> prints what to change
                    </span>
                )}
                <span class="item unfold" aria-hidden="true">
                    Details
                </span>
            </summary>
            <div class="health-body">
                <table>
                    <caption>Lost or incomplete records</caption>
                    <thead>
                        <tr>
                            <th scope="col">Reason</th>
                            <th scope="col" class="number">
                                Last minute
                            </th>
                            <th scope="col" class="number">
                                Since start
                            </th>
                            <th scope="col">Meaning</th>
                        </tr>
                    </thead>
                    <tbody>
                        {lost.map(([reason, n]) => (
                            <tr key={reason}>
                                <th scope="row">{breakable(reason)}</th>
                                <td class="number">{recent ? format.integer(recent.get(reason) ?? 0) : '–'}</td>
                                <td class="number">{format.integer(n)}</td>
                                <td class="dim">{LOSS_HELP[reason] ?? ''}</td>
                            </tr>
                        ))}
                        <tr>
                            <td colSpan={4} class="dim">
                                {lost.length ? 'None of: ' : 'Nothing was lost. Counted are: '}
                                {status.losses.filter(([, n]) => n <= 0).map(([reason], i) => (
                                    <span key={reason} title={LOSS_HELP[reason] ?? ''}>
                                        {i > 0 && ', '}
                                        {reason}
                                    </span>
                                ))}
                            </td>
                        </tr>
                    </tbody>
                </table>
                <table>
                    <caption>Probes and how they are attached</caption>
                    <thead>
                        <tr>
                            <th scope="col">Probe</th>
                            <th scope="col">Attached as</th>
                            <th scope="col">Why no better method, and its limitation</th>
                        </tr>
                    </thead>
                    <tbody>
                        {status.probes.map((p) => (
                            <tr key={p.probe}>
                                <th scope="row">{p.probe}</th>
                                <td>{p.attached ? p.method : <strong class="warn">not attached</strong>}</td>
                                <td>{[p.fallbackReason, p.limitation].filter(Boolean).join('. ')}</td>
                            </tr>
                        ))}
                    </tbody>
                </table>
                <p class="dim">
                    Level of detail: “{status.detail}”. {status.reduced.length > 0 && `To keep to the CPU limit (budget.one_cpu): ${status.reduced.join('; ')}. `}
                    Complete: {status.complete.join('; ')}. Sonde {status.version}, up for {format.duration(status.uptime * 1e9)}, {format.integer(status.samples)} samples since start. All metrics: <a href="/metrics">/metrics</a>.
                </p>
            </div>
        </details>
    );
}
