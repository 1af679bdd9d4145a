// Node's http server: handlers run on the event loop; files are read, and keys are derived, by libuv's pool of threads. PORT LOG FOLDER
'use strict'
const fs = require('fs'), http = require('http'), https = require('https'), crypto = require('crypto'), v8 = require('v8'), vm = require('vm')
const [port, log, folder] = process.argv.slice(2)
const logFile = fs.openSync(log, 'a'), NOTHING = 200000, BLOCK = 65536

const now = () => Number(process.hrtime.bigint()) // CLOCK_MONOTONIC; exact up to 104 days
const delay = () => Number(fs.readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[1])
const item = (cause, t0, t1, ns) => ({ cause, tid: process.pid, t0, t1, ...(ns === undefined ? {} : { ns }) })

// CPU time of the process: its other threads are nearly idle while the loop spins.
function spin(ms, runQueue, rest) {
  const delay0 = delay(), cpu0 = process.cpuUsage(), t0 = now()
  let used
  do used = process.cpuUsage(cpu0); while (used.user + used.system < ms * 1000)
  const t1 = now(), queued = delay() - delay0, cpu = Math.min((used.user + used.system) * 1000, t1 - t0 - queued)
  return [item('cpu', t0, t1, cpu), item(runQueue, t0, t1, queued), ...(rest ? [item(rest, t0, t1, t1 - t0 - cpu - queued)] : [])]
    .filter(({ ns }) => ns > NOTHING)
}

const direct = fs.openSync(`${folder}/direct`, fs.constants.O_RDONLY | fs.constants.O_DIRECT), blocks = Math.floor(fs.fstatSync(direct).size / BLOCK)
// O_DIRECT needs an aligned buffer. A Buffer has no address, so an unaligned offset is found by trying: the kernel refuses it.
const memory = Buffer.alloc(BLOCK + 4096)
let aligned = 0
for (let tried = 0; tried < 4096; tried += 8) {
  try { fs.readSync(direct, memory, tried, 4096, 0); aligned = tried; break } catch (error) { if (error.code !== 'EINVAL') throw error }
}

v8.setFlagsFromString('--expose-gc')
const collect = vm.runInNewContext('gc')
let live

const work = {
  clean: (q, done) => done([]),
  cpu: (q, done) => done(spin(q.ms, 'run_queue')),
  quota: (q, done) => done(spin(q.ms, 'quota', 'quota')),
  gc: (q, done) => {
    live ||= Array.from({ length: 3e6 }, (_, i) => ({ i }))
    const t0 = now()
    if (q.ms > 0) collect()
    done(q.ms > 0 ? [item('gc', t0, now())] : [])
  },
  sleep: (q, done) => { const t0 = now(); setTimeout(() => done([item('sleep', t0, Math.min(now(), t0 + q.ms * 1e6))]), q.ms) },
  disk: (q, done) => {
    const t0 = now()
    const next = () => {
      if (now() - t0 >= q.ms * 1e6) return done(q.ms > 0 ? [item('disk', t0, now())] : [])
      fs.read(direct, memory, aligned, BLOCK, Math.floor(Math.random() * blocks) * BLOCK, (error) => { if (error) throw error; next() })
    }
    next()
  },
  pool_cpu: (q, done) => {
    const t0 = now()
    const next = () => {
      if (now() - t0 >= q.ms * 1e6) return done(q.ms > 0 ? [item('cpu', t0, now())] : [])
      crypto.pbkdf2('secret', 'salt', 20000, 64, 'sha512', (error) => { if (error) throw error; next() })
    }
    next()
  },
  downstream: (q, done) => {
    const t0 = now()
    http.get({ port: q.service, path: `/slow?ms=${q.ms}`, agent: false }, (reply) => reply.resume().on('end', () => done([item('downstream', t0, now())])))
  },
}

const ON_LOOP = ['cpu', 'quota', 'gc']

const serve = (request, response) => {
  const t0 = now(), url = new URL(request.url, 'http://localhost'), q = Object.fromEntries(url.searchParams), route = url.pathname.split('/')[1]
  q.ms = Number(q.ms)
  work[route](q, (truth) => {
    const t1 = now()
    response.writeHead(200, { 'Content-Length': 2 })
    response.end('ok')
    const line = { id: Number(q.id), route, tid: process.pid, t0, t1, truth, occupied_thread: ON_LOOP.includes(route) }
    setImmediate(() => fs.writeSync(logFile, JSON.stringify(line) + '\n')) // after the reply
  })
}

const pem = process.env.CERTIFICATE && fs.readFileSync(process.env.CERTIFICATE)
const server = pem ? https.createServer({ cert: pem, key: pem }, serve) : http.createServer(serve)
server.listen(Number(port), '127.0.0.1', 1024)
