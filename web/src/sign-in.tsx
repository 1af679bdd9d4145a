// Signing in to the page of `sonde server`: where its address needs a token, a browser sends the token once and gets a cookie, which no script can read.

import { useEffect, useRef, useState } from 'preact/hooks';
import { object, parse } from './json';
import { Title } from './title';

const UNREACHABLE = 'the server cannot be reached';

/** 'closed': a token has to be entered. 'open': no token is needed. */
export type State = 'unknown' | 'closed' | 'open' | 'signed in';

export interface SignIn {
    state: State;
    error: string;
    ended: boolean; // the browser had signed in before
    check: () => void; // asks the server again, such as after an answer that was an error
    enter: (token: string) => Promise<boolean>; // false: refused
    leave: () => void;
}

export function stateOf(json: unknown): State {
    const { needs_token, signed_in } = object(json);
    return needs_token === false ? 'open' : signed_in === true ? 'signed in' : 'closed';
}

async function ask(path: string, options: RequestInit): Promise<State> {
    let reply: Response;
    try {
        reply = await fetch(path, { ...options, credentials: 'same-origin' });
    } catch {
        throw new Error(UNREACHABLE);
    }
    const body = (await reply.text()).trim();
    if (!reply.ok) throw new Error(body.slice(0, 300) || `HTTP status ${reply.status}`);
    return stateOf(parse(body));
}

export function useSignIn(): SignIn {
    const [now, setNow] = useState<{ state: State; error: string; ended: boolean }>({ state: 'unknown', error: '', ended: false });
    const latest = useRef(0);
    // Only the answer to the latest question counts: an earlier one may come after it.
    const put = async (path: string, options: RequestInit, leaves = false): Promise<boolean> => {
        const number = ++latest.current;
        const set = (next: (was: typeof now) => typeof now) => number === latest.current && setNow(next);
        try {
            const state = await ask(path, options);
            set((was) => ({ state, error: '', ended: !leaves && state === 'closed' && (was.ended || was.state === 'signed in') }));
            return true;
        } catch (e) {
            set((was) => ({ ...was, error: (e as Error).message }));
            return false;
        }
    };
    const check = () => void put('/login', {});
    const enter = (token: string) => put('/login', { method: 'POST', body: token });
    const leave = () => void put('/logout', { method: 'POST' }, true);
    useEffect(check, []);
    return { ...now, check, enter, leave };
}

// Managers of passwords want a user name, which is hidden here.
export function SignInForm({ signIn }: { signIn: SignIn }) {
    const [token, setToken] = useState('');
    const [waits, setWaits] = useState(false);
    const input = useRef<HTMLInputElement>(null);
    useEffect(() => input.current?.focus(), [signIn.state]);
    const submit = async (e: Event) => {
        e.preventDefault();
        setWaits(true);
        const done = await signIn.enter(token.trim());
        setWaits(false);
        if (done) setToken('');
    };
    return (
        <>
            <header class="top">
                <Title />
                <p class="node-name">all nodes</p>
            </header>
            <main id="main" tabIndex={-1}>
                {signIn.state === 'closed' && (
                    <form class="sign-in" onSubmit={submit}>
                        <input type="text" autocomplete="username" value="sonde" readOnly hidden />
                        <label>
                            Token
                            <input type="password" autocomplete="current-password" required value={token} onInput={(e) => setToken(e.currentTarget.value)} ref={input} />
                        </label>
                        <button type="submit" disabled={waits}>
                            Sign in
                        </button>
                        <p class="dim">{signIn.ended ? 'The session has ended. ' : ''}A token with the scope read is needed: <span class="code">sonde token new --scope read</span> makes one.</p>
                    </form>
                )}
                {signIn.error && (
                    <p class="failed" role="alert">
                        {signIn.error}
                    </p>
                )}
            </main>
        </>
    );
}
