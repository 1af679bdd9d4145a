"""The centre, `sonde server`: OTLP in, SQL out, with kill -9 of both processes in between. The engine's library must be installed (centre.py)."""
import http.client
import json
import os
import socket
import struct
import subprocess
import time

import pytest
from accept_queue import NAME, await_refusals, full_accept_queue
from centre import ask, field, fixed64, pair, request, server, span  # noqa: F401 (fixture)
from exporting import sets
from harness.machine import need_command
from harness.processes import wait_for
from pypi import environment
from real_servers import get, start_prefork

PACKAGES = ["opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"]


def run_to_end(sonde, *arguments):
    return subprocess.run([sonde, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def test_spans_and_logs_are_rows(server):  # noqa: F811
    """As the Collector's exporter has them; compressed or not; a retry is not stored twice."""
    one, now = server(), time.time_ns()
    inside = field(11, fixed64(1, now) + field(2, "e") + field(3, pair("k", "v"))) + field(13, field(1, b"\x01" * 16) + field(2, b"\x02" * 8))
    packet = request([span(1, "GET /a", now, 5_000_000, **{"http.route": "/a", "n": -1, "share": 0.1, "ok": True}) + inside])
    for compressed in (False, True, True):
        assert one.post("/v1/traces", packet, compressed=compressed)[::2] == (200, b"")
    record = fixed64(1, now) + field(2, 17) + field(3, "ERROR") + field(5, field(1, "it broke")) + field(6, pair("k", "v")) + field(9, (7).to_bytes(16, "big"))
    assert one.post("/v1/logs", request([record]))[0] == 200
    one.await_value("SELECT count() FROM otel_traces", "1")
    assert one.value("SELECT TraceId, SpanName, SpanKind, ServiceName, ScopeName, Duration, StatusCode, ResourceAttributes['host.name'], SpanAttributes FROM otel_traces") == \
        "\t".join(["0" * 31 + "1", "GET /a", "Server", "shop", "test", "5000000", "Unset", "node-1", "{'http.route':'/a','n':'-1','share':'0.1','ok':'true'}"])
    assert one.value("SELECT toUnixTimestamp64Nano(Timestamp) FROM otel_traces") == str(now)
    assert one.value("SELECT Events.Name, Events.Attributes, toUnixTimestamp64Nano(Events.Timestamp[1]), Links.TraceId, Links.SpanId, Links.Attributes FROM otel_traces") == \
        f"['e']\t[{{'k':'v'}}]\t{now}\t['{'01' * 16}']\t['{'02' * 8}']\t[{{}}]"
    one.await_value("SELECT count() FROM otel_logs", "1")
    assert one.value("SELECT Body, SeverityText, SeverityNumber, ServiceName, LogAttributes['k'], right(TraceId, 2) FROM otel_logs") == "it broke\tERROR\t17\tshop\tv\t07"


def point(now, *fields):
    return fixed64(3, now) + b"".join(fields)


def test_points_are_rows(server):  # noqa: F811
    """All kinds of metrics."""
    one, now = server(), time.time_ns()
    attribute, exemplar = pair("k", "v"), fixed64(2, now) + field(3, 2.5) + field(4, b"\x01" * 8) + field(5, b"\x02" * 16)
    metrics = {"g": field(5, field(1, point(now, field(4, 1.5), field(7, attribute), field(5, exemplar))) + field(1, point(now, fixed64(6, -3 & (1 << 64) - 1)))),
               "s": field(7, field(1, point(now, fixed64(6, 7), field(8, 1))) + field(2, 2) + field(3, 1)),
               "h": field(9, field(1, point(now, fixed64(4, 3), field(5, 4.5), field(6, struct.pack("<2Q", 1, 2)), field(7, struct.pack("<d", 0.5)), field(9, attribute),
                                            field(11, 0.25), field(12, 4.0))) + field(2, 1)),
               "e": field(10, field(1, point(now, fixed64(4, 6), field(6, 3), field(8, field(1, 4) + field(2, b"\x01\x05")), field(9, field(2, b"")))) + field(2, 2)),
               "q": field(11, field(1, point(now, fixed64(4, 9), field(5, 90.0), field(6, field(1, 0.5) + field(2, 10.0)), field(7, attribute))))}
    body = request([field(1, name) + field(2, "about") + field(3, "By") + data for name, data in metrics.items()])
    assert one.post("/v1/metrics", body)[::2] == (200, b"")
    one.await_value("SELECT count(), sum(Value) FROM otel_metrics_gauge", "2\t-1.5")
    assert one.value("SELECT ServiceName, MetricName, MetricDescription, MetricUnit, Attributes, Exemplars.Value, Exemplars.TraceId FROM otel_metrics_gauge WHERE Value > 0") == \
        "\t".join(["shop", "g", "about", "By", "{'k':'v'}", "[2.5]", f"['{'02' * 16}']"])
    one.await_value("SELECT Value, Flags, AggregationTemporality, IsMonotonic FROM otel_metrics_sum", "7\t1\t2\ttrue")
    one.await_value("SELECT Count, Sum, BucketCounts, ExplicitBounds, Min, Max, Attributes['k'] FROM otel_metrics_histogram", "3\t4.5\t[1,2]\t[0.5]\t0.25\t4\tv")
    one.await_value("SELECT Count, Scale, PositiveOffset, PositiveBucketCounts, NegativeBucketCounts FROM otel_metrics_exponential_histogram", "6\t-2\t2\t[1,5]\t[]")
    one.await_value("SELECT Count, Sum, ValueAtQuantiles.Quantile, ValueAtQuantiles.Value FROM otel_metrics_summary", "9\t90\t[0.5]\t[10]")
    assert one.post("/v1/metrics", request([field(1, "g") + field(5, field(1, point(now, field(4, b"text"))))]))[0] == 400


def test_hello_of_clickhouse_go(server):  # noqa: F811
    """The client reads this answer in the Native format of its version, and others in the version that it reports, which is the engine's."""
    one = server()
    status, _, body = ask(one.sql_port, "POST", "/?client_protocol_version=54460&database=otel&default_format=Native&max_execution_time=60",
                          b"SELECT displayName(), version(), revision(), timezone()", {})
    version = one.value("SELECT version()").encode()
    assert status == 200 and body == (b"\1\0\2\xff\xff\xff\xff\0\4\1\x0ddisplayName()\6String\0\x0csonde server\x09version()\6String\0" + bytes([len(version)]) + version +
                                      b"\x0arevision()\6UInt32\0\0\0\0\0\x0atimezone()\6String\0\3UTC")
    assert ask(one.sql_port, "POST", "/?client_protocol_version=54460&default_format=Native", b"SELECT 1::UInt8 AS a", {})[2] == b"\1\1\1a\5UInt8\1"


@pytest.mark.peer
def test_questions_of_clickhouse_go(server, run, tmp_path):  # noqa: F811
    """Over HTTP, as Grafana's data source for ClickHouse asks."""
    one = server()
    assert one.post("/v1/traces", request([span(1, "GET /", **{"http.route": "/a"})]))[0] == 200
    one.await_value("SELECT count() FROM requests", "1")
    (tmp_path / "go.mod").write_text("module ask\ngo 1.24\n")
    (tmp_path / "main.go").write_text("""
package main
import ("fmt"; "os"; clickhouse "github.com/ClickHouse/clickhouse-go/v2")
func main() {
    db := clickhouse.OpenDB(&clickhouse.Options{Addr: []string{os.Args[1]}, Protocol: clickhouse.HTTP, Auth: clickhouse.Auth{Database: "otel"},
        Settings: clickhouse.Settings{"max_execution_time": 60}, Compression: &clickhouse.Compression{Method: clickhouse.CompressionGZIP}})
    var route string
    var ms float64
    fmt.Println(db.Ping(), db.QueryRow("SELECT route, duration_ms FROM requests").Scan(&route, &ms), route, ms)
}
""")
    need_command("go")
    for command in (["get", "github.com/ClickHouse/clickhouse-go/v2@v2.40.1"], ["mod", "tidy"], ["build", "-o", "ask", "."]):
        assert subprocess.run(["go", *command], cwd=tmp_path, capture_output=True, timeout=400).returncode == 0
    asking = run(tmp_path / "ask", f"127.0.0.1:{one.sql_port}", name="ask")
    assert asking.wait(30) == 0 and asking.out == "<nil> <nil> /a 1\n"


def test_json_is_rows(server):  # noqa: F811
    """The same rows as protobuf gives, of all three signals."""
    one, now = server(), time.time_ns()
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}, {"key": "host.name", "value": {"stringValue": "node-1"}}]}
    scope = {"scope": {"name": "test", "version": "1.0"}}
    a_span = {"traceId": f"{5:032x}", "spanId": f"{5:016x}", "name": "GET /", "kind": 2, "startTimeUnixNano": str(now), "endTimeUnixNano": str(now + 10**6),
              "attributes": [{"key": "n", "value": {"intValue": "-1"}}, {"key": "share", "value": {"doubleValue": 0.1}}, {"key": "ok", "value": {"boolValue": True}}]}
    record = {"timeUnixNano": str(now), "severityNumber": 17, "body": {"stringValue": "it broke"}}
    metric = {"name": "s", "sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": [{"timeUnixNano": str(now), "asInt": "7"}]}}
    for path, resources, scopes, items, item in [("traces", "resourceSpans", "scopeSpans", "spans", a_span), ("logs", "resourceLogs", "scopeLogs", "logRecords", record),
                                                 ("metrics", "resourceMetrics", "scopeMetrics", "metrics", metric)]:
        body = json.dumps({resources: [{"resource": resource, scopes: [{**scope, items: [item]}]}]}).encode()
        assert one.post(f"/v1/{path}", body, {"Content-Type": "application/json"}, compressed=path == "logs")[::2] == (200, b"{}")
    assert one.post("/v1/traces", request([span(6, "GET /", now, n=-1, share=0.1, ok=True)]))[0] == 200
    one.await_value("SELECT count(), uniqExact(tuple(* EXCEPT (TraceId, SpanId))) FROM otel_traces", "2\t1")
    one.await_value("SELECT Body, SeverityNumber, ServiceName FROM otel_logs", "it broke\t17\tshop")
    one.await_value("SELECT MetricName, Value, IsMonotonic, ResourceAttributes['host.name'] FROM otel_metrics_sum", "s\t7\ttrue\tnode-1")


