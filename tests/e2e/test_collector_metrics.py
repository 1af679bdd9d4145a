"""The metrics that the agent sends to OpenTelemetry's own Collector (tests/opentelemetry/collector) by HTTP and gRPC: it decodes every point, and the
translator that Prometheus uses gives each metric the name that /metrics has."""
import re

import pytest
from collectors import collector  # noqa: F401 (a fixture)
from exporting import sets
from harness.agents import everything_enabled
from harness.processes import wait_for
from metrics_packets import PATH, points_of

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("protocol,compression", [("http/protobuf", "gzip"), ("http/protobuf", "zstd"), ("grpc", "gzip")])
def test_collector_decodes_all_metrics(agent, sonde, collector, protocol, compression):  # noqa: F811
    to = collector("{metrics: {receivers: [otlp], exporters: [lines, names]}}")
    url = to.urls[protocol] + (PATH if protocol != "grpc" else "")
    started = agent(*everything_enabled(sonde), "--set", "budget.one_cpu=1000%", *sets(metrics_endpoint=url, metrics_interval=1, protocol=protocol, compression=compression),
                    verb="agent")
    wait_for(lambda: len(to.names()) >= 3, 60, "three packets")
    page = started.text("/metrics")
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
    assert started.metric("sonde_self_metrics_export_failures_total") == 0 == started.metric("sonde_self_metrics_export_rejected_points_total")
    assert started.stop() == 0
    said = re.search(r"metrics: (\d+) points were sent to \S+, in (\d+) packets of \d+ bytes in all; 0 were dropped", started.running.error)
    packets = to.packets()
    assert (sum(len(list(points_of(packet))) for packet in packets), len(packets)) == tuple(map(int, said.groups()))
    names = to.names()[-1]
    assert all(escaped == plain for escaped, plain in names.values())
    assert {escaped for escaped, _ in names.values()} >= set(types), "names of /metrics that Prometheus would not have"
    assert {escaped for escaped, _ in to.names()[0].values()} <= set(types)
