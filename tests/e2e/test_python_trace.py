"""sonde.trace: request traces of programs in Python, in every CPython that is here: what is written is read by Python's json, by `sonde trace
summary` and, sent to a receiver, by the official protobufs; forks, threads, tasks, what is no text and no tensor, and memory."""
import json
import shutil
import subprocess

import pytest
from harness.machine import skip
from otlp_receiver import Receiver, attributes
from test_python import EVERY_PYTHON, package, python  # noqa: F401  (a fixture)
from test_traces import by_id

NUMPY = "/usr/bin/python3"  # the interpreter that has it
BEGIN = """
import array, gc, os, sys, threading, time
from sonde import trace
manager = trace.Manager(["rate=1", "level=TIMESTAMPS", "level=TENSORS", "triton,file=FILE"])
model = manager.model("simple", 2)
"""


@pytest.fixture
def write(package, tmp_path):  # noqa: F811
    """write(program) -> ({id: its objects}, what it printed, its complaints): it begins with a manager and a model."""
    def written(program, interpreter="/usr/bin/python3", *flags):
        file = tmp_path / "trace.json"
        out, error = python(package, BEGIN.replace("FILE", str(file)) + program, interpreter, *flags)
        return by_id(json.loads(file.read_text())) if file.exists() else {}, out, error
    return written


def head(objects):
    return next(entry for entry in objects if "model_name" in entry)


def stamps(objects):
    return [(stamp["name"], stamp["ns"]) for entry in objects for stamp in entry.get("timestamps", ())]


def tensors(objects):
    return {entry["tensor"]["name"]: entry["tensor"] for entry in objects if "tensor" in entry}


@pytest.mark.parametrize("interpreter", EVERY_PYTHON)
def test_every_cpython(write, interpreter):
    """All of a trace, in each interpreter and with its checks of memory on."""
    traces, out, error = write("""
assert trace.native
t = model.start("one")
assert t and t.id == 1 and t.level == trace.TIMESTAMPS | trace.TENSORS and t.context() == {}
t.timestamp("HTTP_RECV_START", ns=7)
before = time.monotonic_ns()
t.timestamp("REQUEST_START")
t.timestamp(name="my own")
t.timestamp("REQUEST_END", None)
after = time.monotonic_ns()
t.tensor("TENSOR_QUEUE_INPUT", "INPUT0", "INT32", [1, 3], array.array("i", [1, -2, 3]))
child = t.child(manager.model(name="step", version=1))
t.end()
assert not t and t.id == 1 and t.level == 0
t.end("error"); t.timestamp("late"); t.set_request_id("late")   # nothing
with child:
    child.set_request_id("two")
print(before, after, manager.flush(), sorted(manager.stats().items()))
""", interpreter, "-X", "dev")
    before, after, flushed, counts = out.split(maxsplit=3)
    assert flushed == "True" and "('sampled', 1)" in counts and "('written', 1)" in counts
    assert head(traces[1]) == {"id": 1, "model_name": "simple", "model_version": 2, "request_id": "one"}
    assert [name for name, _ in stamps(traces[1])] == ["HTTP_RECV_START", "REQUEST_START", "my own", "REQUEST_END"]
    assert stamps(traces[1])[0][1] == 7 and all(int(before) <= ns <= int(after) for _, ns in stamps(traces[1])[1:])
    assert tensors(traces[1]) == {"INPUT0": {"name": "INPUT0", "data": "1,-2,3", "shape": "1,3", "dtype": "INT32"}}
    assert head(traces[2]) == {"id": 2, "model_name": "step", "model_version": 1, "parent_id": 1, "request_id": "two"}
    assert error == ""


