"""A gRPC server whose calls reply with several messages (grpcio), and its client: `grpc_streams.py serve [CERTIFICATE KEY]` prints "port N" and serves;
`grpc_streams.py call PORT [CERTIFICATE]` makes CALLS calls at a time and prints a line of JSON for each, with its client's port and what its clock says of the
messages."""
import json
import sys
import threading
import time
from concurrent import futures
from pathlib import Path

import grpc

CALLS, MESSAGES = 5, 12
FIRST_S, STEP_S = 0.15, 0.03


def generate(request, context):
    """The first message is the client's port; the third one needs several frames."""
    time.sleep(FIRST_S)
    yield context.peer().rpartition(":")[2].encode()
    for number in range(1, MESSAGES):
        time.sleep(STEP_S)
        yield b"token" * (10_000 if number == 2 else 1)


def converse(requests, context):
    for request in requests:
        yield from generate(request, context)


class Methods(grpc.GenericRpcHandler):
    def service(self, call):
        return (grpc.stream_stream_rpc_method_handler(converse) if call.method.endswith("Converse") else
                grpc.unary_unary_rpc_method_handler(lambda request, context: b"whole") if call.method.endswith("Whole") else
                grpc.unary_stream_rpc_method_handler(generate))


def serve(certificate=None, key=None):
    server = grpc.server(futures.ThreadPoolExecutor(2 * CALLS), handlers=(Methods(),))
    credentials = certificate and grpc.ssl_server_credentials([(Path(key).read_bytes(), Path(certificate).read_bytes())])
    port = server.add_secure_port("127.0.0.1:0", credentials) if certificate else server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"port {port}", flush=True)
    server.wait_for_termination()


def channel_to(port, certificate):
    options = [("grpc.ssl_target_name_override", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
    if not certificate:
        return grpc.insecure_channel(f"127.0.0.1:{port}", options)
    return grpc.secure_channel(f"127.0.0.1:{port}", grpc.ssl_channel_credentials(Path(certificate).read_bytes()), options)


def call(port, certificate=None):
    begin, said = threading.Barrier(CALLS), []

    def one(method):
        with channel_to(port, certificate) as channel:
            grpc.channel_ready_future(channel).result(30)
            channel.unary_unary("/llm.Service/Whole")(b"warm up")
            begin.wait()
            start = time.monotonic()
            replies = (channel.stream_stream("/llm.Service/Converse")(iter([b"say something"])) if method == "Converse" else
                       channel.unary_stream(f"/llm.Service/{method}")(b"say something"))
            times, client = [], None
            for reply in replies:
                times.append(time.monotonic() - start)
                client = client or int(reply)
            said.append({"client": client, "method": method, "messages": len(times), "first_s": times[0], "last_s": times[-1]})
    threads = [threading.Thread(target=one, args=("Converse" if number == 0 else "Generate",)) for number in range(CALLS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("\n".join(map(json.dumps, said)))


if __name__ == "__main__":
    (serve if sys.argv[1] == "serve" else call)(*sys.argv[2:])
