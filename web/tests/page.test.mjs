// Tests of the page in Chromium, with the synthetic data of tests/e2e/fake_page.c. Every test has its own browser context, and fails when
// the page logs an error to the console or sends a request to another origin.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const here = dirname(fileURLToPath(import.meta.url));
const program = process.env.SONDE_FAKE_PAGE ?? resolve(process.env.SONDE_BUILD ?? join(here, '../../build'), 'tests/fake-page');
const browserPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
const CONTAINER = '0123456789abcdef'.repeat(4);

let browser;
before(async () => {
    assert.ok(browserPath, 'chromium is not installed (tools/packages/test.txt)');
    assert.ok(existsSync(program), `${program} is not built`);
    browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] });
});
after(() => browser?.close());

async function serve(mode) {
    const child = spawn(program, [mode], { stdio: ['pipe', 'pipe', 'inherit'] });
    const port = await new Promise((done, failed) => {
        child.stdout.once('data', (text) => done(Number(/port (\d+)/.exec(text)[1])));
        child.once('exit', (code) => failed(new Error(`fake-page ended with ${code}`)));
    });
    const ended = new Promise((done) => child.once('exit', done));
    return { url: `http://127.0.0.1:${port}`, stop: () => (child.stdin.end(), ended) };
}

function page(name, { mode = 'normal', errors = false, clock = false, hash = '', ...options }, body) {
    test(name, { timeout: 60000 }, async () => {
        const server = await serve(mode);
        const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce', ...options });
        try {
            const p = await context.newPage();
            const complaints = [];
            const outside = [];
            // Reading pixels back is what these tests do, not the page.
            p.on('console', (m) => ['error', 'warning'].includes(m.type()) && !m.text().includes('getImageData') && complaints.push(m.text()));
            p.on('pageerror', (e) => complaints.push(e.message));
            p.on('request', (r) => !r.url().startsWith(`${server.url}/`) && !r.url().startsWith('data:') && outside.push(r.url()));
            if (clock) await p.clock.install();
            // Every profile of `normal` has more of worker(): another one comes only when the test wants it, however slow the machine is.
            const profiles = { wanted: 1, last: undefined };
            if (mode === 'normal')
                await p.route(/\/api\/v1\/profile\?seconds=\d+$/, async (route) => {
                    if (profiles.wanted > 0) {
                        profiles.wanted--;
                        profiles.last = await (await route.fetch()).body();
                    }
                    await route.fulfill({ body: profiles.last, contentType: 'application/json' });
                });
            await p.goto(`${server.url}/${hash}`);
            // Profile, requests and status are fetched independently.
            if (mode !== 'failing')
                for (const part of ['[data-testid=cpu-sum]', '.request, .requests .empty', '[data-testid=health]']) await p.locator(part).first().waitFor();
            await body(p, server, context, profiles);
            assert.deepEqual(outside, []);
            if (!errors) assert.deepEqual(complaints, []);
        } finally {
            for (const one of context.pages()) await one.unrouteAll({ behavior: 'ignoreErrors' });
            await context.close();
            await server.stop();
        }
    });
}

const graph = (p) => p.getByTestId('flame');
const details = (p) => p.getByTestId('details').innerText();
const chosen = (p) => p.getByRole('treeitem', { selected: true }).getAttribute('aria-label');

// Waits until `read` returns `expected`, a string or a pattern: the page renders asynchronously.
async function becomes(read, expected) {
    let seen;
    for (const end = Date.now() + 30000; Date.now() < end; await new Promise((done) => setTimeout(done, 20))) {
        seen = await read();
        if (expected instanceof RegExp ? expected.test(seen) : seen === expected) return;
    }
    if (expected instanceof RegExp) assert.match(seen, expected);
    else assert.equal(seen, expected);
}

const sumOf = (p) => () => p.getByTestId('cpu-sum').innerText();
const matched = (p) => () => p.getByTestId('matched').innerText();

// Points at a share of the graph's width, in the middle of a row.
async function at(p, share, row) {
    const box = await graph(p).boundingBox();
    return { position: { x: 1 + share * (box.width - 2), y: 1 + row * 20 + 10 } };
}

async function widthOf(p, name) {
    const item = p.getByRole('treeitem', { name, exact: false }).first();
    const all = await graph(p).elementHandle(); // both widths at one moment: what arrives may bring a scroll bar
    return item.evaluate((e, g) => e.getBoundingClientRect().width / g.clientWidth, all);
}

page('frame widths are proportional to shares', {}, async (p) => {
    await becomes(sumOf(p), /^1\.00 s in 60 s = 0\.02 CPUs$/);
    for (const [name, share] of [['all processes', 1], ['nginx', 0.6], ['postgres', 0.3], ['python3', 0.1]]) assert.ok(Math.abs((await widthOf(p, name)) - share) < 0.002, name);
    // A new profile, which comes at any time, forgets what the mouse was on: it is moved until all is said that is to be said.
    const says = (share, row, name, ...parts) => becomes(async () => {
        await graph(p).hover(await at(p, share, row));
        const text = await details(p);
        return [...(text.startsWith(`${name} `) ? [] : [name]), ...parts.filter((part) => !text.includes(part))].join();
    }, '');
    for (const [share, row, name] of [[0.59, 1, 'nginx'], [0.61, 1, 'postgres'], [0.89, 1, 'postgres'], [0.91, 1, 'python3'], [0.29, 5, 'parse_headers'], [0.31, 5, 'write'], [0.95, 3, 'handler']])
        await says(share, row, name);
    await says(0.05, 4, 'worker(int, char const*)', 'user', '/usr/sbin/nginx', 'src/worker.cc', '600 ms', '60.0 %', '200 ms', '20.0 %');
});

page('each kind of frame has its own colour, and the legend lists the kinds present', {}, async (p) => {
    const colors = async () => {
        const seen = [];
        for (const [share, row] of [[0.45, 2], [0.35, 6], [0.35, 8], [0.95, 3]])
            seen.push(
                await graph(p).locator('canvas').evaluate((c, [s, r]) => {
                    const ratio = c.width / c.clientWidth;
                    return [...c.getContext('2d').getImageData(Math.round((s * c.clientWidth) * ratio), Math.round((r * 20 + 17) * ratio), 1, 1).data].join();
                }, [share, row]),
            );
        return seen;
    };
    await becomes(async () => new Set(await colors()).size, 4); // once it is drawn
    assert.deepEqual(await p.getByRole('list', { name: 'Colours' }).getByRole('listitem').allInnerTexts(), ['user', 'kernel', 'interpreter', 'bpf', 'truncated']);
});

page('a click zooms, Escape resets the zoom', {}, async (p) => {
    await graph(p).click(await at(p, 0.7, 1));
    await becomes(async () => Math.abs((await widthOf(p, 'postgres')) - 1) < 0.002, true);
    await becomes(() => details(p), /of view\s+100 %/);
    await graph(p).hover(await at(p, 0.2, 2));
    await becomes(() => details(p), /^PostmasterMain/);
    await graph(p).press('Escape');
    await becomes(async () => Math.abs((await widthOf(p, 'postgres')) - 0.3) < 0.002, true);
    await graph(p).click(await at(p, 0.7, 1));
    await p.getByRole('button', { name: /Reset zoom/ }).click();
    await becomes(async () => Math.abs((await widthOf(p, 'postgres')) - 0.3) < 0.002, true);
});

page('search reports the matching share within the zoom', {}, async (p) => {
    const box = p.getByRole('searchbox', { name: /Search frames/ });
    await p.locator('body').press('/');
    await box.pressSequentially('memcpy');
    await becomes(matched(p), '10.0 % in 1 frame');
    await box.fill('do_syscall_64');
    await becomes(matched(p), '22.0 % in 2 frames');
    await graph(p).click(await at(p, 0.7, 1));
    await becomes(matched(p), '40.0 % in 1 frame');
    await box.fill('/^(vfs_read|ExecSeqScan)$/');
    await becomes(matched(p), '100 % in 2 frames');
    await box.fill('/(/');
    await becomes(matched(p), 'not a regular expression');
    await box.press('Escape');
    await becomes(matched(p), '');
});