def test_requests_that_are_refused(server):  # noqa: F811
    one, now = server("--keep", "10"), time.time_ns()
    old, future, without_id = span(1, start_ns=now - 11 * 86400 * 10**9), span(2, start_ns=now + 2 * 86400 * 10**9), span(0, start_ns=now)
    status, _, body = one.post("/v1/traces", request([old, future, without_id, span(3, start_ns=now)]))
    assert status == 200 and body[:4] == field(1, b"x" * (len(body) - 2))[:2] + b"\x08\x03" and b"longer ago" in body
    one.await_value("SELECT count(), any(right(TraceId, 1)) FROM otel_traces", "1\t3")
    for path, packet, headers, expected in [("/v1/traces", b"\xff", {}, 400), ("/v1/traces", request([b"\x08\x01"]), {}, 400), ("/v1/nothing", b"", {}, 404),
                                            ("/v1/traces", b"{", {"Content-Type": "application/json"}, 400), ("/v1/traces", b"x", {"Content-Encoding": "br"}, 415),
                                            ("/v1/traces", b"not gzip", {"Content-Encoding": "gzip"}, 400), ("/v1/traces", b"", {"Host": "evil.example"}, 403)]:
        assert one.post(path, packet, headers)[0] == expected, (path, packet)
    assert one.post("/v1/traces", b"\0" * (17 << 20), compressed=True)[0] == 413
    assert ask(one.otlp_port, "GET", "/v1/traces", None, {})[0] == 405


