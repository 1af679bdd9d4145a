"""FastAPI on uvicorn: streams of events like the streams of language models, jobs for pools of threads, and tasks that wait for tasks. PORT LOG FOLDER LOOP
(asyncio or uvloop). A route adds ground truth to `request.state.truth`; the log is written when the reply is complete."""
import asyncio
import contextlib
import functools
import sys
import threading
import time

import anyio
import httpx
import uvicorn
from common import MS, Account, Server, Spinner, cpu, item, now, parse, per_thread, run_delay_ns
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

TOKENS, HOPS = 5, 60
server, app = Server(), FastAPI()


def asked_ms(request):
    return float(request.query_params["ms"])


async def wait(truth, ms):
    """A timer of the event loop: no other thread has a part in it."""
    t0 = now()
    await asyncio.sleep(ms / 1000)
    truth.append({**item("sleep", t0, min(now(), t0 + int(ms * MS))), "only": [threading.get_native_id()]})


def waited_for_thread(submitted):
    """What a job waited for until its thread began it: jobs before it, and a CPU."""
    t0, delay_ns = now(), run_delay_ns()
    ran_ns = min(delay_ns - getattr(per_thread, "delay_ns", 0), t0 - submitted)
    return [item("queue_behind", submitted, t0, t0 - submitted - ran_ns), item("run_queue", submitted, t0, ran_ns)]


def of_thread(items):
    """The items of a job, which is the work of this thread only."""
    per_thread.delay_ns = run_delay_ns()
    return [{**one, "only": [threading.get_native_id()]} for one in items]


def sleep_in_thread(ms, submitted):
    waited, t0 = waited_for_thread(submitted), now()
    time.sleep(ms / 1000)
    return of_thread([*waited, item("sleep", t0, min(now(), t0 + int(ms * MS)))])


def compute_in_thread(ms, submitted):
    return of_thread([*waited_for_thread(submitted), *cpu(ms)])


@app.get("/clean")
async def clean():
    return "ok"


@app.get("/stream")
async def stream(request: Request):
    truth, ms = request.state.truth, asked_ms(request) / TOKENS

    async def tokens():
        for _ in range(TOKENS):
            await wait(truth, ms)
            yield "data: token\n\n"
    return StreamingResponse(tokens(), media_type="text/event-stream")


@app.get("/stream_sync")
async def stream_sync(request: Request):
    """Starlette takes each piece in a thread of a pool."""
    truth, ms = request.state.truth, asked_ms(request) / TOKENS

    def tokens():
        for _ in range(TOKENS):
            truth.extend(sleep_in_thread(ms, now()))
            yield "data: token\n\n"
    return StreamingResponse(tokens(), media_type="text/event-stream")


class Published(StreamingResponse):
    """Like sse_starlette's: `publish` puts the pieces in a queue, in a task of its own; another task takes them from there and sends them."""

    def __init__(self, publish):
        self.queue, pieces = anyio.create_memory_object_stream(10)
        self.publish = publish
        super().__init__(pieces, media_type="text/event-stream")

    async def __call__(self, scope, receive, send):
        async with anyio.create_task_group() as group:
            group.start_soon(self.publish, self.queue)
            group.start_soon(super().__call__, scope, receive, send)


@app.get("/stream_queue")
async def stream_queue(request: Request):
    """The next job of a thread begins before the result of the last one is sent."""
    truth, ms = request.state.truth, asked_ms(request) / TOKENS

    async def publish(queue):
        async with queue:
            for _ in range(TOKENS):
                truth.extend(await run_in_threadpool(sleep_in_thread, ms, now()))
                await queue.send("data: token\n\n")
    return Published(publish)


@app.get("/stream_service")
async def stream_service(request: Request):
    """Each token comes from another service."""
    truth, ms, service = request.state.truth, asked_ms(request) / TOKENS, request.query_params["service"]

    async def tokens():
        for _ in range(TOKENS):
            await ask(truth, ms, service)
            yield "data: token\n\n"
    return StreamingResponse(tokens(), media_type="text/event-stream")


@app.get("/to_thread")
async def to_thread(request: Request):
    request.state.truth += await asyncio.to_thread(sleep_in_thread, asked_ms(request), now())


@app.get("/to_threadpool")
async def to_threadpool(request: Request):
    request.state.truth += await run_in_threadpool(sleep_in_thread, asked_ms(request), now())


@app.get("/def")
def in_threadpool(request: Request):
    """FastAPI calls a handler that is not async in a thread of a pool."""
    request.state.truth += sleep_in_thread(asked_ms(request), now())