def test_what_is_not_traced(write):
    """Falsy, does nothing and costs little; headers that came are passed on, but not what is none."""
    traces, out, error = write("""
manager.http("POST", "/v2/models/simple/trace/setting", b'{"trace_level":["OFF"]}')
t = model.start("id")
assert not t and t.level == 0 and t.id == 0 and t is model.start()
t.timestamp("REQUEST_START", 1, 2, 3); t.tensor(); t.set_request_id(4); t.end("nonsense")
with t as same, t.child(5) as child:
    assert same is t is child
parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
t = model.start(None, parent, b"a=b")
assert not t and t.context() == t.child(model).context() == {"traceparent": parent, "tracestate": "a=b"}
assert model.start(tracestate="a=b").context() == {}
for bad in ("x\\r\\nSet-Cookie: a", b"a\\0b", "\\u00e9", "", b"\\xff", "\\ud800"):
    assert model.start(traceparent=bad).context() == {}, bad
    assert model.start(traceparent=parent, tracestate=bad).context() == {"traceparent": parent}
""")
    assert traces == {} and error == ""


def test_outcomes(write):
    """How a block ends is how the request ended; a trace that nobody ends is an error."""
    traces, _, error = write("""
import asyncio, concurrent.futures
def block(raising=None):
    try:
        with model.start() as t:
            if raising:
                raise raising
    except BaseException:
        pass
block()
block(ValueError("what was wrong"))
block(asyncio.CancelledError())
block(concurrent.futures.CancelledError())
def parts():
    with model.start():
        yield 1
next(parts())
class Bad(Exception):
    def __str__(self):
        raise KeyError
block(Bad())
t = model.start(); t.end("cancelled", "by hand")
t = model.start(); t.end(message=b"bytes", status="error")
model.start()
t = model.start(); t.end("sideways")
t = model.start(); t.end(1, 2, 3); t.end()
""")
    ends = [(head(traces[id]).get("status"), head(traces[id]).get("error")) for id in sorted(traces)]
    assert ends == [(None, None), ("error", "ValueError: what was wrong"), ("cancelled", "CancelledError"), ("cancelled", "CancelledError"),
                    ("cancelled", "GeneratorExit"), ("error", "Bad"), ("cancelled", "by hand"), ("error", "bytes"),
                    ("error", "dropped without an end"), ("error", None), (None, None)]
    assert error.count("Exception ignored") == 2 and "'sideways' is not a status" in error and "at most 2 arguments" in error


def test_nothing_fails_a_request(write):
    """What is no time, name or tensor is reported and left out."""
    traces, out, error = write("""
t = model.start(object())
for wrong in [lambda: t.timestamp(), lambda: t.timestamp("a", "b"), lambda: t.timestamp("a", -1), lambda: t.timestamp("a", 2**64),
              lambda: t.timestamp("a", nss=1), lambda: t.timestamp("a", 1, ns=1), lambda: t.child("simple").end(), lambda: t.timestamp([]),
              lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", 5, b""), lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", [1.5], b""),
              lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", [1] * 65, b""), lambda: t.tensor("REQUEST_START", "x", "FP32", [1], b""),
              lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", [1], object()), lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", [1], ["a"]),
              lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "BF16", [1], [1.0]), lambda: t.tensor("TENSOR_QUEUE_INPUT")]:
    wrong()
class Ending:
    def __str__(self):
        t.end()
        return "an end in the middle"
t.timestamp(Ending()); t.set_request_id("late")
class Stopping:
    def __str__(self):
        raise KeyboardInterrupt
t = model.start()
try:
    t.timestamp(Stopping())
    print("not stopped")
except KeyboardInterrupt:
    t.end()
""")
    assert out == "" and error.count("Exception ignored") == 16, error
    assert stamps(traces[1]) == [] and tensors(traces[1]) == {} and len(traces) == 2


def test_text(write):
    """Ids with NUL, invalid UTF-8 and characters of any plane; names of activities and tensors too."""
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