page('all functions are available by keyboard', {}, async (p) => {
    const focused = () => p.evaluate(() => document.activeElement?.getAttribute('role') ?? document.activeElement?.textContent ?? '');
    const stops = [];
    for (let i = 0; i < 60 && (await focused()) !== 'tree'; i++) {
        await p.keyboard.press('Tab');
        stops.push(await focused());
        if (!stops.at(-1).includes('~3.76 s')) continue;
        await p.keyboard.press('Enter');
        await p.locator('.parts').getByText('futex in checkout < handle: futex_wait', { exact: true }).waitFor();
        await p.keyboard.press('Enter');
    }
    for (const stop of ['Skip to the flame graph', 'By cause', '~3.76 s', '15 s', 'Pause', 'radio', 'application', 'Graph', 'Table', 'tree']) assert.ok(stops.includes(stop), `${stop} in ${stops.join(' | ')}`);
    for (const [key, name] of [['ArrowDown', 'nginx'], ['ArrowRight', 'postgres'], ['ArrowRight', 'python3'], ['ArrowRight', 'python3'], ['Home', 'nginx'], ['End', 'python3'], ['ArrowLeft', 'postgres'], ['ArrowDown', '[truncated'], ['ArrowUp', 'postgres']]) {
        await p.keyboard.press(key);
        await becomes(async () => (await chosen(p)).slice(0, name.length), name);
    }
    assert.equal(await graph(p).getAttribute('aria-activedescendant'), await p.getByRole('treeitem', { selected: true }).getAttribute('id'));
    assert.equal(await chosen(p), 'postgres, 30.0 %, 300 ms');
    await p.keyboard.press('Enter');
    await becomes(async () => Math.abs((await widthOf(p, 'postgres')) - 1) < 0.002, true);
    await p.keyboard.press('Escape');
    await becomes(async () => Math.abs((await widthOf(p, 'postgres')) - 0.3) < 0.002, true);
});

