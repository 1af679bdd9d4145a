// The agent's page: routes by time lost and why, requests by cause, then the profile: heatmap, hotspots and live flame graph.

import { render } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { UNREACHABLE, useAnswer, useLive, type Live } from './api';
import { Calls } from './calls';
import { EventList, Events } from './events';
import { Flame } from './flame';
import * as format from './format';
import { Health } from './health';
import { compareQuery, regionQuery, SLOT_MS, timeQuery, type Region } from './heat';
import { HEAT_SECONDS, HeatmapPanel } from './heatmap';
import { HotspotsPanel } from './hotspots-panel';
import { NotObserved, isUnmonitored } from './observed';
import { Gaps, Nothing, OpaquePorts, Overload, type Coverage } from './coverage';
import { decodeProfile, sameScope, TIMES, type Profile, type Scope, type Time } from './profile';
import { Requests, type Request } from './requests';
import { Routes } from './routes';
import { Scopes } from './scopes';
import { ThemeButton, useTheme } from './theme';
import { Title } from './title';
import './style.css';

const SPANS: [number, string][] = [[15, '15 s'], [60, '1 min'], [120, '2 min']];
const TIME_LABELS: [Time, string, string][] = [['cpu', 'CPU', 'where threads work'], ['off_cpu', 'Off-CPU', 'where they wait, and for what'], ['wall', 'Wall', 'both']];
const NODE: Scope = { kind: 'node' };

interface View {
    scope: Scope;
    seconds: number;
    time: Time;
    region: Region | null; // interval of the flame graph; null: the last seconds
    baseline: Region | null;
    each: boolean; // single requests instead of causes
}

// In the URL, "from" and "to" are milliseconds, as in the API.
function readRegion(parameters: URLSearchParams, name: string): Region | null {
    const from = Number(parameters.get(`${name}from`)) / SLOT_MS;
    const to = Number(parameters.get(`${name}to`)) / SLOT_MS;
    return Number.isInteger(from) && Number.isInteger(to) && from >= 0 && to > from && to < 2 ** 40 ? { from, to } : null;
}

function writeRegion(parameters: URLSearchParams, name: string, region: Region | null): void {
    if (!region) return;
    parameters.set(`${name}from`, String(region.from * SLOT_MS));
    parameters.set(`${name}to`, String(region.to * SLOT_MS));
}

// The view is kept in the URL, so that it can be bookmarked and shared.
function readView(): View {
    const parameters = new URLSearchParams(location.hash.slice(1));
    const pid = Number(parameters.get('pid'));
    const container = parameters.get('container') ?? '';
    const seconds = Number(parameters.get('seconds'));
    const time = TIMES.find((t) => t === parameters.get('time')) ?? 'cpu';
    return {
        scope: Number.isInteger(pid) && pid > 0 ? { kind: 'process', pid } : /^[0-9a-f]{12,64}$/.test(container) ? { kind: 'container', id: container } : NODE,
        seconds: SPANS.some(([s]) => s === seconds) ? seconds : 60,
        time,
        region: readRegion(parameters, ''),
        baseline: readRegion(parameters, 'baseline_'),
        each: parameters.get('requests') === 'each',
    };
}

function writeView({ scope, seconds, time, region, baseline, each }: View): void {
    const parameters = new URLSearchParams();
    if (scope.kind === 'process') parameters.set('pid', String(scope.pid));
    if (scope.kind === 'container') parameters.set('container', scope.id);
    if (seconds !== 60) parameters.set('seconds', String(seconds));
    if (time !== 'cpu') parameters.set('time', time);
    if (each) parameters.set('requests', 'each');
    writeRegion(parameters, '', region);
    writeRegion(parameters, 'baseline_', baseline);
    const hash = parameters.toString();
    if (hash !== location.hash.slice(1)) history.replaceState(null, '', hash ? `#${hash}` : location.pathname);
}

function useView(): [View, (view: Partial<View>) => void] {
    const [view, setView] = useState(readView);
    useEffect(() => {
        const changed = () => setView(readView());
        window.addEventListener('hashchange', changed);
        return () => window.removeEventListener('hashchange', changed);
    }, []);
    useEffect(() => writeView(view), [view]);
    return [view, (changes) => setView((was) => ({ ...was, ...changes }))];
}

