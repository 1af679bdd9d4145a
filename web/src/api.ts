// Polls the agent's API: profile, requests, heatmap and status, every EVERY_MS while the page is visible. Each request succeeds or
// fails independently; the last value stays on the page, with its age, until a newer one arrives.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { decodeHeatmap, heatmapPath, timeQuery, type Heatmap } from './heat';
import { decodeProfile, type Profile, type Scope, type Time } from './profile';
import { decodeCalls, type Call } from './calls';
import { covered, type Covered } from './coverage';
import { decodeEvents, EVENTS_SECONDS, type NodeEvent } from './events';
import { decodeRequests, type Request } from './requests';
import { decodeRoutes, type Route } from './routes';
import { parse } from './json';
import { decodeStatus, type Status } from './health';

const EVERY_MS = 5000;
const TIMEOUT_MS = 20000;
export const UNREACHABLE = 'the agent cannot be reached';

export interface Part<T> {
    value: T | null;
    error: string;
}

export interface Live {
    profile: Part<Profile>;
    requests: Part<Covered<Request>>;
    routes: Part<Covered<Route>>;
    calls: Part<Covered<Call>>;
    heatmap: Part<Heatmap>;
    events: Part<Covered<NodeEvent>>;
    status: Part<Status>;
    at: number; // time of the last successful reply, milliseconds since 1970; 0: none yet
    paused: boolean;
    setPaused: (paused: boolean) => void;
}

async function ask<T>(path: string, decode: (json: unknown) => T): Promise<T> {
    let reply: Response;
    try {
        reply = await fetch(path, { signal: AbortSignal.timeout(TIMEOUT_MS), credentials: 'same-origin' });
    } catch (e) {
        throw new Error((e as Error).name === 'TimeoutError' ? 'the agent did not answer in time' : UNREACHABLE);
    }
    if (!reply.ok) throw new Error((await reply.text()).trim().slice(0, 300) || `HTTP status ${reply.status}`);
    return decode(parse(await reply.text()));
}

type Set<T> = (of: (was: Part<T>) => Part<T>) => void;

// Fetches and stores one value; on failure the previous value stays, with the error. Results are dropped when wanted() is false.
async function take<T>(path: string, decode: (json: unknown) => T, set: Set<T>, wanted: () => boolean): Promise<boolean> {
    try {
        const value = await ask(path, decode);
        if (wanted()) set(() => ({ value, error: '' }));
        return true;
    } catch (e) {
        if (wanted()) set((was) => ({ value: was.value, error: (e as Error).message }));
        return false;
    }
}

// Fetches a value that does not change with time, whenever `path` or `again` changes. Null path: fetches nothing.
export function useAnswer<T>(path: string | null, again: unknown, decode: (json: unknown) => T): Part<T> {
    const [answer, setAnswer] = useState<Part<T> & { path: string | null }>({ path: null, value: null, error: '' });
    useEffect(() => {
        if (path === null) return;
        let over = false;
        ask(path, decode).then(
            (value) => !over && setAnswer({ path, value, error: '' }),
            (e) => !over && setAnswer((was) => ({ path, value: was.path === path ? was.value : null, error: (e as Error).message })),
        );
        return () => {
            over = true;
        };
    }, [path, again]);
    return answer.path === path ? answer : { value: null, error: '' };
}

/** `grouped`: requests are examples of causes, else the slowest. */
export function useLive(seconds: number, heatSeconds: number, scope: Scope, time: Time, grouped: boolean): Live {
    const heatPath = heatmapPath(heatSeconds, scope);
    const [profile, setProfile] = useState<Part<Profile>>({ value: null, error: '' });
    const [requests, setRequests] = useState<Part<Covered<Request>>>({ value: null, error: '' });
    const [routes, setRoutes] = useState<Part<Covered<Route>>>({ value: null, error: '' });
    const [calls, setCalls] = useState<Part<Covered<Call>>>({ value: null, error: '' });
    const [heatmap, setHeatmap] = useState<Part<Heatmap>>({ value: null, error: '' });
    const [events, setEvents] = useState<Part<Covered<NodeEvent>>>({ value: null, error: '' });
    const [status, setStatus] = useState<Part<Status>>({ value: null, error: '' });
    const [at, setAt] = useState(0);
    const [paused, setPaused] = useState(false);
    const pausedNow = useRef(false);
    pausedNow.current = paused;

    const heatNow = useRef(heatPath);
    heatNow.current = heatPath;

    // Replies that arrive after a pause are dropped: the page must not change while it is paused.
    const load = useCallback(
        async (wanted: () => boolean) => {
            const one = <T>(path: string, decode: (json: unknown) => T, set: Set<T>) => take(path, decode, set, wanted);
            const came = await Promise.all([
                one(`/api/v1/profile?seconds=${seconds}${timeQuery(time)}`, decodeProfile, setProfile),
                one(`/api/v1/requests?seconds=${seconds}${grouped ? '&which=groups' : ''}`, covered('requests', decodeRequests), setRequests),
                one(`/api/v1/routes?seconds=${seconds}`, covered('routes', decodeRoutes), setRoutes),
                one(`/api/v1/calls?seconds=${seconds}`, covered('calls', decodeCalls), setCalls),
                takeHeatmap(wanted),
                one(`/api/v1/events?seconds=${EVENTS_SECONDS}&max=1000`, covered('events', decodeEvents), setEvents),
                one('/api/v1/status', decodeStatus, setStatus),
            ]);
            if (wanted() && came.some(Boolean)) setAt(Date.now());
        },
        [seconds, time, grouped],
    );

    // The heatmap depends on the scope, so it is fetched on a change of scope even while paused; all other replies include every process.
    const takeHeatmap = (wanted: () => boolean) => {
        const path = heatNow.current;
        return take(path, decodeHeatmap, setHeatmap, () => wanted() && path === heatNow.current);
    };
    const isFirst = useRef(true);
    useEffect(() => {
        if (!isFirst.current) void takeHeatmap(() => true);
        isFirst.current = false;
    }, [heatPath]);

    useEffect(() => {
        let over = false;
        let timer = 0;
        let first = true;
        const round = async () => {
            clearTimeout(timer);
            if (first || (!document.hidden && !pausedNow.current)) {
                const always = first;
                first = false;
                await load(() => !over && (always || !pausedNow.current));
            }
            if (!over) timer = window.setTimeout(round, EVERY_MS);
        };
        const seen = () => {
            if (!document.hidden) void round();
        };
        if (!paused) void round();
        document.addEventListener('visibilitychange', seen);
        return () => {
            over = true;
            clearTimeout(timer);
            document.removeEventListener('visibilitychange', seen);
        };
    }, [load, paused]);

    return { profile, requests, routes, calls, heatmap, events, status, at, paused, setPaused };
}
