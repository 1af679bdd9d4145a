"""An application behind TraceMiddleware, and `ask`, which sends it a request, for the programs in this directory. The trace file is the first
argument."""
import asyncio
import sys

from sonde import asgi, trace

manager = trace.Manager(["rate=1", "level=TIMESTAMPS", f"triton,file={sys.argv[1]}"])
seen = []


async def app(scope, receive, send):
    seen.append(scope.get("sonde.trace"))
    status = scope.get("status", 200)
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            pass
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "http":
        await send({"type": "http.response.start", "status": status})
        await send({"type": "http.response.body"})


async def receive():
    return {"type": "http.request" if seen else "lifespan.shutdown"}


async def send(message):
    pass


def ask(path, method="POST", middleware=asgi.TraceMiddleware(app, manager=manager), **scope):
    del seen[:]
    asyncio.run(middleware({"type": "http", "path": path, "method": method, "headers": [], **scope}, receive, send))
    return seen[0] if seen else None
