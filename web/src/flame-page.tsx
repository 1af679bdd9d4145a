// The self-contained flame graph: one HTML file that includes the profile, for mails and issues.

import { useState } from 'preact/hooks';
import { renderFile } from './file-page';
import { Flame } from './flame';
import * as format from './format';
import { NotObserved, sayNotObserved } from './observed';
import { decodeProfile, type Profile, type Scope } from './profile';
import { Scopes } from './scopes';
import { ThemeButton, useTheme } from './theme';
import { Title } from './title';
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
                <Title />
                <p class="node-name">
                    {profile.start > 0 && <b>{when(profile.start)} </b>}
                    <span class="dim">
                        {!profile.compared && format.count(profile.samples, { cpu: 'sample', off_cpu: 'wait', wall: 'event', gpu: 'execution', events: 'sample' }[profile.time])}
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
                                <p>{profile.nothing ? `Why: ${profile.nothing}.` : `No monitored thread ${{ cpu: 'used a CPU', off_cpu: 'waited', wall: 'used a CPU or waited', gpu: 'launched work on a GPU', events: `had ${profile.event}` }[profile.time]} ${sayNotObserved(profile) ? 'while monitoring was on' : 'during the recording'}.`}</p>
                            </>
                        }
                    />
                </main>
            </div>
        </>
    );
}

renderFile('profile', 'The profile', (json) => <FlamePage profile={decodeProfile(json)} />);
