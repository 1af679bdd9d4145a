// Builds the pages into one HTML file each, with script and style inside, and the assembler files that put them into the
// binary: `node build.mjs OUTDIR`. Whatever is not inside the page's own policy (hashes of its script and style) does not run.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const root = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? 'dist');
const head = readFileSync(resolve(root, 'head.html'), 'utf8').trim(); // of all pages

const hash = (text) => `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`;

async function bundle(entry) {
    const result = await build({
        root,
        configFile: false,
        envFile: false,
        publicDir: false,
        logLevel: 'warn',
        esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
        build: {
            write: false,
            target: 'es2022',
            modulePreload: false,
            cssCodeSplit: false,
            assetsInlineLimit: Number.MAX_SAFE_INTEGER,
            rollupOptions: { input: resolve(root, entry) },
        },
    });
    const files = result.output;
    const text = (ending) => files.filter((file) => file.fileName.endsWith(ending)).map((file) => file.code ?? String(file.source)).join('\n');
    return { html: text('.html'), script: text('.js').trim(), style: text('.css').trim() };
}

// A function as replacement: `$&` and its kind in the bundle must stay as they are.
function inline({ html, script, style }, policyInside) {
    script = script.replaceAll('</script', '<\\/script');
    const policy = [
        "default-src 'none'", `script-src ${hash(script)}`, `style-src ${hash(style)}`, 'img-src data:',
        ...(policyInside ? [] : ["connect-src 'self'", "frame-ancestors 'none'"]),
        "base-uri 'none'", "form-action 'none'",
    ].join('; ');
    const page = html
        .replace(/\s*<script type="module"[^>]*src=[^>]*><\/script>/, '')
        .replace(/\s*<link rel="stylesheet"[^>]*>/, '')
        .replace('<!-- policy -->', () => `<meta http-equiv="Content-Security-Policy" content="${policy}" />`)
        .replace('<!-- head -->', () => head)
        .replace('</head>', () => `  <style>${style}</style>\n  </head>`)
        .replace('</body>', () => `  <script type="module">${script}</script>\n  </body>`);
    if (/\b(?:src|href)="(?!data:)/.test(page.replace(script, '').replace(style, '')))
        throw new Error('the page refers to something outside of itself');
    return { page, policy };
}

// The hash is there so that the assembler file changes whenever the page does.
function assembler(symbol, file, page, policy) {
    return `/* ${createHash('sha256').update(page).digest('hex')} */
    .section .rodata
    .global ${symbol}_html
${symbol}_html:
    .incbin "${file}"
    .global ${symbol}_html_end
${symbol}_html_end:
    .byte 0
    .global ${symbol}_policy
${symbol}_policy:
    .asciz "${policy}"
    .section .note.GNU-stack,"",%progbits
`;
}

mkdirSync(out, { recursive: true });
for (const [entry, name, policyInside] of [['index.html', 'web_page', false], ['centre.html', 'web_centre', false], ['flame.html', 'web_flame', true], ['requests.html', 'web_requests', true], ['io.html', 'web_io', true]]) {
    const { page, policy } = inline(await bundle(entry), policyInside);
    const file = resolve(out, `${name}.html`);
    writeFileSync(file, page);
    writeFileSync(resolve(out, `${name}.S`), assembler(name, file, page, policy));
}
