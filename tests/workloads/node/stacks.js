/* Programs whose stacks are known: `stacks.js NAME [GATE]`. Each prints the functions of its own stack, root first, as V8 names them ([function, file];
 * functions that belong to no script are omitted), and then spins in the innermost.
 * With GATE it waits there until a file of that name exists, calls getppid(), an event to record, from the innermost (process.ppid), and prints "fired" and the number of calls. */
'use strict';
const fs = require('node:fs');
const { Worker, isMainThread, workerData } = require('node:worker_threads');
const [program, gate] = isMainThread ? process.argv.slice(2) : workerData;
Error.stackTraceLimit = Infinity;

function ownStack() {
    const prepare = Error.prepareStackTrace;
    Error.prepareStackTrace = (_, sites) => sites;
    const sites = new Error().stack;
    Error.prepareStackTrace = prepare;
    return sites.filter((s) => (s.getFileName() || s.isEval()) && !s.isAsync()).map((s) => [s.getFunctionName(), s.getFileName() || '']).reverse();
}

function passGate() {
    const never = new Int32Array(new SharedArrayBuffer(4));
    while (!fs.existsSync(gate)) Atomics.wait(never, 0, 0, 10);
}
function endFired(count) {
    process._rawDebug(`fired ${count}`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

function spin(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s; }

function innermost() {
    const stack = ownStack().slice(0, -1); // without ownStack itself
    process._rawDebug('ready ' + JSON.stringify({ stack, thread: isMainThread ? 'main' : 'worker' }));
    while (!gate) spin(20000);
    passGate();
    for (let i = 0; i < 100; i++) process.ppid;
    endFired(100);
}

class Base {
    constructor(then) { this.made = then && then(); }
    static assembled(then) { return then(); }
    field = (then) => then();
    method(then) { return then(); }
    get property() { return this.then(); }
    ['computed name'](then) { return then(); }
    #hidden(then) { return then(); }
    reveal(then) { return this.#hidden(then); }
}
class Derived extends Base { method(then) { return super.method(then); } }
const closures = ((a) => function closed(then) { return a + then(); })(1);
const table = { inTable(then) { return then(); }, assigned: function (then) { return then(); } };
table.later = (then) => then();
const größe = (then) => then();
const 関数 = (then) => then();
function* generator(then) { yield then(); }
function recursion(n, then) { return n ? recursion(n - 1, then) : then(); }
/* More variables that closures keep than a ScopeInfo lists. */
const manyLocals = (0, eval)(`(function manyLocals(then) { ${Array.from({ length: 100 }, (_, i) => `let v${i} = ${i};`).join(' ')} return [() => ${Array.from({ length: 100 }, (_, i) => `v${i}`).join(' + ')}, then()]; })`);

/* One in another: each calls the next. */
const steps = [
    (next) => recursion(30, next),
    (next) => new Derived(next),
    (next) => Base.assembled(next),
    (next) => new Base().field(next),
    (next) => new Derived().method(next),
    (next) => Object.assign(new Base(), { then: next }).property,
    (next) => new Base()['computed name'](next),
    (next) => new Base().reveal(next),
    (next) => closures(next),
    (next) => manyLocals(next),
    (next) => table.inTable(next),
    (next) => table.assigned(next),
    (next) => table.later(next),
    (next) => größe(next),
    (next) => 関数(next),
    (next) => [...generator(next)],
    (next) => [3].map(() => next()),
    (next) => [2, 1].sort(() => next()),
    (next) => 'a'.replace(/a/, () => next()),
    (next) => JSON.parse('[1]', () => next()),
    (next) => Reflect.apply(function applied(then) { return then(); }, null, [next]),
    (next) => new Proxy({}, { get() { return next(); } }).anything,
    (next) => new Function('then', 'return then();')(next),
    (next) => (0, eval)('(function evaluated(then) { return then(); })')(next),
    (next) => require('node:vm').runInThisContext('(function inVm(then) {\n  return then(); })', { filename: 'inVm.js' })(next),
];
const walk = (i) => (i === steps.length ? innermost() : steps[i](() => walk(i + 1)));
async function asynchronous() { await null; await new Promise((go) => setImmediate(go)); return walk(0); }

/* Compiled by the best compiler, and called again and again, so that a tick may be anywhere in them. */
function hotC(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; if (gate) process.ppid; return s; }
function hotB(n) { let s = 0; for (let i = 0; i < 3; i++) s += hotC(n + i); return s; }
function hotA(n) { return hotB(n) + hotB(n + 1); }
function hot() {
    for (let i = 0; gate && i < 20000; i++) hotA(5); // until it is compiled
    process._rawDebug('ready {}');
    let s = 0;
    while (!gate) s += hotA(5);
    passGate();
    for (let i = 0; i < 20; i++) s += hotA(5);
    endFired(20 * 6);
}

/* Functions that are created and collected, so that memory is reused and moved: each calls the one of its own number. */
function moving() {
    const kept = [];
    let fired = 0;
    for (let i = 0; ; i++) {
        if (i === 300 || (!gate && i === 0)) process._rawDebug('ready {}');
        if (gate && i === 300) passGate();
        if (gate && i === 400) endFired(fired);
        const made = new Function(`function called_${i}(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; ${gate ? 'process.ppid;' : ''} return s; }
            return function calls_${i}(n) { return called_${i}(n) + 1; };`)();
        kept[i % 64] = [made, new Array(500).fill(i)];
        for (const [each] of kept) each(gate ? 30 : 3000);
        fired += i >= 300 ? kept.length : 0;
    }
}

if (program === 'hot') hot();
else if (program === 'moving') moving();
else {
    if (isMainThread) new Worker(__filename, { workerData: [program, gate] });
    asynchronous();
}
