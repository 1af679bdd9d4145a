"""The Open Inference Protocol over HTTP, with binary tensors, as a Starlette application. sonde's middleware implements the trace protocol, the
HTTP timestamps and the ends of traces."""
import asyncio
import contextlib
import json
import re

from sonde.asgi import TraceMiddleware
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import chat
from core import NAME, VERSION
from refused import Refused
from tensors import NAMES, array_of

BODY_BYTES_MAX = 16 << 20
INFER = re.compile(r"/v2/models/([^/]+)(?:/versions/[^/]+)?/infer")


async def read(request):
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            raise Refused(413, "RESOURCE_EXHAUSTED", f"a body of more than {BODY_BYTES_MAX} bytes")
    return bytes(body)


async def unless_gone(request, work):
    """Returns the result of `work`. Cancels it when the client disconnects, to save the worker's time."""
    work, gone = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect()
        return work.result()
    finally:
        work.cancel()
        gone.cancel()


def parse(body, head):
    """Returns the request's id, {input's name: array} (from the JSON, or from the binary data after it), and the requested outputs: {name: whether
    binary}, or for all outputs whether binary."""
    try:
        said, rest, inputs = json.loads(body[:head]), memoryview(body)[head:], {}
        for tensor in said["inputs"]:
            size = tensor.get("parameters", {}).get("binary_data_size")
            data = rest[:size] if size is not None else tensor["data"]
            rest = rest[size or 0:]
            inputs[tensor["name"]] = array_of(tensor["name"], tensor["datatype"], tensor["shape"], data)
        binary = said.get("parameters", {}).get("binary_data_output", False)
        wanted = {tensor["name"]: tensor.get("parameters", {}).get("binary_data", binary) for tensor in said.get("outputs", ())}
        return str(said.get("id", "")), inputs, wanted or binary
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Refused.invalid(f"failed to parse the request: {error!r}") from None


def answer(model, id, outputs, wanted):
    tensors, behind = [], []
    for name, binary in (wanted if isinstance(wanted, dict) else dict.fromkeys(outputs, wanted)).items():
        if name not in outputs:
            raise Refused.invalid(f"unexpected output '{name}' for model '{model.name}'")
        array = outputs[name]
        tensor = {"name": name, "datatype": NAMES[array.dtype], "shape": list(array.shape)}
        if binary:
            behind.append(array.tobytes())
            tensor["parameters"] = {"binary_data_size": array.nbytes}
        else:
            tensor["data"] = array.ravel().tolist()
        tensors.append(tensor)
    head = json.dumps({"model_name": model.name, "model_version": VERSION, "outputs": tensors, **({"id": id} if id else {})}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))} if behind else {}
    return Response(b"".join([head, *behind]), headers=headers, media_type="application/octet-stream" if behind else "application/json")


def application(server, serving):
    """`serving`: a context manager entered before the first request and exited after the last."""
    def model_of(request):
        return server.find(request.path_params["name"], request.path_params.get("version", ""))

    async def infer(request):
        model, t, body = model_of(request), request.scope["sonde.trace"], await read(request)
        try:
            head = int(request.headers.get("inference-header-content-length", len(body)))
        except ValueError:
            raise Refused.invalid("Inference-Header-Content-Length is no number") from None
        id, inputs, wanted = parse(body, head)
        t.set_request_id(id)
        return answer(model, id, await unless_gone(request, server.infer(model, inputs, id, t)), wanted)

    async def metadata(request):
        said = model_of(request).said
        return JSONResponse({key: said[key] for key in ("name", "versions", "platform", "inputs", "outputs")})

    async def about(request):
        return JSONResponse({"name": NAME, "version": VERSION, "extensions": ["binary_tensor_data", "trace"]})

    async def metrics(request):
        return Response(server.manager.metrics(), media_type="text/plain; version=0.0.4")

    async def live(request):
        return Response()

    async def ready(request):
        return Response(status_code=200 if server.ready else 503)

    async def model_ready(request):
        model_of(request)
        return await ready(request)

    async def refused(request, error):
        if request.url.path.startswith("/v1/"):
            return chat.refusal(error)
        return JSONResponse({"error": str(error)}, error.status)

    async def gone(request, error):
        return Response(status_code=499)

    def traced_model(scope):
        found = INFER.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        name = found[1] if found else "writer" if scope["path"] == chat.PATH else None
        return server.models[name].trace if name in server.models else None

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with serving():
            yield

    versions = ("", "/versions/{version}")
    app = Starlette(lifespan=lifespan, exception_handlers={Refused: refused, ClientDisconnect: gone}, routes=[
        Route("/metrics", metrics), Route("/v2", about), Route("/v2/health/live", live), Route("/v2/health/ready", ready),
        *(Route("/v2/models/{name}" + version, metadata) for version in versions),
        *(Route("/v2/models/{name}" + version + "/ready", model_ready) for version in versions),
        *(Route("/v2/models/{name}" + version + "/infer", infer, methods=["POST"]) for version in versions),
        *chat.routes(server, read, unless_gone)])
    app.add_middleware(TraceMiddleware, manager=server.manager, model=traced_model)
    return app