function Downloads({ view }: { view: View }) {
    const of = view.scope.kind === 'process' ? `&pid=${view.scope.pid}` : view.scope.kind === 'container' ? `&container=${view.scope.id}` : '';
    const compared = view.region && view.baseline;
    const what = compared
        ? `/api/v1/compare?${compareQuery(view.baseline!, view.region!, view.scope)}`
        : `/api/v1/profile?${view.region ? regionQuery(view.region, view.scope) : `seconds=${view.seconds}${of}`}`;
    const formats: [string, string, string][] = compared
        ? [
              ['html', 'HTML', 'this comparison as one file'],
              ['text', 'text', 'the largest changes'],
              ['folded', 'folded', 'one line per stack, for flamegraph.pl'],
          ]
        : [
              ['pprof', 'pprof', 'for go tool pprof'],
              ['folded', 'folded', 'one line per stack'],
              ['html', 'HTML', 'this flame graph as one file'],
              ['json', 'JSON', 'for speedscope.app'],
          ];
    return (
        <div class="downloads">
            <span class="dim">Save as</span>
            {formats.map(([name, label, help]) => (
                <a key={name} href={`${what}${timeQuery(view.time)}&format=${name}`} title={help} download>
                    {label}
                </a>
            ))}
        </div>
    );
}

function LiveState({ live }: { live: Live }) {
    const [, tick] = useState(0);
    useEffect(() => {
        const timer = setInterval(() => tick((n) => n + 1), 1000);
        return () => clearInterval(timer);
    }, []);
    const late = live.at > 0 && Date.now() - live.at > 15000;
    const state = live.paused ? 'paused' : late || live.status.error ? 'late' : 'live';
    const words = live.paused ? `Paused at ${format.clock(live.at)}` : late || live.status.error ? (live.at ? `No update since ${format.clock(live.at)}` : 'No answer') : 'Live';
    return (
        <div class="live">
            <span class={`dot ${state}`} aria-hidden="true" />
            <span role="status" data-testid="live">{words}</span>
            <button type="button" aria-pressed={live.paused} onClick={() => live.setPaused(!live.paused)}>
                {live.paused ? 'Resume' : 'Pause'}
            </button>
        </div>
    );
}

function NoSamples({ live, scope, time, profile }: { live: Live; scope: Scope; time: Time; profile: Profile }) {
    const failed = live.status.value?.probes.find((p) => !p.attached && (time === 'off_cpu' ? /off-CPU time/ : /cpu/i).test(p.probe));
    if (failed)
        return (
            <>
                <b>{time === 'off_cpu' ? 'Waits cannot be monitored.' : 'CPU sampling could not be attached.'}</b>
                <p>{failed.fallbackReason}</p>
                <p>
                    <code>sonde doctor</code> lists the missing rights and features.
                </p>
            </>
        );
    if (isUnmonitored(profile))
        return <b>{time === 'cpu' ? 'Not monitored in this interval.' : 'Waits were not monitored in this interval.'}</b>;
    if (scope.kind !== 'node')
        return (
            <>
                <b>{time === 'off_cpu' ? 'No waits in this interval.' : 'No CPU time in this interval.'}</b>
                <p>{time === 'cpu' ? `It slept${live.status.value?.sampleHz === 0 ? ', is not sampled (profile.sampling_rules)' : ''} or has ended.` : 'It has ended, or its waits in progress are not reported yet.'} Select another process, or the whole node.</p>
            </>
        );
    return (
        <>
            <b>No samples yet.</b>
            <p>
                The first arrive within a few seconds of activity on this node. If none do, <code>sonde doctor</code> reports what this kernel allows.
            </p>
        </>
    );
}

function NoneInRegion({ profile }: { profile: Profile }) {
    if (isUnmonitored(profile)) return <b>Not monitored in this interval.</b>;
    return (
        <>
            <b>No samples in this region.</b>
            <p>Select a larger region, or another process.</p>
        </>
    );
}

const SETTLED_MS = 3000; // by then all samples of an interval have arrived

