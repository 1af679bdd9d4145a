"""FastAPI's StreamingResponse on uvicorn: a stream of tokens for each request. `stream_app.py [CERTIFICATE KEY]`: with these, over TLS."""
import asyncio
import json
import socket
import sys

import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

TOKENS = 8
app = FastAPI()


async def events():
    for n in range(TOKENS):
        await asyncio.sleep(0.01)
        yield "data: " + json.dumps({"choices": [{"delta": {"content": f"tok{n}"}}]}) + "\n\n"
    yield "data: [DONE]\n\n"


@app.api_route("/{path:path}", methods=["GET", "POST"])
async def stream(path: str):
    return StreamingResponse(events(), media_type="text/event-stream")


listener = socket.create_server(("127.0.0.1", 0))
print("port", listener.getsockname()[1], flush=True)
certificate, key = sys.argv[1:] or (None, None)
uvicorn.Server(uvicorn.Config(app, log_level="warning", ssl_certfile=certificate, ssl_keyfile=key)).run(sockets=[listener])