def test_tensors(write):
    """From bytes, arrays, lists and memory of any stride; BYTES from lists of bytes and strings."""
    traces, _, error = write("""
t = model.start()
def put(name, dtype, shape, data):
    t.tensor("TENSOR_BACKEND_OUTPUT", name, dtype, shape, data)
put("bytes", "UINT8", (4,), b"\\1\\2\\3\\4")
put("array", "FP64", [2], array.array("d", [0.5, -1.25]))
put("stride", "FP64", [2], memoryview(array.array("d", [1, 2, 3, 4]))[::2])
put("lists", "FP32", [2, 2], [[1, 2.5], [3, 4]])
put("halves", "FP16", [2], (1, 0.5))
put("bools", "BOOL", [3], [True, False, 1])
put("big", "UINT64", [1], [2**64 - 1])
put("texts", "BYTES", [2, 2], [["a", b"\\xff"], [b"q\\"q", ""]])
put("ready", "BYTES", [1], b"\\3\\0\\0\\0abc")
put("empty", "INT32", [0], [])
put("none", "FP32", [2], None)
put("wrong", "INT32", [2], b"123")
put("large", "INT8", [2**31], b"1")
t.end()
manager.flush()
print(manager.stats()["tensors_malformed"])
""")
    found = tensors(traces[1])
    data = {name: tensor["data"] for name, tensor in found.items()}
    assert data == {"bytes": "1,2,3,4", "array": "0.5,-1.25", "stride": "1,3", "lists": "1,2.5,3,4", "halves": "1,0.5", "bools": "1,0,1",
                    "big": str(2**64 - 1), "texts": json.dumps(["a", "\udcff", 'q"q', ""], separators=(",", ":"))[1:-1], "ready": '"abc"',
                    "empty": "", "none": "", "wrong": "", "large": ""}
    assert found["texts"]["shape"] == "2,2" and found["large"]["shape"] == str(2**31)
    assert {name for name in found if "error" in found[name]} == {"none", "wrong", "large"} and error == ""


def test_arrays_of_numpy(write):
    if subprocess.run([NUMPY, "-c", "import numpy"], capture_output=True).returncode != 0:
        skip("needs numpy")
    traces, _, error = write("""
assert "numpy" not in sys.modules
import numpy
t = model.start()
def put(name, dtype, data):
    t.tensor("TENSOR_QUEUE_INPUT", name, dtype, data.shape, data)
put("plain", "FP32", numpy.arange(4, dtype=numpy.float32).reshape(2, 2))
put("turned", "FP32", numpy.arange(4, dtype=numpy.float32).reshape(2, 2).T)
put("every second", "INT16", numpy.arange(6, dtype=numpy.int16)[::2])
put("other order", "INT32", numpy.array([1, 2], dtype=">i4"))
put("halves", "FP16", numpy.array([0.5, 2], dtype=numpy.float16))
put("objects", "BYTES", numpy.array([[b"a", "b"], [b"\\xff", b""]], dtype=object))
put("strings", "BYTES", numpy.array([b"one", b"three"]))
put("numbers", "INT64", numpy.array([1, 2], dtype=object))
put("scalar", "INT64", numpy.int64(5))
t.end()
""", NUMPY)
    assert {name: tensor["data"] for name, tensor in tensors(traces[1]).items()} == {
        "plain": "0,1,2,3", "turned": "0,2,1,3", "every second": "0,2,4", "other order": "1,2", "halves": "0.5,2",
        "objects": '"a","b","\\udcff",""', "strings": '"one","three"', "numbers": "1,2", "scalar": "5"}
    assert error == ""


