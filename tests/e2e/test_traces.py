"""Request traces written by a server with libsonde: `traced` (tests/workloads/traced.c) over HTTP, compared with traces of a real Triton 2.51 for the
same three requests (triton_traces.json), read by Python's json and by the rules of Triton's trace_summary.py."""
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import summary_peer
from harness.machine import need_command, skip
from harness.paths import BUILD
from harness.processes import wait_for
from traced_server import CONFIG, TRACED, Server, by_id, run_library

HERE = Path(__file__).resolve().parent


@pytest.fixture
def serve(run):
    return lambda *settings: Server(run, *settings)


def shape_of(objects):
    """The shape of a trace, independent of times and tensors: the keys of each kind of object in order, and the names of timestamps."""
    header = next(list(o) for o in objects if "model_name" in o)
    stamps = [o["timestamps"][0]["name"] for o in objects if "timestamps" in o]
    kinds = {tuple(o) + tuple(o["timestamps"][0] if "timestamps" in o else o["tensor"]) for o in objects if "model_name" not in o}
    before_header = [o["timestamps"][0]["name"] for o in objects[:next(i for i, o in enumerate(objects) if "model_name" in o)]]
    return {"header": header, "stamps": sorted(stamps), "kinds": kinds, "before the header": before_header,
            "activities": {o["activity"] for o in objects if "activity" in o}}


def tree_shape(objects):
    traces = by_id(objects)
    headers = {i: next(o for o in trace if "model_name" in o) for i, trace in traces.items()}
    root = next(i for i, header in headers.items() if "parent_id" not in header)
    assert all(header.get("parent_id", root) == root for header in headers.values())
    return {(header["model_name"], "parent_id" in header): shape_of(traces[i]) for i, header in headers.items()}


@pytest.mark.sanitized
@pytest.mark.parametrize("model, request_id", [("simple", "s1"), ("ens", "e1"), ("bls", "b1")])
def test_requests_have_the_shape_of_a_real_tritons(serve, tmp_path, model, request_id):
    server = serve("rate=1", "level=TIMESTAMPS", "level=TENSORS", f"triton,file={tmp_path}/t.json", "triton,log-frequency=1")
    assert server.infer(model, request_id)[0] == 200
    assert server.end()["written"] == 1
    ours = tree_shape(json.loads((tmp_path / "t.json.0").read_text()))
    theirs = tree_shape(json.loads((HERE / "triton_traces.json").read_text())[model])
    # In Triton an ensemble and a BLS model record their own tensors; `traced` records the tensors of `simple`.
    for key in theirs:
        for side in (ours, theirs) if key[0] != "simple" else ():
            side[key].pop("kinds"), side[key].pop("activities")
    assert ours == theirs


def test_traces_obey_the_rules_of_trace_summary(sonde, serve, tmp_path):
    """What trace_summary.py needs: a root with HTTP_RECV_START, spans that do not end before they begin, components that fit into the whole."""
    server = serve("rate=1", "level=TIMESTAMPS", f"triton,file={tmp_path}/t.json")
    for i in range(20):
        server.infer(("simple", "ens", "bls")[i % 3], f"r{i}")
    assert server.call("/v2/models/simple/infer", b"{")[0] == 400
    assert server.end()["written"] == 21
    objects = json.loads((tmp_path / "t.json").read_text())
    traces, counted = by_id(objects), 0
    for trace in traces.values():
        at = {o["timestamps"][0]["name"]: o["timestamps"][0]["ns"] for o in trace if "timestamps" in o}
        header = next(o for o in trace if "model_name" in o)
        if "parent_id" not in header:
            assert at["HTTP_RECV_START"] <= at["HTTP_RECV_END"] <= at["HTTP_SEND_START"] <= at["HTTP_SEND_END"]
        if header.get("status") == "error":
            assert "REQUEST_START" not in at and header["error"] == "no inputs"
            continue
        counted += 1
        assert at["REQUEST_START"] <= at["QUEUE_START"] <= at["REQUEST_END"]
        if header["model_name"] != "ens":
            assert at["QUEUE_START"] <= at["COMPUTE_START"] <= at["COMPUTE_INPUT_END"] <= at["COMPUTE_OUTPUT_START"] <= at["COMPUTE_END"] <= at["REQUEST_END"]
    assert counted == 20 + 6 + 7  # including steps
    said = subprocess.run([sonde, "trace", "summary", tmp_path / "t.json"], capture_output=True, text=True, timeout=60)
    good = json.dumps([o for trace in traces.values() if not any("status" in o for o in trace) for o in trace])
    (tmp_path / "good.json").write_text(good)  # the script does not know the status field
    theirs = summary_peer.summary(tmp_path / "good.json")
    assert said.returncode == 0 and len(theirs) > 30
    assert [line.replace(" 8, 1 failed", " 7") for line in said.stdout.splitlines()[1:]] == theirs[1:]
    assert sorted(traces) == list(range(1, len(traces) + 1))


