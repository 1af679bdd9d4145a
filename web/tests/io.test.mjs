// Tests of the file of `sonde io report --html` in Chromium, with the synthetic report of tests/e2e/fake_io_report.c.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const here = dirname(fileURLToPath(import.meta.url));
const program = resolve(process.env.SONDE_BUILD ?? join(here, '../../build'), 'tests/fake-io-report');
const browserPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

let browser;
before(async () => {
    assert.ok(browserPath, 'chromium is not installed (tools/packages/test.txt)');
    browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] });
});
after(() => browser?.close());

// The page must log nothing and request nothing.
function page(name, words, body) {
    test(name, { timeout: 60000 }, async () => {
        const folder = mkdtempSync(join(tmpdir(), 'sonde-io-'));
        const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' });
        try {
            const done = spawnSync(program, ['html', ...words]);
            assert.equal(done.status, 0, String(done.stderr ?? done.error));
            const file = join(folder, 'io.html');
            writeFileSync(file, done.stdout);
            const p = await context.newPage();
            const seen = [];
            p.on('request', (r) => r.url() !== `file://${file}` && !r.url().startsWith('data:') && seen.push(r.url()));
            p.on('console', (m) => seen.push(m.text()));
            p.on('pageerror', (e) => seen.push(e.message));
            await p.goto(`file://${file}`);
            await p.getByTestId('files').waitFor();
            await body(p);
            assert.deepEqual(seen, []);
        } finally {
            await context.close();
            rmSync(folder, { recursive: true });
        }
    });
}

// The page renders a click asynchronously.
async function becomes(read, expected) {
    let seen;
    for (const end = Date.now() + 30000; Date.now() < end; await new Promise((done) => setTimeout(done, 20))) {
        seen = await read();
        if (JSON.stringify(seen) === JSON.stringify(expected)) return;
    }
    assert.deepEqual(seen, expected);
}

const rowsOf = (table) => table.locator('tbody tr').evaluateAll((rows) => rows.map((r) => [...r.children].map((c) => c.innerText.trim())));

page('totals, findings and access sizes', [], async (p) => {
    assert.equal(await p.title(), 'Sonde: I/O of slurm 4711');
    assert.deepEqual(await rowsOf(p.getByTestId('totals')), [
        ['Reads', '6\u202f500\u202f000', '49.6 GiB', '22.1 min', '97.1 %', '38.3 MiB/s'],
        ['Writes', '400', '6.25 GiB', '8.00 s', '0.59 %', '800 MiB/s'],
        ['Metadata', '6\u202f708', '–', '31.6 s', '2.32 %', '–'],
    ]);
    const findings = await p.getByTestId('findings').locator('li').allInnerTexts();
    assert.deepEqual(findings.map((text) => text.split('\n')[0]), ['cold cache (read) high 36.0 %', 'unbalanced high 32.9 %', 'random accesses (read) high 30.0 %', 'sync bound high 25.0 %', 'small accesses (read) medium 16.7 %']);
    assert.match(findings[1], /\nprocess 4064 python3$/);
    assert.match(findings[3], /\n\/scratch\/run\/checkpoint\.pt; costs process 4064 python3 most$/);
    const sizes = await rowsOf(p.getByTestId('sizes'));
    assert.deepEqual(sizes[2], ['to 10 KiB', '6\u202f435\u202f000', '', '–', '']);
    assert.deepEqual(sizes[7], ['to 100 MiB', '–', '', '400', '']);
    assert.equal(await p.getByText('Incomplete').count(), 0);
});

page('failed operations name error, file and process; expected ones come last', [], async (p) => {
    assert.deepEqual(await rowsOf(p.getByTestId('failures')), [
        ['2', 'ENOSPC', 'write', '/scratch/run/checkpoint.pt', 'python3 4064'],
        ['10', 'ENOENT', 'open', 'train.yaml', 'python3 4000'],
    ]);
    await p.getByText('2; 10 more failed as programs expect').waitFor();
});

page('files are sorted by the chosen column', [], async (p) => {
    const table = p.getByTestId('files');
    const paths = async () => (await rowsOf(table)).map((row) => row[7]);
    const [read, written, none] = ['/scratch/imagenet/train.rec', '/scratch/run/checkpoint.pt', '(calls that name a path)'];
    assert.deepEqual((await rowsOf(table))[0], ['22.1 min 97.1 %', '49.6 GiB', '–', '6\u202f500\u202f000', '1\u202f300', '–', '65', read, '/scratch (lustre)']);
    assert.deepEqual(await paths(), [read, written, none]);
    await table.getByRole('button', { name: 'Written' }).click();
    await becomes(paths, [written, read, none]);
    assert.equal(await table.getByRole('columnheader', { name: 'Written' }).getAttribute('aria-sort'), 'descending');
    await table.getByRole('button', { name: 'Metadata' }).click();
    await becomes(paths, [none, read, written]);
    await table.getByRole('button', { name: 'Accesses' }).click();
    await becomes(paths, [read, written, none]);
    await table.getByRole('button', { name: 'File', exact: true }).click();
    await becomes(paths, [none, read, written]);
});

page('heatmap: a row for each process, a cell for each interval with bytes', [], async (p) => {
    const heat = p.getByTestId('heat');
    const first = heat.getByRole('img').first();
    assert.equal(await heat.getByRole('img').count(), 32);
    assert.match(await first.getAttribute('aria-label'), /^python3 4064: /);
    await p.getByRole('button', { name: 'Writes', exact: true }).click();
    await becomes(() => first.getAttribute('aria-label'), 'python3 4064: 6.25 GiB');
    assert.deepEqual(await first.locator('title').evaluateAll((all) => all.map((t) => t.textContent.replace(/: .* read, /, ': '))), ['+30.0 s: 1.56 GiB written', '+50.0 s: 1.56 GiB written', '+70.0 s: 1.56 GiB written', '+90.0 s: 1.56 GiB written']);
    const [cell, plot] = [await first.locator('rect').first().boundingBox(), await first.boundingBox()];
    assert.ok(Math.abs((cell.x - plot.x) / plot.width - 30 / 120) < 0.01);
    assert.ok(Math.abs(cell.width / plot.width - 1 / 120) < 0.005);
    await p.getByRole('button', { name: 'Show all 65' }).click();
    await becomes(() => heat.getByRole('img').count(), 65);
});

page('names with markup are text, and losses are stated', ['hostile'], async (p) => {
    assert.equal(await p.title(), 'Sonde: I/O of </title><img src=x>');
    assert.match(await p.getByRole('alert').innerText(), /^Incomplete: 1\u202f234 operations did not fit the tables/);
    assert.match(await p.getByTestId('files').innerText(), /<\/script><img src=x>/);
    assert.match(await p.getByTestId('heat').innerText(), /<\/td><img src=x>/);
    assert.equal(await p.locator('img').count(), 0);
});
