"""`sonde trace summary` compared line by line with a peer (summary_peer.py), on files that a real Triton wrote (triton/) and on generated ones; and
on files that the peer cannot read."""
import fcntl
import gzip
import json
import os
import random
import re
import shutil
import struct
import subprocess
import termios
from pathlib import Path

import pytest
import summary_peer

from harness.machine import need_command, skip
from harness.processes import wait_for
from terminal import Terminal
from trace_files import REAL, Maker, trace, whole, write



@pytest.fixture
def summary(sonde):
    """summary(arguments...) runs `sonde trace summary` to its end."""
    def run(*arguments, **options):
        done = subprocess.run([sonde, "trace", "summary", *map(str, arguments)], capture_output=True, timeout=120, **{"stdin": subprocess.DEVNULL, **options})
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        return done
    return run


def need_numpy():
    try:
        import numpy
    except ImportError:
        skip("needs numpy, to print tensors as it does")
    if not numpy.__version__.startswith("1."):
        skip(f"numpy {numpy.__version__} prints some arrays another way than numpy 1")


def same_lines(done, path, **options):
    assert done.returncode == 0 and done.stderr == "", done
    expected = summary_peer.summary(path, **options)
    assert len(expected) > 5
    assert done.stdout.splitlines() == expected


# --- files of a real Triton ------------------------------------------------------------------------------------------------------

def test_peer_reproduces_the_scripts_output():
    need_numpy()
    printed = (REAL / "summary-2022.txt").read_text().splitlines()
    lines = [line for number in (0, 1, 2, 4, 5, 6) for line in summary_peer.summary(REAL / f"trace.json.{number}", True, summary_peer.SCRIPT_2022)]
    assert [line.replace(f"{REAL}/", "") for line in lines] == printed


@pytest.mark.parametrize("number", [0, 1, 2, 4, 5, 6])
@pytest.mark.parametrize("show_trace", [False, True])
def test_real_files_match_the_peer(summary, number, show_trace):
    need_numpy()
    path = REAL / f"trace.json.{number}"
    done = summary(*["-t"] * show_trace, path)
    if number == 2:  # Triton writes no data for FP16, which the peer cannot print
        assert "id_FP16" in done.stdout
    lines = [line for line in done.stderr.splitlines() if "REQUEST_START" not in line]
    assert done.returncode == 0 and not lines, done.stderr
    assert done.stdout.splitlines() == summary_peer.summary(path, show_trace=show_trace)


def test_real_file_with_invalid_json(summary):
    """Raw bytes in INT8 and UINT8, quotes in BYTES: all four requests are read; requests that are left out are counted and located."""
    path = REAL / "trace.json.3"
    with pytest.raises(ValueError):
        summary_peer.summary(path)
    done = summary(path)
    assert done.returncode == 1
    assert re.findall(r"^Summary for (\w+) \(1\): trace count = (\d+)$", done.stdout, re.M) == [("id_INT64", "1"), ("id_UINT8", "1"), ("id_INT8", "1"), ("id_STRING", "1")]
    assert "IN: [ 9223372036854775807 -9223372036854775808                    5]" in done.stdout, "integers do not go through floats"
    place = int(re.search(r"malformed bytes at \d+ places, the first at byte (\d+)", done.stderr)[1])
    assert path.read_bytes()[:place].endswith(b',A,"'), "34 as one byte is a quote"
    assert re.search(r"2 objects have bytes in strings that JSON does not allow, the first object at byte \d+; they are kept", done.stderr)


# --- generated files ---------------------------------------------------------------------------------------------------------------------

@pytest.mark.sanitized
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("show_trace", [False, True])
def test_generated_files_match_the_peer(summary, tmp_path, seed, show_trace):
    need_numpy()
    path = tmp_path / "trace.json"
    dice = random.Random(seed)
    path.write_text(json.dumps(Maker(seed).items(40), ensure_ascii=dice.random() < 0.5, **dice.choice([{"separators": (",", ":")}, {}, {"indent": 1}])))
    done = summary(*["-t"] * show_trace, path)
    same = summary_peer.summary(path, show_trace=show_trace)
    same = [line.replace("my own \t moment", "my own \\x09 moment") for line in same]
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.splitlines() == same