@pytest.mark.sanitized
def test_hostile_request_ids_are_escaped(serve, tmp_path):
    server = serve("rate=1", "level=TIMESTAMPS", f"triton,file={tmp_path}/t.json")
    ids = [b"back\\slash", b"\xff\xfe", "é😀".encode(), b"</script>", b"a" * 5000, b"\x7f\x01\t"]
    for request_id in ids:
        server.call("/v2/models/simple/infer", b'{"id":"' + request_id + b'","inputs":[]}')
    server.end()
    found = [o["request_id"] for o in json.loads((tmp_path / "t.json").read_text()) if "request_id" in o]
    assert found == [request_id[:4096].decode(errors="replace") for request_id in ids]


@pytest.mark.sanitized
def test_settings_change_while_it_serves(serve, tmp_path):
    server = serve("level=OFF", f"triton,file={tmp_path}/t.json")
    server.infer("simple", "untraced")
    status, settings = server.call("/v2/trace/setting", {"trace_level": ["TIMESTAMPS"], "trace_rate": "2", "trace_count": "3"})
    assert (status, settings["trace_rate"]) == (200, "2")
    for i in range(10):
        server.infer("simple", str(i + 1))
    assert server.call("/v2/trace/setting")[1]["trace_count"] == "0"
    assert server.call("/v2/models/bls/trace/setting", {"trace_rate": "1", "trace_count": None, "trace_level": ["TIMESTAMPS"]})[0] == 200
    assert server.call("/v2/models/nope/trace/setting") == (400, {"error": "Request for unknown model : nope"})
    assert server.call("/v2/trace/setting", method="DELETE") == (405, {"error": "Method Not Allowed"})
    assert server.call("/v2/trace/setting", b"", "POST")[0] == 200
    assert server.end()["written"] == 3
    found = [o["request_id"] for o in json.loads((tmp_path / "t.json").read_text()) if "request_id" in o]
    assert found == ["2", "4", "6"]


@pytest.mark.sanitized
def test_growing_file_is_always_a_whole_array(serve, tmp_path):
    """After a request has been written, the file is a whole array that ends with it; the server continues to run."""
    server = serve("rate=1", "level=TIMESTAMPS", f"triton,file={tmp_path}/t.json")

    def written():
        try:
            return [o["request_id"] for o in json.loads((tmp_path / "t.json").read_text()) if "request_id" in o]
        except (FileNotFoundError, ValueError):
            return []
    for i in range(10):
        assert server.infer("simple", str(i))[0] == 200
        wait_for(lambda i=i: written() == list(map(str, range(i + 1))), what=f"request {i} to be written")
    assert server.end()["written"] == 10


@pytest.mark.statistical
def test_file_is_readable_under_load(run, tmp_path):
    """Reads as often as possible while two threads trace. A write is one system call, during which a read may happen: nearly all reads are whole, and
    the others are only truncated or partly overwritten."""
    file = tmp_path / "t.json"
    running = run(TRACED, CONFIG, "rate=1", CONFIG, "level=TIMESTAMPS", CONFIG, f"triton,file={file}", "--load", "6000", "wait")
    wait_for(lambda: "waiting" in running.out, what="the load")
    running.process.send_signal(signal.SIGUSR1)
    whole, cut = 0, 0
    while running.alive:
        try:
            json.loads(file.read_text())
            whole += 1
        except FileNotFoundError:
            time.sleep(0.001)
        except ValueError:
            cut += 1
    assert running.wait() == 0, running.error
    counts = dict(zip(*[iter(running.out.splitlines()[-1].split())] * 2))
    traces = by_id(json.loads(file.read_text()))
    roots = sum("parent_id" not in o for trace in traces.values() for o in trace if "model_name" in o)
    assert roots == int(counts["written"]) and int(counts["written"]) + int(counts["dropped_queue"]) == 12000
    print(f"{whole} reads of a whole array, {cut} in the middle of a write")
    assert whole > 0


