"""A gRPC server over TLS (grpcio): `grpc_tls_server.py CERTIFICATE KEY` prints its port and serves. It replies "ok" to any method but these: Missing fails, Large replies
50 kB, Calling calls Inner of the server itself."""
import sys
from concurrent import futures
from pathlib import Path

import grpc


def missing(request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")


class Methods(grpc.GenericRpcHandler):
    channel = None

    def calling(self, request, context):
        return self.channel.unary_unary("/test.Service/Inner")(request)

    def service(self, call):
        methods = {"Missing": missing, "Large": lambda request, context: b"x" * 50_000, "Calling": self.calling}
        return grpc.unary_unary_rpc_method_handler(methods.get(call.method.rpartition("/")[2], lambda request, context: b"ok"))


def main():
    certificate, key = (Path(path).read_bytes() for path in sys.argv[1:])
    methods = Methods()
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=(methods,))
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
    methods.channel = grpc.secure_channel(f"127.0.0.1:{port}", grpc.ssl_channel_credentials(certificate), [("grpc.ssl_target_name_override", "localhost")])
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


main()