def test_averages_of_complete_traces_match_the_script(summary, tmp_path):
    """Where every trace of a model is complete, the averages equal the output of trace_summary.py to the last digit."""
    path, maker = tmp_path / "trace.json", Maker(0)
    path.write_text(json.dumps([item for _ in range(200) for group in maker.part("resnet", door="HTTP") for item in group if "activity" not in item]))
    same_lines(summary(path), path, rules=summary_peer.SCRIPT)


def test_interleaved_records_have_the_same_sums(summary, tmp_path):
    """Interleaved records of many ids: the same sums as when sorted."""
    need_numpy()
    path, items = tmp_path / "trace.json", Maker(3).items(100)
    order = list(range(len(items)))
    random.Random(1).shuffle(order)
    position = {number: iter(sorted(at for at, item in zip(order, items) if item["id"] == number)) for number in {item["id"] for item in items}}
    mixed = sorted(((next(position[item["id"]]), item) for item in items), key=lambda pair: pair[0])  # each id's records stay in order
    path.write_text(json.dumps([item for _, item in mixed]))
    done = summary(path)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines() == summary_peer.summary(path)


# --- differences from the script -----------------------------------------------------------------------------------------------------

def test_cancelled_requests_do_not_lower_averages(summary, tmp_path):
    cancelled = trace(2, {"HTTP_RECV_START": 0, "REQUEST_START": 1000, "QUEUE_START": 2000, "REQUEST_END": 11000})
    done = summary(write(tmp_path / "t", whole(1) + cancelled))
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines()[1:] == [
        "Summary for m (1): trace count = 2", "HTTP infer request (avg): 10.0us", "\tReceive (avg): 1.0us", "\tSend (avg): 1.0us", "\tOverhead (avg): 2.0us", "",
        "\tHandler (avg): 8.0us", "\t\tOverhead (avg): 2.0us", "\t\tQueue (avg): 1.0us", "\t\tCompute (avg): 3.0us", "\t\t\tInput (avg): 1.0us",
        "\t\t\tInfer (avg): 1.0us", "\t\t\tOutput (avg): 1.0us"]


@pytest.mark.parametrize("status, said", [("error", "1 failed"), ("cancelled", "1 cancelled")])
def test_failed_and_cancelled_requests_are_in_no_average(summary, tmp_path, status, said):
    """libsonde's files have a status. The components of the remaining requests fit into the whole; failed ones are counted, and listed among the
    slowest."""
    early = trace(2, {"HTTP_RECV_START": 0, "HTTP_RECV_END": 1000, "REQUEST_START": 1000, "QUEUE_START": 2000, "REQUEST_END": 99000, "HTTP_SEND_START": 99000,
                      "HTTP_SEND_END": 100000}, status=status, error="no")
    path = write(tmp_path / "t", whole(1) + early)
    done = summary("--slowest", 2, path)
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[1] == f"Summary for m (1): trace count = 2, {said}"
    assert lines[2:13] == summary_peer.summary(write(tmp_path / "one", whole(1)))[2:13]
    assert [line.split(" m ")[0] for line in lines[-2:]] == ["\t100.0us id: 2", "\t10.0us id: 1"]
    model, = json.loads(summary("--json", path).stdout)[0]["models"]
    assert (model["trace_count"], model["failed"], model["cancelled"]) == (2, int(status == "error"), int(status == "cancelled"))
    assert {span["count"] for span in model["spans"].values()} == {1}