def test_exactly_one_host_header_is_accepted(server):  # noqa: F811
    one = server()
    for hosts, expected in [(["127.0.0.1"], 200), (["127.0.0.1", "evil.example"], 403), (["127.0.0.1", "127.0.0.1"], 403), ([], 400)]:
        connection = http.client.HTTPConnection("127.0.0.1", one.sql_port, timeout=60)
        connection.putrequest("GET", "/ping", skip_host=True)
        for host in hosts:
            connection.putheader("Host", f"{host}:{one.sql_port}")
        connection.endheaders()
        assert connection.getresponse().status == expected, hosts
        connection.close()


def test_readers_can_only_read(server, tmp_path):  # noqa: F811
    one = server()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    one.await_value("SELECT 1", "1")
    for sql in [f"SELECT file('{secret}')", f"SELECT * FROM file('{secret}', 'LineAsString')", f"SELECT 1 INTO OUTFILE '{tmp_path}/out'", "SELECT 1 INTO/**/ outfile 'x'",
                "SELECT \u2018'\u2019 INTO OUTFILE 'x'", "INSERT INTO otel_traces SELECT * FROM otel_traces", "DROP TABLE otel_traces", "KILL QUERY WHERE 1", "SET readonly = 0",
                "SELECT 1 SETTINGS max_memory_usage = 0", "SELECT * FROM (SELECT * FROM remote('127.0.0.1', system.one) SETTINGS readonly = 0)",
                "SELECT (SELECT demangle('f') SETTINGS allow_introspection_functions = 1)", "USE default", "SELECT 1; SELECT 2", "SELECT * FROM url('http://127.0.0.1/', 'CSV', 'a String')",
                "CREATE TEMPORARY TABLE t (a Int8)", "SELECT file('/proc/1/environ')", "SELECT repeat('a', 1000000000)", "SELECT * FROM numbers(100000000)", ""]:
        status, text = one.query(sql)
        assert status == 400 and "secret\n" not in text, (sql, text)
        assert one.value("SELECT 5") == "5"  # and not what a failed query had put out
    assert one.query("SELECT 1", max_memory_usage=0)[0] == 400
    assert not (tmp_path / "out").exists() and "the engine ended" not in one.running.error


