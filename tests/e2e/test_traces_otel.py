"""Request traces in mode opentelemetry: `traced` exports its spans to a receiver; they are compared with the spans of a real Triton 2.51 for the same
requests (triton_spans.jsonl). tests/faults/test_trace_receivers.py has receivers that misbehave."""
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from harness.machine import skip
from harness.paths import BUILD
from otlp_receiver import attributes, spans_of
from traced_server import CONFIG, NEEDED, PARENT, TRACED, official, protobuf, receiver, run_library, serve, traces_of  # noqa: F401 (fixtures)

HERE = Path(__file__).resolve().parent
pytestmark = NEEDED


def shape_of(span, spans):
    """The parts of a span that do not depend on times and ids, with the names of its ancestors."""
    by_id = {other["spanId"]: other for other in spans}
    names, above = [], span
    while above:
        names.append(above["name"])
        above = by_id.get(above.get("parentSpanId"))
    values = attributes(span.get("attributes", ()))
    values = {key: value for key, value in values.items() if key not in ("triton.trace_id", "triton.trace_parent_id")}
    return tuple(names), span["kind"], tuple(values.items()), tuple(sorted(event["name"] for event in span.get("events", ()))), span.get("traceState")


@pytest.mark.sanitized
def test_spans_match_a_real_tritons(serve, receiver):
    """The same requests give the same trees: names, kinds, attributes, events and tracestate. Sonde adds a status to failures, and leaves out
    requests that their caller did not sample, which Triton traces nevertheless."""
    to = receiver()
    server = serve(to.url)
    for model, request_id in (("simple", "s1"), ("ens", "e1"), ("bls", "b1")):
        assert server.infer(model, request_id)[0] == 200
    assert server.infer("simple", "ctx1", traceparent=PARENT, tracestate="a=b")[0] == 200
    assert server.infer("simple", "ctx0", traceparent=PARENT[:-1] + "0")[0] == 200
    assert server.infer("simple", "", body=b"{")[0] == 400
    counts = server.end()
    assert (counts["sampled"], counts["written"]) == (5, 5)
    ours = traces_of(to.spans())
    theirs = traces_of(spans_of(json.loads((HERE / "triton_spans.jsonl").read_text())["d"]))
    assert len(theirs.pop("ctx0")) == 3 and "ctx0" not in ours
    assert ours.keys() == theirs.keys()
    failed, = ours.pop("")
    alone, = theirs.pop("")
    assert failed.pop("status") == {"code": 2, "message": "no inputs"}
    assert (failed["name"], failed["kind"], "parentSpanId" in failed) == (alone["name"], alone["kind"], False)
    assert {event["name"] for event in alone["events"]} <= {event["name"] for event in failed["events"]}  # `traced` sends a response for the refusal too
    for request_id, trace in theirs.items():
        assert sorted(map(str, (shape_of(span, trace) for span in trace))) == sorted(map(str, (shape_of(span, ours[request_id]) for span in ours[request_id])))
    assert not any("status" in span for trace in ours.values() for span in trace)
    roots = {request_id: next(span for span in trace if span["name"] == "InferRequest") for request_id, trace in ours.items()}
    assert roots["ctx1"]["parentSpanId"] == "b7ad6b7169203331" and roots["ctx1"]["traceId"] == "0af7651916cd43dd8448eb211c80319c"
    assert not any("parentSpanId" in roots[request_id] for request_id in ("s1", "e1", "b1"))


def test_packet_has_tritons_form(serve, receiver):
    to = receiver()
    server = serve(to.url, "opentelemetry,resource=service.version=7", "opentelemetry,resource=service.name=mine")
    before = time.time_ns()
    server.infer("simple", 'a "quoted" \u00e9 id')
    server.end()
    after = time.time_ns()
    post, = to.posts
    theirs = json.loads((HERE / "triton_spans.jsonl").read_text())
    assert (post["path"], post["headers"]["Content-Type"]) == (theirs["path"], theirs["ct"])
    assert "Content-Encoding" not in post["headers"] and "Expect" not in post["headers"]
    packet = json.loads(post["body"])
    resource = attributes(packet["resourceSpans"][0]["resource"]["attributes"])
    assert resource.keys() == attributes(theirs["d"]["resourceSpans"][0]["resource"]["attributes"]).keys()
    assert (resource["service.name"], resource["service.version"], resource["telemetry.sdk.name"]) == ("mine", "7", "libsonde")
    spans = spans_of(packet)
    for span in spans:
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert before <= int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) <= after
        for event in span["events"]:
            assert int(span["startTimeUnixNano"]) <= int(event["timeUnixNano"]) <= int(span["endTimeUnixNano"])
    assert len({span["traceId"] for span in spans}) == 1 and len({span["spanId"] for span in spans}) == 3


