"""CRI container runtimes for tests: one that answers with raw HTTP/2 frames (h2_grpc_receiver.py), and one based on grpcio."""
import json
import socket
import sys
import threading
from pathlib import Path

import pytest
from cri_messages import encode
from grpc_receiver import NEEDED
from h2_grpc_receiver import DATA, END_HEADERS, END_STREAM, HEADERS, H2GrpcReceiver, literal
from harness.processes import wait_for
from pypi import environment

CODES = {"UNIMPLEMENTED": 12}


class CriRuntime(H2GrpcReceiver):
    """Listens on `.socket` and returns the response set by say(). A response must fit into one HTTP/2 flow-control window."""

    def __init__(self, folder):
        self.socket, self.messages = folder / "cri.sock", {}
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.socket))
        self.listener.listen(8)
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # otherwise accept() continues on a descriptor number that may be reused for another socket
        super().close()

    def say(self, *pods, **others):
        """`pods`: pairs of a sandbox and its containers. `code` and `words` make the response a gRPC error."""
        self.messages = {"items": [sandbox for sandbox, _ in pods], "containers": [one for _, containers in pods for one in containers], **others}

    def answer(self, connection, stream, headers, message):
        said, name = self.messages, {"/runtime.v1.RuntimeService/ListPodSandbox": "ListPodSandboxResponse",
                                 "/runtime.v1.RuntimeService/ListContainers": "ListContainersResponse"}[headers[":path"]]
        assert message == bytes(5), message
        self.send(connection, HEADERS, END_HEADERS, stream, b"\x88" + literal("content-type", "application/grpc"))  # :status 200
        if "code" not in said:
            body = encode(name, said)
            body = b"\0" + len(body).to_bytes(4, "big") + body
            for at in range(0, len(body), 16384):
                self.send(connection, DATA, 0, stream, body[at:at + 16384])
        trailers = literal("grpc-status", str(CODES[said["code"]] if "code" in said else 0)) + (literal("grpc-message", said["words"]) if "code" in said else b"")
        self.send(connection, HEADERS, END_HEADERS | END_STREAM, stream, trailers)


class GrpcioRuntime:
    """The same runtime on grpcio, in a process of its own (cri_server.py)."""

    def __init__(self, run, folder):
        self.socket, self.state = folder / "cri.sock", folder / "state.json"
        self.say()
        python = environment("python-otlp-grpc", NEEDED, [sys.executable, "/usr/bin/python3"], "sys.version_info >= (3, 10)") / "python"
        self.running = run(python, Path(__file__).with_name("cri_server.py"), self.socket, self.state)
        wait_for(lambda: "ready" in self.running.out or not self.running.alive, 60, "the runtime")
        assert self.running.alive, self.running.error

    def say(self, *pods, **others):
        text = json.dumps({"items": [sandbox for sandbox, _ in pods], "containers": [one for _, containers in pods for one in containers], **others})
        self.state.with_suffix(".new").write_text(text)
        self.state.with_suffix(".new").rename(self.state)


@pytest.fixture
def runtime(tmp_path):
    it = CriRuntime(tmp_path)
    yield it
    it.close()


@pytest.fixture
def grpcio_runtime(run, tmp_path):
    return GrpcioRuntime(run, tmp_path)
