"""Token generations in `sonde trace`: libsonde's two modes give the same content after a conversion, round trips are lossless, and `show` and
`summary` print the tokens."""
import json
import os
import subprocess

import pytest
from otlp_receiver import attributes, spans_of
from traced_server import NEEDED, REQUESTS, by_id, encoding, generate, official, protobuf, receiver, serve, times_of, triton  # noqa: F401 (fixtures)

UNFINISHED = b"1 traces have no REQUEST_START"
BACK = [("otlp", 10 ** 18), ("otlp-json", 7)]


@pytest.fixture
def trace(sonde):
    def run(*arguments, warning=b""):
        done = subprocess.run([sonde, "trace", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        assert done.returncode == 0 and (warning in done.stderr if warning else not done.stderr), (arguments, done)
        return done.stdout
    return run


def stamp(number, name, ns, tokens=None):
    return {"id": number, "timestamps": [{"name": name, "ns": ns} | ({"tokens": tokens} if tokens else {})]}


def handled(number, begin, end, *inner, **header):
    """A request received by HTTP, with its model's timestamps between `begin` and `end`."""
    return [stamp(number, "HTTP_RECV_START", begin - 2), stamp(number, "HTTP_RECV_END", begin - 1), {"id": number, "model_name": "llm", "model_version": 1, **header},
            stamp(number, "REQUEST_START", begin), *inner, stamp(number, "REQUEST_END", end), stamp(number, "HTTP_SEND_END", end + 1)]


def answer(number, begin, *tokens, end):
    """A generation whose tokens are given as (ns, count)."""
    return [stamp(number, "GENERATION_START", begin), *(stamp(number, "TOKEN" if i else "FIRST_TOKEN", ns, count) for i, (ns, count) in enumerate(tokens)),
            stamp(number, "GENERATION_END", end)]


def sample_items():
    facts = {"operation": "chat", "provider": "me \u00e9", "input_tokens": 25, "output_tokens": 7, "response_id": "r\"1", "response_model": "llm-v1", "finish_reason": "stop"}
    failed = {"operation": "text_completion", "output_tokens": 0, "error_type": "overloaded"}
    long = [(3000 + 10 * i + (500 if i > 500 else 0), 2) for i in range(1000)]
    return (handled(1, 1000, 2000, *answer(1, 1100, (1200, 1), (1300, 4), (1500, 2), end=1700), generation=facts, request_id="x")
            + handled(2, 3000, 3600, stamp(2, "COMPUTE_START", 3010), *answer(2, 3020, end=3100), stamp(2, "mark", 3200), stamp(2, "COMPUTE_END", 3300), generation=failed, status="error",
                      error="no \u65e5 slots")
            + handled(3, 4000, 4600, status="cancelled", error="the client has gone") + handled(4, 4700, 4800, status="cancelled") + handled(5, 4900, 5000, status="error")
            + handled(6, 2500, 20000, *answer(6, 2600, *long, end=19000), generation={"operation": "chat", "input_tokens": 0})
            + [{"id": 7, "model_name": "llm", "model_version": 1, "parent_id": 1, "generation": {"operation": "chat", "output_tokens": 3}}, *answer(7, 1300, (1400, 3), end=1450)])


def content(items):
    """{id: all values of its objects, unordered}"""
    found = {}
    for item in items:
        mine = found.setdefault(item["id"], {"stamps": []})
        mine["stamps"] += item.get("timestamps", ())
        mine.update({key: value for key, value in item.items() if key != "timestamps"})
    return {number: {**mine, "stamps": sorted(mine["stamps"], key=lambda one: (one["ns"], one["name"]))} for number, mine in found.items()}


@pytest.mark.sanitized
@pytest.mark.parametrize("way, zero", BACK)
def test_round_trip_is_lossless(trace, tmp_path, way, zero):
    path, between, back = tmp_path / "t", tmp_path / "spans", tmp_path / "back"
    path.write_text(json.dumps(sample_items()))
    trace("convert", "-f", way, "--zero", zero, path, "-o", between)
    trace("convert", "-f", "triton", "--zero", zero, between, "-o", back)
    assert content(json.loads(back.read_text())) == content(sample_items())
    again = trace("convert", "-f", way, "--zero", zero, back)
    assert spans_of(json.loads(again)) if way == "otlp-json" else again
    summaries = [json.loads(trace("summary", "--json", one, warning=UNFINISHED)) for one in (path, back)]
    assert [model for summary, in summaries for model in summary["models"]] == 2 * summaries[0][0]["models"]


def shape(spans):
    """Spans without their ids, with the names of their ancestors; unordered."""
    by_span, found = {span["spanId"]: span for span in spans}, []
    for span in spans:
        names, above, state = [], span, span.get("status")
        while above:
            names.append(above["name"])
            above = by_span.get(above.get("parentSpanId"))
        bounds = [span["startTimeUnixNano"], span["endTimeUnixNano"]] if names != ["InferRequest"] else []  # in libsonde this span begins before its first event
        found.append([names, bounds, sorted(attributes(span.get("attributes", ())).items(), key=str),
                      sorted([event["timeUnixNano"], event["name"], attributes(event.get("attributes", ()))] for event in span.get("events", ())),
                      state and (str(state["code"]).replace("STATUS_CODE_ERROR", "2"), state.get("message", ""))])
    return sorted(found, key=str)


@NEEDED
def test_converted_spans_equal_libsondes_own(trace, serve, receiver, encoding, tmp_path):  # noqa: F811
    """The spans exported in OpenTelemetry mode, converted to a file and back: the same spans, attributes, events and status."""
    to, between, back = receiver(), tmp_path / "spans", tmp_path / "back"
    server = serve(to.url, env=dict(os.environ, OTEL_EXPORTER_OTLP_PROTOCOL=encoding.protocol))
    for parameters in REQUESTS:
        generate(server, **parameters)
    generate(server, max_tokens=4, fail_after=3)
    server.infer("ens", "e1")
    server.end()
    posts = [post for post in to.accepted if post not in to.metrics]
    sent = [span for post in posts for span in spans_of(encoding.decode(post["body"]))]
    between.write_bytes(b"".join(post["body"] for post in posts))
    trace("convert", "-f", "triton", between, "-o", back)
    again = spans_of(json.loads(trace("convert", "-f", "otlp-json", "--zero", "0", back)))
    assert len(sent) > 15 and shape(again) == shape(sent)


def test_token_attributes_in_protobuf(trace, protobuf, tmp_path):  # noqa: F811
    path = tmp_path / "t"
    path.write_text(json.dumps(sample_items()))
    packed = protobuf(trace("convert", "-f", "otlp", "--zero", "7", path))
    spans = [span for resource in packed["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]
    assert shape(spans) == shape(spans_of(json.loads(trace("convert", "-f", "otlp-json", "--zero", "7", path))))
    model = next(attributes(span["attributes"]) for span in spans if attributes(span.get("attributes", ())).get("triton.trace_id") == 1)
    assert {key: value for key, value in model.items() if not key.startswith("triton.")} == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "me \u00e9", "gen_ai.request.model": "llm", "gen_ai.response.id": "r\"1", "gen_ai.response.model": "llm-v1",
        "gen_ai.response.finish_reasons": ["stop"], "gen_ai.usage.input_tokens": 25, "gen_ai.usage.output_tokens": 7}


def test_dropped_events_are_reported(sonde, tmp_path):
    pair = {"key": "triton.trace_id", "value": {"intValue": "1"}}
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "m", "attributes": [pair], "droppedEventsCount": 872}
    path = tmp_path / "t"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    done = subprocess.run([sonde, "trace", "convert", "-f", "triton", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "872 events were dropped by the exporter of the spans" in done.stderr


def test_chrome_format_has_tokens(trace, tmp_path):
    path = tmp_path / "t"
    path.write_text(json.dumps(sample_items()))
    events = json.loads(trace("convert", "-f", "chrome", path))["traceEvents"]
    first, = (event for event in events if event["name"] == "FIRST_TOKEN" and event["pid"] == 1 and event["tid"] == 1)
    assert (first["ph"], first["ts"], first["args"]) == ("i", 1.2, {"tokens": 1})
    counted = [(event["ts"], event["args"]["tokens"]) for event in events if event["ph"] == "C" and event["name"] == "tokens of id 1"]
    assert counted == [(1.2, 1), (1.3, 5), (1.5, 7)]
    handler, = (event for event in events if event.get("args", {}).get("id") == "1")
    assert handler["args"]["output_tokens"] == 7 and handler["args"]["finish_reason"] == "stop"
    assert [event["args"]["error"] for event in events if event.get("args", {}).get("status") == "cancelled" and "error" in event["args"]] == ["the client has gone"]


def test_show_prints_tokens(trace, tmp_path):
    path = tmp_path / "t"
    path.write_text(json.dumps(sample_items()))
    text = trace("show", "1", path).decode()
    assert "Of id 1: chat by llm-v1, response r\"1, 25 tokens in, 7 tokens out, first token after 0.100us, then 0.083us for each, finished by stop\n" in text
    assert "Of id 7: chat, 3 tokens out, first token after 0.100us, then 0.025us for each\n" in text
    assert [line.split("]  ")[1] for line in text.splitlines() if "TOKEN" in line] == ["      FIRST_TOKEN, 1 token", "      TOKEN, 4 tokens", "      TOKEN, 2 tokens", "      FIRST_TOKEN, 3 tokens"]
    text = trace("show", "6", path).decode()
    assert len(text.splitlines()) < 12, "an answer of a thousand tokens is no thousand lines"
    assert "TOKEN 999 times, 1998 tokens, the longest gap 0.510us" in text
    assert "Of id 2: failed, no \u65e5 slots\n" in trace("show", "2", path).decode() and "Of id 4: cancelled\n" in trace("show", "4", path).decode()


def test_summary_has_time_to_first_and_next_token(trace, tmp_path):
    path = tmp_path / "t"
    path.write_text(json.dumps(sample_items()))
    lines = trace("summary", path, warning=UNFINISHED).decode().splitlines()
    # of ids 1 and 6: 1200 - 1100, 3000 - 2600; and (1700 - 1200) // 6, (19000 - 3000) // 1999
    assert [line for line in lines if "oken" in line] == ["\tFirst token (avg): 0.25us", "\tPer token after it (avg): 0.0455us",
                                                          "\tTokens: 25 in, 2007 out, in 3 generations (1 failed)"]
    model, = json.loads(trace("summary", "--json", "-p", "50", path, warning=UNFINISHED))[0]["models"]
    assert model["generations"] == {"count": 3, "failed": 1, "input_tokens": 25, "output_tokens": 2007}
    assert model["spans"]["first_token"]["count"] == 2 and model["spans"]["per_token"]["sum_ns"] == 83 + 8 and "p50_ns" in model["spans"]["per_token"]
    assert "\tTOKEN (4 tokens)" in trace("summary", "-t", path, warning=UNFINISHED).decode().splitlines()


def test_summary_of_a_server_equals_its_stamps(trace, triton, tmp_path):  # noqa: F811
    """The sums equal the sums of the time stamps, to the nanosecond."""
    server = triton()
    for parameters in REQUESTS:
        generate(server, **parameters)
    generate(server, max_tokens=5, fail_after=2)
    server.end()
    items = json.loads((tmp_path / "t.json").read_text())
    times = [times_of([item["timestamps"][0] for item in mine if "timestamps" in item]) for mine in by_id(items).values()][:-1]
    model, = json.loads(trace("summary", "--json", tmp_path / "t.json"))[0]["models"]
    assert model["generations"] == {"count": 5, "failed": 1, "input_tokens": 11, "output_tokens": 15}
    for name, values in (("first_token", [first for _, first, _ in times if first]), ("per_token", [each for _, _, each in times if each])):
        assert (model["spans"][name]["count"], model["spans"][name]["sum_ns"]) == (len(values), sum(values))


@pytest.mark.parametrize("bad", ['"tokens":-1', '"tokens":"x"', '"tokens":4294967296', '"tokens":1.5'])
def test_invalid_counts_are_reported(sonde, tmp_path, bad):
    path = tmp_path / "t"
    path.write_text('[{"id":1,"model_name":"m","model_version":1},{"id":1,"timestamps":[{"name":"TOKEN","ns":5,' + bad + "}]}]")
    done = subprocess.run([sonde, "trace", "summary", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "t: " in done.stderr and "byte" in done.stderr


def test_tokens_on_spans_are_tolerated(trace, tmp_path):
    """A file may have tokens on spans; `show` does not aggregate them, and terminates."""
    (tmp_path / "t").write_text(json.dumps([*handled(1, 5, 25, stamp(1, "FOO_START", 10, 3), stamp(1, "FOO_END", 20))]))
    shown = trace("show", 1, tmp_path / "t").decode()
    assert "FOO" in shown, shown