page('a process or a container is selected by mouse and arrow keys, and kept in the URL', {}, async (p) => {
    const scopes = p.getByRole('radiogroup', { name: 'Scope' });
    await scopes.getByRole('radio', { name: /nginx/ }).click();
    await becomes(sumOf(p), /^600 ms/);
    await becomes(() => p.url(), /#pid=101$/);
    await becomes(async () => (await p.locator('.request .what').allInnerTexts()).join(), 'GET /users/{id}/orders,GET /static/app.js,GET /');
    assert.match(await p.getByRole('link', { name: 'pprof' }).getAttribute('href'), /pid=101&format=pprof$/);
    await p.keyboard.press('Home');
    await becomes(sumOf(p), /^1\.00 s/);
    await p.keyboard.press('ArrowDown');
    await becomes(() => p.url(), new RegExp(`#container=${CONTAINER}$`));
    await becomes(sumOf(p), /^300 ms/);
    await p.getByText('No HTTP request of this scope ended in this interval.').waitFor();
    await p.getByRole('searchbox', { name: /Filter processes/ }).fill('pyth');
    await becomes(() => scopes.getByRole('radio').evaluateAll((all) => all.map((e) => e.querySelector('.scope-name').textContent).join()), 'Whole node,python3');
});

page('the URL selects the initial view, and a process without samples has a message', { hash: '#pid=999&seconds=15' }, async (p) => {
    assert.ok(await p.getByText('No CPU time in this interval.').isVisible());
    await becomes(sumOf(p), /in 15 s/);
    assert.equal(await p.getByRole('radio', { name: /999/ }).getAttribute('aria-checked'), 'true');
    await p.getByRole('radio', { name: /Whole node/ }).click();
    await becomes(sumOf(p), /^1\.\d\d s/);
});

page('CPU time, off-CPU time or both, kept in the URL', {}, async (p) => {
    const times = p.getByRole('group', { name: 'Time' });
    await becomes(sumOf(p), /^1\.\d\d s/);
    await times.getByRole('button', { name: 'Off-CPU' }).click();
    await becomes(sumOf(p), /^5 s|^5\.00? s/);
    await p.getByRole('heading', { name: 'Off-CPU time', exact: true }).waitFor();
    await becomes(() => p.url(), /#time=off_cpu$/);
    await p.getByRole('searchbox', { name: /Search frames/ }).fill('[lock: futex]');
    await becomes(matched(p), '80.0 % in 1 frame');
    assert.match(await p.getByRole('link', { name: 'pprof' }).getAttribute('href'), /&time=off_cpu&format=pprof$/);
    await times.getByRole('button', { name: 'Wall' }).click();
    await becomes(sumOf(p), /^6\.\d\d s/);
    await p.getByRole('heading', { name: 'CPU and off-CPU time' }).waitFor();
    assert.equal(await times.getByRole('button', { name: 'Wall' }).getAttribute('aria-pressed'), 'true');
    await times.getByRole('button', { name: 'CPU', exact: true }).click();
    await becomes(() => p.url(), /\/$/);
    await becomes(sumOf(p), /^1\.\d\d s/);
});

page('without off-CPU data there is no time switch', { mode: 'large' }, async (p) => {
    await p.getByRole('group', { name: 'Span' }).waitFor();
    await p.getByTestId('host').getByText('node-7').waitFor();
    assert.equal(await p.getByRole('group', { name: 'Time' }).count(), 0);
});

page('a prefix of a container ID in the URL selects the container', { hash: `#container=${CONTAINER.slice(0, 12)}` }, async (p) => {
    await becomes(sumOf(p), /^300 ms/);
    await becomes(() => p.url(), new RegExp(`#container=${CONTAINER}$`));
    assert.equal(await p.getByRole('radio', { name: /postgres 0123456789ab/ }).getAttribute('aria-checked'), 'true');
});

page('the page updates live, keeps the zoom, and does not change while paused', { clock: true }, async (p, server, context, profiles) => {
    const sum = p.getByTestId('cpu-sum').locator('b');
    const next = async () => {
        profiles.wanted = 1;
        const came = p.waitForResponse(/profile/);
        await p.clock.runFor(5100);
        await came;
    };
    await p.getByRole('radio', { name: /nginx/ }).click();
    await becomes(() => sum.innerText(), '600 ms');
    await graph(p).click(await at(p, 0.5, 3));
    await next();
    await p.waitForFunction(() => document.querySelector('[data-testid=cpu-sum] b').textContent === '610 ms');
    await becomes(async () => Math.abs((await widthOf(p, 'worker')) - 1) < 0.002, true);
    await becomes(() => details(p), /210 ms/);
    await p.getByRole('button', { name: 'Pause' }).click();
    let asked = 0;
    p.on('request', () => asked++);
    await p.clock.runFor(20000);
    assert.equal(asked, 0);
    assert.equal(await sum.innerText(), '610 ms');
    assert.match(await p.getByTestId('live').innerText(), /^Paused at \d\d:\d\d:\d\d$/);
    profiles.wanted = 1;
    await p.getByRole('button', { name: 'Resume' }).click();
    await p.waitForFunction(() => document.querySelector('[data-testid=cpu-sum] b').textContent === '620 ms');
    await becomes(() => p.getByTestId('live').innerText(), 'Live'); // the profile may be there before the status
});

page('requests: every component is shown, unattributed time is hatched, components fill the bar', { hash: '#requests=each' }, async (p) => {
    const rows = p.locator('.request');
    assert.equal(await rows.count(), 4);
    const first = rows.first();
    assert.equal(await first.getByRole('img').getAttribute('aria-label'), 'on CPU 112 ms, run queue 60.0 ms, downstream 600 ms, unattributed 40.0 ms');
    const shares = await first.locator('.breakdown i').evaluateAll((all) => all.map((e) => e.getBoundingClientRect().width / e.parentElement.getBoundingClientRect().width));
    for (const [i, ns] of [112, 60, 600, 40].entries()) assert.ok(Math.abs(shares[i] - ns / 812) < 0.01, `part ${i}`);
    assert.match(await first.locator('.part-unattributed').evaluate((e) => getComputedStyle(e).backgroundImage), /repeating-linear-gradient/);
    await first.getByRole('button').click();
    await p.locator('.parts').waitFor();
    assert.deepEqual(await p.locator('.parts tbody tr').evaluateAll((all) => all.map((r) => [...r.children].map((c) => c.textContent.trim()).join('|'))), [
        'downstream|600 ms|73.9 %|read from 127.0.0.1:5432',
        'on CPU|112 ms|13.8 %|parse_headers < worker < main',
        'run queue|60.0 ms|7.39 %|python3 ran instead',
        'unattributed|40.0 ms|4.93 %|not known',
    ]);
    await first.getByRole('button').click();
    await becomes(() => p.locator('.parts').count(), 0);
    assert.deepEqual(await p.locator('.request .status').allInnerTexts(), ['200', '503', '404', '200']);
    const legend = await p.getByRole('list', { name: 'Parts' }).getByRole('listitem').allInnerTexts();
    assert.equal(legend.length, 11);
    assert.equal(legend.at(-1), 'unattributed');
});

const cellsOf = (table) => table.locator('tbody tr').evaluateAll((rows) => rows.map((r) => [...r.children].map((c) => c.innerText.trim()).filter(Boolean)));

page('routes: time lost and its cause, rate, latency, failures; slow requests compared with the usual, by keyboard', {}, async (p) => {
    const cells = (await cellsOf(p.locator('.route-table'))).map((row) => row.map((cell) => cell.replaceAll(/\s+/g, ' ')));
    assert.deepEqual(cells, [
        ['~4.10 s of ~19.0 s', 'POST /cart shop :8100', 'Waiting for a lock held by another thread: the holder slept in checkout (shop.py:12) (~9 requests, 91.8 % of the lost time) Fails: status 503 (~60 requests)', '~20.00', '~12.0 ms', '~80.0 ms', '~5.00 %'],
        ['none of 90.0 ms', 'GET / nginx.service :80', 'Always about 3.00 ms: On a CPU', '0.50', '3.00 ms', '–', '0 %'],
        ['–', 'GET /static/app.js nginx', 'not known', '–', '–', '–', '–'],
    ]);
    assert.match(await p.locator('.routes .signs').innerText(), /time lost: it needs 20 sampled requests in 5 minutes, and there are 0; until then the time of all its requests ranks a route. – for the 99th percentile: it needs 100 sampled requests in 60 s, and there are 30/);
    assert.ok(await p.evaluate(() => document.querySelector('.routes').compareDocumentPosition(document.querySelector('[data-testid=flame]')) & Node.DOCUMENT_POSITION_FOLLOWING), 'routes come first');
    const button = p.getByRole('button', { name: 'POST /cart: slow requests compared with the usual' });
    assert.equal(await p.locator('.route').getByRole('button').count(), 1);
    await button.press('Enter');
    assert.equal(await button.getAttribute('aria-expanded'), 'true');
    assert.deepEqual(await cellsOf(p.locator('.route-comparison .usual')), [
        ['whole request', '430 ms', '–', '12.0 ms', '80.0 ms', '+418 ms'],
        ['lock', '400 ms', '–', '1.00 ms', '70.0 ms', '+399 ms'],
        ['on CPU', '30.0 ms', '–', '10.0 ms', '20.0 ms', '+20.0 ms'],
    ]);
    assert.match(await p.locator('.route-comparison').innerText(), /medians of 240 sampled requests \(components: of 200\)[^]*Slow: 9 recorded requests/);
    await button.press('Enter');
    assert.equal(await p.locator('.route-comparison').count(), 0);
});

page('which services call which: waited, rate, failures, kinds', {}, async (p) => {
    assert.deepEqual(await cellsOf(p.locator('.call-table')), [
        ['9.12 s', 'shop :8100', 'postgres :5432 at 127.0.0.1:5432', 'PostgreSQL', '60 SELECT of 150 ms, 60 BEGIN of 2.00 ms', '2.00', '76.0 ms', '180 ms', '3'],
        ['30.0 ms', 'shop :8100', '10.0.0.7:6379', 'Redis', '30 GET of 1.00 ms', '0.50', '1.00 ms', '1.00 ms', '0'],
        ['15.0 ms', 'nginx.service :80', 'a Unix socket', 'HTTP', '0.25', '1.00 ms', '1.00 ms', '0'],
    ]);
});

page('requests are grouped by cause, and can be listed one by one', {}, async (p) => {
    assert.deepEqual(await p.locator('.request .duration').allInnerTexts(), ['~3.76 s', '–', '–', 'none']);
    assert.deepEqual(await p.locator('.request .time').allInnerTexts(), ['~9', '3', '1', '30']);
    assert.equal(await p.locator('.request .cause').first().innerText(), 'Status 503, slow: waiting for a lock held by another thread');
    const signs = p.locator('.requests:not(.routes) .signs');
    assert.equal(await signs.innerText(), '~ is estimated from a random sample of the requests. – for time lost: it needs 20 sampled requests in 5 minutes, and there are 0 to 3; until then the time of its requests ranks a group.');
    await p.locator('.request').nth(1).getByRole('button').click();
    assert.match(await p.locator('.request-parts').innerText(), /the slowest of 3 requests[^]*The usual times of this route are not known: it needs 20 sampled requests in 5 minutes, and there are 3/);
    await p.getByRole('group', { name: 'Requests' }).getByRole('button', { name: 'One by one' }).click();
    await becomes(async () => (await p.locator('.request .duration').allInnerTexts()).join(), '812 ms,430 ms,96.0 ms,3.00 ms');
    await becomes(() => p.url(), /#requests=each$/);
    assert.equal(await signs.count(), 0);
});

page('on a phone the first route and its cause are seen at once', { viewport: { width: 390, height: 844 } }, async (p) => {
    const cause = p.getByText('Waiting for a lock held by another thread', { exact: false }).first();
    const box = await cause.boundingBox();
    assert.ok(box.y + box.height < 500 && box.x >= 0 && box.x + box.width <= 390, JSON.stringify(box));
    assert.ok(await p.getByText('~4.10 s').first().isVisible());
});

page('events of the node: listed, marked on the time axis, linked from the requests that were served meanwhile', { timezoneId: 'UTC' }, async (p) => {
    const rows = p.locator('.events li');
    await becomes(async () => (await rows.allInnerTexts()).join('; '), '00:00:12 io.slow fsync took 1.00 s; 00:00:11 io.slow fsync took 1.01 s; 00:00:10 io.slow fsync took 5.00 s; 00:00:09 io.slow fsync took 1.03 s; 00:00:08 io.slow fsync took 1.04 s');
    // The axis has 120 seconds, its last twenty from 00:00:00 on.
    const marks = p.getByTestId('event-marks').locator('i');
    assert.equal(await marks.count(), 7);
    const plot = await p.locator('.heat-cells').boundingBox();
    const slow = await marks.nth(2).boundingBox();
    assert.deepEqual([slow.x, slow.x + slow.width].map((x) => Math.round(((x - plot.x) / plot.width) * 120 - 100)), [5, 10]);
    assert.equal(await marks.nth(2).getAttribute('title'), '00:00:10 io.slow: fsync took 5.00 s');
    await marks.nth(1).click();
    assert.equal(await p.locator('.events li.chosen').innerText(), '00:00:11 io.slow fsync took 1.01 s');

    await p.locator('.request', { hasText: '/cart' }).getByRole('button').click();
    await p.locator('.request', { hasText: '/static/app.js' }).getByRole('button').click();
    const links = p.getByRole('list', { name: /Events of the node during/ }); // one: not of /cart
    // Its own process first.
    assert.deepEqual(await links.getByRole('listitem').allInnerTexts(), ['runqueue.delayed nginx (thread 101) waited 300 ms for CPU 1', 'drops.listen_overflow port 8080 of shop refused 37 connections']);
    await links.getByRole('button', { name: 'runqueue.delayed' }).focus();
    await p.keyboard.press('Enter');
    await becomes(() => p.evaluate(() => document.activeElement.innerText), '00:00:02 runqueue.delayed nginx (thread 101) waited 300 ms for CPU 1');
    assert.equal(await rows.count(), 7);
});

page('a page without events has no list of them', { mode: 'large' }, async (p) => {
    assert.equal(await p.locator('.events, .event-marks, .event-links').count(), 0);
});

page('an opened request is compared with its route, where that is known', {}, async (p) => {
    await p.locator('.request', { hasText: '/cart' }).getByRole('button').click();
    assert.deepEqual((await cellsOf(p.locator('.request-parts .usual'))).map((row) => row[0]), ['whole request', 'lock', 'on CPU']);
    await p.locator('.request', { hasText: '/orders' }).getByRole('button').click();
    await becomes(() => p.locator('.request-parts .parts').count(), 2);
    assert.equal(await p.locator('.request-parts .usual').count(), 1);
});

page('the stack of a wait expands by mouse and by keyboard, and stays expanded', { clock: true, hash: '#requests=each' }, async (p, server, context, profiles) => {
    const row = p.locator('.request').nth(1);
    await row.getByRole('button').click();
    await p.getByText('POST /cart shop :8100, process 303, began ').waitFor();
    const fold = p.locator('.parts summary');
    const stack = p.getByRole('list', { name: 'Stack, innermost frame first' });
    assert.equal(await fold.innerText(), 'futex in checkout < handle: futex_wait');
    assert.equal(await p.locator('.parts details').count(), 1, 'a component without a stack has nothing to unfold');
    assert.equal(await stack.isVisible(), false);
    await fold.click();
    assert.deepEqual(await stack.getByRole('listitem').allInnerTexts(), ['futex_wait_[k]', '__x64_sys_futex_[k]', 'pthread_mutex_lock', 'checkout', 'handle', '[truncated: no rows]']);
    const color = (i) => stack.getByRole('listitem').nth(i).evaluate((e) => getComputedStyle(e).color);
    assert.equal(await color(0), await color(1));
    assert.notEqual(await color(1), await color(2), 'the kernel\'s frames differ from the program\'s');
    profiles.wanted = 1;
    const came = p.waitForResponse(/profile/);
    await p.clock.runFor(5100);
    await came;
    await p.waitForFunction(() => document.querySelector('[data-testid=cpu-sum] b').textContent === '1.01 s');
    assert.equal(await stack.isVisible(), true);
    await fold.click();
    assert.equal(await stack.isVisible(), false);
    await p.getByRole('option', { selected: true }).focus(); // of the critical path, which is above
    await p.keyboard.press('Tab');
    assert.equal(await fold.evaluate((e) => e === document.activeElement), true);
    await p.keyboard.press('Enter');
    assert.equal(await stack.isVisible(), true);
    await p.keyboard.press('Shift+Tab');
    await p.keyboard.press('Shift+Tab');
    await p.keyboard.press('Enter');
    await becomes(() => p.locator('.parts').count(), 0);
});

page('a critical path has a lane per thread, and arrow keys select segments in time order', { hash: '#requests=each' }, async (p) => {
    const open = (i) => p.locator('.request').nth(i).getByRole('button').click();
    await open(1);
    const path = p.getByRole('listbox', { name: 'Critical path, in time order' });
    const line = () => p.getByTestId('path-line').innerText();
    assert.deepEqual(await p.getByRole('list', { name: 'Threads of the critical path' }).getByRole('listitem').allInnerTexts(), ['shop 303', 'pool-1 310', 'checkout 2001, process 320']);
    assert.deepEqual(await path.getByRole('option').evaluateAll((all) => all.map((e) => e.ariaLabel)), [
        '+0 s, 20.0 ms on CPU; this request; measured; shop 303',
        '+20.0 ms, 10.0 ms on CPU (with 1.00 ms lock): in thread 310 pool-1; this request; measured; pool-1 310',
        '+30.0 ms, 300 ms lock: held by thread 2001 checkout of process 320: the holder slept; another request; inferred; checkout 2001 process 320',
        '+330 ms, 1.00 µs on CPU: in thread 310 pool-1; one of several requests; inferred; pool-1 310',
        '+330 ms, 100 ms lock (with 1.00 ms on CPU): futex; this request; measured; shop 303',
    ]);
    assert.deepEqual(await p.locator('.path-axis span').allInnerTexts(), ['0 ms', '100 ms', '200 ms', '300 ms', '400 ms']);

    // In shares of the plot's width and in lanes.
    const boxes = await path.getByRole('option').evaluateAll((all) => all.map((e) => {
        const [box, plot] = [e.getBoundingClientRect(), e.parentElement.getBoundingClientRect()];
        return [(box.x - plot.x) / plot.width, box.width / plot.width, Math.floor((box.y - plot.y) / 24), box.width];
    }));
    for (const [i, [start, ns, lane]] of [[0, 20, 0], [20, 10, 1], [30, 300, 2], [330, 0, 1], [330, 100, 0]].entries()) {
        assert.ok(Math.abs(boxes[i][0] - start / 430) < 0.002 && Math.abs(boxes[i][1] - ns / 430) < 0.002, `segment ${i}: ${boxes[i]}`);
        assert.equal(boxes[i][2], lane, `segment ${i}`);
    }
    assert.ok(boxes[3][3] >= 0.99, 'a microsecond is visible');
    const link = await p.locator('.path-link').evaluateAll((all) => all.map((e) => [e.offsetTop, e.offsetHeight].join()));
    assert.deepEqual(link, ['12,24', '36,24', '36,24', '12,24'], 'one between the lanes of consecutive segments');
    const image = (i) => path.getByRole('option').nth(i).evaluate((e) => getComputedStyle(e).backgroundImage);
    assert.equal(await image(4), 'none');
    assert.match(await image(2), /repeating-linear-gradient/, 'inferred');

    // The longest is selected at first.
    const longest = '+30.0 ms, 300 ms lock: held by thread 2001 checkout of process 320: the holder slept; another request; inferred';
    assert.equal(await line(), longest);
    const stack = p.getByRole('list', { name: 'Stack, innermost frame first' });
    const place = () => p.locator('.parts').evaluate((e) => e.offsetTop);
    const before = await place();
    await p.locator('.request').nth(1).getByRole('button').focus();
    await p.keyboard.press('Tab');
    for (const [key, expected] of [
        ['ArrowRight', /^\+330 ms, 1\.00 µs on CPU: .*; one of several requests; inferred$/],
        ['ArrowRight', '+330 ms, 100 ms lock (with 1.00 ms on CPU): futex; this request; measured'],
        ['ArrowRight', '+330 ms, 100 ms lock (with 1.00 ms on CPU): futex; this request; measured'],
        ['Home', '+0 s, 20.0 ms on CPU; this request; measured'],
        ['ArrowLeft', '+0 s, 20.0 ms on CPU; this request; measured'],
        ['ArrowDown', /^\+20\.0 ms/],
        ['End', /^\+330 ms, 100 ms lock/],
    ]) {
        await p.keyboard.press(key);
        await becomes(line, expected);
        assert.equal(await path.getByRole('option', { selected: true }).evaluate((e) => e === document.activeElement && e.tabIndex === 0), true);
        assert.equal(await path.locator('[tabindex="0"]').count(), 1);
        assert.equal(await place(), before, 'nothing moves');
    }
    assert.equal((await stack.getByRole('listitem').allInnerTexts())[2], 'pthread_mutex_lock');
    await path.getByRole('option').nth(2).click();
    await becomes(line, longest);
    assert.equal(await stack.count(), 0, 'the stack is not the holder\'s');
    await open(1);

    await open(2);
    await p.locator('.parts').waitFor();
    assert.equal(await p.locator('.path').count(), 0, 'no path is known');
    await open(2);
    await open(0);
    await path.waitFor();
    assert.equal(await path.getByRole('option').count(), 40);
    assert.deepEqual(await p.getByRole('list', { name: 'Threads of the critical path' }).getByRole('listitem').allInnerTexts(), ['nginx 101', 'thread not known', 'nginx 102', 'nginx 103', 'nginx 104', 'nginx 105']);
});

page('in a narrow window a critical path scrolls within its panel', { hash: '#requests=each', viewport: { width: 400, height: 800 } }, async (p) => {
    await p.locator('.request').first().getByRole('button').click();
    const scroll = p.locator('.path-scroll');
    assert.ok(await scroll.evaluate((e) => e.scrollWidth > e.clientWidth));
    assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth));
    await p.getByRole('option', { selected: true }).focus();
    await p.keyboard.press('End');
    await becomes(() => scroll.evaluate((e) => e.scrollLeft > 0), true);
    const lane = p.getByText('thread not known').first();
    assert.ok((await lane.boundingBox()).x >= 0, 'names of threads stay visible');
});

page('in a narrow window a stack has the width of the page', { hash: '#requests=each', viewport: { width: 400, height: 800 } }, async (p) => {
    await p.locator('.request').nth(1).getByRole('button').click();
    await p.locator('.parts summary').click();
    const frame = p.getByRole('listitem').filter({ hasText: '__x64_sys_futex_[k]' });
    assert.ok((await frame.evaluate((e) => e.getClientRects().length && e.clientHeight)) < 30, 'on one line');
    assert.ok((await p.locator('.parts td.code').first().evaluate((e) => e.clientWidth)) > 300);
    assert.ok(await p.getByText('shop :8100, process 303').isVisible(), 'data without a column in a narrow window is shown elsewhere');
});

page('the table has the same data as the graph', {}, async (p) => {
    await p.getByRole('button', { name: 'Table' }).click();
    await p.locator('.functions').waitFor();
    const rows = () => p.locator('.functions tbody tr').evaluateAll((all) => all.map((r) => [...r.children].map((c) => c.textContent.trim()).join('|')));
    assert.equal((await rows())[0], '200 ms 20.0 %|600 ms 60.0 %|worker(int, char const*)|nginx');
    await p.getByRole('button', { name: /^Function/ }).click();
    await becomes(async () => (await rows())[0], /ExecSeqScan/);
    assert.equal(await p.getByRole('columnheader', { name: /Function/ }).getAttribute('aria-sort'), 'ascending');
    await p.getByRole('searchbox', { name: /Search frames/ }).fill('memcpy');
    await becomes(async () => (await rows()).join(), '100 ms 10.0 %|100 ms 10.0 %|memcpy|libc.so.6');
});

page('losses, cost and missing probes are visible', { mode: 'large' }, async (p) => {
    const health = p.getByTestId('health');
    const line = (await health.locator('summary').innerText()).replaceAll('\u202f', ' ').replaceAll(/\s+/g, ' ');
    for (const part of ['200 samples at 9.5 Hz', '12.5 % of the stacks are incomplete', 'agent 6.30 % of 5 % of one CPU', 'memory 42.0 MiB of 64 MiB', 'To keep to its CPU limit: CPU samples at half the rate. To record everything, raise budget.one_cpu']) assert.ok(line.includes(part), `${part} in ${line}`);
    await health.locator('summary').click();
    assert.ok(await health.getByText('stacks cut because unwind tables or mappings were not known yet').isVisible());
    assert.ok(await health.getByText(/None of: ring_full/).isVisible());
    assert.ok(await health.getByText('fentry: Operation not permitted. sendfile is not seen').isVisible());
});

page('twenty thousand frames: drawn, scrolled, zoomed', { mode: 'large' }, async (p) => {
    assert.equal(await graph(p).evaluate((e) => e.scrollHeight), 102 * 20);
    await graph(p).evaluate((e) => (e.scrollTop = e.scrollHeight));
    await p.waitForTimeout(50);
    const box = await graph(p).boundingBox();
    await graph(p).hover({ position: { x: 20, y: box.height - 12 } });
    await becomes(() => details(p), /^function_\d_19/);
    await graph(p).click({ position: { x: 20, y: box.height - 12 } });
    await becomes(() => details(p), /of view\s+100 %/);
    assert.ok((await p.getByRole('treeitem').count()) < 200);
    const longest = await p.evaluate(async () => {
        const canvas = document.querySelector('.scroller canvas');
        const began = performance.now();
        for (let i = 0; i < 20; i++) {
            canvas.closest('.scroller').scrollTop = i * 20;
            canvas.closest('.scroller').dispatchEvent(new Event('scroll'));
        }
        return (performance.now() - began) / 20;
    });
    console.log(`# drawing 20,000 frames: ${longest.toFixed(2)} ms`);
});

page('light and dark follow the system, until one is chosen', { colorScheme: 'dark' }, async (p, _server, context) => {
    const back = () => p.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const pixel = () => graph(p).locator('canvas').evaluate((c) => [...c.getContext('2d').getImageData(c.width - 3, c.height - 3, 1, 1).data].slice(0, 3));
    const dark = await back();
    assert.ok((await pixel())[0] < 80);
    await p.emulateMedia({ colorScheme: 'light' });
    const light = await back();
    assert.notEqual(light, dark);
    await p.waitForFunction(() => document.querySelector('.scroller canvas').getContext('2d').getImageData(2, 2, 1, 1).data[0] > 128);
    const button = p.getByRole('button', { name: /^Theme/ });
    await button.click();
    await button.click();
    await becomes(() => button.getAttribute('aria-label'), 'Theme: dark. Change');
    await becomes(back, dark);
    const again = await context.newPage();
    await again.goto(p.url());
    await again.getByTestId('cpu-sum').waitFor();
    assert.equal(await again.evaluate(() => getComputedStyle(document.documentElement).backgroundColor), dark, 'the choice is remembered');
});

page('names with markup are escaped', { mode: 'hostile' }, async (p) => {
    assert.ok((await p.getByTestId('overload').innerText()).startsWith('</td><img src=x'));
    assert.match(await p.locator('.scope').last().innerText(), /<\/script><b>x/);
    await p.getByRole('button', { name: 'Table' }).click();
    assert.ok((await p.locator('.functions').innerText()).includes(`</script><img src=x onerror="document.title='owned'">`));
    await p.locator('.request').first().getByRole('button').click();
    await p.locator('.parts').waitFor();
    await p.locator('.route').first().getByRole('button').click();
    assert.match(await p.locator('.route').first().innerText(), /<\/td><img src=x/);
    assert.equal(await p.locator('img, script:not([type]), b:has(img)').count(), 0);
    assert.equal(await p.title(), 'node-7 · Sonde');
});

page('an empty page explains what to do', { mode: 'empty' }, async (p) => {
    assert.ok(await p.getByText('No samples yet.').isVisible());
    assert.ok(await p.getByText('Nothing was observed in the last 60.0 s: whether there was an HTTP request is not known.').isVisible());
    assert.ok(await p.getByText('Requests cannot be observed: fentry: Operation not permitted. See sonde doctor.').isVisible());
    assert.ok(await p.getByText('not attached: requests').isVisible());
});

page('an empty list of requests reports gaps in the observation and ports that cannot be read', { mode: 'large' }, async (p) => {
    await p.getByText('No HTTP request was seen in the last 60.0 s; only 30.0 s of it were observed.').waitFor();
    assert.ok(await p.getByText('For a half of it budget.one_cpu was too small.').isVisible());
    const ports = p.getByTestId('opaque-ports');
    assert.equal((await ports.locator('summary').innerText()).trim(), '4 ports cannot be read: TLS, unknown protocol, 4.00 MiB/s');
    await ports.locator('summary').click();
    assert.deepEqual(await ports.locator('tbody tr').allInnerTexts().then((rows) => rows.map((r) => r.split('\t').map((c) => c.trim()))), [
        ['8443', 'envoy', 'TLS', '3.00 MiB'],
        ['5432', 'postgres', 'unknown protocol', '1.00 MiB'],
    ]);
    assert.ok(await ports.getByText('and 2 more').isVisible());
});

page('errors of the agent are shown', { mode: 'failing', errors: true }, async (p) => {
    await p.getByRole('alert').first().waitFor();
    await becomes(async () => (await p.getByRole('alert').allInnerTexts()).sort().join(' '), 'No calls: Input/output error. No events: Input/output error. No heatmap: Input/output error. No profile: Input/output error. No requests: Input/output error. No routes: Input/output error. No status: Input/output error.');
});

page('after the agent stops, the last data stays, with a message', { errors: true, clock: true }, async (p, server) => {
    await p.unrouteAll({ behavior: 'wait' });
    await server.stop();
    await p.clock.runFor(5100);
    await p.getByRole('alert').filter({ hasText: 'The agent cannot be reached.' }).first().waitFor(); // each failed request has its own message until all have failed
    assert.match(await p.getByTestId('live').innerText(), /^No update since/);
    await becomes(sumOf(p), /^1\.00 s/);
    assert.equal(await p.locator('.request').count(), 4);
});

for (const width of [360, 640, 1000, 1920])
    page(`nothing is wider than a window of ${width}`, { viewport: { width, height: 800 } }, async (p) => {
        await p.locator('.request').first().getByRole('button').click();
        await p.getByTestId('health').locator('summary').click();
        assert.ok((await p.evaluate(() => document.scrollingElement.scrollWidth)) <= width);
        assert.ok(await p.locator('.breakdown').first().isVisible());
        assert.ok(await graph(p).isVisible());
    });

page('roles, names and headings', {}, async (p) => {
    const faults = await p.evaluate(() => {
        const found = [];
        const named = (e) => (e.getAttribute('aria-label') ?? e.textContent ?? '').trim() || document.getElementById(e.getAttribute('aria-labelledby') ?? '')?.textContent;
        if (document.documentElement.lang !== 'en') found.push('no language');
        if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
        if (document.querySelectorAll('main').length !== 1) found.push('not one main');
        for (const e of document.querySelectorAll('button, a, [role=radio], [role=treeitem], [role=img], section, nav, [role=tree], [role=group]')) if (!named(e)) found.push(`no name: ${e.outerHTML.slice(0, 80)}`);
        for (const e of document.querySelectorAll('input')) if (!e.getAttribute('aria-label')) found.push(`no label: ${e.outerHTML}`);
        for (const e of document.querySelectorAll('svg, canvas')) if (e.getAttribute('aria-hidden') !== 'true') found.push(`seen by readers: ${e.outerHTML.slice(0, 80)}`);
        for (const e of document.querySelectorAll('th')) if (!e.getAttribute('scope')) found.push(`no scope: ${e.outerHTML}`);
        const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
        if (new Set(ids).size !== ids.length) found.push('an id twice');
        for (const e of document.querySelectorAll('[tabindex]')) if (e.tabIndex > 0) found.push(`tabindex: ${e.outerHTML.slice(0, 80)}`);
        return found;
    });
    assert.deepEqual(faults, []);
});

page('text keeps a contrast of 4.5 to 1 in both themes', {}, async (p) => {
    for (const colorScheme of ['light', 'dark']) {
        await p.emulateMedia({ colorScheme });
        const low = await p.evaluate(() => {
            const parse = (c) => c.match(/[\d.]+/g).map(Number);
            const luminance = ([r, g, b]) => [r, g, b].map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((a, v, i) => a + v * [0.2126, 0.7152, 0.0722][i], 0);
            const behind = (e) => {
                for (; e; e = e.parentElement) {
                    const c = parse(getComputedStyle(e).backgroundColor);
                    if (c.length < 4 || c[3] === 1) return c;
                }
                return [255, 255, 255];
            };
            const found = [];
            for (const e of document.querySelectorAll('body *')) {
                if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
                const [x, y] = [luminance(parse(getComputedStyle(e).color)), luminance(behind(e))].sort((a, b) => a - b);
                const ratio = (y + 0.05) / (x + 0.05);
                if (ratio < 4.5) found.push(`${ratio.toFixed(2)}: ${e.outerHTML.slice(0, 90)}`);
            }
            return found;
        });
        assert.deepEqual(low, [], colorScheme);
    }
});

// The synthetic heatmap has twenty seconds, from 00:00:00 UTC on; the first three are no longer kept by slot.
const heat = (p) => p.getByTestId('heat');
const heatSays = (p) => () => p.getByTestId('heat-at').innerText();

// The middle of a slot of 20 ms: the newest of 120 seconds is the twentieth of the synthetic ones.
async function slotAt(p, second, row) {
    const place = () => heat(p).locator('canvas').boundingBox();
    let box = await place();
    for (let last; JSON.stringify(last) !== JSON.stringify(box); box = await place()) {
        last = box;
        await p.waitForTimeout(100); // the content above it may change, and move it
        await heat(p).scrollIntoViewIfNeeded();
    }
    return { x: box.x + ((100 + second + 0.5) / 120) * box.width, y: box.y + (50 - row - 0.5) * 3 };
}

async function drag(p, from, to) {
    const [a, b] = [await slotAt(p, ...from), await slotAt(p, ...to)];
    await p.mouse.move(a.x, a.y);
    await p.mouse.down();
    await p.mouse.move(b.x, b.y);
    await p.mouse.up();
}

page('heatmap: each slot has its position, and the scale has numbers', { timezoneId: 'UTC' }, async (p) => {
    await heat(p).waitFor();
    assert.deepEqual(await p.getByTestId('heat-scale').getByRole('listitem').allInnerTexts(), ['samples in 20 ms', '0', '1', '2', '3–4', '5', '6–7', '8', '9–10', 'detail no longer kept', 'one is 50.0 ms of CPU time']);
    for (const [second, row, words] of [
        [15, 49, '00:00:15.980, 20.0 ms: 10 samples, 500 ms of CPU time'],
        [15, 48, '00:00:15.960, 20.0 ms: 0 samples, 0 s of CPU time'],
        [9, 4, '00:00:09.080, 20.0 ms: 1 sample, 50.0 ms of CPU time'],
        [10, 4, '00:00:10.080, 20.0 ms: 2 samples, 100 ms of CPU time'],
        [19, 25, '00:00:19.500, 20.0 ms: 1 sample, 50.0 ms of CPU time'],
        [2, 0, '00:00:02.000, 20.0 ms: detail no longer kept'],
    ]) {
        const at = await slotAt(p, second, row);
        await p.mouse.move(at.x, at.y);
        await becomes(heatSays(p), words);
    }
    const color = (second, row) => heat(p).locator('canvas').evaluate((c, [x, y]) => {
        const ratio = c.width / c.clientWidth;
        return [...c.getContext('2d').getImageData(Math.round(x * c.width), Math.round(y * ratio), 1, 1).data].join();
    }, [(100 + second + 0.4) / 120, (50 - row - 0.5) * 3]);
    for (const colorScheme of ['light', 'dark']) {
        await p.emulateMedia({ colorScheme });
        await becomes(async () => new Set([await color(15, 48), await color(9, 4), await color(10, 4), await color(15, 49)]).size, 4);
        assert.equal(await color(12, 4), await color(10, 0));
        assert.equal((await color(-3, 0)).endsWith(',0'), true, 'seconds without data are not drawn');
    }
    await p.getByRole('radiogroup', { name: 'Scope' }).getByRole('radio', { name: /python3/ }).click();
    const empty = await slotAt(p, 10, 4);
    await p.mouse.move(empty.x, empty.y);
    await becomes(heatSays(p), '00:00:10.080, 20.0 ms: 0 samples, 0 s of CPU time');
});

page('selecting a region by mouse: a second by click, a range by drag, a slot with Shift', { timezoneId: 'UTC' }, async (p, server) => {
    const says = () => p.getByTestId('heat-region').innerText();
    const second = await slotAt(p, 15, 10);
    await p.mouse.click(second.x, second.y);
    await becomes(says, 'region 00:00:15.000 to 00:00:16.000');
    await becomes(sumOf(p), /^1\.05 s in 1 s = 1\.05 CPUs$/);
    await becomes(() => p.url(), /#from=115000&to=116000$/);
    await drag(p, [16, 0], [15, 49]); // backwards
    await becomes(says, 'region 00:00:15.980 to 00:00:16.020');
    await becomes(sumOf(p), /^600 ms in 40\.0 ms/);
    assert.match(await p.getByRole('link', { name: 'pprof' }).getAttribute('href'), /profile\?from=115980&to=116020&format=pprof$/);
    await p.getByRole('radiogroup', { name: 'Scope' }).getByRole('radio', { name: /nginx/ }).click(); // only its processes
    await becomes(sumOf(p), /^100 ms in 40\.0 ms/);
    assert.equal(await p.getByRole('radio', { name: /postgres/ }).count(), 0);
    await p.keyboard.down('Shift');
    const at = await slotAt(p, 16, 0);
    await p.mouse.click(at.x, at.y);
    await becomes(sumOf(p), /^100 ms in 20\.0 ms/);
    const slot = await slotAt(p, 15, 49);
    await p.mouse.click(slot.x, slot.y);
    await p.keyboard.up('Shift');
    await p.getByText('No samples in this region.').waitFor();
    await p.getByRole('button', { name: /Back to live/ }).click();
    await becomes(sumOf(p), /^600 ms/);
    await becomes(() => p.url(), /#pid=101$/);
    await p.goto(`${server.url}/#from=110000&to=112000`); // as it was handed on
    await becomes(sumOf(p), /^1\.10 s in 2 s/);
});

page('a region that is no longer kept, or in the future, is reported', { errors: true }, async (p, server) => {
    for (const [hash, why] of [['#from=100000&to=104000', /No profile: samples of that time are no longer kept/], ['#from=8000000000000&to=8000000000020', /that time is in the future/]]) {
        await p.goto(`${server.url}/${hash}`);
        await p.getByRole('alert').filter({ hasText: why }).waitFor();
        await p.getByRole('button', { name: /Back to live/ }).click();
        await becomes(sumOf(p), /^1\.00 s/);
    }
});

page('two regions are compared by keyboard only', { timezoneId: 'UTC' }, async (p) => {
    const says = (which) => () => p.getByTestId(`heat-${which}`).innerText();
    const press = async (...keys) => {
        for (const key of keys) await heat(p).press(key);
    };
    await heat(p).focus();
    await press('Home');
    await becomes(heatSays(p), '00:00:00.000, 20.0 ms: detail no longer kept');
    await press('End', 'ArrowUp', 'ArrowDown', 'ArrowLeft');
    await becomes(heatSays(p), '00:00:17.000, 20.0 ms: 2 samples, 100 ms of CPU time');
    await press('PageDown', 'Shift+ArrowLeft', 'Shift+ArrowLeft', 'Shift+ArrowDown');
    await becomes(heatSays(p), '00:00:04.980, 2.04 s: 13 samples, 650 ms of CPU time');
    await press('Escape', 'PageUp', 'PageDown', 'Shift+ArrowRight', 'Enter');
    await becomes(says('region'), 'region 00:00:04.980 to 00:00:06.000');
    await press('ArrowLeft', 'ArrowLeft', 'ArrowUp', 'Shift+ArrowRight', 'Shift+ArrowRight', 'Shift+ArrowRight', 'Shift+ArrowRight', 'Enter');
    await becomes(says('region'), /^region 00:00:04\.000 to 00:00:08\.020$/);
    await press('b');
    await becomes(says('baseline'), 'baseline 00:00:04.000 to 00:00:08.020');
    await becomes(heatSays(p), /^00:00:08\.000, 20\.0 ms/);
    await press('PageUp', 'ArrowLeft', 'ArrowLeft', 'ArrowLeft', 'Enter');
    await becomes(says('region'), 'compared 00:00:15.000 to 00:00:16.000');
    await becomes(() => p.getByTestId('recordings').innerText(), 'before 25 samples in 4.02 s, after 21 samples in 1 s');
    await becomes(() => p.url(), /#from=115000&to=116000&baseline_from=104000&baseline_to=108020$/);
    await p.getByRole('button', { name: 'Table' }).click();
    const rows = () => p.locator('.functions tbody tr').evaluateAll((all) => all.map((r) => [...r.children].map((c) => c.innerText.trim()).join(' ')).join('\n'));
    await becomes(rows, '+47.62 0 % 47.6 % handler\n\u221260.19 84.0 % 23.8 % worker(int, char const*)');
    for (const name of ['HTML', 'text', 'folded'])
        assert.equal((await p.request.get(new URL(await p.getByRole('link', { name, exact: true }).getAttribute('href'), p.url()).href)).status(), 200, name);
    await p.getByRole('radiogroup', { name: 'Scope' }).getByRole('radio', { name: /nginx/ }).click();
    await becomes(() => p.getByTestId('recordings').innerText(), 'before 21 samples in 4.02 s, after 10 samples in 1 s');
    await p.reload();
    await becomes(() => p.getByTestId('recordings').innerText(), 'before 21 samples in 4.02 s, after 10 samples in 1 s');
    await heat(p).focus();
    await press('Escape');
    await p.getByText('Now select the region to compare with the baseline.').waitFor();
    await press('Escape');
    await becomes(() => p.url(), /#pid=101$/);
    await becomes(sumOf(p), /^600 ms/);
});

page('hotspots: functions over time; names and windows select in the flame graph', { timezoneId: 'UTC' }, async (p) => {
    const names = () => p.getByTestId('hot-names').locator('> *').evaluateAll((all) => all.map((e) => e.firstChild.data.trim()).join(', '));
    const says = () => p.getByTestId('hot-at').innerText();
    const rows = p.getByRole('region', { name: 'Hotspots over time' });
    await becomes(names, 'worker(int, char const*), parse_headers, ExecSeqScan, handler');
    await rows.getByRole('button', { name: 'Most changed' }).click();
    await becomes(names, 'parse_headers, handler, worker(int, char const*), ExecSeqScan');
    const parse = rows.getByRole('button', { name: 'parse_headers, 0.13 CPUs, at most 0.25 at 00:00:10' });
    await parse.click();
    assert.equal(await parse.getAttribute('aria-pressed'), 'true');
    await becomes(matched(p), '30.0 % in 1 frame');
    await p.getByTestId('hot').focus();
    for (const [keys, words] of [
        [['End'], '00:00:15 to 00:00:20: parse_headers 0.25 of 0.65 CPUs'],
        [['ArrowLeft', 'ArrowLeft'], '00:00:05 to 00:00:10: parse_headers 0.00 of 0.30 CPUs'],
        [['ArrowDown', 'ArrowDown'], '00:00:05 to 00:00:10: worker(int, char const*) 0.25 of 0.30 CPUs'],
    ]) {
        for (const key of keys) await p.getByTestId('hot').press(key);
        await becomes(says, words);
    }
    await p.getByTestId('hot').press('Enter');
    await becomes(() => p.getByTestId('heat-region').innerText(), 'region 00:00:05.000 to 00:00:10.000');
    await becomes(sumOf(p), /^1\.50 s in 5 s/);
    await becomes(matched(p), '0 % in 0 frames');
    const box = await p.getByTestId('hot').boundingBox();
    await p.mouse.click(box.x + box.width * ((120 - 2) / 120), box.y + 10); // the newest window ends at the right
    await becomes(sumOf(p), /^3\.25 s in 5 s/);
    await becomes(matched(p), '38.5 % in 1 frame');
    await rows.getByRole('button', { name: 'Total', exact: true }).click();
    await becomes(names, 'main, parse_headers, handler, worker(int, char const*), ExecSeqScan');
    await p.getByRole('radiogroup', { name: 'Scope' }).getByRole('radio', { name: /^postgres 202/ }).click();
    await becomes(names, 'ExecSeqScan, main');
});

page('the exported file is self-contained', { mode: 'normal' }, async (p, server, context) => {
    const folder = mkdtempSync(join(tmpdir(), 'sonde-flame-'));
    try {
        const file = join(folder, 'profile.html');
        const reply = await p.request.get(`${server.url}/api/v1/profile?format=html&pid=202`);
        assert.match(reply.headers()['content-disposition'], /attachment; filename="sonde-profile-pid202\.html"/);
        writeFileSync(file, await reply.body());
        const alone = await context.newPage();
        const asked = [];
        const complaints = [];
        alone.on('request', (r) => asked.push(r.url()));
        alone.on('console', (m) => complaints.push(m.text()));
        alone.on('pageerror', (e) => complaints.push(e.message));
        await alone.goto(`file://${file}`);
        await alone.getByTestId('cpu-sum').waitFor();
        assert.match(await alone.getByTestId('cpu-sum').innerText(), /^300 ms in 60 s/);
        const width = await alone.locator('main').evaluate((e) => e.getBoundingClientRect().width / innerWidth);
        assert.ok(width > 0.95, `no list of processes, so the graph has the whole width: ${width}`);
        await alone.getByRole('searchbox', { name: /Search frames/ }).fill('ExecSeqScan');
        await becomes(matched(alone), '60.0 % in 1 frame');
        assert.deepEqual(asked.filter((url) => url !== `file://${file}` && !url.startsWith('data:')), []);
        assert.deepEqual(complaints, []);
    } finally {
        rmSync(folder, { recursive: true });
    }
});

// `sonde why --html` of the synthetic requests.
async function requestsFile(server, context, use) {
    const folder = mkdtempSync(join(tmpdir(), 'sonde-why-'));
    try {
        const file = join(folder, 'why.html');
        const done = spawnSync(join(dirname(program), '../sonde'), ['why', '-n', '2', '--agent', server.url.replace('http://', ''), '--html', file], { encoding: 'utf8' });
        assert.equal(done.status, 0, done.stderr);
        const alone = await context.newPage();
        const seen = [];
        alone.on('request', (r) => r.url() !== `file://${file}` && !r.url().startsWith('data:') && seen.push(r.url()));
        alone.on('console', (m) => seen.push(m.text()));
        alone.on('pageerror', (e) => seen.push(e.message));
        await alone.goto(`file://${file}`);
        await alone.locator('.path-boxes').first().waitFor();
        await use(alone);
        assert.deepEqual(seen, []);
    } finally {
        rmSync(folder, { recursive: true });
    }
}

page('the file of requests is self-contained, and has the critical paths and the usual times', {}, async (_p, server, context) => {
    await requestsFile(server, context, async (alone) => {
        assert.equal(await alone.title(), 'Sonde: the 2 slowest requests');
        assert.deepEqual(await alone.locator('.path-lanes').nth(1).locator('li').allInnerTexts(), ['shop 303', 'pool-1 310', 'checkout 2001, process 320']);
        await alone.locator('.path-boxes').nth(1).getByRole('option').first().click();
        assert.match(await alone.getByTestId('path-line').nth(1).innerText(), /^\+0 s, 20\.0 ms on CPU; this request; measured$/);
        assert.deepEqual((await cellsOf(alone.locator('.usual'))).map((row) => row[0]), ['whole request', 'lock', 'on CPU']);
    });
});

page('the file of requests escapes names with markup', { mode: 'hostile' }, async (_p, server, context) => {
    await requestsFile(server, context, async (alone) => {
        assert.match(await alone.locator('.path-lanes').first().innerText(), /^<\/ol><img src=x/);
        assert.match(await alone.locator('.request').first().innerText(), /<\/td><img src=x/);
        assert.equal(await alone.locator('img, b:has(img)').count(), 0);
        assert.match(await alone.title(), /^Sonde: the 2 slowest requests$/);
    });
});

page('comparison: growth, shrinkage, and changes within sampling noise', { mode: 'normal' }, async (p, server, context) => {
    const compared = {
        sonde: { version: 1, compared: { before: { samples: 1000, duration_ns: 10e9 }, after: { samples: 2000, duration_ns: 10e9 } } },
        shared: { frames: ['main', 'grown', 'gone', 'same', '</script><img src=x>'].map((name) => ({ name })) },
        profiles: [{ name: 'job', samples: [[0, 1], [0, 2], [0, 3], [0, 4]], weights: [600, 0, 305, 95], sonde: { before: [200, 400, 300, 100], spread: [7e-4, 2e-4, 5e-4, 1e-4] } }],
    };
    const body = await (await p.request.get(`${server.url}/api/v1/profile?format=html`)).text();
    const json = JSON.stringify(compared).replaceAll('<', '\\u003c');
    const alone = await context.newPage();
    await alone.setContent(body.replace(/(<script id="profile"[^>]*>)[^]*?(<\/script>)/, (_, begin, end) => begin + json + end));
    assert.equal(await alone.getByTestId('recordings').innerText(), 'before 1\u202f000 samples in 10 s, after 2\u202f000 samples in 10 s');
    const flame = alone.getByTestId('flame');
    const chosen = () => alone.getByRole('treeitem', { selected: true }).getAttribute('aria-label');
    await flame.press('ArrowDown');
    await flame.press('ArrowDown');
    assert.equal(await chosen(), 'grown, before 20.0 %, after 60.0 %');
    await alone.getByRole('button', { name: 'Before' }).click();
    await flame.press('Home');
    await flame.press('Escape');
    const labels = await alone.getByRole('treeitem').evaluateAll((all) => all.map((e) => e.ariaLabel));
    assert.ok(labels.includes('gone, before 40.0 %, after 0 %'), labels);
    assert.ok(labels.includes('same, before 30.0 %, after 30.5 %, within sampling noise'), labels);
    await alone.getByRole('button', { name: 'Table' }).click();
    const rows = await alone.locator('.functions tbody tr').evaluateAll((all) => all.map((r) => [...r.children].map((c) => c.innerText.trim())));
    assert.deepEqual(rows, [['+40.00', '20.0 %', '60.0 %', 'grown'], ['\u221240.00', '40.0 %', '0 %', 'gone']]);
    assert.equal(await alone.locator('img').count(), 0);
});

page('the exported file escapes names with markup', { mode: 'hostile' }, async (p, server, context) => {
    const reply = await p.request.get(`${server.url}/api/v1/profile?format=html`);
    const body = await reply.text();
    assert.equal(body.includes("<img src=x onerror"), false);
    const alone = await context.newPage();
    await alone.setContent(body);
    await alone.getByTestId('cpu-sum').waitFor();
    assert.equal(await alone.locator('img').count(), 0);
    assert.notEqual(await alone.title(), 'owned');
});
