"""A gRPC server with a thread pool (grpcio), whose methods wait for different things, and its client: `grpc_server.py serve` prints "port N" and serves;
`grpc_server.py call PORT` makes 20 calls of each method, four of the same one at a time on one connection."""
import hashlib
import sys
import threading
import time
from concurrent import futures

import grpc

lock = threading.Lock()


def hold():
    while True:
        with lock:
            time.sleep(0.06)
        time.sleep(0.002)


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.sha256(b"x" * 1000).digest()


def sleepy(request, context):
    time.sleep(0.05)
    return b"slept"


def compute(request, context):
    burn(0.05)
    return b"computed"


def locked(request, context):
    with lock:
        return b"locked"


class Methods(grpc.GenericRpcHandler):
    channel = None

    def calling(self, request, context):
        return self.channel.unary_unary("/test.Service/Sleepy")(request)

    def service(self, call):
        methods = {"Sleepy": sleepy, "Compute": compute, "Locked": locked, "Calling": self.calling}
        return grpc.unary_unary_rpc_method_handler(methods[call.method.rpartition("/")[2]])


def serve():
    threading.Thread(target=hold, daemon=True).start()
    methods = Methods()
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=(methods,))
    port = server.add_insecure_port("127.0.0.1:0")
    methods.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    server.start()
    print(f"port {port}", flush=True)
    server.wait_for_termination()


def call(port):
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    begin = threading.Barrier(4)  # those that compute would keep the GIL from the others

    def repeat():
        for _ in range(5):
            for method in ("Sleepy", "Compute", "Locked", "Calling"):
                begin.wait()
                channel.unary_unary(f"/test.Service/{method}")(b"hello")
    threads = [threading.Thread(target=repeat) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else call(int(sys.argv[2]))
