"""FastAPI's StreamingResponse on uvicorn: a stream of tokens for each request. `stream_app.py`"""
import asyncio
import json
import socket

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
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
