"""Token generations: `traced` streams tokens, and its output (a file of Triton's JSON, /metrics, spans and OTLP metrics) is compared with the times that the
test's client measured by the same clock, with each other, and with third-party readers."""
import gzip
import json
import os
import re
import ssl
import subprocess
import urllib.request

import pytest
from harness.machine import need_command
from harness.processes import wait_for
from otlp_receiver import attributes, spans_of
from traced_server import NEEDED, PARENT, REQUESTS, by_id, encoding, generate, official, receiver, serve, times_of, triton  # noqa: F401 (fixtures)

PARTS = ("gen_ai.server.request.duration", "gen_ai.server.time_to_first_token", "gen_ai.server.time_per_output_token")
USAGE = "gen_ai.client.token.usage"


def page_of(server):
    with urllib.request.urlopen(server.address + "/metrics", timeout=10) as answer:
        return answer.read().decode()


def samples_of(page):
    """{(name, (label, ...)): value}; labels without le."""
    found = {}
    for name, labels, value in re.findall(r'^(\w+)\{(.*)\} (\S+)$', page, re.M):
        if not name.endswith("_bucket"):
            found[name, labels] = float(value)
    return found


def stamps_of(objects):
    return [object["timestamps"][0] for object in objects if "timestamps" in object]


@pytest.mark.sanitized
def test_trace_file_matches_the_clients_timing(triton, tmp_path, sonde):
    server = triton()
    seen = [generate(server, **parameters) for parameters in REQUESTS]
    failed = generate(server, max_tokens=5, fail_after=2)
    page = page_of(server)
    assert server.end()["written"] == len(REQUESTS) + 1
    traces = list(by_id(json.loads((tmp_path / "t.json").read_text())).values())
    for trace, client, parameters in zip(traces, seen + [failed], REQUESTS + [dict(max_tokens=2, fails=True)]):
        stamps = stamps_of(trace)
        names = [stamp["name"] for stamp in stamps]
        tokens = [stamp for stamp in stamps if "tokens" in stamp]
        assert [stamp["name"] for stamp in tokens] == (["FIRST_TOKEN"] + ["TOKEN"] * (len(tokens) - 1) if tokens else [])
        assert [stamp["tokens"] for stamp in tokens] == [count for _, count in client["seen"]]
        assert names.index("GENERATION_START") < names.index("GENERATION_END") == len(names) - 2
        moments = [stamp["ns"] for stamp in stamps]
        assert moments == sorted(moments) and client["sent"] <= moments[0] and moments[-1] <= client["ended"]
        # a token is stamped before it is sent, at least delay_ms after the previous one, and before the client receives the next
        assert all(stamp["ns"] <= at for stamp, (at, _) in zip(tokens, client["seen"]))
        gaps = [later["ns"] - earlier["ns"] for earlier, later in zip(tokens, tokens[1:])]
        assert all(gap >= parameters.get("delay_ms", 0) * 10 ** 6 for gap in gaps)
        facts = next(object for object in trace if "model_name" in object)["generation"]
        assert facts.pop("operation") == "chat" and facts.pop("output_tokens", 0) == parameters["max_tokens"]
        assert facts.pop("input_tokens", None) == parameters.get("input")
        assert facts == {"response_id": "cmpl-1", "response_model": "llm-v1"} | (
            {"error_type": "overloaded"} if "fails" in parameters else {"finish_reason": "stop"})
    # the metrics page: its sums equal the sums of the file, to the nanosecond
    times = [times_of(stamps_of(trace)) for trace in traces]
    samples, labels = samples_of(page), ('gen_ai_operation_name="chat",gen_ai_provider_name="triton-inference-server",gen_ai_request_model="llm",'
                                         'gen_ai_response_finish_reasons="stop"')
    for part, values in zip(PARTS, zip(*times[:-1])):
        name, counted = part.replace(".", "_") + "_seconds", [value for value in values if value]
        assert samples[name + "_count", labels] == len(counted)
        assert samples[name + "_sum", labels] == pytest.approx(sum(counted) / 1e9, rel=1e-12)
    errors = {name: value for (name, names), value in samples.items() if 'error_type="overloaded"' in names}
    assert errors == {"gen_ai_server_request_duration_seconds_sum": times[-1][0] / 1e9, "gen_ai_server_request_duration_seconds_count": 1,
                      "gen_ai_client_token_usage_sum": 2, "gen_ai_client_token_usage_count": 1}
    usage = {kind: (samples["gen_ai_client_token_usage_count", f'gen_ai_token_type="{kind}",{labels}'],
                    samples["gen_ai_client_token_usage_sum", f'gen_ai_token_type="{kind}",{labels}']) for kind in ("input", "output")}
    assert usage == {"input": (1, 11), "output": (3, 5 + 7 + 1)}
    # `sonde trace` reads the file
    for command in (["summary", "-t"], ["show", "1"], ["convert", "-f", "otlp-json"], ["convert", "-f", "chrome"]):
        done = subprocess.run([sonde, "trace", *command, tmp_path / "t.json"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "FIRST_TOKEN" in done.stdout and not done.stderr, (command, done.stdout[:2000], done.stderr)


@pytest.mark.peer
def test_prometheus_parses_the_metrics_page(triton):
    server = triton()
    for parameters in REQUESTS:
        generate(server, **parameters)
    generate(server, max_tokens=5, fail_after=0)
    page = page_of(server)
    assert server.end()["generations"] == len(REQUESTS) + 1
    done = subprocess.run([need_command("promtool"), "check", "metrics"], input=page, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    for parser, text in (("prometheus_client.parser", page), ("prometheus_client.openmetrics.parser", page + "# EOF\n")):
        module = pytest.importorskip(parser, reason="python3-prometheus-client is not installed")
        families = {family.name: family for family in module.text_string_to_metric_families(text)}
        names = [part.replace(".", "_") + "_seconds" for part in PARTS] + ["gen_ai_client_token_usage"]
        assert [families[name].type for name in names] == ["histogram"] * 4 and len(families) == 4
        buckets = [s for s in families[PARTS[0].replace(".", "_") + "_seconds"].samples
                   if s.name.endswith("_bucket") and s.labels.get("gen_ai_response_finish_reasons") == "stop"]
        assert [float(s.labels["le"]) for s in buckets] == [.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, float("inf")]
        assert buckets[-1].value == len(REQUESTS)


# --- OpenTelemetry ---------------------------------------------------------------------------------

def points_of(packet):
    """{(metric, its attributes without the provider): point}, and the resource."""
    resource, = packet["resourceMetrics"]
    scope, = resource["scopeMetrics"]
    found = {}
    for metric in scope.get("metrics", ()):
        assert metric["unit"] == ("{token}" if metric["name"] == USAGE else "s") and metric["description"]
        assert metric["histogram"]["aggregationTemporality"] in (2, "AGGREGATION_TEMPORALITY_CUMULATIVE")
        for point in metric["histogram"]["dataPoints"]:
            names = attributes(point["attributes"])
            assert names.pop("gen_ai.provider.name") == "triton-inference-server"
            assert names.pop("gen_ai.operation.name") == "chat" and names.pop("gen_ai.request.model") == "llm"
            assert len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1
            assert sum(map(int, point["bucketCounts"])) == int(point["count"])
            found[metric["name"], str(names)] = point
    return found, attributes(resource["resource"]["attributes"])


def span_times(spans):
    """The values that the metrics must have for this request, computed from its span events."""
    generation, = (span for span in spans if span["name"] == "GENERATION")
    events = {event["name"]: int(event["timeUnixNano"]) for event in generation.get("events", ()) if event["name"] == "FIRST_TOKEN"}
    start, end = int(generation["startTimeUnixNano"]), int(generation["endTimeUnixNano"])
    tokens = attributes(next(span for span in spans if span["name"] == "llm")["attributes"]).get("gen_ai.usage.output_tokens", 0)
    first = events.get("FIRST_TOKEN")
    return end - start, first and first - start, first and tokens > 1 and (end - first) // (tokens - 1)


@NEEDED
@pytest.mark.sanitized
def test_generation_spans_and_metrics_agree(serve, receiver, encoding):
    """Decodes every packet; metric sums equal the sums of span durations to the nanosecond; unsampled requests count as well."""
    to = receiver()
    server = serve(to.url, "rate=1000000", env=dict(os.environ, OTEL_EXPORTER_OTLP_PROTOCOL=encoding.protocol))
    for parameters in REQUESTS:
        generate(server, headers={"traceparent": PARENT}, **parameters)
    generate(server, headers={"traceparent": PARENT}, max_tokens=4, fail_after=3)
    for _ in range(6):
        generate(server, max_tokens=3)
    counts = server.end()
    assert (counts["sampled"], counts["written"], counts["generations"], counts["metrics_lost"]) == (5, 5, 11, 0)
    spans = [span for post in to.accepted if post not in to.metrics for span in spans_of(encoding.decode(post["body"], "trace"))]
    packets = [encoding.decode(post["body"], "metrics") for post in to.metrics]
    traces = {}
    for span in spans:  # the requests of one caller: by their model's span, InferRequest above and GENERATION below it
        if span["name"] == "llm":
            generation, = (other for other in spans if other.get("parentSpanId") == span["spanId"])
            traces[span["spanId"]] = [span, generation]
    traces = sorted(traces.values(), key=lambda trace: int(trace[0]["startTimeUnixNano"]))
    assert len(traces) == 5
    for (span, generation), parameters in zip(traces, REQUESTS + [dict(max_tokens=3, fails=True)]):
        names = {key: value for key, value in attributes(span["attributes"]).items() if not key.startswith("triton.")}
        wanted = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "triton-inference-server", "gen_ai.request.model": "llm",
                  "gen_ai.response.id": "cmpl-1", "gen_ai.response.model": "llm-v1"}
        wanted |= {"gen_ai.usage.output_tokens": parameters["max_tokens"]} if parameters["max_tokens"] else {}
        wanted |= {"error.type": "overloaded"} if "fails" in parameters else {"gen_ai.response.finish_reasons": ["stop"]}
        wanted |= {"gen_ai.usage.input_tokens": parameters["input"]} if "input" in parameters else {}
        assert names == wanted and ("status" in span) == ("fails" in parameters)
        events = [event["name"] for event in generation.get("events", ())]
        emissions = -(-parameters["max_tokens"] // parameters.get("each", 1))
        assert events == (["FIRST_TOKEN"] + ["TOKEN"] * (emissions - 1) if emissions else [])
        assert sum(attributes(event["attributes"])["tokens"] for event in generation.get("events", ())) == parameters["max_tokens"]
    points, resource = points_of(packets[-1])
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", resource["service.instance.id"])
    assert resource["telemetry.sdk.name"] == "libsonde"
    good, failed = str({"gen_ai.response.finish_reasons": ["stop"]}), str({"error.type": "overloaded"})
    used = {(kind, str({"gen_ai.token.type": kind} | names)): points.pop((USAGE, str({"gen_ai.token.type": kind} | names)))
            for kind, names in (("input", {"gen_ai.response.finish_reasons": ["stop"]}), ("output", {"gen_ai.response.finish_reasons": ["stop"]}),
                                ("output", {"error.type": "overloaded"}))}
    assert [(int(point["count"]), point["sum"]) for point in used.values()] == [(1, 11), (3 + 6, 5 + 7 + 1 + 6 * 3), (1, 3)]
    assert all(point["explicitBounds"] == [4 ** i for i in range(14)] for point in used.values())
    assert points.keys() == {(part, good) for part in PARTS} | {(PARTS[0], failed)}
    # an unsampled request has no span to compare with: its share lies between zero and the client's measurement
    for part, values in zip(PARTS, zip(*(span_times(trace) for trace in traces[:-1]))):
        sampled = [value for value in values if value]
        assert int(points[part, good]["count"]) == len(sampled) + 6
        assert points[part, good]["sum"] > sum(sampled) / 1e9
    assert int(points[PARTS[0], failed]["count"]) == 1
    assert points[PARTS[0], failed]["sum"] == pytest.approx(span_times(traces[-1])[0] / 1e9, rel=1e-12)


@NEEDED
def test_metrics_are_cumulative_and_exported_periodically(serve, receiver):
    to = receiver()
    server = serve(to.url, "rate=0", env=dict(os.environ, OTEL_METRIC_EXPORT_INTERVAL="50"))
    generate(server, max_tokens=3)
    wait_for(lambda: len(to.metrics) >= 3, what="three packets")
    generate(server, max_tokens=3)
    before = len(to.metrics)
    wait_for(lambda: len(to.metrics) > before + 1, what="a packet after the second generation")
    assert server.end()["generations"] == 2
    packets = [points_of(json.loads(post["body"])) for post in to.metrics]
    counts = [int(points[PARTS[0], str({"gen_ai.response.finish_reasons": ["stop"]})]["count"]) for points, _ in packets]
    assert counts == sorted(counts) and counts[0] == 1 and counts[-1] == 2
    every = [point for points, _ in packets for point in points.values()]
    times = [int(point["timeUnixNano"]) for points, _ in packets for point in list(points.values())[:1]]
    assert len({point["startTimeUnixNano"] for point in every}) == 1 and times == sorted(set(times))
    assert len({resource["service.instance.id"] for _, resource in packets}) == 1
    assert to.spans() == []


@NEEDED
def test_metrics_packets_are_bounded(serve, receiver, encoding):  # noqa: F811
    """Ninety series of three points are sent in packets of at most 50 points; third-party decoders read each; every point is sent once."""
    to = receiver()
    server = serve(to.url, "rate=0", "opentelemetry,bsp_max_export_batch_size=50",
                   env=dict(os.environ, OTEL_EXPORTER_OTLP_PROTOCOL=encoding.protocol, OTEL_METRIC_EXPORT_INTERVAL="3600000"))
    for number in range(90):
        generate(server, max_tokens=1, finish=number)
    counts = server.end()
    packets = [encoding.decode(post["body"], "metrics") for post in to.metrics]
    assert counts["metrics_lost"] == 0 and len(packets) in (9, 18), "once at the end, and once when the server asked for it"
    points, found = [], {}
    for packet in packets[-9:]:
        mine, resource = points_of(packet)
        assert 0 < len(mine) <= 50 and resource["telemetry.sdk.name"] == "libsonde"
        points += mine
        found.update(mine)
    assert len(points) == len(found), "no point is in two packets"
    assert found.keys() == {(metric, str(({"gen_ai.token.type": "output"} if metric == USAGE else {}) | {"gen_ai.response.finish_reasons": [f"stop{number}"]}))
                            for number in range(90) for metric in (PARTS[0], PARTS[1], USAGE)}
    assert {int(point["count"]) for point in found.values()} == {1} and len({point["timeUnixNano"] for point in found.values()}) == 1


@NEEDED
def test_long_response_has_a_bounded_number_of_span_events(serve, receiver):
    to = receiver()
    server = serve(to.url)
    generate(server, max_tokens=1000)
    assert server.end()["written"] == 1
    generation, = (span for span in to.spans() if span["name"] == "GENERATION")
    assert (len(generation["events"]), generation["droppedEventsCount"]) == (128, 1000 - 128)
    assert int(generation["events"][-1]["timeUnixNano"]) <= int(generation["endTimeUnixNano"])


# --- partial failures, TLS and the environment -------------------------------------------------------

def partly(body, kind="application/json"):
    return lambda handler: handler.answer(200, body, Content_Type=kind)


@NEEDED
@pytest.mark.parametrize("protocol, body", [("http/json", b'{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}'),
                                            ("http/protobuf", b"\x0a\x0b\x08\x02\x12\x07too old")])
def test_rejected_spans_are_counted(serve, receiver, protocol, body):
    to = receiver(partly(body))
    server = serve(to.url, env=dict(os.environ, OTEL_EXPORTER_OTLP_PROTOCOL=protocol))
    server.infer("simple", "a")
    wait_for(lambda: to.posts, what="the first packet")
    server.infer("simple", "b")
    counts = server.end()
    assert (counts["written"], counts["spans_rejected"], counts["write_errors"]) == (2, 4, 0)
    said = [line for line in server.running.error.splitlines() if "rejected" in line]
    assert len(said) == 1 and said[0].endswith(f"OpenTelemetry receiver {to.url}: 2 spans were rejected: too old (errno 121)"), said


@NEEDED
def test_rejected_points_are_reported(serve, receiver):
    to = receiver(partly(b'{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too many\\nseries"}}'))
    server = serve(to.url, "rate=0", env=dict(os.environ, OTEL_METRIC_EXPORT_INTERVAL="20"))
    generate(server, max_tokens=3)
    wait_for(lambda: len(to.posts) > 2, what="three packets of metrics")
    assert server.end()["metrics_lost"] == 0
    said = [line for line in server.running.error.splitlines() if "rejected" in line]
    assert len(said) == 1 and "/v1/metrics: 3 points of metrics were rejected: too many series (errno 121)" in said[0], said


@NEEDED
def test_gzip_packets_have_the_same_content(serve, receiver):
    """The same packets, compressed."""
    found = {}
    for compression in ("gzip", "none"):
        to = receiver()
        server = serve(to.url, env=dict(os.environ, OTEL_EXPORTER_OTLP_COMPRESSION=compression))
        for i in range(20):
            server.infer("simple", str(i))
        generate(server, max_tokens=3)
        assert server.end()["written"] == 21
        assert {post["headers"].get("Content-Encoding") for post in to.posts} == {"gzip" if compression == "gzip" else None}
        bodies = [gzip.decompress(post["body"]) if compression == "gzip" else post["body"] for post in to.posts]
        found[compression] = sum(len(spans_of(packet)) for packet in map(json.loads, bodies) if "resourceSpans" in packet)
        assert sum("resourceMetrics" in json.loads(body) for body in bodies) >= 1
        if compression == "gzip":
            assert sum(map(len, bodies)) > 3 * sum(len(post["body"]) for post in to.posts)
    assert found["gzip"] == found["none"] == 20 * 3 + 3


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A private certificate authority: its certificate, and an SSL context for 127.0.0.1 signed by it."""
    openssl, place = need_command("openssl"), tmp_path_factory.mktemp("tls")
    (place / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
    for command in ("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=tests",
                    "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=127.0.0.1",
                    "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out server.pem"):
        done = subprocess.run([openssl, *command.split()], cwd=place, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(place / "server.pem", place / "server.key")
    return place / "ca.pem", tls


@NEEDED
def test_https_with_a_configured_certificate_authority(serve, receiver, authority):
    certificate, tls = authority
    to = receiver(tls=tls)
    server = serve(to.url, env=dict(os.environ, OTEL_EXPORTER_OTLP_CERTIFICATE=str(certificate)))
    server.infer("simple", "safe")
    generate(server, max_tokens=3)
    counts = server.end()
    assert (counts["written"], counts["dropped_write"], counts["metrics_lost"]) == (2, 0, 0)
    assert len(to.spans()) == 6 and to.metrics


@pytest.mark.thorough
@NEEDED
def test_https_with_an_untrusted_certificate_sends_nothing(serve, receiver, authority):
    """Nothing is sent to a receiver whose certificate is not trusted."""
    to = receiver(tls=authority[1])
    server = serve(to.url)
    server.infer("simple", "lost")
    assert server.end()["dropped_write"] == 1
    assert to.posts == [] and "certificate" in server.running.error


@NEEDED
def test_metrics_endpoint_overrides_the_common_one(serve, receiver):
    traces, metrics = receiver(), receiver()
    server = serve(traces.url, env=dict(os.environ, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=metrics.url.replace("/v1/traces", "/v1/metrics"),
                                        OTEL_EXPORTER_OTLP_METRICS_HEADERS="x-of=metrics", OTEL_EXPORTER_OTLP_HEADERS="x-of=all"))
    generate(server, max_tokens=3)
    server.end()
    assert {post["headers"]["x-of"] for post in metrics.posts} == {"metrics"} and {post["headers"]["x-of"] for post in traces.posts} == {"all"}
    assert {post["path"] for post in traces.posts} == {"/v1/traces"} and {post["path"] for post in metrics.posts} == {"/v1/metrics"}


@NEEDED
@pytest.mark.parametrize("inherited, said", [({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "grpc://collector:4317"}, "not a URL of http or https"),
                                             ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1/v1/metrics", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
                                              "a URL of gRPC has no path")])
def test_grpc_environment_does_not_stop_the_server(serve, receiver, inherited, said):
    """The server starts, its traces arrive, and one message says that metrics are not sent."""
    to = receiver()
    server = serve(to.url, env=dict(os.environ, OTEL_METRIC_EXPORT_INTERVAL="20", **inherited))
    generate(server, max_tokens=3)
    generate(server, max_tokens=3)
    counts = server.end()
    assert (counts["written"], counts["generations"], counts["metrics_lost"]) == (2, 2, 0)
    lines = [line for line in server.running.error.splitlines() if "metrics are not sent" in line]
    assert len(lines) == 1 and f"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: {said}" in lines[0], lines
    assert to.metrics == []


@NEEDED
def test_receiver_without_metrics_support_still_gets_traces(serve, receiver):
    """Traces arrive all the same; one message reports it."""
    def answer(handler):
        handler.answer(404 if handler.path == "/v1/metrics" else 200)
    to = receiver(answer)
    server = serve(to.url, env=dict(os.environ, OTEL_METRIC_EXPORT_INTERVAL="20"))
    generate(server, max_tokens=3)
    wait_for(lambda: sum(post["path"] == "/v1/metrics" for post in to.posts) > 2, what="metrics to be refused")
    counts = server.end()
    assert counts["written"] == 1 and counts["metrics_lost"] > 2
    said = [line for line in server.running.error.splitlines() if "metrics are not sent" in line]
    assert len(said) == 1 and "/v1/metrics: metrics are not sent: HTTP status 404" in said[0]
