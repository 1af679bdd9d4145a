"""The application of chain.py: uvicorn with asyncpg. Its handlers run on the event loop. PORT LOG FOLDER DATABASE-PORT DATABASE-USER"""
import asyncio
import sys
from pathlib import Path

import asyncpg
import uvicorn
from awaited import AWAITED
from common import NOTHING_NS, Server, item, now, parse

CONNECTIONS = 16
server = Server()
pool = None
holding = set()
SPIN = "do $$ declare t timestamptz := clock_timestamp(); begin while clock_timestamp() < t + interval '{} ms' loop end loop; end $$"


async def query_sleep(ms, **_):
    async with pool.acquire() as connection:
        t0 = now()
        await connection.execute(f"select pg_sleep({ms / 1000})")
        return [item("sleep", t0, now())]


async def hold(connection, ms):
    try:
        await connection.execute(f"begin; update counter set n = n + 1; select pg_sleep({ms / 1000}); commit")
    finally:
        await pool.release(connection)


async def query_lock(ms, **_):
    """Waits for a row that another transaction has changed. That one ends in the database, not by a message of this program, and the request does not
    wait for its answer."""
    async with pool.acquire() as connection:
        other = await pool.acquire()
        holder = other.get_server_pid()
        holding.add(task := asyncio.create_task(hold(other, ms)))
        task.add_done_callback(holding.discard)
        await asyncio.sleep(min(ms, 10) / 1000)
        t0 = now()
        await connection.execute("update counter set n = n + 1")
        return [item("lock", t0, now(), holder=holder)]


def usage(pid):
    """(CPU time, run queue delay) of a process with one thread"""
    return map(int, Path(f"/proc/{pid}/schedstat").read_text().split()[:2])


async def query_cpu(ms, **_):
    async with pool.acquire() as connection:
        pid, t0 = connection.get_server_pid(), now()
        cpu0, delay0 = usage(pid)
        await connection.execute(SPIN.format(ms))
        cpu1, delay1 = usage(pid)
        t1 = now()
        return [item(cause, t0, t1, ns) for cause, ns in (("cpu", cpu1 - cpu0), ("run_queue", delay1 - delay0)) if ns > NOTHING_NS]


async def cpu_downstream(ms, **parameters):
    return [*server.work("cpu", {"ms": ms}), *await AWAITED["downstream"](1.2 * ms, **parameters)]


ROUTES = {**AWAITED, **{route.__name__: route for route in (query_sleep, query_lock, query_cpu, cpu_downstream)}}


async def app(scope, receive, send):
    global pool
    if scope["type"] == "lifespan":
        pool = await asyncpg.create_pool(host="127.0.0.1", port=int(sys.argv[4]), user=sys.argv[5], min_size=CONNECTIONS, max_size=CONNECTIONS)
        await pool.execute("create table counter (n int); insert into counter values (0)")
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        pool.terminate()
        await send({"type": "lifespan.shutdown.complete"})
        return
    t0 = now()
    route, parameters, number = parse(f"{scope['path']}?{scope['query_string'].decode()}")
    truth = await ROUTES[route](**parameters) if route in ROUTES else server.work(route, parameters)
    t1 = now()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
    server.record(number, route, t0, t1, truth, occupied_thread=route not in ROUTES)


uvicorn.run(app, host="127.0.0.1", port=server.port, log_level="warning", access_log=False, lifespan="on", loop="asyncio", http="h11", backlog=1024)
