// Tests of the page of `sonde server` in Chromium, over the answers that docs/api.md shows (tests/e2e/test_server_api.py compares those with a server).
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const top = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
const built = join(resolve(process.env.SONDE_BUILD ?? join(top, 'build')), 'web');
const browserPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
const examples = new Map(
    [...readFileSync(join(top, 'docs/api.md'), 'utf8').matchAll(/curl '?http:\/\/127\.0\.0\.1:7080\/api\/v1\/([^\s'?]*)\S*\n```\n\n```json\n([\s\S]*?)```/g)].map((m) => [m[1], m[2]]),
);

let browser;
before(async () => {
    assert.ok(browserPath, 'chromium is not installed (tools/packages/test.txt)');
    browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] });
});
after(() => browser?.close());

const isOpen = (request, reply) => reply.writeHead(200, { 'Content-Type': 'application/json' }).end('{"needs_token":false,"signed_in":false}');

/** `answer(endpoint, query)`: {status, body} in place of the example; undefined: the example. `signs(request, reply, path)` answers /login and /logout. */
function page(name, answer, body, signs = isOpen) {
    test(name, { timeout: 60000 }, async () => {
        const policy = /\.asciz "(.*)"/.exec(readFileSync(join(built, 'web_centre.S'), 'utf8'))[1];
        const asked = [];
        const server = createServer((request, reply) => {
            const url = new URL(request.url, 'http://localhost');
            if (url.pathname === '/') return reply.writeHead(200, { 'Content-Type': 'text/html', 'Content-Security-Policy': policy }).end(readFileSync(join(built, 'web_centre.html')));
            const endpoint = url.pathname.replace('/api/v1/', '');
            if (endpoint.startsWith('/log')) return signs(request, reply, endpoint);
            asked.push(endpoint + url.search);
            const { status, body: text } = answer(endpoint, url.searchParams) ?? { status: examples.has(endpoint) ? 200 : 404, body: examples.get(endpoint) ?? 'no such endpoint' };
            reply.writeHead(status, { 'Content-Type': status === 200 ? 'application/json' : 'text/plain' }).end(text);
        });
        await new Promise((done) => server.listen(0, '127.0.0.1', done));
        const origin = `http://127.0.0.1:${server.address().port}`;
        const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' });
        try {
            const p = await context.newPage();
            const seen = [];
            p.on('console', (m) => !m.text().includes('Failed to load resource') && seen.push(m.text()));
            p.on('pageerror', (e) => seen.push(e.message));
            p.on('request', (r) => !r.url().startsWith(`${origin}/`) && !r.url().startsWith('data:') && seen.push(r.url()));
            await p.goto(origin);
            if (signs === isOpen) await p.getByRole('heading', { name: 'Hosts' }).waitFor();
            await body(p, asked);
            assert.deepEqual(seen, []);
        } finally {
            await context.close();
            server.close();
        }
    });
}

const rowsOf = async (p, name) => {
    const table = p.getByRole('table', { name, exact: true });
    await table.waitFor();
    return table.locator('tbody tr').evaluateAll((rows) => rows.map((r) => [...r.children].map((c) => c.innerText.trim())));
};
async function becomes(read, expected) {
    let seen;
    for (const end = Date.now() + 30000; Date.now() < end; await new Promise((done) => setTimeout(done, 20))) {
        seen = await read();
        if (JSON.stringify(seen) === JSON.stringify(expected)) return;
    }
    assert.deepEqual(seen, expected);
}

page('each list of the API is a table', () => undefined, async (p) => {
    assert.deepEqual(await rowsOf(p, 'Where requests lose time'), [['950 ms', 'GET /checkout', 'shop', '1.00 s: 900 ms waiting for the disk', '6', '50.0 ms', '1.00 s', '0']]);
    assert.deepEqual((await rowsOf(p, 'Slowest requests'))[0].slice(2), ['GET /checkout', 'shop on node-1', '200', '1.00 s: 900 ms waiting for the disk']);
    assert.deepEqual(await rowsOf(p, 'What changed since yesterday'), [['idle', '\u221220.83', '12.5 % (1.00 ms)', '33.3 % (1.00 ms)'], ['leaf', '+20.83', '87.5 % (7.00 ms)', '66.7 % (2.00 ms)']]);
    assert.deepEqual((await rowsOf(p, 'Events'))[0].slice(1), ['order.lost', 'shop on node-1', 'no stock']);
    assert.deepEqual(await rowsOf(p, 'I/O by job'), [['slurm 42', 'node-1', '/scratch (ext4)', '4.00 KiB', '1.00 MiB', '30', '0']]);
    assert.deepEqual((await rowsOf(p, 'Hosts'))[0].slice(0, 5), ['node-1', '0.1.0', '6.18.0 x86_64', '', '5']);
    await p.locator('.flame canvas').waitFor();
    assert.match(await p.locator('.flame').innerText(), /CPU time\s+8\.00 ms/);
});

