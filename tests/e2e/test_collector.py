"""libsonde in mode opentelemetry with OpenTelemetry's own Collector (tests/opentelemetry/collector): every request gets a 200 without a
partial failure, and the decoded spans equal the sent spans, field by field."""
import gzip
import json
import os
import socket
from pathlib import Path

import pytest
from harness.machine import free_port, skip
from harness.paths import TOP
from harness.processes import wait_for
from otlp_receiver import attributes
from tap import Tap
from traced_server import NEEDED, PARENT, TracedServer, generate, official  # noqa: F401 (a fixture)

pytestmark = [NEEDED, pytest.mark.peer]
COLLECTOR = TOP / "build/opentelemetry/collector"
CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}, grpc: {{endpoint: "127.0.0.1:{grpc_port}"}}}}}}}}
exporters: {{lines: {{path: "{path}"}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [lines]}}, metrics: {{receivers: [otlp], exporters: [lines]}}}}
"""


@pytest.fixture
def collector(run, tmp_path):
    """The Collector, a recording proxy in front of its HTTP port, and a function that returns the decoded packets. running.grpc_port is its
    other port."""
    if not COLLECTOR.exists():
        skip("OpenTelemetry's Collector has not been built here: tests/opentelemetry/build")
    port, grpc_port, path, config = free_port(), free_port(), tmp_path / "understood", tmp_path / "collector.yaml"
    config.write_text(CONFIG.format(port=port, grpc_port=grpc_port, path=path))
    running = run(COLLECTOR, f"--config={config}", name="collector")
    running.grpc_port = grpc_port

    def listens():
        assert running.alive, running.error
        with socket.socket() as s, socket.socket() as other:
            return s.connect_ex(("127.0.0.1", port)) == 0 == other.connect_ex(("127.0.0.1", grpc_port))
    wait_for(listens, 60, "the collector")
    tap = Tap(port)
    yield running, tap, lambda: [json.loads(line) for line in path.read_text().splitlines()]
    tap.close()


DOUBLES = ("sum", "min", "max", "doubleValue", "explicitBounds")


def plain(value, key=""):
    """Normalizes protobuf JSON: 64-bit numbers may be strings, and fields with default values may be absent."""
    if isinstance(value, dict):
        fields = {key: plain(of, key) for key, of in value.items()}
        return {key: of for key, of in fields.items() if key.endswith("Value") or of not in ("", "0", [], {})}
    if isinstance(value, list):
        return [plain(of, key) for of in value]
    return float(value) if key in DOUBLES else value if isinstance(value, bool) else str(value)


def said(packets):
    return sorted(json.dumps(plain(packet), sort_keys=True) for packet in packets)


def spans_in(packets):
    return [span for packet in packets for resource in packet.get("resourceSpans", ()) for scope in resource["scopeSpans"] for span in scope["spans"]]


def metrics_in(packets):
    return [metric for packet in packets for resource in packet.get("resourceMetrics", ()) for scope in resource["scopeMetrics"]
            for metric in scope["metrics"]]


def serve(run, url, environment):
    return TracedServer(run, "mode=opentelemetry", "rate=1", "level=TIMESTAMPS", f"opentelemetry,url={url}", "opentelemetry,bsp_schedule_delay=100",
                        "opentelemetry,resource=service.version=7", "opentelemetry,resource=empty=", "opentelemetry,resource=text=\u00e4\u4e2d\U0001f600\"\\", env=environment)


def ask_all(server):
    """Sends requests with every optional feature that a receiver may reject, then ends the server, which delivers everything."""
    for model, request_id in (("simple", "s1"), ("ens", 'id \u00e9 "x"\t'), ("bls", "b1")):
        assert server.infer(model, request_id)[0] == 200
    assert server.infer("simple", "ctx", traceparent=PARENT, tracestate="a=b,c@d=e")[0] == 200
    assert server.call("/v2/models/simple/infer", b'{"id":"\xff\xfe\xed\xa0\x80","inputs":[]}')[0] == 200
    assert server.infer("simple", "", body=b"{")[0] == 400
    for parameters in (dict(max_tokens=5, input=11), dict(max_tokens=7, each=3, delay_ms=2), dict(max_tokens=0), dict(max_tokens=200)):
        generate(server, **parameters)
    generate(server, headers={"traceparent": PARENT}, max_tokens=5, fail_after=2)
    counts = server.end()
    assert (counts["sampled"], counts["written"], counts["generations"]) == (11, 11, 5)
    assert not any(counts[name] for name in ("dropped_queue", "dropped_write", "write_errors", "spans_rejected", "metrics_lost")), server.running.error


def check_all(received):
    """Asserts that the test data covers the features that a Collector could have dropped."""
    spans, metrics = spans_in(received), metrics_in(received)
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == len(spans) and {"InferRequest", "simple", "ens", "bls", "llm", "compute", "GENERATION"} <= {span["name"] for span in spans}
    assert {span["traceState"] for span in spans if span.get("traceState")} == {"a=b,c@d=e"}
    parents = [by_id.get(span["parentSpanId"]) for span in spans if span.get("parentSpanId")]
    assert sum(parent is None for parent in parents) == 2 and len(parents) > 20  # the callers' spans are not in these packets
    assert sum(span.get("droppedEventsCount", 0) for span in spans) == 200 - 128
    failed = [span["status"] for span in spans if span.get("status", {}).get("code")]
    assert {status["code"] for status in failed} == {2} and "no inputs" in {status.get("message") for status in failed} and len(failed) == 3
    tokens = [event for span in spans for event in span.get("events", ()) if event["name"] == "TOKEN"]
    assert len(tokens) > 100 and all(attributes(event["attributes"])["tokens"] for event in tokens)
    assert {metric["name"] for metric in metrics} == {"gen_ai.server.request.duration", "gen_ai.server.time_to_first_token",
                                                      "gen_ai.server.time_per_output_token", "gen_ai.client.token.usage"}
    assert all(len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1 for metric in metrics for point in metric["histogram"]["dataPoints"])


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
def test_collector_decodes_http_packets(run, collector, official, protocol, compression):  # noqa: F811
    running, tap, understood = collector
    environment = dict(os.environ, OTEL_EXPORTER_OTLP_PROTOCOL=protocol, OTEL_EXPORTER_OTLP_COMPRESSION=compression,
                       OTEL_METRIC_EXPORT_INTERVAL="300", OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20abc")
    server = serve(run, f"http://127.0.0.1:{tap.port}/v1/traces", environment)
    ask_all(server)
    assert running.stop() == 0, running.error

    requests, answers = tap.messages(0), tap.messages(1)
    assert {first.split()[1] for first, _, _ in requests} == {"/v1/traces", "/v1/metrics"} and len(requests) == len(answers)
    assert {first for first, _, _ in answers} == {"HTTP/1.1 200 OK"}
    assert {headers.get("content-encoding", "none") for _, headers, _ in requests} == {compression}
    whole = {"http/json": [{}, {"partialSuccess": {}}], "http/protobuf": [b"", b"\x0a\x00"]}[protocol]
    assert all((json.loads(body) if protocol == "http/json" else body) in whole for _, _, body in answers), answers
    sent = []
    for first, _, body in requests:
        body = gzip.decompress(body) if compression == "gzip" else body
        kind = "metrics" if first.split()[1] == "/v1/metrics" else "trace"
        sent.append(json.loads(body) if protocol == "http/json" else official(body, kind, program=(Path(__file__).parent / "official_json.py").read_text()))
    received = understood()
    assert said(received) == said(sent)
    check_all(received)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_collector_decodes_grpc_packets(run, collector, compression):
    """Go's gRPC, which compresses responses to compressed requests. test_traces_grpc.py checks that the content equals that sent over HTTP."""
    running, _, understood = collector
    environment = dict(os.environ, OTEL_EXPORTER_OTLP_PROTOCOL="grpc", OTEL_EXPORTER_OTLP_COMPRESSION=compression, OTEL_METRIC_EXPORT_INTERVAL="300",
                       OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20abc")
    ask_all(serve(run, f"http://127.0.0.1:{running.grpc_port}", environment))
    assert running.stop() == 0, running.error
    check_all(understood())