def test_settings(package):  # noqa: F811
    """A command line's options are taken out; what is wrong says where; the trace protocol in both forms; what is closed."""
    out, error = python(package, """
import sys
from sonde import trace
m, rest = trace.Manager.from_args(["server", "--port", "80", "--trace-config", "rate=5", "--trace-config=level=TIMESTAMPS", "--trace-count", "7",
                                   "--trace-config", "triton,file=/nowhere/trace.json",
                                   "-v", "--", "--trace-config", "rate=6"])
assert rest == ["server", "--port", "80", "-v", "--", "--trace-config", "rate=6"], rest
sys.argv = ["program", "--trace-file=/nowhere/trace.json", "x"]
assert trace.Manager.from_args()[1] == ["x"]
status, body = m.http("GET", "/v2/trace/setting")
assert status == 200 and b'"trace_rate":"5"' in body and b'"trace_count":"7"' in body
assert m.http("POST", "/v2/trace/setting", '{"trace_rate":"8"}')[0] == 200 and m.http("DELETE", "/v2/trace/setting")[0] == 405
assert m.http("GET", "/v2/models/simple/trace/setting")[0] == 400
simple = m.model("simple")
assert m.http("GET", "/v2/models/simple/trace/setting")[0] == 200
assert m.http("GET", "/v2/health/ready") is None and m.http("GET", "/v2/trace/setting\\0") is None
assert m.grpc()["trace_rate"] == ["8"] and m.grpc("simple", {"trace_rate": ["3"], "trace_count": []})["trace_rate"] == ["3"]
for call, kind, text in [(lambda: m.grpc("simple", {"trace_rate": ["x"]}), trace.Refused, "(3, \\"Unable to parse 'trace_rate', got: x\\")"),
                         (lambda: m.grpc("", {"trace_file": ["f"]}), trace.Refused, "(12,"), (lambda: m.grpc("nobody"), trace.Refused, "(3,"),
                         (lambda: m.grpc("", {"trace_rate": [1]}), TypeError, "a str"), (lambda: m.grpc("", {1: ["1"]}), TypeError, "a str"),
                         (lambda: trace.Manager("rate=x"), ValueError, '--trace-config rate'), (lambda: trace.Manager(["nope=1"]), ValueError, "nope"),
                         (lambda: trace.Manager(["opentelemetry,url=http://x"]), ValueError, "opentelemetry"),
                         (lambda: trace.Manager.from_args(["--trace-config"]), ValueError, "requires an argument"),
                         (lambda: m.model(""), ValueError, "name"), (lambda: m.model("a" * 2000), ValueError, "name"), (lambda: m.model("a\\0"), ValueError, "null")]:
    try:
        call()
        print("taken:", text)
    except kind as error:
        assert text in str(error), (text, str(error))
m.close(); m.close()
assert not simple.start() or simple.start().end() is None
for call in (lambda: m.model("x"), m.stats, lambda: m.http("GET", "/v2/trace/setting"), m.grpc, m.flush):
    try:
        call()
        print("open")
    except RuntimeError:
        pass
with trace.Manager("triton,file=/nowhere/trace.json") as m:
    assert m.stats()["sampled"] == 0
""")
    assert out == "" and error == ""


def test_threads(write):
    """Traces of many threads, some stamped and ended by several at once, of models that come and go: all are whole and counted."""
    traces, _, error = write("""
shared = [None]
def work(number):
    for i in range(200):
        t = model.start(f"{number}-{i}")
        t.timestamp("REQUEST_START")
        other, shared[0] = shared[0], t
        if other:
            other.timestamp("other")
            other.end("ok" if i % 2 else "error")
        with t.child(manager.model(f"m{i % 7}")) as child:
            child.timestamp("REQUEST_START")
        t.end()
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert manager.flush()
s = manager.stats()
assert (s["sampled"], s["written"], s["dropped_queue"]) == (3200, 3200, 0), s
""")
    assert error == ""
    roots = [objects for objects in traces.values() if "parent_id" not in head(objects)]
    assert len(roots) == 3200 and len({head(objects)["request_id"] for objects in roots}) == 3200
    assert all(stamps(objects)[0][0] == "REQUEST_START" for objects in roots)


def test_tasks(write):
    """Tasks of asyncio that run in turn do not mix: a trace is an object, and belongs to no thread."""
    traces, _, error = write("""
import asyncio
async def request(n):
    with model.start(str(n)) as t:
        for part in range(5):
            t.timestamp(f"{n}.{part}")
            await asyncio.sleep(0.001 * (n % 3))
        if n == 7:
            await asyncio.sleep(60)
async def main():
    tasks = [asyncio.ensure_future(request(n)) for n in range(20)]
    await asyncio.wait(tasks, timeout=None, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait([task for task in tasks if task is not tasks[7]])
    tasks[7].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
asyncio.run(main())
""")
    assert error == "" and len(traces) == 20
    for objects in traces.values():
        n = head(objects)["request_id"]
        assert [name for name, _ in stamps(objects)] == [f"{n}.{part}" for part in range(5)]
        assert head(objects).get("status") == ("cancelled" if n == "7" else None)