page('a request opens whole', () => undefined, async (p) => {
    await p.getByRole('table', { name: 'Slowest requests' }).getByRole('button').first().click();
    assert.deepEqual((await rowsOf(p, 'Critical path')).map((row) => row.slice(1)), [['on CPU', '', 'worker', 'shop on node-1', '100 ms'], ['disk', 'read of /var/lib/orders', 'worker', 'shop on node-1', '900 ms']]);
    assert.equal((await rowsOf(p, 'Spans')).length, 1);
    await p.getByRole('button', { name: 'Close' }).click();
    await becomes(() => p.getByTestId('opened').count(), 0);
});

page('service, time and route choose what is asked for', () => undefined, async (p, asked) => {
    await p.getByRole('combobox', { name: 'Service' }).selectOption('front');
    await becomes(() => asked.some((path) => path === 'routes?last=1h&service=front&limit=50'), true);
    await p.getByRole('button', { name: '24h' }).click();
    await p.getByRole('table', { name: 'Where requests lose time' }).getByRole('button').first().click();
    await becomes(() => asked.some((path) => path === 'requests?last=24h&service=shop&route=%2Fcheckout&limit=20'), true);
    await p.getByRole('heading', { name: 'Slowest requests of /checkout' }).waitFor();
    await p.getByRole('button', { name: 'Off-CPU' }).click();
    await becomes(() => asked.some((path) => path === 'profile?last=24h&service=shop&kind=off_cpu'), true);
});

const none = JSON.stringify({ version: 1, events: [], empty: 'the server has no events in the 30 days that it keeps', truncated: false });
page('an empty answer says why, and an error is shown', (endpoint) => (endpoint === 'events' ? { status: 200, body: none } : endpoint === 'io' ? { status: 503, body: 'too many queries at once\n' } : undefined), async (p) => {
    await p.getByText('No rows: the server has no events in the 30 days that it keeps.').waitFor();
    await becomes(() => p.getByRole('alert').allInnerTexts(), ['too many queries at once']);
});

/** A server whose readers need the token "right". `session.valid` becomes true with the next one that signs in. */
function signing(session) {
    const cookie = 'sonde-session=1; Path=/; HttpOnly; SameSite=Strict';
    return (request, reply, path) => {
        let token = '';
        request.on('data', (data) => (token += data));
        request.on('end', () => {
            const refused = path === '/login' && request.method === 'POST' && token !== 'right';
            if (refused) return reply.writeHead(403, { 'Content-Type': 'text/plain' }).end(token === 'sender' ? 'This token has no right to read.\n' : 'This token is not known here.\n');
            const leaves = path === '/logout';
            if (request.method === 'POST') session.valid = !leaves;
            const has = session.valid && (request.method === 'POST' || (request.headers.cookie ?? '').includes('sonde-session=1'));
            const headers = request.method === 'POST' ? { 'Set-Cookie': leaves ? `${cookie}; Max-Age=0` : cookie } : {};
            reply.writeHead(200, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify({ needs_token: true, signed_in: has }));
        });
    };
}

const session = { valid: false };
page(
    'a token is asked for once, and a wrong one is said to be so',
    () => (session.valid ? undefined : { status: 401, body: 'a token is needed\n' }),
    async (p, asked) => {
        const enter = async (token) => {
            await p.getByLabel('Token').fill(token);
            await p.getByRole('button', { name: 'Sign in' }).click();
        };
        await enter('wrong');
        await becomes(() => p.getByRole('alert').allInnerTexts(), ['This token is not known here.']);
        await enter('sender');
        await becomes(() => p.getByRole('alert').allInnerTexts(), ['This token has no right to read.']);
        assert.deepEqual(asked, [], 'nothing is asked for without a token');
        await enter(' right ');
        await p.getByRole('heading', { name: 'Hosts' }).waitFor();
        assert.equal(await p.evaluate(() => [document.cookie, JSON.stringify({ ...localStorage, ...sessionStorage }), location.href].join().includes('right')), false);
        assert.equal(await p.evaluate(() => document.cookie), '');
        await p.reload();
        await p.getByRole('heading', { name: 'Hosts' }).waitFor();
        await p.waitForLoadState('networkidle');
        session.valid = false;
        await p.getByRole('button', { name: 'Reload' }).click();
        await p.getByText('The session has ended.').waitFor();
        await enter('right');
        await p.getByRole('button', { name: 'Sign out' }).click();
        await p.getByLabel('Token').waitFor();
        assert.equal(await p.getByText('The session has ended.').count(), 0);
        await p.reload();
        await p.getByLabel('Token').waitFor();
    },
    signing(session),
);
