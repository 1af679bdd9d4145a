"""`sonde trace convert`: the spans of real files equal those that Triton itself would have exported, in JSON and in protobuf; Chrome's events
nest."""
import json
import random
import subprocess
import time

import pytest
from trace_files import REAL, Maker

import pprof

COMPUTE = {"COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END"}


@pytest.fixture
def convert(sonde):
    def run(*arguments, **options):
        return subprocess.run([sonde, "trace", "convert", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, **options)
    return run


def spans_of_json(data):
    """From an OTLP/JSON object: [(trace id, span id, parent, name, kind, start, end, {attribute: value}, [(time, event)])]"""
    resource, = json.loads(data)["resourceSpans"]
    assert resource["resource"] == {"attributes": [{"key": "service.name", "value": {"stringValue": "triton-inference-server"}}]}
    scope, = resource["scopeSpans"]
    assert scope["scope"] == {"name": "triton-server"}
    found = []
    for span in scope["spans"]:
        attributes = {at["key"]: int(at["value"]["intValue"]) if "intValue" in at["value"] else at["value"]["stringValue"] for at in span.get("attributes", ())}
        found.append((span["traceId"], span["spanId"], span.get("parentSpanId", ""), span["name"], span["kind"], int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]),
                      attributes, [(int(event["timeUnixNano"]), event["name"]) for event in span.get("events", ())]))
    return found


def spans_of_protobuf(data):
    """The same from a TracesData message (opentelemetry/proto/trace/v1/trace.proto)."""
    one, message, number = pprof._one, pprof._message, lambda field: int.from_bytes(field, "little")
    found = []
    for resource in message(data)[1]:
        resource = message(resource)
        assert b"service.name" in resource[1][0] and b"triton-inference-server" in resource[1][0]
        scope, = map(message, resource[2])
        assert message(scope[1][0])[1] == [b"triton-server"]
        for span in map(message, scope[2]):
            attributes = {}
            for pair in map(message, span.get(9, ())):
                value = message(pair[2][0])
                signed = value[3][0] - (value[3][0] >> 63 << 64) if 3 in value else None
                attributes[pair[1][0].decode()] = signed if 3 in value else value[1][0].decode()
            found.append((span[1][0].hex(), span[2][0].hex(), one(span, 4, b"").hex(), span[5][0].decode(), span[6][0], number(span[7][0]), number(span[8][0]), attributes,
                          [(number(event[1][0]), event[2][0].decode()) for event in map(message, span.get(11, ()))]))
    return found


def said_of_tensors(number):
    count = sum("activity" in item for item in json.loads((REAL / f"trace.json.{number}").read_text()))
    return f"sonde: warning: trace: {count} tensors are not in the output: the format cannot hold them\n".encode() if count else b""


def traces_of(items):
    traces = {}
    for item in items:
        trace = traces.setdefault(item["id"], {"stamps": []})
        trace.update({key: item[key] for key in ("model_name", "model_version", "parent_id", "request_id") if key in item})
        trace["stamps"] += [(stamp["ns"], stamp["name"]) for stamp in item.get("timestamps", ())]
    return traces


