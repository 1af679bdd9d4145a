"""A gRPC receiver of OTLP for tests: grpcio's server with OpenTelemetry's own services, both from PyPI, in a process of its own
(grpc_server.py). Tests that use it are skipped when the packages are not available."""
import json
import sys
from pathlib import Path

import pytest
from harness.processes import Running, wait_for
from pypi import environment

HERE = Path(__file__).resolve().parent
NEEDED = ["grpcio==1.74.0", "opentelemetry-proto==1.45.2"]


class GrpcReceiver:
    def __init__(self, python, folder, *answers, port=0, tls=None, gzip=False, without=()):
        folder.mkdir()
        options = {"answers": answers or ({},), "port": port, "tls": [str(path) for path in tls] if tls else None, "gzip": gzip, "without": without}
        self.folder, self.running = folder, Running([python, HERE / "grpc_server.py", folder, json.dumps(options)], folder, "server")

        def listens():
            assert self.running.alive, self.running.error
            return self.running.out.endswith("\n")
        wait_for(listens, 60, "the server of gRPC")
        self.port = int(self.running.out)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"

    @property
    def calls(self):
        """The calls received, in order, each with its body as re-encoded by the official messages."""
        found = []
        for path in sorted(self.folder.glob("*.json"), key=lambda path: int(path.stem)):
            found.append(dict(json.loads(path.read_text()), body=path.with_suffix(".otlp").read_bytes()))
        return found

    def bodies(self, answer=None):
        """Bodies of the calls that got this answer; by default of those accepted without a partial failure."""
        return [call["body"] for call in self.calls if call["answer"] == (answer or {})]

    def close(self):
        self.running.kill()


@pytest.fixture
def grpc_receiver(tmp_path):
    """grpc_receiver(answers..., options...) starts a GrpcReceiver; see grpc_server.py for the options."""
    python, created = environment("python-otlp-grpc", NEEDED, [sys.executable, "/usr/bin/python3"], "sys.version_info >= (3, 10)") / "python", []

    def make(*answers, **options):
        created.append(GrpcReceiver(python, tmp_path / f"grpc-{len(created)}", *answers, **options))
        return created[-1]
    yield make
    for one in created:
        one.close()