def test_invalid_trace_options_are_refused(run, tmp_path):
    for settings, message in ((["rate=x"], 'Bad option: "--trace-config rate".\nInvalid option value. Got x\n'),
                              (["mode=opentelemetry", "triton,file=x"], 'Bad option: "--trace-config triton,file".\na setting of mode triton, but the trace mode is opentelemetry\n')):
        running = run(TRACED, *(part for setting in settings for part in (CONFIG, setting)), "0")
        assert running.wait(20) == 1 and running.error.endswith(message), running.error


@pytest.mark.sanitized
def test_library_can_be_unloaded(tmp_path):
    """dlclose, after 64 threads, leaves no thread and no handler behind; the program can then fork and load the library again."""
    run_library("traced_unload.py", *(f"triton,file={tmp_path}/{name}.json" for name in "ab"))
    for name in "ab":
        assert len(by_id(json.loads((tmp_path / f"{name}.json").read_text()))) == 64 * 25


@pytest.mark.sanitized
def test_exec_with_requests_in_flight_leaves_a_whole_file(tmp_path):
    """The file stays a whole array, and the next program inherits no descriptor of libsonde."""
    out = run_library("traced_exec.py", f"triton,file={tmp_path}/t.json")
    assert 100 <= len(by_id(json.loads((tmp_path / "t.json").read_text()))) <= 101
    assert "t.json" not in out and "memfd:" not in out and "local_address" in out


def test_program_of_the_guide_works(tmp_path):
    """docs/traces.md: compiled and run exactly as printed."""
    guide = (HERE.parent.parent / "docs/traces.md").read_text()
    library = BUILD / "lib/libsonde.so"
    (tmp_path / "server.c").write_text(re.search(r"```c\n(.*?)```", guide, re.S)[1])
    command = re.search(r"^    \./server (.*)$", guide, re.M)[1]
    for step in (["cc", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HERE.parent.parent}/include", "server.c", library, f"-Wl,-rpath,{library.parent}", "-o", "server"], ["./server", *command.split()]):
        done = subprocess.run(step, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    traces = by_id(json.loads((tmp_path / "trace.json").read_text()))
    assert len(traces) == 10 and all(len(trace) == 12 for trace in traces.values())


@pytest.mark.parametrize("compiler, flags", [("cc", "-xc -std=c99"), ("cc", "-xc -std=gnu17"), ("g++", "-xc++ -std=c++11"), ("g++", "-xc++ -std=c++20")])
def test_header_compiles_in_c_and_cxx(tmp_path, compiler, flags):
    """With and without optimization, which removes calls with NULL; linked, so that both find the library."""
    need_command(compiler)
    library = BUILD / "lib/libsonde.so"
    program = """#include <sonde/trace.h>
        int main(int c, char **v) { struct sonde_trace *t = c > 7 ? (struct sonde_trace *)v : NULL;
            sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_START); sonde_trace_timestamp_at(t, SONDE_TRACE_REQUEST_END, 1); sonde_trace_custom(t, "x");
            sonde_trace_tensor(t, SONDE_TRACE_TENSOR_QUEUE_INPUT, NULL); sonde_trace_end(t, SONDE_TRACE_OK, NULL); return (int)sonde_trace_level(t); }"""
    for level in ("-O0", "-O2"):
        command = [compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", level, *flags.split(), f"-I{HERE.parent.parent}/include", "-", "-xnone", library,
                   f"-Wl,-rpath,{library.parent}", "-o", tmp_path / "program"]
        done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert subprocess.run([tmp_path / "program"], timeout=20).returncode == 0


@pytest.mark.thorough
def test_numbers_do_not_follow_the_locale(tmp_path):
    """The unit test of that name, which is skipped without a locale with a decimal comma, in a locale generated for it."""
    test = BUILD / "tests/unit/lib/trace/test-lib-trace-trace"
    need_command("localedef")
    if not test.exists() or not Path("/usr/share/i18n/locales/de_DE").exists():
        skip("the unit tests are not built" if not test.exists() else "Debian's package locales is not installed")
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"], capture_output=True, timeout=120)
    done = subprocess.run([test], env=dict(os.environ, LOCPATH=str(tmp_path)), capture_output=True, text=True, timeout=120)
    assert re.search(r"OK \] test_numbers_do_not_follow_the_locale", done.stdout + done.stderr) and done.returncode == 0, done.stdout + done.stderr
