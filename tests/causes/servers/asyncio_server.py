"""asyncio on uvicorn. Handlers run on the event loop, and what blocks blocks the loop; with the argument `pool` they run in an executor's threads."""
import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from awaited import AWAITED
from common import CERTIFICATE, Server, item, now, parse

WORKERS = 4
server, pool = Server(), ThreadPoolExecutor(WORKERS) if sys.argv[4:] == ["pool"] else None


def in_pool(route, parameters, submitted):
    return [item("queue_behind", submitted, now()), *server.work(route, parameters)]


async def work(route, parameters):
    if pool:
        return await asyncio.get_running_loop().run_in_executor(pool, in_pool, route, parameters, now())
    if route in AWAITED:
        return await AWAITED[route](**parameters)
    return server.work(route, parameters)


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    t0 = now()
    route, parameters, number = parse(f"{scope['path']}?{scope['query_string'].decode()}")
    truth = await work(route, parameters)
    t1 = now()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
    server.record(number, route, t0, t1, truth, occupied_thread=not pool and route not in AWAITED)


uvicorn.run(app, host="127.0.0.1", port=server.port, log_level="warning", access_log=False, lifespan="off", loop="asyncio", http="h11", backlog=1024,
            ssl_certfile=CERTIFICATE, ssl_keyfile=CERTIFICATE)