def check_spans(items, spans, zero):
    """Every trace has its spans with each of its timestamps once; the spans of a request form one tree."""
    traces, by_span, by_trace = traces_of(items), {span[1]: span for span in spans}, {}
    assert len(by_span) == len(spans)
    models = {span[7]["triton.trace_id"]: span for span in spans if span[7]}
    for number, trace in traces.items():
        known = [name for _, name in trace["stamps"]]
        if not {"REQUEST_START", "REQUEST_END"} <= set(known):
            assert number not in models
            continue
        span = models[number]
        at = {name: zero + ns for ns, name in trace["stamps"]}
        assert span[3:7] == (trace["model_name"], 2, at["REQUEST_START"], at["REQUEST_END"])
        assert span[7] == {"triton.model_name": trace["model_name"], "triton.model_version": trace["model_version"], "triton.trace_id": number,
                           "triton.trace_parent_id": trace.get("parent_id", 0), **({"triton.request_id": trace["request_id"]} if "request_id" in trace else {})}
        inner = [other for other in spans if other[2] == span[1] and not other[7]]
        above = by_span.get(span[2])
        if "parent_id" in trace and trace["parent_id"] in models:
            assert above is models[trace["parent_id"]]
        elif above:
            assert above[3] == "InferRequest" and above[2] == ""
        events = span[8] + [event for other in inner for event in other[8]] + (above[8] if above and above[3] == "InferRequest" else [])
        assert sorted(events) == sorted((zero + ns, name) for ns, name in trace["stamps"])
        compute = [other for other in inner if other[3] == "compute"]
        assert len(compute) == (COMPUTE <= set(known))
        for other in compute:
            assert {name for _, name in other[8]} == COMPUTE and other[5:7] == (at["COMPUTE_START"], at["COMPUTE_END"])
        by_trace.setdefault(span[0], set()).add(number)
    for numbers in by_trace.values():
        roots = {number for number in numbers if traces[number].get("parent_id") not in traces}
        assert len(roots) == 1, "one request, one trace id"


@pytest.mark.parametrize("number", [0, 1, 2, 4, 5, 6])
def test_spans_of_real_files_are_complete(convert, number):
    path = REAL / f"trace.json.{number}"
    done = convert("--format", "otlp-json", "--zero", "1000000000000000000", path)
    assert done.returncode == 0 and done.stderr == said_of_tensors(number)
    spans = spans_of_json(done.stdout)
    check_spans(json.loads(path.read_text()), spans, 10 ** 18)
    packed = convert("--format", "otlp", "--zero", "1000000000000000000", path)
    assert packed.returncode == 0
    assert spans_of_protobuf(packed.stdout) == spans


@pytest.mark.sanitized
@pytest.mark.parametrize("seed", range(2))
def test_spans_of_generated_files_are_complete(convert, tmp_path, seed):
    items = [item for item in Maker(seed).items(60) if "activity" not in item]
    path = tmp_path / "t"
    path.write_text(json.dumps(items))
    spans = spans_of_json(convert("-f", "otlp-json", "--zero", "5", path).stdout)
    check_spans(items, spans, 5)
    assert spans_of_protobuf(convert("-f", "otlp", "--zero", "5", path).stdout) == spans


def test_default_clock_offset_is_this_machines(convert):
    first = spans_of_json(convert("-f", "otlp-json", REAL / "trace.json.0").stdout)[0]
    zero = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    ns = json.loads((REAL / "trace.json.0").read_text())[0]["timestamps"][0]["ns"]
    assert abs(first[5] - ns - zero) < 60 * 10 ** 9


def test_ids_differ_between_servers_and_stay_the_same(convert):
    ids = [{span[0] for span in spans_of_json(convert("-f", "otlp-json", "--zero", "0", REAL / f"trace.json.{number}").stdout)} for number in (0, 1, 0)]
    assert ids[0] == ids[2] and not ids[0] & ids[1]


def stamp(number, name, ns):
    return {"id": number, "timestamps": [{"name": name, "ns": ns}]}


def test_custom_start_end_pairs_are_spans(convert, tmp_path):
    path = tmp_path / "t"
    path.write_text(json.dumps([stamp(1, "HTTP_RECV_START", 1), {"id": 1, "model_name": "m", "model_version": 1}, stamp(1, "REQUEST_START", 10), stamp(1, "STEP_START", 20),
                                stamp(1, "mark", 25), stamp(1, "STEP_END", 30), stamp(1, "COMPUTE_START", 35), stamp(1, "REQUEST_END", 40)]))
    spans = spans_of_json(convert("-f", "otlp-json", "--zero", "100", path).stdout)
    request, model, step = spans
    assert request[3] == "InferRequest" and request[5:7] == (101, 140)
    assert model[8] == [(110, "REQUEST_START"), (135, "COMPUTE_START"), (140, "REQUEST_END")], "a compute that does not end is no span, but not lost"
    assert step[2] == model[1] and step[3] == "STEP" and step[5:7] == (120, 130) and step[8] == [(125, "mark")]


