#!/usr/bin/env python3
"""CPU time per request that request traces cost a whole ASGI server: `PYTHONPATH=WHEEL_UNPACKED PYTHON bench/asgi_cost.py [ROUNDS [REQUESTS]]`, where
PYTHON has uvicorn, starlette and fastapi (tests/e2e/test_asgi.py creates such an environment, build/asgi/bin/python).

Three servers run side by side: without TraceMiddleware, with it and one request in a million sampled, and with every request traced into a file. They
are measured in turn, in alternating order, over one connection each. CPU time is the kernel's, summed over a server's threads, in nanoseconds: it
excludes other processes, but a busy sibling hyperthread makes everything slower. So rounds are short and many; reported are the fastest
round of each server, and its difference from the fastest round without."""
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BODY = b'{"id":"r","inputs":[{"name":"INPUT0","shape":[1,4],"datatype":"INT32","data":[1,2,3,4]}]}'
KINDS = ("starlette", "fastapi")
WAYS = {"without": None, "not sampled": "rate=1000000", "traced": "rate=1"}


def serve(kind, port, *settings):
    import uvicorn

    async def infer(request):
        body = await request.json()
        t = request.scope.get("sonde.trace")
        if t:
            t.set_request_id(body["id"])
            t.timestamp("COMPUTE_START")
            t.timestamp("COMPUTE_END")
        return JSONResponse({"id": body["id"], "outputs": []})
    if kind == "fastapi":
        from fastapi import FastAPI, Request
        from fastapi.responses import JSONResponse
        infer.__annotations__["request"] = Request
        app = FastAPI()
        app.post("/v2/models/{name}/infer")(infer)
    else:
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse
        from starlette.routing import Route
        app = Starlette(routes=[Route("/v2/models/{name}/infer", infer, methods=["POST"])])
    if settings:
        import sonde.asgi
        import sonde.trace
        assert sonde.native, "the native part of sonde is not there"
        app.add_middleware(sonde.asgi.TraceMiddleware, manager=sonde.trace.Manager(["level=TIMESTAMPS", *settings]))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False, timeout_keep_alive=3600)


class Server:
    def __init__(self, kind, port, folder, setting):
        settings = [setting, f"triton,file={folder}/{port}.json"] if setting else []
        self.process = subprocess.Popen([sys.executable, __file__, "--serve", kind, str(port), *settings])
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def warm_up(self):
        """Waits until the server responds, and sends enough requests to warm it up."""
        until = time.monotonic() + 60
        while True:
            try:
                return self.ask(200)
            except ConnectionError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                self.connection.close()
                time.sleep(0.1)

    def ask(self, count):
        for _ in range(count):
            self.connection.request("POST", "/v2/models/m/infer", BODY, {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            answer.read()
            assert answer.status == 200

    def cpu_ns(self):
        return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{self.process.pid}/task").iterdir())

    def cost_us(self, count):
        """CPU time per request."""
        before = self.cpu_ns()
        self.ask(count)
        return (self.cpu_ns() - before) / count / 1000

    def end(self):
        self.connection.close()
        self.process.terminate()
        self.process.wait(30)


def measure(kind, port, rounds, count):
    with tempfile.TemporaryDirectory() as folder:
        servers, found = {}, {way: [] for way in WAYS}
        try:
            for i, (way, setting) in enumerate(WAYS.items()):
                servers[way] = Server(kind, port + i, folder, setting)
            for server in servers.values():
                server.warm_up()
            for number in range(rounds):
                for way in list(WAYS)[::-1 if number % 2 else 1]:
                    found[way].append(servers[way].cost_us(count))
        finally:
            for server in servers.values():
                server.end()
    bare = min(found["without"])
    for way, costs in found.items():
        more = min(costs) - bare
        print(f"{kind:10} {way:12} {min(costs):8.1f} us (median {statistics.median(costs):.1f})" + (f"  {more:+7.1f} us, {100 * more / bare:+.1f} %" if way != "without" else ""), flush=True)


def main():
    rounds, count = (int(argument) for argument in [*sys.argv[1:], *["60", "100"][len(sys.argv) - 1:]][:2])
    port = 20000 + os.getpid() % 20000
    for i, kind in enumerate(KINDS):
        measure(kind, port + 10 * i, rounds, count)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
    else:
        main()
