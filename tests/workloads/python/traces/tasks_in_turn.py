"""Four requests at once on one loop, and a thread of each, again and again: `tasks_in_turn.py RATE FILE`."""
import asyncio
import os
import sys
import threading
import time

from sonde import asgi, trace

manager = trace.Manager([f"rate={sys.argv[1]}", "level=TIMESTAMPS", f"triton,file={sys.argv[2]}"])
model = manager.model("m")

def in_a_thread(t):
    with t.working():
        pass

async def app(scope, receive, send):
    for _ in range(3):
        await asyncio.sleep(0.001)
    t = scope["sonde.trace"]
    thread = threading.Thread(target=in_a_thread, args=(t,))
    thread.start()
    thread.join()
    if scope["end"] == "raise":
        raise ValueError
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body"})

async def receive():
    return {"type": "http.request"}

async def send(message):
    pass

middleware = asgi.TraceMiddleware(app, manager=manager)

async def ask(end):
    try:
        task = asyncio.ensure_future(middleware({"type": "http", "path": "/v2/models/m/infer", "method": "POST", "headers": [], "end": end}, receive, send))
        if end == "cancel":
            await asyncio.sleep(0)
            task.cancel()
        await task
    except (ValueError, asyncio.CancelledError):
        pass

async def turn():
    await asyncio.gather(*(ask(end) for end in ("ok", "raise", "cancel", "ok")))

print(f"pid {os.getpid()}\nready", flush=True)
while True:
    asyncio.run(turn())
    time.sleep(0.02)
