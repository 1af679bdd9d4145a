"""The metrics that the agent sends to OpenTelemetry's own Collector (tests/opentelemetry/collector) by HTTP and gRPC: it decodes every point, and the
translator that Prometheus uses gives each metric the name that /metrics has."""
import os
import re

import pytest
from collectors import collector  # noqa: F401 (a fixture)
from exporting import sets
from harness.agents import everything_enabled
from harness.processes import wait_for
from metrics_packets import PATH, points_of
from otlp_receiver import attributes
from real_servers import get, start_prefork

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("protocol,compression", [("http/protobuf", "gzip"), ("http/protobuf", "zstd"), ("grpc", "gzip")])
def test_collector_decodes_all_metrics(agent, sonde, collector, protocol, compression):  # noqa: F811
    to = collector("{metrics: {receivers: [otlp], exporters: [lines, names]}}")
    url = to.urls[protocol] + (PATH if protocol != "grpc" else "")
    started = agent(*everything_enabled(sonde), "--set", "budget.one_cpu=1000%", *sets(metrics_endpoint=url, metrics_interval=1, protocol=protocol, compression=compression),
                    verb="agent")
    wait_for(to.names, 60, "a packet")
    early = started.text("/metrics")  # a name may end with the last program that it is about
    wait_for(lambda: len(to.names()) >= 3, 60, "three packets")
    page = started.text("/metrics")
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
    assert started.metric("sonde_self_metrics_export_failures_total") == 0 == started.metric("sonde_self_metrics_export_rejected_points_total")
    assert started.stop() == 0
    said = re.search(r"metrics: (\d+) points were sent to \S+, in (\d+) packets of \d+ bytes in all; 0 were dropped", started.running.error)
    packets = to.packets()
    assert (sum(len(list(points_of(packet))) for packet in packets), len(packets)) == tuple(map(int, said.groups()))
    names = to.names()[-1]
    assert all(escaped == plain or "." in name for name, (escaped, plain) in names.items())  # names of the conventions have dots
    assert {escaped for escaped, _ in names.values()} >= set(types), "names of /metrics that Prometheus would not have"
    assert {escaped for escaped, _ in to.names()[0].values()} <= {*types, *re.findall(r"^# TYPE (\S+) ", early, re.M)}


def test_collector_decodes_spans_and_metrics_of_requests(agent, run, collector):  # noqa: F811
    """Spans, their parents and events, and the histogram of the service's resource, whose exemplars name the spans."""
    to = collector("{traces: {receivers: [otlp], exporters: [lines]}, metrics: {receivers: [otlp], exporters: [lines]}}")
    base = to.urls["http/protobuf"]
    started = agent("--set", "budget.one_cpu=1000%", *sets(metrics_interval=1), verb="agent", env=dict(os.environ, OTEL_EXPORTER_OTLP_ENDPOINT=base, OTEL_PROFILES_EXPORTER="none"))
    server = start_prefork(run, before=("env", "OTEL_SERVICE_NAME=judged"))
    get(server.port, "/sleep?0.2", traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    get(server.port, "/status?500")

    def spans():
        return {span["name"]: span for packet in to.packets() for one in packet.get("resourceSpans", ()) if attributes(one["resource"]["attributes"])["service.name"] == "judged"
                for scope in one["scopeSpans"] for span in scope["spans"]}

    def durations():
        return [point for packet in to.packets()[-3:] for one in packet.get("resourceMetrics", ()) if attributes(one["resource"]["attributes"])["service.name"] == "judged"
                for scope in one["scopeMetrics"] for metric in scope["metrics"] if metric["name"] == "http.server.request.duration" for point in metric["histogram"]["dataPoints"]]
    found = wait_for(lambda: spans() if len(spans()) == 2 else None, 60, "two spans")
    wait_for(lambda: len(durations()) >= 2, 60, "the histogram")
    slow = found["GET /sleep"]
    assert (slow["traceId"], slow["parentSpanId"], slow["kind"]) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 2) and slow["events"]
    assert found["GET /status"]["status"]["code"] == 2
    points = {attributes(point["attributes"])["http.route"]: point for point in durations()}
    assert {route: point["exemplars"][0]["spanId"] for route, point in points.items()} == {"/sleep": slow["spanId"], "/status": found["GET /status"]["spanId"]}
    assert started.stop() == 0 and "0 were dropped" in started.running.error
