"""`sonde trace convert --format triton`: a round trip through OpenTelemetry's format preserves a file, and spans exported by a real Triton become a
trace file that third-party readers accept."""
import json
import random
import subprocess

import pytest
import summary_peer
from trace_files import REAL, Maker


@pytest.fixture
def trace(sonde):
    """trace(subcommand, arguments...)"""
    return lambda verb, *arguments: subprocess.run([sonde, "trace", verb, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)


def moments(items):
    """{id: its header and its timestamps}, unordered."""
    found = {}
    for item in items:
        mine = found.setdefault(item["id"], {"stamps": []})
        mine["stamps"] += [(stamp["ns"], stamp["name"]) for stamp in item.get("timestamps", ())]
        mine.update({key: item[key] for key in ("model_name", "model_version", "parent_id", "request_id") if key in item})
    return {number: {**mine, "stamps": sorted(mine["stamps"])} for number, mine in found.items()}


@pytest.mark.parametrize("number", [0, 1, 2, 4, 5, 6])
@pytest.mark.parametrize("way", ["otlp", "otlp-json"])
def test_round_trip_of_real_files(trace, tmp_path, number, way):
    path, between, back = REAL / f"trace.json.{number}", tmp_path / "spans", tmp_path / "back.json"
    assert trace("convert", "-f", way, "--zero", 10 ** 18, path, "-o", between).returncode == 0
    done = trace("convert", "-f", "triton", "--zero", 10 ** 18, between, "-o", back)
    assert done.returncode == 0
    was, is_now = moments(json.loads(path.read_text())), moments(json.loads(back.read_text()))
    handled = {number for number, mine in was.items() if "REQUEST_END" in {name for _, name in mine["stamps"]}}
    assert is_now == {number: was[number] for number in handled}
    refused = len(was) - len(handled)
    assert (b"spans have no ancestor" in done.stderr) == (refused > 0)


@pytest.mark.sanitized
@pytest.mark.parametrize("seed", range(2))
def test_round_trip_of_generated_files(trace, tmp_path, seed):
    """With custom timestamp names, in a shuffled file of several exports."""
    items = [item for item in Maker(seed).items(40) if "activity" not in item]
    path, between, back = tmp_path / "t", tmp_path / "spans", tmp_path / "back"
    path.write_text(json.dumps(items + [{"id": items[0]["id"], "timestamps": [{"name": "STEP_START", "ns": 5}]}, {"id": items[0]["id"], "timestamps": [{"name": "STEP_END", "ns": 9}]}]))
    whole = json.loads(trace("convert", "-f", "otlp-json", "--zero", 7, path).stdout)
    spans = whole["resourceSpans"][0]["scopeSpans"][0]["spans"]
    random.Random(seed).shuffle(spans)
    lines = [json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans[at:at + 37]}]}]}) for at in range(0, len(spans), 37)]
    between.write_text("\n".join(lines) + "\n")
    done = trace("convert", "-f", "triton", "--zero", 7, between, "-o", back)
    assert done.returncode == 0 and done.stderr == b""
    assert moments(json.loads(back.read_text())) == moments(json.loads(path.read_text()))


def test_spans_exported_by_triton_are_converted(trace, tmp_path):
    back = tmp_path / "back.json"
    done = trace("convert", "-f", "triton", REAL / "spans.jsonl", "-o", back)
    assert done.returncode == 0 and b"1 spans have no ancestor with triton.trace_id" in done.stderr, "a request that was refused has no id"
    lines = trace("summary", back).stdout.decode().splitlines()
    assert lines == summary_peer.summary(back)
    spans = [span for line in (REAL / "spans.jsonl").read_text().splitlines() for scope in json.loads(line)["resourceSpans"][0]["scopeSpans"] for span in scope["spans"]]
    models = [span for span in spans if any(at["key"] == "triton.trace_id" for at in span.get("attributes", ()))]
    assert len(moments(json.loads(back.read_text()))) == len(models) > 5
    simple = [int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) for span in models if span["name"] == "simple"]
    assert f"\tHandler (avg): {sum(simple) / (len(simple) * 1000)}us" in lines


@pytest.mark.sanitized
@pytest.mark.parametrize("content, place", [(b"hello", 0), (b"", None), (b'{"resourceSpans":[]} {"x"', 21), (b"\x0a\xff\xff\xff\xff\x0f", 1), (b"[" * 100000, 0), (b"\x0a\x02\x12\x05", 1)])
def test_invalid_otlp_is_reported_with_its_place(trace, tmp_path, content, place):
    path = tmp_path / "t"
    path.write_bytes(content)
    done = trace("convert", "-f", "triton", path)
    if place is None:
        assert done.returncode == 0 and done.stdout == b"[]\n"
        return
    assert done.returncode == 1 and f"{path}: neither OTLP JSON nor protobuf from byte {place} on".encode() in done.stderr and done.stdout == b""


def test_wrong_file_type_is_explained(trace, tmp_path):
    """A user may mistake one kind of file for the other: the message says what to do."""
    done = trace("convert", "-f", "triton", REAL / "trace.json.0")
    assert done.returncode == 1 and done.stdout == b"" and b"trace.json.0 is a JSON array, as in Triton's trace files" in done.stderr
    for verb in (("summary",), ("show", 1), ("convert", "-f", "chrome")):
        done = trace(*verb, REAL / "spans.jsonl")
        assert done.returncode == 1 and b"sonde trace convert --format triton converts OTLP spans" in done.stderr
    wrapped = tmp_path / "packets"  # as in a log of requests
    wrapped.write_text('{"path": "/v1/traces", "body": {"resourceSpans": []}}\n')
    done = trace("convert", "-f", "triton", wrapped)
    assert done.returncode == 0 and done.stdout == b"[]\n" and b"packets has no OTLP spans" in done.stderr
    done = trace("show", REAL / "trace.json.0", 1)
    assert done.returncode == 2 and b"is a file: give the ID first" in done.stderr


@pytest.mark.sanitized
def test_truncated_protobuf_gives_the_spans_before_the_cut(trace, tmp_path):
    whole, path = trace("convert", "-f", "otlp", REAL / "trace.json.6").stdout, tmp_path / "t"
    for size in random.Random(1).sample(range(2000, len(whole)), 20):
        path.write_bytes(whole[:size])
        done = trace("convert", "-f", "triton", path)
        assert json.loads(done.stdout)
        assert done.returncode == 0 or b"from byte" in done.stderr


def test_times_before_zero_are_reported(trace, tmp_path):
    done = trace("convert", "-f", "triton", "--zero", 2 ** 62, REAL / "spans.jsonl")
    assert done.returncode == 0 and b"times are before --zero and are written as 0" in done.stderr
