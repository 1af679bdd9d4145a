// The self-contained file of `sonde why --html`: slow requests with their critical paths, for mails and issues.

import { render } from 'preact';
import { decodeRequests, Requests, type Request } from './requests';
import { ThemeButton, useTheme } from './theme';
import './style.css';

const OPENED = 3; // more are closed at first

function RequestsPage({ requests }: { requests: Request[] }) {
    const theme = useTheme();
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
                <p class="node-name" />
                <ThemeButton choice={theme.choice} next={theme.next} />
            </header>
            <main id="main" tabIndex={-1}>
                <Requests requests={requests} partial={false} error="" opened={requests.length <= OPENED} empty={<b>No request was recorded.</b>} />
            </main>
        </>
    );
}

function Failed({ why }: { why: string }) {
    return (
        <p class="failed" role="alert">
            The requests in this file cannot be read: {why}
        </p>
    );
}

const app = document.getElementById('app')!;
try {
    render(<RequestsPage requests={decodeRequests(JSON.parse(document.getElementById('requests')!.textContent ?? ''))} />, app);
} catch (e) {
    render(<Failed why={(e as Error).message} />, app);
}
