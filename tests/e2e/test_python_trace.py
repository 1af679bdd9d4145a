"""sonde.trace: request traces of Python programs, in every installed CPython: the output is read by Python's json, by `sonde trace summary` and, when
exported, by the official protobuf messages; forks, threads, tasks, invalid text and tensors, and memory."""
import json
import shutil
import subprocess

import pytest
from harness.machine import skip
from otlp_receiver import Receiver, attributes
from python_package import EVERY_PYTHON, SYSTEM_PYTHON, package, python  # noqa: F401 (a fixture)
from python_traces import TRACES, head, stamps, tensors, write  # noqa: F401 (a fixture)
from traced_server import by_id

NUMPY = SYSTEM_PYTHON  # the interpreter with numpy
@pytest.mark.sanitized
@pytest.mark.parametrize("interpreter", EVERY_PYTHON)
def test_traces_in_every_cpython(write, interpreter):
    """All features of a trace, in each interpreter, with its memory checks enabled."""
    traces, out, error = write("whole.py", interpreter, "-X", "dev")
    before, after, flushed, counts = out.split(maxsplit=3)
    assert flushed == "True" and "('sampled', 1)" in counts and "('written', 1)" in counts
    assert head(traces[1]) == {"id": 1, "model_name": "simple", "model_version": 2, "request_id": "one"}
    assert [name for name, _ in stamps(traces[1])] == ["HTTP_RECV_START", "REQUEST_START", "my own", "REQUEST_END"]
    assert stamps(traces[1])[0][1] == 7 and all(int(before) <= ns <= int(after) for _, ns in stamps(traces[1])[1:])
    assert tensors(traces[1]) == {"INPUT0": {"name": "INPUT0", "data": "1,-2,3", "shape": "1,3", "dtype": "INT32"}}
    assert head(traces[2]) == {"id": 2, "model_name": "step", "model_version": 1, "parent_id": 1, "request_id": "two"}
    assert error == ""


def test_untraced_requests_pass_their_context_on(write):
    """An untraced request's trace is false and its calls do nothing; the caller's valid headers are passed on."""
    traces, out, error = write("untraced.py")
    assert traces == {} and error == ""


@pytest.mark.sanitized
def test_outcome_follows_the_end_of_the_block(write):
    """The way a block ends is the request's outcome; a trace that is never ended is an error."""
    traces, _, error = write("outcomes.py")
    ends = [(head(traces[id]).get("status"), head(traces[id]).get("error")) for id in sorted(traces)]
    assert ends == [(None, None), ("error", "ValueError: the reason"), ("cancelled", "CancelledError"), ("cancelled", "CancelledError"),
                    ("cancelled", "GeneratorExit"), ("error", "Bad"), ("cancelled", "by hand"), ("error", "bytes"),
                    ("error", "dropped without an end"), ("error", None), (None, None)]
    assert error.count("Exception ignored") == 2 and "'sideways' is not a status" in error and "at most 2 arguments" in error


@pytest.mark.sanitized
def test_invalid_values_fail_no_request(write):
    """Invalid times, names and tensors are reported and left out."""
    traces, out, error = write("invalid.py")
    assert out == "" and error.count("Exception ignored") == 16, error
    assert stamps(traces[1]) == [] and tensors(traces[1]) == {} and len(traces) == 2


@pytest.mark.sanitized
def test_invalid_and_non_ascii_text(write):
    """Ids with NUL, invalid UTF-8 and characters of any plane; also in names of activities and tensors."""
    ids = ["plain", "", "a\0b", b"\xff\xfe\0", "\udcff", "\ud800", "\U0001f600 \u00e9", "x" * 5000, 17]
    traces, _, error = write(f"""
import uuid
for id in {ids!r}:
    t = model.start(id); t.timestamp("\\u00e9\\udcff"); t.tensor("TENSOR_QUEUE_INPUT", "n\\u00e9", "BYTES", [0], []); t.end()
model.start(uuid.UUID(int=1)).end()
""")
    read = [head(traces[id]).get("request_id", "") for id in sorted(traces)]
    assert read == ["plain", "", "a\0b", "\ufffd\ufffd\0", "\ufffd", "?", "\U0001f600 \u00e9", "x" * 4096, "17",
                    "00000000-0000-0000-0000-000000000001"]
    assert stamps(traces[1])[0][0] == "\u00e9\ufffd" and "n\u00e9" in tensors(traces[1]) and error == ""


