"""The main program: serves the models of a directory over HTTP and gRPC.

    python serve.py [--trace-config [<mode>,]<setting>=<value>]... [options] FOLDER
"""
import argparse
import contextlib
import sys

import uvicorn
from sonde import trace


def main():
    try:
        manager, arguments = trace.Manager.from_args()  # removes --trace-config and the other trace options
    except ValueError as error:
        sys.exit(f"serve.py: {error}")
    parser = argparse.ArgumentParser(description="Serves models over HTTP and gRPC.")
    parser.add_argument("folder", help="output directory of `models.py`")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--http-port", type=int, default=8000)
    parser.add_argument("--grpc-port", type=int, default=8001)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--protocol", default=None, help="directory with the generated gRPC modules; default: FOLDER/../protocol")
    parser.add_argument("--probes", help="existing directory for the file with the USDT probes; default: in memory")
    options = parser.parse_args(arguments)
    sys.path.append(options.protocol or options.folder + "/../protocol")
    import rest
    import rpc  # imports the generated modules
    from core import Server
    server = Server(options.folder, options.workers, options.probes, manager)

    @contextlib.asynccontextmanager
    async def serving():
        await server.start()
        service, port = await rpc.start(server, f"{options.host}:{options.grpc_port}")
        print(f"models are loaded; HTTP is on port {options.http_port}, gRPC on {port}", flush=True)
        yield
        await service.stop(1)
        server.close()

    uvicorn.run(rest.application(server, serving), host=options.host, port=options.http_port, log_level="warning", timeout_graceful_shutdown=5)


if __name__ == "__main__":
    main()