@app.get("/thread_cpu")
async def thread_cpu(request: Request):
    request.state.truth += await asyncio.to_thread(compute_in_thread, asked_ms(request), now())


@functools.cache
def client():
    return httpx.AsyncClient(timeout=60)


async def ask(truth, ms, service):
    """The time in the service is known; what the client does before and after it is not a wait for the service."""
    answer = await client().get(f"http://127.0.0.1:{service}/slow?ms={ms}")
    truth.append(item("downstream", *map(int, answer.headers["times"].split())))


@app.get("/downstream")
async def downstream(request: Request):
    await ask(request.state.truth, asked_ms(request), request.query_params["service"])


@app.get("/task_group")
async def task_group(request: Request):
    """Waits for the slower of two tasks."""
    truth, ms = request.state.truth, asked_ms(request)
    async with asyncio.TaskGroup() as group:
        group.create_task(wait([], ms / 2))
        group.create_task(wait(truth, ms))


@app.get("/anyio_group")
async def anyio_group(request: Request):
    truth, ms = request.state.truth, asked_ms(request)
    async with anyio.create_task_group() as group:
        group.start_soon(wait, [], ms / 2)
        group.start_soon(wait, truth, ms)


def add_jobs(truth, faster, slower):
    """Two jobs of threads that a request waits for: either thread works for the request."""
    slept = faster[-1]
    if slept["tid"] == slower[0]["tid"] and slept["t1"] <= slower[0]["t1"]:
        truth += faster
        slower = [{**one, "t0": max(one["t0"], slept["t1"]), "ns": min(one.get("ns", one["t1"] - one["t0"]), one["t1"] - max(one["t0"], slept["t1"]))} for one in slower]
    truth += [{**one, "only": [slept["tid"], *one["only"]]} for one in slower]


@app.get("/gather_threads")
async def gather_threads(request: Request):
    ms = asked_ms(request)
    add_jobs(request.state.truth, *await asyncio.gather(asyncio.to_thread(sleep_in_thread, ms / 2, now()), asyncio.to_thread(sleep_in_thread, ms, now())))


@app.get("/group_threads")
async def group_threads(request: Request):
    ms = asked_ms(request)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asyncio.to_thread(sleep_in_thread, each, now())) for each in (ms / 2, ms)]
    add_jobs(request.state.truth, *(task.result() for task in tasks))


@app.get("/anyio_threads")
async def anyio_threads(request: Request):
    ms, jobs = asked_ms(request), {}

    async def job(each):
        jobs[each] = await anyio.to_thread.run_sync(sleep_in_thread, each, now())
    async with anyio.create_task_group() as group:
        group.start_soon(job, ms / 2)
        group.start_soon(job, ms)
    add_jobs(request.state.truth, jobs[ms / 2], jobs[ms])


@app.get("/gather_service")
async def gather_service(request: Request):
    truth, ms, service = request.state.truth, asked_ms(request), request.query_params["service"]
    await asyncio.gather(ask([], ms / 2, service), ask(truth, ms, service))


@app.get("/wait_for")
async def wait_for(request: Request):
    request.state.truth += await asyncio.wait_for(asyncio.to_thread(sleep_in_thread, asked_ms(request), now()), 60)


@functools.cache
def spinners():
    return Spinner(), Spinner()


@app.get("/gil_hops")
async def gil_hops(request: Request):
    """Jobs that do nothing, each handed to a thread and back; `ms` is 0, or two threads compute meanwhile: each time, whichever goes on waits for the GIL."""
    with contextlib.ExitStack() as stack:
        if asked_ms(request):
            for spinner in spinners():
                stack.enter_context(spinner)
        with Account("lock") as account:
            for _ in range(HOPS):
                await asyncio.to_thread(now)
    held = {"holders": [spinner.native_id for spinner in spinners()], "functions": ["Spinner.run()"]}
    request.state.truth += [one | held if one["cause"] == "lock" else one for one in account.items if asked_ms(request)]


async def logged(scope, receive, send):
    if scope["type"] != "http":
        return
    t0, truth = now(), []
    route, _, number = parse(f"{scope['path']}?{scope['query_string'].decode()}")
    scope["state"] = {"truth": truth}
    await app(scope, receive, send)
    server.record(number, route, t0, now(), truth)


uvicorn.run(logged, host="127.0.0.1", port=server.port, log_level="warning", access_log=False, lifespan="off", loop=sys.argv[4], backlog=1024)
