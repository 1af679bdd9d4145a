"""`sonde trace show`: every timestamp of a request and its steps is in its waterfall, to the nanosecond; and how the request is selected."""
import json
import re
import subprocess

import pytest
from trace_files import REAL


LINE = re.compile(r"^ *(\d+)\.(\d{3})us +(?:(\d+)\.(\d{3})us)? +\[([ #|]{40})\]  ( *)(.*)$")


@pytest.fixture
def show(sonde):
    return lambda *arguments: subprocess.run([sonde, "trace", "show", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def items_of(text):
    """[(begin, duration or None, depth, name)], times in nanoseconds."""
    found = [LINE.match(line).groups() for line in text.splitlines()[2:]]
    return [(int(a) * 1000 + int(b), None if c is None else int(c) * 1000 + int(d), len(indent) // 2, name) for a, b, c, d, _, indent, name in found]


def request_of(items, number):
    """{id: {name: ns}} and {id: parent} of the request that contains `number`."""
    parents = {item["id"]: item.get("parent_id") for item in items if "model_name" in item}

    def root(at):
        return root(parents[at]) if parents.get(at) else at
    stamps = {}
    for item in items:
        if root(item["id"]) == root(number):
            stamps.setdefault(item["id"], []).extend((stamp["name"], stamp["ns"]) for stamp in item.get("timestamps", ()))
    return root(number), stamps


@pytest.mark.parametrize("number", [0, 1, 2, 4, 5, 6])
def test_every_timestamp_of_real_requests_is_shown(show, number):
    path = REAL / f"trace.json.{number}"
    items = json.loads(path.read_text())
    for chosen in sorted({item["id"] for item in items}):
        root, stamps = request_of(items, chosen)
        done = show(chosen, path)
        assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith(f"Request {root}")
        lines = items_of(done.stdout)
        moments = {ns for part in stamps.values() for name, ns in part if not name.startswith("GRPC_WAITREAD")}
        start = dict(stamps[root]).get("GRPC_WAITREAD_END", min(moments))
        shown = {start + begin for begin, _, _, _ in lines} | {start + begin + (took or 0) for begin, took, _, _ in lines}
        assert moments <= shown <= moments | {start}
        handlers = {int(re.search(r" id (\d+)$", name)[1]): (start + begin, took) for begin, took, _, name in lines if " id " in name}
        assert handlers == {part: (dict(at)["REQUEST_START"], dict(at)["REQUEST_END"] - dict(at)["REQUEST_START"]) for part, at in stamps.items() if "REQUEST_END" in dict(at)}


def stamp(number, name, ns):
    return {"id": number, "timestamps": [{"name": name, "ns": ns}]}


@pytest.mark.sanitized
def test_custom_child_and_unfinished_spans(show, tmp_path):
    items = [stamp(2, "REQUEST_START", 300), {"id": 2, "parent_id": 1, "model_name": "part", "model_version": 1}, stamp(2, "REQUEST_END", 400),
             {"id": 1, "model_name": "whole", "model_version": 2, "request_id": "my \x1b one"}, stamp(1, "REQUEST_START", 100), stamp(1, "STEP_START", 150), stamp(1, "STEP_START", 160),
             stamp(1, "STEP_END", 170), stamp(1, "STEP_END", 250), stamp(1, "LOST_START", 260), stamp(1, "mark", 270), stamp(1, "NEVER_END", 280), stamp(1, "REQUEST_END", 1100)]
    path = tmp_path / "t"
    path.write_text(json.dumps(items))
    done = show(2, path)
    assert done.returncode == 0 and done.stdout.splitlines()[0] == "Request 1: whole (2), request id my \\x1b one"
    assert items_of(done.stdout) == [(0, 1000, 0, "whole (2) id 1"), (50, 100, 1, "STEP"), (60, 10, 2, "STEP"), (160, None, 1, "LOST_START"), (170, None, 1, "mark"),
                                     (180, None, 1, "NEVER_END"), (200, 100, 1, "part (1) id 2")]
    bars = [LINE.match(line)[5] for line in done.stdout.splitlines()[2:]]
    assert bars[0] == "#" * 40 and bars[-1] == " " * 8 + "#" * 4 + " " * 28 and bars[4].strip() == "|"


def test_missing_parent_request_is_reported(show, tmp_path):
    path = tmp_path / "t"
    path.write_text(json.dumps([{"id": 5, "parent_id": 4, "model_name": "part", "model_version": 1}, stamp(5, "REQUEST_START", 1), stamp(5, "REQUEST_END", 2)]))
    done = show(5, path)
    assert done.returncode == 0 and "Request 4 (incomplete: only parts of it are in the file)" in done.stdout and "part (1) id 5" in done.stdout


def test_invalid_arguments_are_explained(show):
    good = REAL / "trace.json.0"
    for arguments, status, expected in (((), 2, "show needs an ID and a FILE"), ((3,), 2, "show needs an ID and a FILE"), (("x", good), 1, "no trace has the ID x"), (("-1", good), 2, "unknown option"),
                                        ((18446744073709551616, good), 1, "no trace has the ID 18446744073709551616"), ((777, good), 1, "no trace has the ID 777"), ((1, "/nowhere"), 1, "neither /nowhere nor")):
        done = show(*arguments)
        assert done.returncode == status and expected in done.stderr and done.stdout == "", (arguments, done)


def test_request_is_found_by_its_client_id(show, tmp_path):
    """Shows the first request with that name, whether it is a step of another one or not."""
    path = REAL / "trace.json.1"
    first = next(item for item in json.loads(path.read_text()) if item.get("request_id") == "g1")
    named, numbered = show("g1", path), show(first["id"], path)
    assert named.returncode == 0 and named.stdout == numbered.stdout != "" and named.stderr == ""


def test_request_is_found_in_a_set_of_files(show):
    done = show(40, REAL / "trace.json")
    assert "Request 39: ens" in done.stdout and "simple (1) id 40" in done.stdout, "it is in the last one of them"


@pytest.mark.sanitized
def test_cyclic_and_huge_requests_terminate(show, tmp_path):
    path = tmp_path / "t"
    circle = [{"id": a, "parent_id": b, "model_name": "m", "model_version": 1} for a, b in ((1, 2), (2, 3), (3, 1))]
    crowd = [{"id": number, "parent_id": 9, "model_name": "m", "model_version": 1} for number in range(10, 9000)]
    many = [{"id": 9, "timestamps": [{"name": f"S{i % 100}_{'START' if i % 3 else 'END'}", "ns": i} for i in range(60000)]}]
    path.write_text(json.dumps(circle + many + crowd))
    assert show(1, path).returncode in (0, 1)
    done = show(9, path)
    assert done.returncode == 0 and len(done.stdout.splitlines()) > 20000
