// The page of `sonde server`: routes, requests, CPU time, events, I/O and hosts of all nodes, over its JSON API.

import { createContext, render, type ComponentChildren } from 'preact';
import { useContext, useEffect, useRef, useState } from 'preact/hooks';
import { useAnswer } from './api';
import { decodeAnswer, momentOf, pathOf, profileOf, type Answer, type Selection } from './centre';
import { Flame } from './flame';
import * as format from './format';
import { number, object, text, type Json } from './json';
import { nameOf } from './parts';
import type { Time } from './profile';
import { SignInForm, useSignIn, type SignIn } from './sign-in';
import { ThemeButton, useTheme } from './theme';
import { Title } from './title';
import './style.css';

const TIMES = ['15m', '1h', '6h', '24h', '168h'];
const SHOWN = '50'; // rows of a table

const ms = (value: unknown): string => (typeof value === 'number' ? format.duration(value * 1e6) : '\u2013');
const count = (value: unknown): string => format.integer(number(value));
/** "900 ms disk, 100 ms on CPU" */
const parts = (value: unknown): string =>
    Object.entries(object(value))
        .filter(([, time]) => number(time) > 0)
        .sort(([, a], [, b]) => number(b) - number(a))
        .map(([kind, time]) => `${ms(time)} ${nameOf(kind)}`)
        .join(', ');

interface Column {
    title: string;
    of: (row: Json) => ComponentChildren;
    isNumber?: boolean;
}

