/* `busy.js GATE`: warms up, prints "ready", waits until a file GATE exists, calls getppid() 100 times in its innermost function (process.ppid), an event to record, and prints "fired". */
'use strict'; const fs = require('node:fs');
function innermost(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i) % 7; process.ppid; return s; }
function busyLoop(rounds) { let s = 0; for (let i = 0; i < rounds; i++) s += innermost(100); return s; }

for (let i = 0; i < 2000; i++) busyLoop(10);
const never = new Int32Array(new SharedArrayBuffer(4));
console.log('ready');
while (!fs.existsSync(process.argv[2])) Atomics.wait(never, 0, 0, 10);
busyLoop(100);
fs.writeSync(1, 'fired\n');
Atomics.wait(never, 0, 0);
