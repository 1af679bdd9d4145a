"""The service for the W3C's Trace Context test harness (https://github.com/w3c/trace-context, test/README.md), with our middleware:
`trace_context_service.py PORT OPTIONS...` (0: any port, which it prints). It receives a list of objects by POST and posts the "arguments" of each to
its "url", each in a span of its own in the trace of the incoming request. With the wheel in PYTHONPATH, uvicorn and starlette installed:

    python trace_context_service.py 5000 --trace-config mode=opentelemetry --trace-config rate=1 --trace-config level=TIMESTAMPS &
    python test/test.py http://127.0.0.1:5000/test
"""
import asyncio
import json
import socket
import sys
import urllib.request

import sonde.asgi
import sonde.trace
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

port, *arguments = sys.argv[1:]
manager, _ = sonde.trace.Manager.from_args(arguments)
called = manager.model("called")


def post(url, body, headers):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


async def test(request):
    for one in await request.json():
        with request.scope["sonde.trace"].child(called) as call:
            await asyncio.to_thread(post, one["url"], one["arguments"], call.context())
    return JSONResponse([])


app = Starlette(routes=[Route("/test", test, methods=["POST"])])
app.add_middleware(sonde.asgi.TraceMiddleware, manager=manager, model=lambda scope: "service")

if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", int(port)))
    print("listening on", listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
