"""The program: serves the models of a folder over HTTP and gRPC.

    python serve.py [--trace-config [<mode>,]<setting>=<value>]... [options] FOLDER
"""
import argparse
import contextlib
import sys

import uvicorn
from sonde import trace


def main():
    try:
        manager, arguments = trace.Manager.from_args()  # takes --trace-config and its kin
    except ValueError as error:
        sys.exit(f"serve.py: {error}")
    parser = argparse.ArgumentParser(description="Serves models over HTTP and gRPC.")
    parser.add_argument("folder", help="what `models.py` has made")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--http-port", type=int, default=8000)
    parser.add_argument("--grpc-port", type=int, default=8001)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--protocol", default=None, help="the folder with gRPC's generated modules; default: that of the models, ../protocol")
    parser.add_argument("--probes", help="an existing folder for the file with the native probes; default: they lie in memory")
    options = parser.parse_args(arguments)
    sys.path.append(options.protocol or options.folder + "/../protocol")
    import rest
    import rpc  # and with it what has been generated
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
