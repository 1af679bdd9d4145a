"""A middleware that is driven by hand, without a loop of asyncio."""
from asked import app, manager, receive, seen, send
from sonde import asgi

async def reading(scope, receive, send):
    await receive()
    await app(scope, receive, send)
seen.append(None)
one = asgi.TraceMiddleware(reading, manager=manager)({"type": "http", "path": "/v2/models/m/infer", "method": "POST", "headers": []}, receive, send)
try:
    one.send(None)
    print("waits for a loop")
except StopIteration:
    assert seen[1].id == 1 and not seen[1].active