@pytest.mark.sanitized
def test_names_with_arbitrary_bytes(convert, tmp_path):
    path = tmp_path / "t"
    names = ["a\"b\\", "\u0000\u001b", "größe", "\ud83d"]
    content = json.dumps([item for i, name in enumerate(names, 1) for item in ({"id": i, "model_name": name, "model_version": 1, "request_id": name}, stamp(i, "REQUEST_START", 1),
                                                                              stamp(i, name, 2), stamp(i, "REQUEST_END", 3))]).encode().replace(b"gr\\u00f6", b"gr\xff")
    path.write_bytes(content)
    for name in ("otlp-json", "chrome"):
        assert json.loads(convert("-f", name, path).stdout.decode())
    assert len(spans_of_protobuf(convert("-f", "otlp", path).stdout)) == len(names)


@pytest.mark.parametrize("number", [0, 1, 2, 4, 5, 6])
def test_chrome_events_nest(convert, number):
    path = REAL / f"trace.json.{number}"
    done = convert("-f", "chrome", path)
    assert done.returncode == 0 and done.stderr == said_of_tensors(number)
    events = json.loads(done.stdout)["traceEvents"]
    rows = {}
    for event in events:
        if event["ph"] == "X":
            begin = round(event["ts"] * 1000)
            rows.setdefault((event["pid"], event["tid"]), []).append((begin, begin + round(event["dur"] * 1000)))
    for spans in rows.values():
        for a in spans:
            for b in spans:
                assert a[1] <= b[0] or b[1] <= a[0] or (a[0] <= b[0] and b[1] <= a[1]) or (b[0] <= a[0] and a[1] <= b[1]), "neither apart nor within"
    traces = traces_of(json.loads(path.read_text()))
    handlers = {int(event["args"]["id"]): round(event["dur"] * 1000) for event in events if "id" in event.get("args", {})}
    assert handlers == {number: dict((name, ns) for ns, name in trace["stamps"])["REQUEST_END"] - dict((name, ns) for ns, name in trace["stamps"])["REQUEST_START"]
                        for number, trace in traces.items() if "REQUEST_END" in {name for _, name in trace["stamps"]}}
    assert {event["pid"] for event in events} == {event["pid"] for event in events if event["name"] == "process_name"}


def test_output_file_is_written(convert, tmp_path):
    output = tmp_path / "out.json"
    output.write_text("old")
    assert convert("-f", "chrome", "-o", output, "/nowhere").returncode == 1
    assert output.read_text() == "old", "nothing was read: what stands there stays"
    done = convert("-f", "chrome", "-o", output, REAL / "trace.json.0")
    assert done.returncode == 0 and done.stdout == b"" and json.loads(output.read_text())["traceEvents"]
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"], "nothing is left beside it"
    done = convert("-f", "chrome", "-o", "/dev/full", REAL / "trace.json.0")
    assert done.returncode == 1 and b"No space left" in done.stderr


def test_invalid_arguments_are_explained(convert):
    good = REAL / "trace.json.0"
    for arguments, status, expected in (((), 2, b"convert needs --format NAME and a FILE"), ((good,), 2, b"convert needs --format NAME"), (("-f", "xml", good), 2, b"not one of otlp-json, otlp, chrome"),
                                        (("-f", "chrome"), 2, b"and a FILE"), (("-f", "otlp", "--zero", "-1", good), 2, b"whole number"), (("-f", "otlp", "/nowhere"), 1, b"neither /nowhere nor /nowhere.0 exists"),
                                        (("-f", "otlp", "-o", "/nowhere/x", good), 1, b"cannot be written")):
        done = convert(*arguments)
        assert done.returncode == status and expected in done.stderr, (arguments, done)


@pytest.mark.sanitized
def test_truncated_file_is_converted_up_to_the_cut(convert, tmp_path):
    content, path = (REAL / "trace.json.6").read_bytes(), tmp_path / "t"
    for size in random.Random(2).sample(range(1, len(content)), 10):
        path.write_bytes(content[:size])
        done = convert("-f", "otlp-json", path)
        assert done.returncode == 0 and b"is truncated" in done.stderr
        spans_of_json(done.stdout)