def test_formats_of_answers(server):  # noqa: F811
    one = server()
    assert one.query("SELECT 1 AS a", default_format="JSONEachRow") == (200, '{"a":1}\n')
    assert one.query("SELECT 1 AS a FORMAT CSVWithNames", default_format="JSON") == (200, '"a"\n1\n')
    assert ask(one.sql_port, "GET", "/?query=SELECT+1%2B1", None, {})[::2] == (200, b"2\n")
    assert ask(one.sql_port, "POST", "/?query=SELECT+count()+FROM", b"otel_traces", {"X-ClickHouse-Format": "CSV"})[::2] == (200, b"0\n")
    assert ask(one.sql_port, "GET", "/ping", None, {})[::2] == (200, b"Ok.\n")
    status, text = one.query("SELECT * FROM nothing")
    assert status == 400 and text.startswith("Code: 60. DB::Exception:")


@pytest.mark.peer
def test_what_an_sdk_sends(server, run):  # noqa: F811
    """The Python SDK of OpenTelemetry; SQL names the slowest route."""
    one = server()
    python = environment("server-sdk", PACKAGES, ["/usr/bin/python3"], "True") / "python"
    code = """
import sys, time
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
provider = TracerProvider(resource=Resource.create({"service.name": "sdk", "host.name": "node-2"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=sys.argv[1], compression=Compression.Gzip)))
tracer = provider.get_tracer("test")
now = time.time_ns()
for i in range(1000):
    slow = i % 10 == 0
    span = tracer.start_span("GET /slow" if slow else "GET /fast", start_time=now, attributes={"http.route": "/slow" if slow else "/fast"})
    span.end(now + (50_000_000 if slow else 1_000_000))
provider.shutdown()
"""
    assert run(python, "-c", code, f"http://127.0.0.1:{one.otlp_port}/v1/traces").wait(120) == 0
    one.await_value("SELECT count() FROM otel_traces", "1000")
    assert one.value("SELECT SpanAttributes['http.route'] AS route, ResourceAttributes['host.name'], count(), max(Duration) / 1e6 FROM otel_traces"
                     " GROUP BY ALL ORDER BY 4 DESC LIMIT 1") == "/slow\tnode-2\t100\t50"


@pytest.mark.peer
def test_what_an_sdk_of_javascript_sends(server, run, tmp_path):  # noqa: F811
    """JSON, by default."""
    need_command("npm")
    one = server()
    packages = ["@opentelemetry/sdk-trace-node@2.2.0", "@opentelemetry/exporter-trace-otlp-http@0.208.0", "@opentelemetry/resources@2.2.0"]
    assert run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", tmp_path, *packages, name="npm").wait(180) == 0
    (tmp_path / "send.js").write_text("""
const {NodeTracerProvider, BatchSpanProcessor} = require("@opentelemetry/sdk-trace-node");
const {OTLPTraceExporter} = require("@opentelemetry/exporter-trace-otlp-http");
const {resourceFromAttributes} = require("@opentelemetry/resources");
const exporter = new OTLPTraceExporter({url: process.argv[2]});
const provider = new NodeTracerProvider({resource: resourceFromAttributes({"service.name": "js", "host.name": "node-4"}), spanProcessors: [new BatchSpanProcessor(exporter)]});
const tracer = provider.getTracer("test");
for (let i = 0; i < 100; i++) {
    const span = tracer.startSpan("GET /", {kind: 1, attributes: {"http.route": "/", "i": i, "share": 0.5, "list": ["a", "b"]}});
    if (i == 7) span.recordException(new Error("seven"));
    span.end();
}
provider.shutdown();
""")
    assert run("node", tmp_path / "send.js", f"http://127.0.0.1:{one.otlp_port}/v1/traces", name="send").wait(60) == 0
    one.await_value("SELECT count(), sum(toInt64(attributes['i'])), any(attributes['list']), any(host), any(route) FROM requests", '100\t4950\t["a","b"]\tnode-4\t/')
    assert one.value("SELECT name, text, service FROM events") == "exception\tseven\tjs"


