#!/usr/bin/env python3
"""The cost in nanoseconds of request traces in a Python server: `PYTHONPATH=WHEEL_UNPACKED bench/python_trace_cost.py`, the best of several rounds,
without the loop."""
import asyncio
import os
import tempfile
import time

from sonde import asgi, trace

ROUNDS = 9
NAMES = ["HTTP_RECV_START", "HTTP_RECV_END", "REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START",
         "COMPUTE_END", "REQUEST_END", "HTTP_SEND_START", "HTTP_SEND_END"]
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HEADERS = [(b"host", b"localhost"), (b"user-agent", b"bench"), (b"accept", b"*/*"), (b"content-type", b"application/json"), (b"content-length", b"100")]


def best(work, count):
    """Nanoseconds per iteration."""
    def once():
        begin = time.perf_counter_ns()
        work(count)
        return (time.perf_counter_ns() - begin) / count
    return min(once() for _ in range(ROUNDS))


def calls(function, *arguments):
    def work(count):
        for _ in range(count):
            function(*arguments)
    return work


def nothing(count):
    for _ in range(count):
        pass


def request(model):
    t = model.start("id")
    stamp = t.timestamp
    for name in NAMES:
        stamp(name)
    t.end()


async def app(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def receive():
    return {"type": "http.request", "body": b"", "more_body": False}


async def send(message):
    pass


def requests(target, path="/v2/models/simple/infer"):
    async def serve(count):
        for _ in range(count):
            await target({"type": "http", "method": "POST", "path": path, "headers": HEADERS}, receive, send)
    return lambda count: asyncio.run(serve(count))


def main(folder):
    never, always = (trace.Manager([f"rate={rate}", "level=TIMESTAMPS", f"triton,file={folder}/{rate}"], queue_traces_max=1 << 20)
                     for rate in (1 << 30, 1))
    untraced, traced = never.model("simple"), always.model("simple")
    loop = best(nothing, 100000)
    rows = [("start, not traced", best(calls(untraced.start), 100000) - loop),
            ("start with an id and a traceparent, not traced", best(calls(untraced.start, "id", PARENT), 100000) - loop),
            ("timestamp, not traced", best(calls(untraced.start().timestamp, "REQUEST_START"), 100000) - loop)]
    t = traced.start()
    rows.append(("timestamp, with the clock", best(calls(t.timestamp, "REQUEST_START"), 10000) - loop))
    t.end()
    rows.append(("a traced request with 11 timestamps", best(calls(request, traced), 1000)))
    plain = best(requests(app), 10000)
    rows += [("TraceMiddleware, not traced", best(requests(asgi.TraceMiddleware(app, never)), 10000) - plain),
             ("TraceMiddleware, another path", best(requests(asgi.TraceMiddleware(app, never), "/v2/health/ready"), 10000) - plain),
             ("TraceMiddleware, traced", best(requests(asgi.TraceMiddleware(app, always)), 1000) - plain)]
    for name, ns in rows:
        print(f"{name:48}{ns:10,.0f}")
    for manager in (never, always):
        manager.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
        assert os.path.exists(f"{folder}/1")
