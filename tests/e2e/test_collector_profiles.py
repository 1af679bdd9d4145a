"""What the agent sends to OpenTelemetry's own Collector (tests/opentelemetry/collector) by HTTP and gRPC: the Collector decodes every stack that
the agent took. Profiles are in development there too, behind a feature gate."""
import json
import socket

import pytest
from exporting import exporting, sets  # noqa: F401
from harness.machine import free_port, skip
from harness.processes import wait_for
from profiles_receiver import export_stats
from test_collector import COLLECTOR

pytestmark = pytest.mark.peer

CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{http}"}}, grpc: {{endpoint: "127.0.0.1:{grpc}"}}}}}}}}
exporters: {{lines: {{path: "{path}"}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{profiles: {{receivers: [otlp], exporters: [lines]}}}}
"""


@pytest.fixture
def collector(run, tmp_path):
    """The Collector, its URLs by protocol, and a function that returns the decoded packets."""
    if not COLLECTOR.exists():
        skip("OpenTelemetry's Collector has not been built here: tests/opentelemetry/build")
    ports, path, config = {"http": free_port(), "grpc": free_port()}, tmp_path / "understood", tmp_path / "collector.yaml"
    config.write_text(CONFIG.format(path=path, **ports))
    running = run(COLLECTOR, f"--config={config}", "--feature-gates=service.profilesSupport", name="collector")

    def listens(port):
        assert running.alive, running.error
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0
    wait_for(lambda: all(listens(port) for port in ports.values()), 60, "the collector")
    urls = {"http/protobuf": f"http://127.0.0.1:{ports['http']}/v1development/profiles", "grpc": f"http://127.0.0.1:{ports['grpc']}"}

    def understood():
        """Reads complete lines only: the last one may still be being written."""
        lines = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
        return [json.loads(line) for line in lines.split(b"\n") if line]
    return running, urls, understood


def samples_of(packet):
    """(pid, frame names from the leaf on, timestamps) per sample."""
    tables = packet["dictionary"]
    strings, functions, locations, stacks = (tables[name] for name in ("stringTable", "functionTable", "locationTable", "stackTable"))

    def name(location):
        lines = locations[location].get("lines", [])
        return strings[functions[lines[0]["functionIndex"]].get("nameStrindex", 0)] if lines else ""
    for resource in packet["resourceProfiles"]:  # resource attribute keys are indices into its own string table
        pid = next(int(a["value"]["intValue"]) for a in resource["resource"]["attributes"] if strings[a["keyStrindex"]] == "process.pid")
        for profile in (profile for scope in resource["scopeProfiles"] for profile in scope["profiles"]):
            for sample in profile["samples"]:
                yield pid, tuple(name(i) for i in stacks[sample["stackIndex"]]["locationIndices"]), sample["timestampsUnixNano"]


@pytest.mark.parametrize("protocol,compression", [("http/protobuf", "zstd"), ("grpc", "gzip"), ("grpc", "zstd")])
def test_collector_decodes_all_profiles(exporting, collector, protocol, compression):  # noqa: F811
    running, urls, understood = collector
    started = exporting(urls[protocol], *sets(protocol=protocol, compression=compression))
    wait_for(lambda: sum("work_of_red" in text and "work_of_blue" in text for text in map(json.dumps, understood())) >= 2, 120, "two packets with both threads")
    assert started.metric("sonde_self_export_failures_total") == 0 == started.metric("sonde_self_export_rejected_profiles_total")
    assert started.stop() == 0
    says = export_stats(started)
    packets = understood()
    assert len(packets) == says["packets"] and says["dropped"] == 0
    samples = [sample for packet in packets for sample in samples_of(packet)]
    assert sum(len(times) for _, _, times in samples) == says["sent"] == says["taken"] > 0
    own = {frame for pid, frames, _ in samples if pid == exporting.workload.pid for frame in frames}
    assert {"work_of_red", "work_of_blue"} <= own