def test_missing_engine_is_a_sentence(sonde, tmp_path):
    done = run_to_end(sonde, "server", "--data", tmp_path / "data", "--engine", tmp_path / "nothing")
    assert done.returncode == 1 and "--engine" in done.stderr and "No such file" in done.stderr


def test_time_to_keep_can_change(server):  # noqa: F811
    for days in (10, 20):
        one = server("--keep", str(days))
        one.await_value("SELECT 1", "1")
        assert f"TTL toDate(Timestamp) + toIntervalDay({days})" in one.value("SHOW CREATE TABLE otel_traces")
        assert one.running.stop() == 0


def test_what_an_agent_sends(server, agent, run):  # noqa: F811
    """Sonde's own spans and metrics: the slowest route, and what its requests waited for."""
    one = server()
    served = start_prefork(run, before=("env", "OTEL_SERVICE_NAME=served"))
    started = agent("--set", "budget.one_cpu=1000%", *sets(traces_endpoint=f"http://127.0.0.1:{one.otlp_port}/v1/traces",
                                                            metrics_endpoint=f"http://127.0.0.1:{one.otlp_port}/v1/metrics", metrics_interval=1))
    assert get(served.port, "/sleep?0.2").status == 200 and get(served.port, "/status?503").status == 503
    wait_for(lambda: started.metric("http_server_request_duration_seconds_count", service_name="served") == 2, 30, "two requests")
    assert started.stop() == 0  # it sends its queues. And it observes this server too: queries of this test would be among its requests
    one.await_value("SELECT SpanName, StatusCode, Duration > 2e8, toUInt64(SpanAttributes['sonde.component.sleep_ns']) > 2e8 FROM otel_traces WHERE ServiceName = 'served'"
                    " AND SpanName = 'GET /sleep'", "GET /sleep\tUnset\t1\t1", 60)
    one.await_value("SELECT StatusCode FROM otel_traces WHERE ServiceName = 'served' AND SpanName = 'GET /status'", "Error", 60)
    one.await_value("SELECT max(Count) FROM otel_metrics_histogram WHERE MetricName = 'http.server.request.duration' AND Attributes['http.route'] = '/sleep'", "1", 60)
    assert one.value("SELECT route, status, failed, duration_ms > 200, parts_ms['sleep'] > 200, source FROM requests WHERE service = 'served' AND route = '/sleep'") == \
        "/sleep\t200\tfalse\t1\t1\tsonde"
    assert one.value("SELECT kind, owner FROM request_segments WHERE service = 'served' AND route = '/sleep' ORDER BY duration_ms DESC LIMIT 1") == "sleep\tthis"
    assert one.value("SELECT agent_version != '', kernel, spans >= 2 FROM hosts") == f"1\t{os.uname().release}\t1"


def test_events_of_a_node(server, agent):  # noqa: F811
    """An event of an agent's node is a row of the view; and so is the agent, which reports its state over OpAMP until it ends."""
    one = server()
    started = agent("--set", "budget.one_cpu=1000%", *sets(logs_endpoint=f"http://127.0.0.1:{one.otlp_port}/v1/logs"),
                    "--set", f"opamp.endpoint=http://127.0.0.1:{one.otlp_port}/v1/opamp", "--set", "opamp.interval=1", "--set", "opamp.headers=X-Secret=hush")
    one.await_value(f"SELECT kernel, machine, healthy, status, detail, position(config, 'interval: 1 ') > 0, position(config, 'hush') FROM hosts WHERE host = '{socket.gethostname()}'",
                    f"{os.uname().release}\t{os.uname().machine}\ttrue\trunning\tfull\t1\t0")
    with full_accept_queue() as port:
        event = await_refusals(started, port)
        assert started.stop() == 0
    one.await_value(f"SELECT host, service, name, severity, text, attributes['process.pid'] FROM events WHERE attributes['server.port'] = '{port}'",
                    f"{socket.gethostname()}\tsonde\t{NAME}\tWARN\t{event['text']}\t{os.getpid()}", 60)
    one.await_value(f"SELECT healthy, status FROM hosts WHERE host = '{socket.gethostname()}'", "\\N\tstopped")