def test_missing_compute_start_is_no_error(summary, tmp_path):
    items = [item for item in whole(1) if item.get("timestamps", [{}])[0].get("name") != "COMPUTE_START"]
    done = summary(write(tmp_path / "t", items))
    assert done.returncode == 0
    assert done.stdout.splitlines()[6:] == ["", "\tHandler (avg): 6.0us", "\t\t\tInfer (avg): 1.0us", "\t\t\tOutput (avg): 1.0us"]


def test_backward_timestamps_are_counted(summary, tmp_path):
    items = whole(1) + trace(2, {"HTTP_RECV_START": 0, "REQUEST_START": 5000, "REQUEST_END": 4000})
    done = summary(write(tmp_path / "t", items))
    assert "1 times end before they begin: not in their averages" in done.stderr
    assert "trace count = 2" in done.stdout and "\tHandler (avg): 6.0us" in done.stdout


def test_large_numbers_keep_all_digits(summary, tmp_path):
    items = trace(2 ** 64 - 1, {"HTTP_RECV_START": 0, "REQUEST_START": 2 ** 64 - 1 - 2 ** 62, "REQUEST_END": 2 ** 64 - 1})
    done = summary(write(tmp_path / "t", items), "--json")
    assert json.loads(done.stdout)[0]["models"][0]["spans"]["handler"] == {"count": 1, "sum_ns": 2 ** 62, "avg_us": 2 ** 62 / 1000}


@pytest.mark.parametrize("dtype, data, shape, shown", [
    ("BF16", "0.1,1.5,-2", "3", "[ 0.1  1.5 -2. ]"),
    ("FP16", "0.1,65504", "2", "[1.00e-01 6.55e+04]"),
    ("FP16", "", "1,2", "[] (FP16 1,2, no data in the file)"),
    ("BYTES", '"plain","a,b"', "2", '["plain","a,b"] (BYTES 2, as it stands in the file)'),
    ("INT64", "9007199254740993,-1", "2", "[9007199254740993               -1]"),
    ("INT32", "1,2,3", "2", "[1,2,3] (INT32 2, as it stands in the file)"),
    ("INT32", "1", "4294967296,4294967296", "[1] (INT32 4294967296,4294967296, as it stands in the file)"),
    ("FP32", "", "0,3", "[]"),
    ("INT32", "1,x", "2", "[1,x] (INT32 2, as it stands in the file)"),
    ("WEIRD", "\x1b[2J\u0000", "1", "[\\x1b[2J\\x00] (WEIRD 1, as it stands in the file)"),
])
def test_tensors_that_the_script_cannot_print(summary, tmp_path, dtype, data, shape, shown):
    tensor = {"id": 1, "activity": "TENSOR_QUEUE_INPUT", "tensor": {"name": "x", "data": data, "shape": shape, "dtype": dtype}}
    done = summary(write(tmp_path / "t", whole(1) + [tensor]))
    assert done.returncode == 0 and done.stderr == ""
    assert f"\t\tx: {shown}\n" in done.stdout


# --- beyond the script -----------------------------------------------------------------------------------------------------------

def test_percentiles_and_slowest(summary, tmp_path):
    items = [item for number in range(1, 101) for item in whole(number, scale=number)]
    path = write(tmp_path / "t", items)
    done = summary("--percentiles", "50,99.5", "-n", "2", path)
    lines = done.stdout.splitlines()
    at = lines.index("\t\tQueue (avg): 50.5us")
    half = float(re.fullmatch(r"\t\tQueue \(p50\): (.*)us", lines[at + 1])[1])
    assert abs(half - 50) <= 50 * 0.004
    assert lines[at + 2] == "\t\tQueue (p99.5): 100.0us"
    assert lines[-3:] == ["Slowest requests:", "\t1000.0us id: 100 m (1), queue 100.0us, compute 300.0us", "\t990.0us id: 99 m (1), queue 99.0us, compute 297.0us"]
    summary_json = json.loads(summary("--json", "--percentiles", "50", "--slowest", "1", path).stdout)[0]
    assert summary_json["slowest"] == [{"id": 100, "model_name": "m", "model_version": 1, "start_ns": 200000, "duration_ns": 1000000, "queue_ns": 100000, "compute_ns": 300000}]
    assert summary_json["models"][0]["trace_count"] == 100 and abs(summary_json["models"][0]["spans"]["queue"]["p50_ns"] - 50000) <= 200