@pytest.mark.sanitized
def test_tensors_from_any_buffer(write):
    """From bytes, arrays, lists and memory of any stride; BYTES from lists of bytes and strings."""
    traces, _, error = write("tensors.py")
    found = tensors(traces[1])
    data = {name: tensor["data"] for name, tensor in found.items()}
    assert data == {"bytes": "1,2,3,4", "array": "0.5,-1.25", "stride": "1,3", "lists": "1,2.5,3,4", "halves": "1,0.5", "bools": "1,0,1",
                    "big": str(2**64 - 1), "texts": json.dumps(["a", "\udcff", 'q"q', ""], separators=(",", ":"))[1:-1], "ready": '"abc"',
                    "empty": "", "none": "", "wrong": "", "large": ""}
    assert found["texts"]["shape"] == "2,2" and found["large"]["shape"] == str(2**31)
    assert {name for name in found if "error" in found[name]} == {"none", "wrong", "large"} and error == ""


def test_numpy_arrays_as_tensors(write):
    if subprocess.run([NUMPY, "-c", "import numpy"], capture_output=True).returncode != 0:
        skip("needs numpy")
    traces, _, error = write("numpy_arrays.py", NUMPY)
    assert {name: tensor["data"] for name, tensor in tensors(traces[1]).items()} == {
        "plain": "0,1,2,3", "turned": "0,2,1,3", "every second": "0,2,4", "other order": "1,2", "halves": "0.5,2",
        "objects": '"a","b","\\udcff",""', "strings": '"one","three"', "numbers": "1,2", "scalar": "5"}
    assert error == ""


@pytest.mark.sanitized
def test_settings_from_arguments_and_protocol(package):  # noqa: F811
    """Recognized command-line options are removed; an error names the option; the trace protocol in both forms; calls after the end."""
    out, error = python(package, TRACES / "settings.py")
    assert out == "" and error == ""


@pytest.mark.sanitized
def test_traces_of_threads_are_whole(write):
    """Traces of many threads, some stamped and ended by several at once, of models that are created and destroyed: all are whole and counted."""
    traces, _, error = write("threads.py")
    assert error == ""
    roots = [objects for objects in traces.values() if "parent_id" not in head(objects)]
    assert len(roots) == 3200 and len({head(objects)["request_id"] for objects in roots}) == 3200
    assert all(stamps(objects)[0][0] == "REQUEST_START" for objects in roots)


def test_traces_of_asyncio_tasks_do_not_mix(write):
    """Interleaved asyncio tasks do not mix: a trace is an object and does not belong to a thread."""
    traces, _, error = write("tasks.py")
    assert error == "" and len(traces) == 20
    for objects in traces.values():
        n = head(objects)["request_id"]
        assert [name for name, _ in stamps(objects)] == [f"{n}.{part}" for part in range(5)]
        assert head(objects).get("status") == ("cancelled" if n == "7" else None)


@pytest.mark.sanitized
def test_forked_child_writes_its_own_file(write, tmp_path):
    """A child's traces go to a file of its own, even if the child is a multiprocessing worker, which ends without a flush; requests in flight stay the
    parent's."""
    traces, out, error = write("forks.py")
    assert error == ""
    assert [name for name, _ in stamps(traces[1])] == ["before", "after"] and head(traces[1])["request_id"] == "flying" and len(traces) == 1
    for pid, name in zip(out.split(), ["by fork", "by multiprocessing"]):
        of_child = by_id(json.loads((tmp_path / f"trace.json.p{pid}").read_text()))
        assert [head(objects)["request_id"] for objects in of_child.values()] == [name]


@pytest.mark.sanitized
def test_no_reference_leaks(write):
    """After traces with every kind of end, the reference counts of all arguments are as before."""
    write("references.py", arguments=(2000,))


@pytest.mark.statistical
@pytest.mark.parametrize("interpreter", EVERY_PYTHON)
def test_no_memory_leaks(write, interpreter):
    """A hundred thousand traces, with every kind of end, leave neither references nor objects nor memory."""
    _, out, _ = write("references.py", interpreter, arguments=(100000,))
    blocks, size = map(int, out.split())
    assert blocks < 2000 and size < 8 << 20, out  # one block of every tenth trace would be 10000


def test_trace_summary_reads_the_file(write, sonde, tmp_path):
    """`sonde trace summary` reads the file and reports the stamps."""
    write("""
for i in range(10):
    t = model.start()
    for at, name in enumerate(["HTTP_RECV_START", "HTTP_RECV_END", "REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END",
                               "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END", "HTTP_SEND_START", "HTTP_SEND_END"]):
        t.timestamp(name, ns=1000000 * i + 1000 * at)
    t.end()
""")
    said = subprocess.run([sonde, "trace", "summary", tmp_path / "trace.json"], capture_output=True, text=True, timeout=60).stdout
    assert "Summary for simple (2): trace count = 10" in said and "HTTP infer request (avg): 10.0us" in said and "Handler (avg): 6.0us" in said


