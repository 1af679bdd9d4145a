// Reports the content of a real agent's page as JSON: `node see.mjs URL LOOK...`, where a LOOK is a JSON object,
//   {"hash": "pid=4711"} or {"choose": "4711"}: the view, by URL fragment or by the list entry with this note,
//   "search": frames to search for, "open": the route of a request to open, "screenshot": a file, "width", "height", "colorScheme".
// tests/e2e/test_page.py checks the result. Browser errors are included; a LOOK that fails is an error.
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

const [url, ...looks] = process.argv.slice(2);
const browserPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

const settled = (p) => p.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));

// From the root to the leaf along the largest callees, as with the arrow key.
async function heaviestStack(p) {
    const chosen = () => p.getByRole('treeitem', { selected: true }).evaluate((e) => [e.id, e.ariaLabel]);
    const path = [await chosen()];
    for (;;) {
        await p.getByTestId('flame').press('ArrowDown');
        await settled(p);
        const next = await chosen();
        if (next[0] === path.at(-1)[0]) return path.map(([, label]) => label);
        path.push(next);
    }
}

async function openRequest(p, route) {
    const row = p.locator('.request', { hasText: route }).first();
    await row.waitFor();
    await row.getByRole('button').click();
    const cells = p.locator('.request-parts .parts tbody tr');
    await cells.first().waitFor();
    return {
        duration: await row.getByRole('button').innerText(),
        cause: await p.locator('.request-parts .cause-again').first().innerText(),
        parts: await cells.evaluateAll((rows) => rows.map((r) => [...r.children].map((c) => c.innerText.trim().split('\n')[0]))),
        segments: await p.getByRole('listbox', { name: /Critical path/ }).getByRole('option').count(),
        bar: await row.locator('.breakdown i').evaluateAll((all) => all.reduce((sum, i) => sum + i.getBoundingClientRect().width, 0) / all[0].parentElement.getBoundingClientRect().width),
    };
}

async function look(browser, wanted) {
    const token = process.env.SONDE_TOKEN;
    const httpCredentials = token ? { username: 'reader', password: token } : undefined;
    const context = await browser.newContext({ httpCredentials, viewport: { width: wanted.width ?? 1280, height: wanted.height ?? 900 }, reducedMotion: 'reduce', colorScheme: wanted.colorScheme });
    const p = await context.newPage();
    const complaints = [];
    p.on('console', (m) => ['error', 'warning'].includes(m.type()) && complaints.push(m.text()));
    p.on('pageerror', (e) => complaints.push(e.message));
    p.on('request', (r) => !r.url().startsWith(url) && !r.url().startsWith('data:') && complaints.push(`asked ${r.url()}`));
    await p.goto(wanted.hash ? `${url}#${wanted.hash}` : url);
    for (const part of ['[data-testid=cpu-sum]', '.request, .requests .empty', '[data-testid=health]']) await p.locator(part).first().waitFor();
    if (wanted.choose) await p.getByRole('radio').filter({ has: p.getByText(wanted.choose, { exact: true }) }).click();
    await p.getByRole('button', { name: 'Pause' }).click(); // nothing moves while it is read
    await settled(p);
    const seen = { hash: new URL(p.url()).hash.slice(1), sum: await p.getByTestId('cpu-sum').innerText() };
    seen.chosen = await p.getByRole('radio', { checked: true }).innerText();
    seen.below = await p.getByRole('treeitem').evaluateAll((all) => all.filter((e) => e.ariaLevel === '2').map((e) => e.ariaLabel));
    if (wanted.search) {
        seen.stack = await heaviestStack(p);
        await p.getByRole('searchbox', { name: /Search frames/ }).fill(wanted.search);
        await p.getByTestId('matched').filter({ hasText: /frame/ }).waitFor();
        seen.matched = await p.getByTestId('matched').innerText();
    }
    seen.requests = await p.locator('.request').evaluateAll((rows) => rows.map((r) => ({ what: r.querySelector('.what').innerText.trim(), service: r.querySelector('.service').innerText })));
    if (wanted.open) seen.opened = await openRequest(p, wanted.open);
    if (wanted.screenshot) await p.screenshot({ path: wanted.screenshot, fullPage: !wanted.height });
    await context.close();
    return { ...seen, complaints };
}

const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] });
try {
    const seen = [];
    for (const wanted of looks) seen.push(await look(browser, JSON.parse(wanted)));
    console.log(JSON.stringify(seen));
} finally {
    await browser.close();
}