def test_rotated_files_are_read_in_order(summary, tmp_path):
    for number in (0, 1, 2, 10):
        content = json.dumps(whole(1, scale=number + 1))
        (tmp_path / f"t.json.{number}").write_text(content)
    (tmp_path / "t.json.x").write_text("no part of it")
    (tmp_path / "t.json.2").unlink()
    (tmp_path / "t.json.2.gz").write_bytes(gzip.compress(json.dumps(whole(1, scale=3)).encode()))
    shutil.copy(tmp_path / "t.json.2.gz", tmp_path / "t.json.2.zst")
    done = summary("-t", tmp_path / "t.json")
    assert done.returncode == 0
    assert f"{tmp_path}/t.json.2.zst is not read: {tmp_path}/t.json.2.gz has the same number" in done.stderr
    assert "missing between" in done.stderr and "t.json.10" in done.stderr
    assert done.stdout.startswith(f"File: {tmp_path}/t.json\n")
    assert re.findall(r"REQUEST_START\n\t\t(.*)us", done.stdout) == ["1.0", "2.0", "3.0", "11.0"], "each file's ids are its own"
    assert "trace count = 4" in done.stdout and "Queue (avg): 4.25us" in done.stdout
    alone = summary(tmp_path / "t.json.10", tmp_path / "t.json.0")
    assert re.findall(r"^File: .*/(.*)$", alone.stdout, re.M) == ["t.json.10", "t.json.0"]


