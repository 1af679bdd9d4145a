// The self-contained flame graph: one HTML file that includes the profile, for mails and issues.

import { render } from 'preact';
import { useState } from 'preact/hooks';
import { Flame } from './flame';
import * as format from './format';
import { NotObserved, sayNotObserved } from './observed';
import { decodeProfile, type Profile, type Scope } from './profile';
import { Scopes } from './scopes';
import { ThemeButton, useTheme } from './theme';
import './style.css';

function when(ms: number): string {
    const d = new Date(ms);
    return ms > 0 && !Number.isNaN(d.getTime()) ? d.toISOString().replace('T', ' ').slice(0, 19) + ' UTC' : '';
}

function FlamePage({ profile }: { profile: Profile }) {
    const theme = useTheme();
    const [scope, setScope] = useState<Scope>({ kind: 'node' });
    const [words, setWords] = useState('');
    return (
        <>
            <header class="top">
                <h1>
                    <svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true">
                        <rect y="1" width="16" height="4" rx="1" class="logo-1" />
                        <rect y="6" width="11" height="4" rx="1" class="logo-2" />
                        <rect y="11" width="5" height="4" rx="1" class="logo-3" />
                    </svg>
                    Sonde
                </h1>
                <p class="node-name">
                    {profile.start > 0 && <b>{when(profile.start)} </b>}
                    <span class="dim">
                        {!profile.compared && format.count(profile.samples, { cpu: 'sample', off_cpu: 'wait', wall: 'event', events: 'sample' }[profile.time])}
                        {profile.period > 0 && profile.time !== 'events' && ` at ${(1e9 / profile.period).toFixed(0)} Hz`}
                        {profile.period > 1 && profile.time === 'events' && `, each of ${format.integer(profile.period)} ${profile.event}`}
                        {profile.dropped > 0 && `; ${format.integer(profile.dropped)} did not fit into memory`}
                    </span>
                </p>
                <ThemeButton choice={theme.choice} next={theme.next} />
            </header>
            <div class="columns">
                {profile.processes.length > 1 && <Scopes profile={profile} scope={scope} setScope={setScope} />}
                <main id="main" tabIndex={-1}>
                    <NotObserved profile={profile} />
                    <Flame
                        profile={profile}
                        scope={scope}
                        words={words}
                        setWords={setWords}
                        dark={theme.dark}
                        empty={
                            <>
                                <b>This profile has no samples.</b>
                                <p>No monitored thread {{ cpu: 'used a CPU', off_cpu: 'waited', wall: 'used a CPU or waited', events: `had ${profile.event}` }[profile.time]} {sayNotObserved(profile) ? 'while monitoring was on' : 'during the recording'}.</p>
                            </>
                        }
                    />
                </main>
            </div>
        </>
    );
}

function Failed({ why }: { why: string }) {
    return (
        <p class="failed" role="alert">
            The profile in this file cannot be read: {why}
        </p>
    );
}

const app = document.getElementById('app')!;
try {
    render(<FlamePage profile={decodeProfile(JSON.parse(document.getElementById('profile')!.textContent ?? ''))} />, app);
} catch (e) {
    render(<Failed why={(e as Error).message} />, app);
}
