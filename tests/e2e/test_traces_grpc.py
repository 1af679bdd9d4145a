"""Mode opentelemetry by gRPC, to grpcio's server with OpenTelemetry's own services: requests and the figures of generations arrive as they do by
HTTP (test_traces_otel.py, test_generations.py)."""
import os

import pytest
from harness.processes import wait_for
from grpc_receiver import grpc_receiver  # noqa: F401
from otlp_receiver import Receiver
from test_generations import generate
from test_traces_otel import NEEDED, TracedServer, official, serve  # noqa: F401

pytestmark = NEEDED


def spans_of(call, official):  # noqa: F811
    return [span for resource in official(call["body"], "trace")["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_traces_and_metrics_arrive(serve, grpc_receiver, official, compression):  # noqa: F811
    to = grpc_receiver(gzip=compression == "gzip")
    server = serve(to.url, env=dict(os.environ, OTEL_EXPORTER_OTLP_PROTOCOL="grpc", OTEL_EXPORTER_OTLP_COMPRESSION=compression,
                                    OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20abc"))
    assert server.infer("simple", "s1")[0] == 200 and server.infer("ens", "e1")[0] == 200
    generate(server, max_tokens=3)
    counts = server.end()
    assert (counts["written"], counts["generations"]) == (3, 1), server.running.error
    assert not any(counts[name] for name in ("dropped_queue", "dropped_write", "write_errors", "spans_rejected", "metrics_lost")), server.running.error
    by_signal = {signal: [call for call in to.calls if call["signal"] == signal] for signal in ("traces", "metrics")}
    assert by_signal["traces"] and by_signal["metrics"]
    names = [span["name"] for call in by_signal["traces"] for span in spans_of(call, official)]
    assert names.count("InferRequest") == 3 and {"simple", "ens", "llm"} <= set(names)
    assert all(call["metadata"]["authorization"] == "Bearer abc" and call["metadata"]["user-agent"].startswith("libsonde/") for call in to.calls)


def test_a_receiver_that_is_busy_and_one_that_rejects(serve, grpc_receiver):  # noqa: F811
    to = grpc_receiver({"code": "UNAVAILABLE"}, {"rejected": 1, "words": "too old"}, {"code": "PERMISSION_DENIED", "words": "not you"}, {})
    server = serve(to.url, env=dict(os.environ, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="grpc", OTEL_METRICS_EXPORTER="none"))
    server.infer("simple", "s1")
    wait_for(lambda: len(to.calls) >= 2, 60, "a second attempt")
    server.infer("simple", "s2")
    wait_for(lambda: len(to.calls) >= 3, 60, "the second request")
    counts = server.end()
    assert (counts["written"], counts["dropped_write"], counts["spans_rejected"]) == (1, 1, 1), counts
    assert "gRPC status PERMISSION_DENIED: not you" in server.running.error
    assert to.calls[0]["body"] == to.calls[1]["body"]


def test_a_url_of_http_stays_that(serve):
    """An environment that asks for gRPC is meant for others where the server was told a URL with a path."""
    to = Receiver()
    server = serve(to.url, env=dict(os.environ, OTEL_EXPORTER_OTLP_PROTOCOL="grpc"))
    server.infer("simple", "s1")
    assert server.end()["written"] == 1
    to.close()
    assert {post["path"] for post in to.posts} == {"/v1/traces"} and to.posts[0]["headers"]["Content-Type"] == "application/json"
