// The self-contained file of `sonde why --html`: slow requests with their critical paths, for mails and issues.

import { covered, Nothing, OpaquePorts, type Covered } from './coverage';
import { renderFile } from './file-page';
import { decodeRequests, Requests, type Request } from './requests';
import { ThemeButton, useTheme } from './theme';
import { Title } from './title';
import './style.css';

const OPENED = 3; // more are closed at first

function RequestsPage({ answer: { coverage, list: requests } }: { answer: Covered<Request> }) {
    const theme = useTheme();
    return (
        <>
            <header class="top">
                <Title />
                <p class="node-name" />
                <ThemeButton choice={theme.choice} next={theme.next} />
            </header>
            <main id="main" tabIndex={-1}>
                <Requests requests={requests} error="" opened={requests.length <= OPENED} empty={<Nothing coverage={coverage} />} />
                <OpaquePorts coverage={coverage} />
            </main>
        </>
    );
}

renderFile('requests', 'The requests', (json) => <RequestsPage answer={covered('requests', decodeRequests)(json)} />);
