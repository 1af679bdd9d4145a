"""A websocket passes untouched; the end of a server flushes."""
import asyncio

from asked import app, manager, receive, seen, send
from sonde import asgi

middleware = asgi.TraceMiddleware(app, manager=manager)
asyncio.run(middleware({"type": "websocket", "path": "/v2/models/a/infer"}, receive, send))
assert seen == [None]
manager.model("m").start().end()
del seen[:]
flushed, manager.flush = [], lambda seconds: flushed.append(seconds)


async def shutdown():
    return {"type": "lifespan.shutdown"}


asyncio.run(middleware({"type": "lifespan"}, shutdown, send))
assert flushed and seen == [None]
