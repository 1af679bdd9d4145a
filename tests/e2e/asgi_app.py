"""The server under test in test_asgi.py: FastAPI or Starlette with KServe's paths, on uvicorn. `asgi_app.py KIND PORT OPTIONS...`"""
import asyncio
import os
import sys

import sonde.asgi
import sonde.trace
import uvicorn

kind, port, *arguments = sys.argv[1:]
manager, rest = sonde.trace.Manager.from_args(arguments)
streaming = manager.model("stream")


async def infer(request):
    t = request.scope["sonde.trace"]
    body = await request.json()
    t.set_request_id(body.get("id"))
    t.timestamp("QUEUE_START")
    t.timestamp("COMPUTE_START")
    await asyncio.sleep(body.get("sleep", 0))
    if "until" in body:  # wait for that file, then give the event loop time to poll its sockets
        print("working", flush=True)
        while not os.path.exists(body["until"]):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
    t.timestamp("COMPUTE_END")
    if body.get("fail"):
        raise RuntimeError("the model is broken")
    return {"id": body.get("id"), "traced": bool(t), "context": t.context()}


async def stream(request):
    body = await request.json()

    async def parts():
        with streaming.generation(request.scope["sonde.trace"], operation="chat") as g:
            for n in range(body["parts"]):
                g.tokens(1)
                yield f"part {n}\n"
                await asyncio.sleep(body.get("sleep", 0.01))
                if body.get("fail"):
                    raise RuntimeError("in the middle")
            g.end(input_tokens=7, finish_reason="stop")
    return parts()


def fastapi_app():
    from fastapi import FastAPI, Request
    from fastapi.responses import StreamingResponse
    app = FastAPI()

    @app.post("/v2/models/simple/infer")
    @app.post("/v2/models/simple/versions/{version}/infer")
    async def infer_(request: Request):
        return await infer(request)

    @app.post("/v2/models/stream/generate_stream")
    async def stream_(request: Request):
        return StreamingResponse(await stream(request))

    @app.get("/v2/health/ready")
    async def ready(request: Request):
        return bool(request.scope["sonde.trace"])

    @app.post("/v2/models/unread/infer")
    async def unread():
        return "done"
    return app


def starlette_app():
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route

    async def infer_(request):
        return JSONResponse(await infer(request))

    async def stream_(request):
        return StreamingResponse(await stream(request))

    async def ready(request):
        return JSONResponse(bool(request.scope["sonde.trace"]))

    async def unread(request):
        return JSONResponse("done")
    return Starlette(routes=[Route("/v2/models/simple/infer", infer_, methods=["POST"]),
                             Route("/v2/models/simple/versions/{version}/infer", infer_, methods=["POST"]),
                             Route("/v2/models/stream/generate_stream", stream_, methods=["POST"]),
                             Route("/v2/models/unread/infer", unread, methods=["POST"]), Route("/v2/health/ready", ready)])


if __name__ == "__main__":
    app = {"fastapi": fastapi_app, "starlette": starlette_app}[kind]()
    app.add_middleware(sonde.asgi.TraceMiddleware, manager=manager)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning", http=rest[0] if rest else "auto")