def test_forks(write, tmp_path):
    """A child's traces are in a file of its own, also of a worker of multiprocessing, which ends without a flush; what was in flight is the
    parent's."""
    traces, out, error = write("""
import multiprocessing
flying = model.start("flying")
flying.timestamp("before")
assert flying
def child(name):
    assert not flying and flying.level == 0 and flying.context() == {}
    flying.timestamp("in the child"); flying.set_request_id("child"); flying.end()
    with model.start(name) as t:
        t.timestamp("REQUEST_START")
    assert manager.stats()["sampled"] == 1
pid = os.fork()
if pid == 0:
    child("by fork")
    os._exit(0 if manager.flush() else 1)
assert os.waitpid(pid, 0)[1] == 0
busy = threading.Thread(target=manager.flush, args=(5,)); busy.start()
process = multiprocessing.get_context("fork").Process(target=child, args=("by multiprocessing",))
process.start(); process.join(); busy.join()
assert process.exitcode == 0
flying.timestamp("after"); flying.end()
print(pid, process.pid)
""")
    assert error == ""
    assert [name for name, _ in stamps(traces[1])] == ["before", "after"] and head(traces[1])["request_id"] == "flying" and len(traces) == 1
    for pid, name in zip(out.split(), ["by fork", "by multiprocessing"]):
        of_child = by_id(json.loads((tmp_path / f"trace.json.p{pid}").read_text()))
        assert [head(objects)["request_id"] for objects in of_child.values()] == [name]


@pytest.mark.plain_build
@pytest.mark.parametrize("interpreter", EVERY_PYTHON)
def test_nothing_is_left(write, interpreter):
    """A hundred thousand traces, in all ways to end, leave neither objects nor references nor memory."""
    _, out, _ = write("""
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
data, name, parent = array.array("i", [1, 2, 3]), "a name of its own", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
shape, elements = [3], ["a", "b", "c"]
watched = [data, name, parent, shape, elements, model, manager, elements[0], type(model.start())]
def batch(count):
    for i in range(count):
        t = model.start(name, parent, "a=b")
        t.timestamp("REQUEST_START"); t.timestamp(name); t.timestamp("REQUEST_END", ns=i)
        t.child(model)
        t.context()
        with t.working(), model.generation(t, name) as g:
            g.tokens(); g.end(input_tokens=i, finish_reason=name)
        model.generation(t)
        if i % 10 == 0:
            t.tensor("TENSOR_QUEUE_INPUT", name, "INT32", shape, data)
            t.tensor("TENSOR_QUEUE_INPUT", name, "BYTES", shape, elements)
            with t:
                pass
            manager.model("other").start()
        else:
            t.end("error", name) if i % 3 else t.end()
        if i % 2000 == 0:
            manager.flush()
manager.http("POST", "/v2/trace/setting", '{"log_frequency":"5000"}')
batch(5000)
gc.collect(); manager.flush()
references, blocks, before = [sys.getrefcount(x) for x in watched], sys.getallocatedblocks(), rss()
batch(100000)
gc.collect(); manager.flush()
left = sys.getallocatedblocks() - blocks
assert [sys.getrefcount(x) for x in watched] == references, (references, [sys.getrefcount(x) for x in watched])
assert left < 2000, left  # of one in ten it would be 10000
assert manager.stats()["dropped_queue"] == 0
print(rss() - before)
""", interpreter)
    assert int(out) < 8 << 20, out


def test_summary(write, sonde, tmp_path):
    """`sonde trace summary` reads it, and says what was stamped."""
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


def test_opentelemetry(package):  # noqa: F811
    """Spans reach a receiver, in their caller's span; context() is the model's span."""
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


CIRCLES = """
import weakref
gc.collect()
for make in (lambda m, model: model, lambda m, model: {"deep": [model]}, lambda m, model: model.start(), lambda m, model: model.start("id", "00-" + 16 * "ab" + "-" + 8 * "cd" + "-01"),
             lambda m, model: model.start().child(model), lambda m, model: model.generation(model.start())):
    other = trace.Manager(["rate=1", "level=TIMESTAMPS", "triton,file=FILE.circle"])
    other.mine = make(other, other.model("m"))
    gone = weakref.ref(other)
    assert gc.is_tracked(other.mine)
    del other
    assert gone() is not None, "a circle is there until somebody collects it"
    gc.collect()
    assert gone() is None and gone not in trace._managers
assert model.start("after").id > 0   # the others are as they were
"""


