// Runs the type check, builds the unit tests like the pages, and runs unit and browser tests with Node's test runner:
// `node tests/run.mjs`, TAP on standard output. SONDE_BUILD names the build directory (default: ../build).
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const here = dirname(fileURLToPath(import.meta.url));
const web = dirname(here);
const out = mkdtempSync(join(tmpdir(), 'sonde-web-'));
const node = (...words) => spawnSync(process.execPath, words, { cwd: web, stdio: 'inherit' }).status ?? 1;

try {
    const units = readdirSync(here).filter((name) => name.endsWith('.test.ts'));
    await build({
        root: web,
        configFile: false,
        logLevel: 'warn',
        esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
        ssr: { noExternal: true },
        build: { ssr: true, outDir: out, emptyOutDir: true, target: 'node18', rollupOptions: { input: units.map((name) => resolve(here, name)), output: { entryFileNames: '[name].mjs', chunkFileNames: '[name].mjs' } } },
    });
    const types = node('node_modules/typescript/bin/tsc', '--noEmit', '-p', '.');
    if (types !== 0) console.log('not ok 1 - types');
    const browsers = readdirSync(here).filter((name) => name.endsWith('.test.mjs')).map((name) => join(here, name));
    const tests = node('--test', '--test-reporter=tap', '--test-concurrency=1', ...units.map((name) => join(out, name.replace(/\.ts$/, '.mjs'))), ...browsers);
    process.exitCode = types || tests;
} finally {
    rmSync(out, { recursive: true, force: true });
}