def test_spans_continue_the_callers_trace(package):  # noqa: F811
    """Spans reach a receiver as children of their caller's span; context() is the model's span."""
    if not (package / "sonde/libsonde-otlp.so.1").exists():
        skip("the wheel has no libsonde-otlp.so.1: libcurl's headers are missing")
    receiver = Receiver()
    try:
        out, error = python(package, f"""
from sonde import trace
manager = trace.Manager(["mode=opentelemetry", "rate=1000", "level=TIMESTAMPS", "opentelemetry,url={receiver.url}"])
model = manager.model("simple")
assert not model.start()
t = model.start("r", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b")
for name in ("HTTP_RECV_START", "REQUEST_START", "MINE_START", "MINE_END", "REQUEST_END"):
    t.timestamp(name)
context = t.context()
assert context["tracestate"] == "a=b" and t.child(model).context() != context
t.end("error", "no")
print(context["traceparent"])
""")
    finally:
        receiver.close()
    spans = {span["name"]: span for span in receiver.spans() if span.get("status", {}).get("message") != "dropped without an end"}
    assert spans.keys() == {"InferRequest", "simple", "MINE"} and error == ""
    assert spans["InferRequest"]["parentSpanId"] == "b7ad6b7169203331" and spans["simple"]["traceState"] == "a=b"
    assert attributes(spans["simple"]["attributes"])["triton.request_id"] == "r" and spans["simple"]["status"]["message"] == "no"
    assert out.strip() == f"00-{spans['simple']['traceId']}-{spans['simple']['spanId']}-01"


def test_losses_are_logged(package, tmp_path):  # noqa: F811
    """By the logger sonde.trace, from the library's thread, also at the end of the program."""
    out, error = python(package, f"""
import logging
from sonde import trace
logging.basicConfig(format="%(name)s|%(message)s")
manager = trace.Manager(["rate=1", "level=TIMESTAMPS", "triton,file={tmp_path}/none/trace.json"])
model = manager.model("m")
model.start().end()
assert manager.flush() and manager.stats()["dropped_write"] == 1
model.start().end()
trace.Manager(["rate=1", "level=TIMESTAMPS", "triton,file={tmp_path}/none/other.json"]).model("m").start().end()
""")
    lines = [line for line in error.splitlines() if line.startswith("sonde.trace|")]
    assert len(lines) == 2 and all("No such file or directory" in line and "(errno 2)" in line for line in lines), error
    assert error.count("\n") == 2


@pytest.mark.parametrize("interpreter", EVERY_PYTHON)
def test_managers_in_cycles_are_collected(write, interpreter):
    """Models, requests and generations that are attributes of their own manager keep nothing alive."""
    _, out, error = write("circles.py", interpreter, "-X", "dev")
    assert out == "" and error == ""


def test_garbage_collection_on_the_librarys_thread(package, tmp_path):  # noqa: F811
    """Python's garbage collector may run on any thread, including the library's own, which cannot wait for itself. Signal handlers may close an
    object that is being closed."""
    out, error = python(package, TRACES / "collected.py", SYSTEM_PYTHON)
    assert out == "True\n0\nclosed\n", error


def test_missing_opentelemetry_library_is_reported(package, tmp_path):  # noqa: F811
    """Without libsonde-otlp.so, or without its dependencies, the error names the missing library."""
    shutil.copytree(package / "sonde", tmp_path / "sonde", ignore=shutil.ignore_patterns("libsonde-otlp*"))
    program = """
import errno
from sonde import trace
try:
    trace.Manager(["mode=opentelemetry"])
    print("made")
except OSError as error:
    assert error.errno == errno.EOPNOTSUPP
    print(error.strerror)
"""
    assert "libsonde-otlp.so.1: cannot open shared object file" in python(tmp_path, program)[0]
    (tmp_path / "sonde/libsonde-otlp.so.1").write_bytes(b"not a library")
    assert f"{tmp_path}/sonde/libsonde-otlp.so.1: " in python(tmp_path, program)[0]


def test_program_runs_without_the_native_extension(package, tmp_path):  # noqa: F811
    """The same calls, after one warning: options are consumed, requests are served, nothing is traced."""
    shutil.copytree(package / "sonde", tmp_path / "sonde", ignore=shutil.ignore_patterns("*.so*"))
    out, error = python(tmp_path, TRACES / "silent.py", SYSTEM_PYTHON, "-X", "dev")
    assert out == "" and error.count("Warning") == 1 and "inactive" in error


def test_fallback_module_has_the_same_names(package):  # noqa: F811
    out, error = python(package, """
from sonde import _native, _silent
for name in ("Manager", "Model", "Trace", "Generation", "Provider", "Probe", "Refused"):
    both = [{n for n in dir(getattr(module, name)) if not n.startswith("_")} for module in (_native, _silent)]
    assert both[0] == both[1] or name == "Refused", (name, both[0] ^ both[1])
assert _native.Manager([], print).stats() == _silent.Manager([], print).stats()
""")
    assert out == "" and error == ""