// The profile of the selected region, or its comparison with the baseline. A region that ends just now is fetched again once it has settled.
function usePicked({ region, baseline, scope, time }: View, live: Live): ReturnType<typeof useAnswer<Profile>> {
    const path = !region ? null : baseline ? `/api/v1/compare?${compareQuery(baseline, region, scope)}${timeQuery(time)}` : `/api/v1/profile?${regionQuery(region, null)}${timeQuery(time)}`;
    const settled = !region || (live.heatmap.value?.now ?? 0) - region.to * SLOT_MS > SETTLED_MS;
    return useAnswer(path, settled, decodeProfile);
}

function NoRequests({ coverage, scope, others }: { coverage: Coverage; scope: Scope; others: number }) {
    if (others > 0 && scope.kind !== 'node')
        return (
            <>
                <b>No HTTP request of this scope ended in this interval.</b>
                <p>Other processes have {format.count(others, 'recorded request')}: select the whole node.</p>
            </>
        );
    return <Nothing coverage={coverage} />;
}

function ChooseRequests({ each, setEach }: { each: boolean; setEach: (each: boolean) => void }) {
    return (
        <div class="switch" role="group" aria-label="Requests">
            <button type="button" aria-pressed={!each} onClick={() => setEach(false)}>
                By cause
            </button>
            <button type="button" aria-pressed={each} onClick={() => setEach(true)}>
                One by one
            </button>
        </div>
    );
}

const sentence = (error: string): string => error && error[0]!.toUpperCase() + error.slice(1) + (error.endsWith('.') ? '' : '.');

function requestsIn(requests: Request[], scope: Scope, profile: Profile | null): Request[] {
    if (scope.kind === 'node') return requests;
    if (scope.kind === 'process') return requests.filter((r) => r.pid === scope.pid);
    const pids = new Set(profile?.processes.filter((p) => p.container === scope.id).map((p) => p.pid));
    return requests.filter((r) => (r.container === null ? pids.has(r.pid) : r.container === scope.id));
}

