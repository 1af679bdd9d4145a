"""OpenTelemetry's own Collector (tests/opentelemetry/collector) as the receiver of an agent."""
import json
import socket

import pytest
from harness.machine import free_port, skip
from harness.processes import wait_for
from test_collector import COLLECTOR

CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{http}"}}, grpc: {{endpoint: "127.0.0.1:{grpc}"}}}}}}}}
exporters: {{lines: {{path: "{path}"}}, names: {{path: "{path}.names"}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {pipelines}
"""


def read_lines(path):
    """The objects in complete lines only: the last one may still be being written."""
    lines = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line) for line in lines.split(b"\n") if line]


class Collector:
    """A running Collector: its base URLs by protocol, and the packets that it decoded."""

    def __init__(self, running, urls, path):
        self.running, self.urls, self.path = running, urls, path

    def packets(self):
        return read_lines(self.path)

    def names(self):
        """{name in OTLP: [names in Prometheus]} of each packet of metrics."""
        return read_lines(self.path.with_name(self.path.name + ".names"))


@pytest.fixture
def collector(run, tmp_path):
    """collector(pipelines, arguments...) starts a Collector with these pipelines, as YAML."""
    def start(pipelines, *arguments):
        if not COLLECTOR.exists():
            skip("OpenTelemetry's Collector has not been built here: tests/opentelemetry/build")
        ports, path, config = {"http": free_port(), "grpc": free_port()}, tmp_path / "understood", tmp_path / "collector.yaml"
        config.write_text(CONFIG.format(path=path, pipelines=pipelines, **ports))
        running = run(COLLECTOR, f"--config={config}", *arguments, name="collector")

        def listens(port):
            assert running.alive, running.error
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0
        wait_for(lambda: all(listens(port) for port in ports.values()), 60, "the collector")
        return Collector(running, {"http/protobuf": f"http://127.0.0.1:{ports['http']}", "grpc": f"http://127.0.0.1:{ports['grpc']}"}, path)
    return start