@pytest.mark.parametrize("interpreter", EVERY_PYTHON)
def test_managers_in_circles_are_collected(write, tmp_path, interpreter):
    """Models, requests and generations that lie in attributes of their own manager keep nothing alive."""
    _, out, error = write(CIRCLES.replace("FILE", str(tmp_path / "trace.json")), interpreter, "-X", "dev")
    assert out == "" and error == ""


def test_collected_while_it_reports(package, tmp_path):  # noqa: F811
    """Python's collector may run on any thread, the library's own among them, which cannot wait for itself. Handlers of signals may close what is
    being closed."""
    out, error = python(package, """
import gc, logging, threading
from sonde import trace

class Collecting(logging.Handler):
    def emit(self, record):
        global owner
        del owner
        gc.collect()
        reported.set()

class Owner:
    pass

reported = threading.Event()
logging.getLogger("sonde.trace").addHandler(Collecting())
owner = Owner()
owner.self, owner.manager = owner, trace.Manager(["rate=1", "level=TIMESTAMPS", "triton,file=/nowhere/at/all"])
gc.disable()
owner.manager.model("m").start().end()
print(reported.wait(30))
for _ in range(100000):  # the main thread takes what was put off
    pass
print(len(trace._managers))
manager = trace.Manager(["rate=1"])
with manager._lock:
    manager.close()
print("closed")
""", "/usr/bin/python3")
    assert out == "True\n0\nclosed\n", error


def test_without_the_library_of_opentelemetry(package, tmp_path):  # noqa: F811
    """Without libsonde-otlp.so, or without what that needs, an error says which."""
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


def test_without_the_native_part(package, tmp_path):  # noqa: F811
    """The same calls, after one warning: options are taken, requests are served, nothing is traced."""
    shutil.copytree(package / "sonde", tmp_path / "sonde", ignore=shutil.ignore_patterns("*.so*"))
    out, error = python(tmp_path, """
import sonde
from sonde import trace
manager, rest = trace.Manager.from_args(["--trace-config", "rate=1", "--port", "1"])
assert rest == ["--port", "1"] and not sonde.native
model = manager.model("simple", version=1)
parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
t = model.start("r", parent, tracestate=b"a=b")
assert not t and t.id == t.level == 0 and t.context() == {"traceparent": parent, "tracestate": "a=b"}
with t as same:
    t.timestamp("REQUEST_START", ns=1); t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", [1], [1.0]); t.set_request_id("s"); t.end("error", message="m")
assert same is t and t.child(model) is t and model.start().context() == {}
with t.working(), model.generation(t, operation="chat") as g:
    g.tokens(); g.tokens(count=2); g.end(input_tokens=1, output_tokens=2, finish_reason="a", response_id="b", response_model="c", error_type="d")
assert manager.metrics() == "" and manager.stats()["generations"] == 0 and isinstance(g, trace.Generation)
assert manager.http("GET", "/v2/trace/setting") is None and manager.stats()["sampled"] == 0 and manager.flush(1)
try:
    manager.grpc()
    print("answered")
except trace.Refused as refused:
    assert refused.args[0] == 12
manager.close()
isinstance(t, trace.Trace) and isinstance(model, trace.Model) or print("other types")
""", "/usr/bin/python3", "-X", "dev")
    assert out == "" and error.count("Warning") == 1 and "stay silent" in error


def test_the_stand_in_has_the_same_surface(package):  # noqa: F811
    out, error = python(package, """
from sonde import _native, _silent
for name in ("Manager", "Model", "Trace", "Generation", "Provider", "Probe", "Refused"):
    both = [{n for n in dir(getattr(module, name)) if not n.startswith("_")} for module in (_native, _silent)]
    assert both[0] == both[1] or name == "Refused", (name, both[0] ^ both[1])
assert _native.Manager([], print).stats() == _silent.Manager([], print).stats()
""")
    assert out == "" and error == ""