def test_missing_exporter_library_is_an_error_at_start(run, tmp_path):
    """The library itself needs only libc; a missing libsonde-otlp.so is reported at startup."""
    library = BUILD / "lib/libsonde.so"
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, timeout=30).stdout
    assert "curl" not in needed
    shutil.copy(library.resolve(), tmp_path / "libsonde.so.1")
    shutil.copy(TRACED, tmp_path / "traced")
    done = subprocess.run([tmp_path / "traced", CONFIG, "mode=opentelemetry", "0"], capture_output=True, text=True, timeout=20,
                          env=dict(os.environ, LD_LIBRARY_PATH=str(tmp_path), LD_PRELOAD=str(tmp_path / "libsonde.so.1")))
    if "AddressSanitizer" in done.stderr or "ASan runtime" in done.stderr:
        skip("a sanitizer refuses LD_PRELOAD")
    assert done.returncode == 1
    assert 'Bad option: "--trace-config mode".\n' in done.stderr and "libsonde-otlp.so.1" in done.stderr, done.stderr


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1/", "http://", "file:///etc/passwd", "grpc://127.0.0.1:4317"])
def test_invalid_url_is_refused(run, url):
    running = run(TRACED, CONFIG, "mode=opentelemetry", CONFIG, f"opentelemetry,url={url}", "0")
    assert running.wait(20) == 1 and 'Bad option: "--trace-config opentelemetry,url".\nnot a URL of http or https: ' in running.error


@pytest.mark.sanitized
def test_rate_zero_traces_sampled_callers_only(serve, receiver):
    """A rate of 0 traces only requests sampled by their caller; the trace protocol changes the rate while the server runs."""
    to = receiver()
    server = serve(to.url, "rate=0")
    server.infer("simple", "not")
    server.infer("simple", "caller", traceparent=PARENT)
    assert server.call("/v2/trace/setting", {"trace_rate": "2", "trace_count": "1"})[0] == 200
    for i in range(4):
        server.infer("simple", str(i))
    assert server.end()["written"] == 2
    assert set(traces_of(to.spans())) == {"caller", "1"}


@pytest.mark.sanitized
def test_both_encodings_have_the_same_spans(serve, receiver, protobuf):
    """The same requests give the same spans as JSON and as protobuf, except for ids and times; ids are consistent within a trace."""
    found = {}
    for protocol in ("http/json", "http/protobuf"):
        to = receiver()
        server = serve(to.url, "opentelemetry,bsp_max_export_batch_size=4", env=dict(
            os.environ, OTEL_EXPORTER_OTLP_PROTOCOL=protocol, OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20abc,x-two=2,bad name=3,evil=a%0d%0ab"))
        server.infer("ens", 'id \u00e9 "x"')
        server.infer("bls", "b1", traceparent=PARENT, tracestate="a=b")
        assert server.call("/v2/models/simple/infer", b'{"id":"\xff\xfe"}')[0] == 400
        assert server.end()["written"] == 3
        kind = {"http/json": "application/json", "http/protobuf": "application/x-protobuf"}[protocol]
        for post in to.posts:
            headers = {name.lower(): value for name, value in post["headers"].items()}
            assert (headers["content-type"], headers["authorization"], headers["x-two"]) == (kind, "Bearer abc", "2") and "evil" not in headers
        packets = [protobuf(post["body"]) if kind.endswith("protobuf") else json.loads(post["body"]) for post in to.posts]
        assert all(1 <= len(spans_of(packet)) <= 4 for packet in packets)
        spans = [span for packet in packets for span in spans_of(packet)]
        assert len({span["spanId"] for span in spans}) == len(spans) == 4 + 5 + 1
        for span in spans:
            span["kind"] = {"SPAN_KIND_SERVER": 2}.get(span["kind"], span["kind"])
            if "status" in span:
                assert span["status"].pop("code") in (2, "STATUS_CODE_ERROR")
            assert time.time_ns() - 300 * 10 ** 9 < int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) <= time.time_ns()
        resources = {json.dumps(packet["resourceSpans"][0]["resource"]) for packet in packets}
        found[protocol] = (resources, sorted(str((shape_of(span, spans), span.get("status"))) for span in spans))
    assert found["http/json"] == found["http/protobuf"]
    assert "\ufffd" not in str(found)  # the refused request's id is in no span


def test_library_can_be_unloaded(receiver):
    """64 threads, and dlclose after everything was sent; the exporter stays loaded, and is reused by the next load."""
    to = receiver()
    run_library("traced_unload.py", *[f"mode=opentelemetry opentelemetry,url={to.url} opentelemetry,bsp_max_queue_size=5000"] * 2)
    spans = to.spans()
    assert len({span["traceId"] for span in spans}) == 2 * 64 * 25 and len({span["spanId"] for span in spans}) == len(spans)


def test_exec_does_not_inherit_the_connection(receiver):
    """The next program does not inherit the connection to the receiver."""
    to = receiver()
    out = run_library("traced_exec.py", "mode=opentelemetry", f"opentelemetry,url={to.url}")
    assert len({span["traceId"] for span in to.spans()}) >= 100
    connections = set(re.findall(r"^\s*\d+: (?:\S+ +){8}(\d+) ", out, re.M))  # socket inodes of all TCP connections
    assert "local_address" in out and not connections & set(re.findall(r"^socket:\[(\d+)\]$", out, re.M)) and "memfd:" not in out
