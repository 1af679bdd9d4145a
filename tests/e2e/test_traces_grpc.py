"""Mode opentelemetry over gRPC: requests and generation metrics arrive as they do over HTTP (test_traces_otel.py, test_generations.py), at a receiver
of our own and at grpcio's server with OpenTelemetry's own services."""
import os

import otlp_decoder
import pytest
from harness.processes import wait_for
from grpc_receiver import grpc_receiver  # noqa: F401
from h2_grpc_receiver import H2GrpcReceiver
from otlp_receiver import Receiver
from traced_server import NEEDED, generate, official, serve  # noqa: F401 (fixtures)

pytestmark = NEEDED


def spans_of(call, official):  # noqa: F811
    return [span for resource in official(call["body"], "trace")["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]


@pytest.mark.peer
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_traces_and_metrics_arrive_by_grpc(serve, grpc_receiver, official, compression):  # noqa: F811
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


@pytest.mark.peer
def test_busy_and_partially_rejecting_receivers(serve, grpc_receiver):  # noqa: F811
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


@pytest.fixture
def own_receiver():
    created = []

    def make(*answers):
        created.append(H2GrpcReceiver(*answers))
        return created[-1]
    yield make
    for one in created:
        one.close()


@pytest.mark.sanitized
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_each_signal_is_a_call_of_its_service(serve, own_receiver, compression):  # noqa: F811
    """Each signal is a call of its service, with the headers from the environment, and its message has the spans or the metrics."""
    to = own_receiver()
    server = serve(to.url, env=dict(os.environ, OTEL_EXPORTER_OTLP_PROTOCOL="grpc", OTEL_EXPORTER_OTLP_COMPRESSION=compression,
                                    OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20abc"))
    assert server.infer("simple", "s1")[0] == 200 and server.infer("ens", "e1")[0] == 200
    generate(server, max_tokens=3)
    counts = server.end()
    assert (counts["written"], counts["generations"]) == (3, 1), server.running.error
    assert not any(counts[name] for name in ("dropped_queue", "dropped_write", "write_errors", "spans_rejected", "metrics_lost")), server.running.error
    paths = {kind: f"/opentelemetry.proto.collector.{kind}.v1.{kind.capitalize()}Service/Export" for kind in ("trace", "metrics")}
    assert {call["path"] for call in to.calls} == set(paths.values())
    names = [span["name"] for call in to.calls if call["path"] == paths["trace"] for span in spans_of(call, otlp_decoder.decode)]
    assert sorted(names) == sorted(["InferRequest"] * 3 + ["simple"] * 2 + ["compute"] * 2 + ["ens", "llm", "GENERATION"])
    metrics = [metric["name"] for call in to.calls if call["path"] == paths["metrics"] for resource in otlp_decoder.decode(call["body"], "metrics")["resourceMetrics"]
               for scope in resource["scopeMetrics"] for metric in scope["metrics"]]
    assert "gen_ai.server.request.duration" in metrics
    for call in to.calls:
        assert call["headers"]["authorization"] == "Bearer abc" and call["headers"]["user-agent"].startswith("libsonde/")
        assert call["headers"].get("grpc-encoding", "identity") == ("gzip" if compression == "gzip" else "identity")


def test_unavailable_is_retried_and_permission_denied_is_not(serve, own_receiver):  # noqa: F811
    """UNAVAILABLE is retried with the same packet; after PERMISSION_DENIED the packet is lost."""
    to = own_receiver((14, ""), (0, ""), (7, "not you"))
    server = serve(to.url, env=dict(os.environ, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="grpc", OTEL_METRICS_EXPORTER="none"))
    server.infer("simple", "s1")
    wait_for(lambda: len(to.calls) >= 2, 60, "a second attempt")
    server.infer("simple", "s2")
    wait_for(lambda: len(to.calls) >= 3, 60, "the second request")
    counts = server.end()
    assert (counts["written"], counts["dropped_write"], counts["write_errors"]) == (1, 1, 2), counts
    assert "gRPC status PERMISSION_DENIED: not you" in server.running.error
    assert to.calls[0]["body"] == to.calls[1]["body"]


def test_url_with_a_path_is_http(serve):
    """OTEL_EXPORTER_OTLP_PROTOCOL=grpc does not apply to a server whose own setting is a URL with a path."""
    to = Receiver()
    server = serve(to.url, env=dict(os.environ, OTEL_EXPORTER_OTLP_PROTOCOL="grpc"))
    server.infer("simple", "s1")
    assert server.end()["written"] == 1
    to.close()
    assert {post["path"] for post in to.posts} == {"/v1/traces"} and to.posts[0]["headers"]["Content-Type"] == "application/json"