@pytest.mark.sanitized
@pytest.mark.parametrize("packing", ["gzip", "gzip twice", "zstd"])
def test_compressed_files_are_read(summary, tmp_path, packing):
    plain, path = tmp_path / "plain", tmp_path / "packed"
    items = [item for number in range(1, 2001) for item in whole(number, base=number ** 3)]
    content = json.dumps(items).encode()
    plain.write_bytes(content)
    if packing == "zstd":
        subprocess.run([need_command("zstd"), "-q", plain, "-o", path], check=True)
    else:
        path.write_bytes(gzip.compress(content) if packing == "gzip" else gzip.compress(content[:1000]) + gzip.compress(content[1000:]))
    expected = summary_peer.summary(plain)[1:]
    assert summary(path).stdout.splitlines()[1:] == expected
    cut = tmp_path / "cut"
    cut.write_bytes(path.read_bytes()[:-200])
    done = summary(cut)
    assert "is truncated: read up to byte" in done.stderr and done.returncode == 0 and "Summary for" in done.stdout
    broken = bytearray(path.read_bytes())
    broken[-len(broken) // 4] ^= 0xFF
    cut.write_bytes(broken)
    done = summary(cut)
    assert "the compressed data is damaged after" in done.stderr and done.returncode == 1 and "Summary for" in done.stdout
    with open(path, "rb") as pipe:
        assert summary("-", stdin=pipe).stdout.splitlines()[1:] == expected


@pytest.mark.sanitized
def test_truncated_file_counts_whole_objects(summary, tmp_path):
    """For a truncated file, every whole object before the cut counts, and the place of the cut is reported."""
    content = write(tmp_path / "whole", whole(1) + whole(2)).read_bytes()
    path = tmp_path / "t"
    dice = random.Random(5)
    for size in sorted({0, 1, len(content) - 1, *(dice.randrange(len(content)) for _ in range(40))}):
        path.write_bytes(content[:size])
        done = summary(path, "--json")
        assert done.returncode == 0, done
        good = [json.loads(found) for found in re.findall(rb'\{"id":(?:[^{}]|\{[^{}]*\})*\}', content[:size])]
        begun = {item["id"] for item in good if item.get("timestamps", [{}])[0].get("name") == "HTTP_RECV_START"}
        ended = {item["id"] for item in good if item.get("timestamps", [{}])[0].get("name") == "REQUEST_END"}
        summary_json = json.loads(done.stdout)[0]
        assert sum(model["trace_count"] for model in summary_json["models"]) == len(begun & ended)
        place, of = map(int, re.search(r"is truncated: read up to byte (\d+) of (\d+)", done.stderr).groups())
        assert of == size and place <= size and content[:place].count(b'"id"') == len(good)


@pytest.mark.sanitized
@pytest.mark.parametrize("broken, place, reason", [
    pytest.param(b'{"id":7,"x":' + b"[" * 100000 + b"]" * 100000 + b"}", 76, "nested too deeply", id="deep"),
    (b'{"id":18446744073709551616}', 6, "a number beyond 64 bits"),
    (b'{"id":-1}', 6, "negative number"),
    (b'{"id":1.5}', 7, "not a fraction"),
    (b'{"id":"1"}', 6, "a whole number is expected"),
    (b'{"no":1}', 0, "an object without an id"),
    (b'{"id":1,"timestamps":[{"name":"x"}]}', 22, "a timestamp needs a name and ns"),
    (b'{"id":1 "x":2}', 8, "a comma or the end"),
    (b'{"id":1,"timestamps":{}}', 21, "an array of timestamps"),
    (b"17", 0, "an object is expected"),
    (b'{"id":1,\0"x":2}', 8, "a string is expected"),
    (b"\xff\xfe", 0, "an object is expected"),
])
def test_invalid_objects_are_skipped_and_reported(summary, tmp_path, broken, place, reason):
    before, after = json.dumps(whole(1), separators=(",", ":"))[:-1].encode() + b",", json.dumps(whole(2), separators=(",", ":"))[1:].encode()
    path = tmp_path / "t"
    path.write_bytes(before + broken + b"," + after)
    done = summary(path)
    assert done.returncode == 1
    assert "trace count = 2" in done.stdout and "Handler (avg): 6.0us" in done.stdout, "nothing beside it is lost"
    assert f"{path}: skipped" in done.stderr and f"the first at byte {len(before) + place}: " in done.stderr and reason in done.stderr


@pytest.mark.sanitized
def test_oversized_strings_are_left_out(summary, tmp_path):
    """A string of 20 MB is kept, one of 70 MB is left out; the objects around them count."""
    path = tmp_path / "t"
    content = json.dumps(whole(1))[:-1]
    for megabytes, status in ((20, 0), (70, 1)):
        path.write_text(content + ', {"id": 1, "junk": "' + "x" * (megabytes << 20) + '"}, ' + json.dumps(whole(2))[1:])
        done = summary(path)
        assert done.returncode == status and "trace count = 2" in done.stdout
        assert ("an object of more than 64 MiB" in done.stderr) == bool(status)


def test_invalid_text_does_not_reach_the_terminal(summary, tmp_path):
    path = tmp_path / "t"
    path.write_bytes(json.dumps(whole(1)).encode().replace(b'"m"', b'"m\xff\x1b[31m\x00"'))
    done = summary(path)
    assert done.returncode == 0 and "Summary for m\ufffd\\x1b[31m" in done.stdout and "\x1b" not in done.stdout
    assert "1 objects have bytes in strings that JSON does not allow, the first object at byte 1" in done.stderr
    assert json.loads(summary(path, "--json").stdout)


def test_invalid_arguments_are_explained(summary, tmp_path):
    good, other = write(tmp_path / "t", whole(1)), tmp_path / "other"
    other.write_text("hello")
    for arguments, status, expected in (((), 2, "summary needs a FILE"), ((tmp_path / "none",), 1, "neither"), ((other,), 1, "is not a Triton trace file"),
                                        (("-p", "50,x", good), 2, "--percentiles"), (("-p", "101", good), 2, "--percentiles"), (("-t", "--json", good), 2, "-t cannot be combined with --json"),
                                        ((tmp_path,), 1, "Is a directory"), (("-n", "0", good), 2, "from 1 to 1000")):
        done = summary(*arguments)
        assert done.returncode == status and expected in done.stderr, (arguments, done)
    done = summary(other, good, tmp_path / "none")
    assert done.returncode == 1 and "Summary for m" in done.stdout, "the good one is summed up all the same"
    done = summary("--json", other, good)
    assert done.returncode == 1 and [summary_json["file"] for summary_json in json.loads(done.stdout)] == [str(good)]


def test_requests_of_neither_protocol(summary, tmp_path):
    done = summary(write(tmp_path / "t", trace(1, {"REQUEST_START": 1, "REQUEST_END": 2})))
    assert done.returncode == 0 and done.stdout == f"File: {tmp_path}/t\n"
    assert "1 traces arrived neither through HTTP nor through gRPC" in done.stderr


def test_output_that_cannot_be_written(sonde):
    if not os.path.exists("/dev/full"):
        skip("there is no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([sonde, "trace", "summary", str(REAL / "trace.json.0")], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "No space left" in done.stderr


@pytest.mark.statistical
def test_memory_does_not_grow_with_the_file(sonde, tmp_path):
    """Twenty times the file, hardly more memory: of the process itself, by the kernel's accounting."""
    block = json.dumps(whole(1) + trace(2, {"REQUEST_START": 1, "REQUEST_END": 2}, parent_id=1), separators=(",", ":"))[1:-1]

    def unread(pipe):
        return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]

    def peak(requests):
        child = subprocess.Popen([sonde, "trace", "summary", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        child.stdin.write("[")
        for i in range(requests):
            child.stdin.write(("," if i else "") + block.replace('"id":1,', f'"id":{2 * i + 1},').replace('"id":2,', f'"id":{2 * i + 2},').replace('"parent_id":1', f'"parent_id":{2 * i + 1}'))
        child.stdin.flush()
        wait_for(lambda: unread(child.stdin) == 0, 60, "all to be read")
        used = int(re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{child.pid}/status").read_text(), re.M)[1])  # wait4 reports at least pytest's own size
        child.stdin.write("]")
        child.stdin.close()
        text = child.stdout.read()
        assert child.wait(60) == 0 and f"trace count = {2 * requests}\n" in text
        return used
    small, large = peak(10_000), peak(60_000)
    assert large < small + 4096, (small, large)


@pytest.mark.parametrize("command", ["summary -", "show 2000 -", "convert --format chrome -", "convert --format triton -"])
def test_progress_on_a_terminal(sonde, tmp_path, command):
    """A pipe that delivers its bytes slowly takes long enough to show progress; without a terminal none is shown."""
    script, pipe, file = tmp_path / "slow", tmp_path / "pipe", write(tmp_path / "t", [item for number in range(1, 2001) for item in whole(number)])
    if command.endswith("triton -"):  # from OTLP
        subprocess.run([sonde, "trace", "convert", "--format", "otlp-json", "-o", tmp_path / "otlp", file], check=True, timeout=60)
        file = tmp_path / "otlp"
    os.mkfifo(pipe)
    script.write_text(f"{sonde} trace {command} < {pipe} > {tmp_path}/out\n")
    terminal = Terminal(shutil.which("sh"), str(script))
    with open(file, "rb") as content, open(pipe, "wb", buffering=0) as slow:
        def progress(seen):
            if "reading -: " in seen:
                return True
            assert slow.write(content.read(65536)) > 0
            return False
        terminal.wait_for(progress, what="the progress line")
        terminal.kill()
    with open(file, "rb") as given:
        done = subprocess.run([sonde, "trace", *command.split()], stdin=given, capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and done.stdout and done.returncode == 0
