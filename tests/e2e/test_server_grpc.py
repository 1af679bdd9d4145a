"""The centre by gRPC: a client whose frames a test chooses, an agent, and OpenTelemetry's SDK."""
import socket
import time

import pytest
from centre import field, fixed64, request, server, span  # noqa: F401 (fixture)
from exporting import sets
from harness.processes import wait_for
from http2_client import Http2Client
from pypi import environment
from real_servers import get, start_prefork

TRACES, LOGS = "trace.v1.TraceService", "logs.v1.LogsService"
PACKAGES = ["opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-grpc"]
UNIMPLEMENTED, INVALID_ARGUMENT = 12, 3


def test_calls_are_rows(server):  # noqa: F811
    one, now = server(), time.time_ns()
    packet = request([span(1, "GET /a", now), span(0)])  # one is rejected
    assert one.call(TRACES, packet) == one.call(TRACES, packet, compressed=True) == (0, "")
    assert one.post("/v1/traces", packet)[0] == 200
    assert one.call(LOGS, request([fixed64(1, now) + field(5, field(1, "it broke"))]), compressed=True) == (0, "")
    assert one.call(TRACES, b"\xff")[0] == INVALID_ARGUMENT and one.call("other.v1.Service", packet)[0] == UNIMPLEMENTED
    one.await_value("SELECT count(), any(SpanName), any(ServiceName) FROM otel_traces", "1\tGET /a\tshop")
    one.await_value("SELECT Body FROM otel_logs", "it broke")


def test_a_connection_has_many_calls(server):  # noqa: F811
    """At once, more than there are threads; and one that speaks HTTP/1 is closed."""
    one = server()
    connection = Http2Client(one.grpc_port)
    streams = [connection.call(f"/opentelemetry.proto.collector.{TRACES}/Export", request([span(number)])) for number in range(1, 31)]
    assert {connection.reply(stream)["grpc-status"] for stream in streams} == {"0"}
    one.await_value("SELECT count() FROM otel_traces", "30")
    with socket.create_connection(("127.0.0.1", one.grpc_port), 30) as other:
        other.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while other.recv(4096):
            pass
    again = connection.call(f"/opentelemetry.proto.collector.{TRACES}/Export", request([span(31)]))
    assert connection.reply(again)["grpc-status"] == "0"
    connection.close()


def test_what_an_agent_sends_by_grpc(server, agent, run):  # noqa: F811
    one = server()
    url = f"http://127.0.0.1:{one.grpc_port}"
    served = start_prefork(run, before=("env", "OTEL_SERVICE_NAME=served"))
    started = agent("--set", "budget.one_cpu=1000%", *sets(protocol="grpc", traces_endpoint=url, metrics_endpoint=url, profiles_endpoint=url, metrics_interval=1, interval=1))
    assert get(served.port, "/sleep?0.2").status == 200
    wait_for(lambda: started.metric("http_server_request_duration_seconds_count", service_name="served") == 1, 30, "a request")
    assert started.stop() == 0
    one.await_value("SELECT SpanName FROM otel_traces WHERE ServiceName = 'served' AND SpanName = 'GET /sleep'", "GET /sleep", 60)
    one.await_value("SELECT max(Count) FROM otel_metrics_histogram WHERE MetricName = 'http.server.request.duration' AND Attributes['http.route'] = '/sleep'", "1", 60)
    one.await_value("SELECT count() > 0 FROM profile_samples", "1", 60)


@pytest.mark.peer
def test_what_an_sdk_sends_by_grpc(server, run):  # noqa: F811
    """The Python SDK, with grpcio's client: all signals that it has."""
    one = server()
    python = environment("server-sdk-grpc", PACKAGES, ["/usr/bin/python3"], "True") / "python"
    code = """
import logging, sys
from grpc import Compression
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
to, resource = dict(endpoint=sys.argv[1], insecure=True), Resource.create({"service.name": "sdk", "host.name": "node-2"})
traces = TracerProvider(resource=resource)
traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(compression=Compression.Gzip, **to)))
tracer = traces.get_tracer("test")
for i in range(1000):
    tracer.start_span("GET /", attributes={"http.route": "/"}).end()
metrics = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(**to))], resource=resource)
metrics.get_meter("test").create_counter("seen").add(7)
logs = LoggerProvider(resource=resource)
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(**to)))
logging.getLogger("test").addHandler(LoggingHandler(logger_provider=logs))
logging.getLogger("test").error("it broke")
for provider in (traces, metrics, logs):
    provider.shutdown()
"""
    sdk = run(python, "-c", code, f"127.0.0.1:{one.grpc_port}", name="sdk")
    assert sdk.wait(120) == 0 and "xception" not in sdk.error, sdk.error
    one.await_value("SELECT count(), any(ResourceAttributes['host.name']) FROM otel_traces", "1000\tnode-2")
    one.await_value("SELECT Value FROM otel_metrics_sum WHERE MetricName = 'seen'", "7")
    one.await_value("SELECT Body FROM otel_logs", "it broke")
