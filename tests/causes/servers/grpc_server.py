"""gRPC's server for Python (grpcio): handlers run in a pool of threads or, with the argument `asyncio`, on the event loop. A call's message is the target of
a request to the other servers. PORT LOG FOLDER"""
import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from awaited import AWAITED
from common import Server, now, parse

THREADS = 32
server = Server()


def in_thread(target, _):
    t0 = now()
    route, parameters, number = parse(target.decode())
    truth = server.work(route, parameters)
    server.record(number, route, t0, now(), truth)
    return b"ok"


async def on_loop(target, _):
    t0 = now()
    route, parameters, number = parse(target.decode())
    truth = await AWAITED[route](**parameters) if route in AWAITED else server.work(route, parameters)
    server.record(number, route, t0, now(), truth, occupied_thread=route not in AWAITED)
    return b"ok"


class Calls(grpc.GenericRpcHandler):
    """Serves every method with one function."""

    def __init__(self, serve):
        self.handler = grpc.unary_unary_rpc_method_handler(serve)

    def service(self, _):
        return self.handler


async def serve_on_loop():
    loop = grpc.aio.server(handlers=[Calls(on_loop)])
    loop.add_insecure_port(f"127.0.0.1:{server.port}")
    await loop.start()
    await loop.wait_for_termination()


if sys.argv[4:] == ["asyncio"]:
    asyncio.run(serve_on_loop())
else:
    threads = grpc.server(ThreadPoolExecutor(THREADS), handlers=[Calls(in_thread)])
    threads.add_insecure_port(f"127.0.0.1:{server.port}")
    threads.start()
    threads.wait_for_termination()