function Page() {
    const theme = useTheme();
    const [view, setView] = useView();
    const grouped = view.scope.kind === 'node' && !view.each; // causes are of routes, which may have several processes
    const live = useLive(view.seconds, HEAT_SECONDS, view.scope, view.time, grouped);
    const profile = live.profile.value;
    const picked = usePicked(view, live);
    const [words, setWords] = useState(''); // search expression for frames
    const [chosen, setChosen] = useState<{ key: string } | null>(null);
    const events = useMemo(() => ({ events: live.events.value?.list ?? [], chosen, choose: (key: string) => setChosen({ key }) }), [live.events.value, chosen]);
    const status = live.status.value;
    const coverage = live.requests.value?.coverage ?? null;
    const requests = useMemo(() => requestsIn(live.requests.value?.list ?? [], view.scope, profile), [live.requests.value, view.scope, profile]);
    // The URL may have only the first digits of a container ID, as in the API.
    useEffect(() => {
        const wanted = view.scope.kind === 'container' ? view.scope.id : '';
        const id = wanted && profile?.processes.find((p) => p.container.startsWith(wanted))?.container;
        if (id && id !== wanted) setView({ scope: { kind: 'container', id } });
    }, [view.scope, profile]);
    useEffect(() => {
        document.title = status?.host ? `${status.host} · Sonde` : 'Sonde';
    }, [status?.host]);
    return (
        <Events.Provider value={events}>
            <a
                class="skip"
                href="#main"
                onClick={(e) => {
                    e.preventDefault(); // the URL fragment holds the view
                    document.querySelector<HTMLElement>('[role=tree], main')?.focus();
                }}
            >
                Skip to the flame graph
            </a>
            <header class="top">
                <Title />
                <p class="node-name" data-testid="host">
                    {status && (
                        <>
                            <b>{status.host}</b> <span class="dim">Linux {status.kernel}</span>
                        </>
                    )}
                </p>
                {(status?.hasWaits || view.time !== 'cpu') && (
                    <div class="switch" role="group" aria-label="Time">
                        {TIME_LABELS.map(([time, label, help]) => (
                            <button key={time} type="button" title={help} aria-pressed={view.time === time} onClick={() => setView({ time })}>
                                {label}
                            </button>
                        ))}
                    </div>
                )}
                <div class="switch" role="group" aria-label="Span">
                    {SPANS.map(([seconds, label]) => (
                        <button key={seconds} type="button" aria-pressed={view.seconds === seconds} onClick={() => setView({ seconds })}>
                            {label}
                        </button>
                    ))}
                </div>
                <LiveState live={live} />
                <ThemeButton choice={theme.choice} next={theme.next} />
            </header>
            {status && <Health status={status} samples={profile?.samples ?? 0} time={profile?.time ?? view.time} dropped={profile?.dropped ?? 0} />}
            {live.status.error && (
                <p class="failed" role="alert">
                    {sentence(live.status.error)}
                    {live.status.error === UNREACHABLE && ' It has stopped, or the network is down. The page shows the last data and keeps trying.'}
                </p>
            )}
            {live.profile.error && live.profile.error !== live.status.error && <p class="failed" role="alert">{sentence(live.profile.error)}</p>}
            <main id="main" tabIndex={-1} class="node">
            <div class="front">
                {coverage && view.scope.kind === 'node' && <Overload coverage={coverage} />}
                {view.scope.kind === 'node' && <Routes routes={live.routes.value?.list ?? []} seconds={view.seconds} error={live.routes.error === live.status.error || live.routes.error === live.requests.error ? '' : sentence(live.routes.error)} />}
                {coverage && requests.length > 0 && <Gaps coverage={coverage} />}
                {(live.requests.value || live.requests.error) && (
                    <Requests
                        key={grouped ? 'groups' : 'each'}
                        requests={requests}
                        error={live.requests.error === live.status.error ? '' : sentence(live.requests.error)}
                        empty={coverage && <NoRequests coverage={coverage} scope={view.scope} others={live.requests.value?.list.length ?? 0} />}
                        choose={view.scope.kind === 'node' && <ChooseRequests each={view.each} setEach={(each) => setView({ each })} />}
                    />
                )}
                {view.scope.kind === 'node' && <Calls calls={live.calls.value?.list ?? []} seconds={view.seconds} error={live.calls.error === live.status.error || live.calls.error === live.requests.error ? '' : sentence(live.calls.error)} />}
                {coverage && <OpaquePorts coverage={coverage} />}
            </div>
            <div class="columns">
                {profile && <Scopes profile={(view.region && !view.baseline && picked.value) || profile} scope={view.scope} setScope={(scope) => !sameScope(scope, view.scope) && setView({ scope })} />}
                <div class="profile">
                    {live.heatmap.error && live.heatmap.error !== live.status.error && <p class="failed" role="alert">{sentence(live.heatmap.error)}</p>}
                    {live.heatmap.value && (
                        <HeatmapPanel heatmap={live.heatmap.value} dark={theme.dark} region={view.region} baseline={view.baseline} setRegions={(of) => setView(of)} />
                    )}
                    {live.events.error && live.events.error !== live.status.error && <p class="failed" role="alert">{sentence(live.events.error)}</p>}
                    <EventList />
                    {live.at > 0 && <HotspotsPanel seconds={HEAT_SECONDS} scope={view.scope} again={live.at} dark={theme.dark} region={view.region} setRegion={(region) => setView({ region })} words={words} setWords={setWords} />}
                    {view.region ? (
                        <>
                            {picked.error && <p class="failed" role="alert">{sentence(picked.error)}</p>}
                            {picked.value && <NotObserved profile={picked.value} />}
                            {picked.value ? (
                                <Flame key="picked" profile={picked.value} scope={view.baseline ? NODE : view.scope} dark={theme.dark} empty={<NoneInRegion profile={picked.value} />} words={words} setWords={setWords} />
                            ) : (
                                !picked.error && <p class="waiting">Loading…</p>
                            )}
                            {picked.value && <Downloads view={view} />}
                        </>
                    ) : profile ? (
                        <>
                            <NotObserved profile={profile} />
                            <Flame profile={profile} scope={view.scope} dark={theme.dark} empty={<NoSamples live={live} scope={view.scope} time={view.time} profile={profile} />} words={words} setWords={setWords} />
                            <Downloads view={view} />
                        </>
                    ) : (
                        !live.profile.error && <p class="waiting">Loading…</p>
                    )}
                </div>
            </div>
            </main>
        </Events.Provider>
    );
}

render(<Page />, document.getElementById('app')!);