function Table({ columns, rows, name, hasCaption = false }: { columns: Column[]; rows: Json[]; name: string; hasCaption?: boolean }) {
    return (
        <div class="table-scroll">
            <table aria-label={name}>
                {hasCaption && <caption>{name}</caption>}
                <thead>
                    <tr>
                        {columns.map((c) => (
                            <th key={c.title} scope="col" class={c.isNumber ? 'number' : ''}>
                                {c.title}
                            </th>
                        ))}
                    </tr>
                </thead>
                <tbody>
                    {rows.map((row, i) => (
                        <tr key={i}>
                            {columns.map((c) => (
                                <td key={c.title} class={c.isNumber ? 'number' : ''}>
                                    {c.of(row)}
                                </td>
                            ))}
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}

const Check = createContext(() => {});

/** After an error, the server is asked whether the browser is still signed in. */
function useRows(path: string | null, again: unknown) {
    const answer = useAnswer<Answer>(path, again, decodeAnswer);
    const check = useContext(Check);
    useEffect(() => {
        if (answer.error) check();
    }, [answer.error]);
    return answer;
}

/** What stands in the place of rows: the reason why there are none, or an error. */
function Instead({ answer, error }: { answer: Answer | null; error: string }) {
    if (error)
        return (
            <p class="failed" role="alert">
                {error.replace('the agent', 'the server')}
            </p>
        );
    if (!answer) return <p class="dim">…</p>;
    return answer.empty ? <p class="dim">No rows: {answer.empty}.</p> : null;
}

interface SectionProps {
    title: string;
    path: string;
    again: unknown;
    rows: string; // name of the answer's list
    columns: Column[];
    children?: ComponentChildren;
}

function Section({ title, path, again, rows, columns, children }: SectionProps) {
    const { value, error } = useRows(path, again);
    const found = value?.lists[rows] ?? [];
    return (
        <section class="requests">
            <header class="bar">
                <h2>{title}</h2>
                {value?.truncated && <p class="dim">the first {found.length}</p>}
                {children}
            </header>
            <Instead answer={value} error={error} />
            {found.length > 0 && <Table columns={columns} rows={found} name={title} />}
        </section>
    );
}

const place = (row: Json): string => [text(row.service), text(row.host)].filter(Boolean).join(' on ');
const route = (row: Json): string => [text(row.method), text(row.route)].filter(Boolean).join(' ');

/** One request whole. */
function Opened({ id, close }: { id: string; close: () => void }) {
    const { value, error } = useRows(pathOf(`requests/${id}`, {}), id);
    const top = useRef<HTMLElement>(null);
    useEffect(() => top.current?.scrollIntoView(), [id]);
    const spans: Column[] = [
        { title: 'Begin (UTC)', of: (r) => momentOf(r.time) },
        { title: 'Span', of: (r) => <span class="code">{text(r.name)}</span> },
        { title: 'Kind', of: (r) => text(r.kind) },
        { title: 'Where', of: place },
        { title: 'Duration', of: (r) => ms(r.duration_ms), isNumber: true },
    ];
    const segments: Column[] = [
        { title: 'Begin (UTC)', of: (r) => momentOf(r.begin) },
        { title: 'What', of: (r) => nameOf(text(r.kind)) + (r.inferred === true ? ' (inferred)' : '') },
        { title: 'Detail', of: (r) => [text(r.detail), text(r.notes)].filter(Boolean).join('; ') },
        { title: 'Thread', of: (r) => text(r.thread) },
        { title: 'Where', of: place },
        { title: 'Duration', of: (r) => ms(r.duration_ms), isNumber: true },
    ];
    return (
        <section class="requests" data-testid="opened" ref={top}>
            <header class="bar">
                <h2>
                    Trace <span class="code">{id}</span>
                </h2>
                <button type="button" onClick={close}>
                    Close
                </button>
            </header>
            <Instead answer={value} error={error} />
            {(value?.lists.requests ?? []).map((r, i) => (
                <p key={i}>
                    <b>{ms(r.duration_ms)}</b> <span class="code">{route(r)}</span> {place(r)}: {text(r.cause) || parts(r.parts_ms) || 'no cause is known'}
                </p>
            ))}
            {(value?.lists.segments ?? []).length > 0 && <Table columns={segments} rows={value!.lists.segments!} name="Critical path" hasCaption />}
            {(value?.lists.spans ?? []).length > 0 && <Table columns={spans} rows={value!.lists.spans!} name="Spans" hasCaption />}
        </section>
    );
}

function Cpu({ selection, again, dark }: { selection: Selection; again: unknown; dark: boolean }) {
    const [kind, setKind] = useState<Time>('cpu');
    const [words, setWords] = useState('');
    const { last, service, host } = selection;
    const { value, error } = useRows(pathOf('profile', { last, service, host, kind }), again);
    const change = (r: Json): string => format.points(typeof r.change === 'number' ? r.change : 0);
    return (
        <>
            <section class="requests">
                <header class="bar">
                    <h2>Where time goes</h2>
                    <div class="switch" role="group" aria-label="Time">
                        {(['cpu', 'off_cpu'] as const).map((k) => (
                            <button key={k} type="button" aria-pressed={kind === k} onClick={() => setKind(k)}>
                                {k === 'cpu' ? 'CPU' : 'Off-CPU'}
                            </button>
                        ))}
                    </div>
                </header>
                <Instead answer={value} error={error} />
                {(value?.lists.stacks ?? []).length > 0 && (
                    <Flame profile={profileOf(value!.lists.stacks!, kind, service || 'all services')} scope={{ kind: 'node' }} words={words} setWords={setWords} dark={dark} empty={null} />
                )}
            </section>
            <Section
                title="What changed since yesterday"
                path={pathOf('profile/compare', { last, service, host, kind, baseline_ago: '24h', limit: '15' })}
                again={again}
                rows="functions"
                columns={[
                    { title: 'Function', of: (r) => <span class="code">{text(r.function)}</span> },
                    { title: 'Points', of: change, isNumber: true },
                    { title: 'Now', of: (r) => `${format.percent(number(r.share))} (${ms(r.ms)})`, isNumber: true },
                    { title: 'Yesterday', of: (r) => `${format.percent(number(r.baseline_share))} (${ms(r.baseline_ms)})`, isNumber: true },
                ]}
            />
        </>
    );
}

function Choice({ name, value, values, set }: { name: string; value: string; values: string[]; set: (value: string) => void }) {
    const all = values.includes(value) || !value ? values : [value, ...values];
    return (
        <label>
            {name}{' '}
            <select value={value} onChange={(e) => set(e.currentTarget.value)}>
                <option value="">all</option>
                {all.map((v) => (
                    <option key={v} value={v}>
                        {v}
                    </option>
                ))}
            </select>
        </label>
    );
}

function CentrePage({ signIn }: { signIn: SignIn }) {
    const theme = useTheme();
    const [again, setAgain] = useState(0);
    const [selection, setSelection] = useState<Selection>({ last: '1h', service: '', host: '', route: '' });
    const [opened, setOpened] = useState('');
    const choose = (part: Partial<Selection>) => setSelection({ ...selection, ...part });
    const { last, service, host } = selection;
    const services = useRows(pathOf('services', { last }), again);
    const hosts = useRows(pathOf('hosts', {}), again);
    const names = (answer: Answer | null, column: string): string[] => (answer?.lists[`${column}s`] ?? []).map((row) => text(row[column])).filter(Boolean);
    return (
        <>
            <header class="top">
                <Title />
                <p class="node-name">all nodes</p>
                <div class="switch" role="group" aria-label="Time">
                    {TIMES.map((time) => (
                        <button key={time} type="button" aria-pressed={last === time} onClick={() => choose({ last: time })}>
                            {time === '168h' ? '7 d' : time}
                        </button>
                    ))}
                </div>
                <Choice name="Service" value={service} values={names(services.value, 'service')} set={(value) => choose({ service: value, route: '' })} />
                <Choice name="Host" value={host} values={names(hosts.value, 'host')} set={(value) => choose({ host: value })} />
                <button type="button" onClick={() => setAgain(again + 1)}>
                    Reload
                </button>
                {signIn.state === 'signed in' && (
                    <button type="button" onClick={signIn.leave}>
                        Sign out
                    </button>
                )}
                <ThemeButton choice={theme.choice} next={theme.next} />
            </header>
            <main id="main" tabIndex={-1}>
                {opened && <Opened id={opened} close={() => setOpened('')} />}
                <Section
                    title="Where requests lose time"
                    path={pathOf('routes', { last, service, host, limit: SHOWN })}
                    again={again}
                    rows="routes"
                    columns={[
                        { title: 'Time lost', of: (r) => ms(r.lost_ms), isNumber: true },
                        {
                            title: 'Route',
                            of: (r) => (
                                <button type="button" class="link" onClick={() => choose({ service: text(r.service), route: text(r.route) })}>
                                    {route(r)}
                                </button>
                            ),
                        },
                        { title: 'Service', of: (r) => text(r.service) + (r.source === 'sdk' ? ' (SDK)' : '') },
                        { title: 'Cause of the slowest', of: (r) => text(r.slowest_cause) },
                        { title: 'Requests', of: (r) => count(r.requests), isNumber: true },
                        { title: 'Median', of: (r) => ms(r.p50_ms), isNumber: true },
                        { title: '99th pct.', of: (r) => ms(r.p99_ms), isNumber: true },
                        { title: 'Failed', of: (r) => count(r.failed_requests), isNumber: true },
                    ]}
                />
                <Section
                    title={selection.route ? `Slowest requests of ${selection.route}` : 'Slowest requests'}
                    path={pathOf('requests', { last, service, host, route: selection.route, limit: '20' })}
                    again={again}
                    rows="requests"
                    columns={[
                        {
                            title: 'Duration',
                            of: (r) => (
                                <button type="button" class="link" onClick={() => setOpened(text(r.trace_id))}>
                                    {ms(r.duration_ms)}
                                </button>
                            ),
                            isNumber: true,
                        },
                        { title: 'Begin (UTC)', of: (r) => momentOf(r.time) },
                        { title: 'Request', of: (r) => <span class="code">{route(r)}</span> },
                        { title: 'Where', of: place },
                        { title: 'Status', of: (r) => <span class={r.failed === true ? 'status bad' : ''}>{text(r.status)}</span> },
                        { title: 'Cause', of: (r) => text(r.cause) || parts(r.parts_ms) },
                    ]}
                >
                    {selection.route && (
                        <button type="button" onClick={() => choose({ route: '' })}>
                            All routes
                        </button>
                    )}
                </Section>
                <Cpu selection={selection} again={again} dark={theme.dark} />
                <Section
                    title="Events"
                    path={pathOf('events', { last, service, host, limit: SHOWN })}
                    again={again}
                    rows="events"
                    columns={[
                        { title: 'Time (UTC)', of: (r) => momentOf(r.time) },
                        { title: 'Event', of: (r) => <span class="code">{text(r.name)}</span> },
                        { title: 'Where', of: place },
                        { title: 'Text', of: (r) => text(r.text) },
                    ]}
                />
                <Section
                    title="I/O by job"
                    path={pathOf('io', { last, host, limit: SHOWN })}
                    again={again}
                    rows="jobs"
                    columns={[
                        { title: 'Job', of: (r) => [text(r.manager), text(r.job)].filter(Boolean).join(' ') },
                        { title: 'Host', of: (r) => text(r.host) },
                        { title: 'Mount', of: (r) => `${text(r.mountpoint)} (${text(r.fstype)}${r.layer === 'daemon' ? ', its daemon' : ''})` },
                        { title: 'Read', of: (r) => format.bytes(number(r.read_bytes)), isNumber: true },
                        { title: 'Written', of: (r) => format.bytes(number(r.write_bytes)), isNumber: true },
                        { title: 'Operations', of: (r) => count(r.operations), isNumber: true },
                        { title: 'Errors', of: (r) => count(r.errors), isNumber: true },
                    ]}
                />
                <Section
                    title="Hosts"
                    path={pathOf('hosts', { host, limit: SHOWN })}
                    again={again}
                    rows="hosts"
                    columns={[
                        { title: 'Host', of: (r) => text(r.host) },
                        { title: 'Agent', of: (r) => [text(r.agent_version), text(r.status)].filter(Boolean).join(', ') },
                        { title: 'Kernel', of: (r) => [text(r.kernel), text(r.machine)].filter(Boolean).join(' ') },
                        { title: 'Problems', of: (r) => <span class={r.healthy === false ? 'warn' : ''}>{text(r.problems)}</span> },
                        { title: 'Lost events', of: (r) => count(r.lost_events), isNumber: true },
                        { title: 'Last seen (UTC)', of: (r) => momentOf(r.last_seen) },
                    ]}
                />
            </main>
        </>
    );
}

function Whole() {
    const signIn = useSignIn();
    if (signIn.state === 'unknown' || signIn.state === 'closed') return <SignInForm signIn={signIn} />;
    return (
        <Check.Provider value={signIn.check}>
            <CentrePage signIn={signIn} />
        </Check.Provider>
    );
}

render(<Whole />, document.getElementById('app')!);
