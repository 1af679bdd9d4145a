"""Mode opentelemetry and receivers that are away, slow, busy or wrong: a server answers as ever, and what is lost is counted and said."""
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from harness.machine import skip
from harness.paths import BUILD
from harness.processes import wait_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from otlp_receiver import endless, garbage, hang_up, spans_of  # noqa: E402
from test_traces_otel import NEEDED, receiver, serve, traces_of  # noqa: E402, F401

pytestmark = NEEDED


def test_a_receiver_that_comes_later(serve, receiver, port):
    """Nobody listens at first: the packet is kept and tried again."""
    server = serve(f"http://127.0.0.1:{port}/v1/traces")
    assert server.infer("simple", "early")[0] == 200
    to = receiver(port=port)
    counts = server.end()
    assert (counts["written"], counts["dropped_write"]) == (1, 0) and set(traces_of(to.spans())) == {"early"}


def test_a_receiver_that_is_away(serve):
    with socket.socket() as taken:  # bound and not listening: nobody else gets it
        taken.bind(("127.0.0.1", 0))
        server = serve(f"http://127.0.0.1:{taken.getsockname()[1]}/v1/traces")
        assert server.infer("simple", "lost")[0] == 200
        counts = server.end()
    assert (counts["sampled"], counts["written"], counts["dropped_write"], counts["write_errors"]) == (1, 0, 1, 5)
    said = [line for line in server.running.error.splitlines() if "spans are lost" in line]
    assert len(said) == 1 and "OpenTelemetry receiver http://127.0.0.1" in said[0] and " after " not in said[0], server.running.error


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_that_is_busy_is_asked_again(serve, receiver, status):
    to = receiver(status, 200)
    server = serve(to.url)
    server.infer("simple", "r")
    counts = server.end()
    assert (counts["written"], counts["dropped_write"], counts["write_errors"]) == (1, 0, 1)
    assert to.posts[0]["body"] == to.posts[1]["body"] and len(to.posts) == 2


def test_retry_after_is_heeded(serve, receiver):
    to = receiver(lambda handler: handler.answer(503, Retry_After="3"), 200)
    server = serve(to.url)
    server.infer("simple", "r")
    assert server.end()["written"] == 1
    assert to.posts[1]["at"] - to.posts[0]["at"] >= 2.9


def redirect(handler):
    handler.answer(307, Location="http://127.0.0.1:9/v1/traces")


@pytest.mark.parametrize("answer, status", [(400, "400"), (404, "404"), (500, "500"), (redirect, "307")])
def test_a_receiver_that_refuses_is_not_asked_again(serve, receiver, answer, status):
    to = receiver(answer, 200)
    server = serve(to.url)
    server.infer("simple", "lost")
    wait_for(lambda: to.posts, what="a post")
    server.infer("simple", "good")
    counts = server.end()
    assert (counts["written"], counts["dropped_write"], counts["write_errors"]) == (1, 1, 1)
    assert f"spans are lost: HTTP status {status}" in server.running.error
    assert set(traces_of(to.spans())) == {"good"}


def huge_headers(handler):
    handler.send_response(200)
    try:
        for i in range(100000):
            handler.send_header(f"x-{i}", "y" * 1000)
        handler.end_headers()
    except OSError:
        pass
    handler.close_connection = True


@pytest.mark.parametrize("answer, accepted", [(garbage, False), (hang_up, False), (huge_headers, False), (endless, True)])
def test_a_receiver_that_answers_garbage(serve, receiver, answer, accepted):
    to = receiver(answer, 200)
    server = serve(to.url)
    assert server.infer("simple", "first")[0] == 200
    counts = server.end()
    assert (counts["written"], counts["dropped_write"]) == (1, 0)
    assert set(traces_of(to.spans())) == (set() if accepted else {"first"})


def test_nobody_waits_for_a_receiver_that_hangs(serve, receiver):
    """It holds the first packet until the server has answered more requests than its queue takes."""
    release = threading.Event()

    def hang(handler):
        release.wait(60)
        handler.answer(200)
    to = receiver(hang, 200)
    server = serve(to.url, "opentelemetry,bsp_max_queue_size=30", "opentelemetry,bsp_max_export_batch_size=9")
    server.infer("simple", "0")
    wait_for(lambda: to.posts, what="the first post")
    for i in range(1, 41):
        assert server.infer("simple", str(i))[0] == 200
    assert not release.is_set()
    release.set()
    counts = server.end()
    # of 3 spans each: the first is with the receiver, ten fit into the queue
    assert (counts["sampled"], counts["written"], counts["dropped_queue"], counts["dropped_write"]) == (41, 11, 30, 0)
    assert server.running.error.count("BatchSpanProcessor queue is full - dropping span") == 1
    assert set(traces_of(to.spans())) == set(map(str, range(1, 11)))  # the first was accepted by `hang`
    assert all(len(spans_of(json.loads(post["body"]))) <= 9 for post in to.posts)


LIBRARY = """
import ctypes, os, sys
L = ctypes.CDLL(sys.argv[1])
P = ctypes.c_void_p
L.sonde_trace_start.restype = P
L.sonde_trace_start.argtypes = [P, P]
L.sonde_trace_end.argtypes = [P, ctypes.c_int, ctypes.c_char_p]
L.sonde_trace_custom.argtypes = [P, ctypes.c_char_p]
L.sonde_trace_manager_flush.argtypes = [P, ctypes.c_uint]
config, manager, model = P(), P(), P()
L.sonde_trace_config_new(ctypes.byref(config))
for setting in ("mode=opentelemetry", "rate=1", "level=TIMESTAMPS", "opentelemetry,bsp_schedule_delay=50", "opentelemetry,url=" + sys.argv[2]):
    assert L.sonde_trace_config_set(config, b"--trace-config", setting.encode(), None, ctypes.c_size_t(0)) == 0
assert L.sonde_trace_manager_new(config, None, ctypes.byref(manager), None, ctypes.c_size_t(0)) == 0
assert L.sonde_trace_model_new(manager, b"m", ctypes.c_int64(1), ctypes.byref(model)) == 0
def one(name):
    trace = L.sonde_trace_start(model, None)
    L.sonde_trace_custom(trace, name.encode())
    L.sonde_trace_end(trace, 0, None)
class Stats(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("sampled", "written", "dropped_queue", "dropped_write")]
def stats():
    s = Stats()
    L.sonde_trace_manager_stats(manager, ctypes.byref(s), ctypes.c_size_t(ctypes.sizeof(s)))
    return s.sampled, s.written, s.dropped_queue, s.dropped_write
"""


def program(tmp_path, text, url, timeout=120):
    library = BUILD / "lib/libsonde.so"
    if b"__asan_" in library.read_bytes() or b"__tsan_" in library.read_bytes():
        skip("Python is not built with the library's sanitizer")
    return subprocess.run([sys.executable, "-c", LIBRARY + text, library, url], capture_output=True, text=True, timeout=timeout)


FORK = """
one("parent before")
assert L.sonde_trace_manager_flush(manager, 30000) == 0
for i in range(4):
    one(f"queued in the parent {i}")
    mine = L.sonde_trace_start(model, None)
    pid = os.fork()
    if pid == 0:
        L.sonde_trace_end(mine, 0, None)  # the parent's: nothing
        for j in range(3):
            one(f"child {i} {j}")
        L.sonde_trace_model_free(model)
        assert L.sonde_trace_manager_flush(manager, 30000) == 0
        assert stats() == (3, 3, 0, 0), stats()
        L.sonde_trace_manager_free(manager)
        os._exit(0)
    L.sonde_trace_custom(mine, f"across {i}".encode())
    L.sonde_trace_end(mine, 0, None)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
L.sonde_trace_model_free(model)
assert L.sonde_trace_manager_flush(manager, 30000) == 0
assert stats() == (9, 9, 0, 0), stats()
L.sonde_trace_manager_free(manager)
"""


def test_forks(receiver, tmp_path):
    """Requests of parent and children, each once, each with identifiers of its own."""
    to = receiver()
    done = program(tmp_path, FORK, to.url)
    assert done.returncode == 0, done.stderr
    spans = to.spans()
    names = sorted(event["name"] for span in spans for event in span.get("events", ()))
    assert names == sorted(["parent before", *(f"queued in the parent {i}" for i in range(4)), *(f"across {i}" for i in range(4)),
                            *(f"child {i} {j}" for i in range(4) for j in range(3))])
    assert len({span["spanId"] for span in spans}) == len(spans) == 2 * len(names)
    assert len({span["traceId"] for span in spans}) == len(names)


END = """
one("x")
L.sonde_trace_model_free(model)
L.sonde_trace_manager_free(manager)
print("ended")
"""


def test_the_end_does_not_wait_for_a_receiver_that_hangs(receiver, tmp_path):
    """A few seconds are given to what is left; the receiver holds on for a minute."""
    release = threading.Event()
    to = receiver(lambda handler: release.wait(60))
    done = program(tmp_path, END, to.url, timeout=40)
    release.set()
    assert done.returncode == 0 and done.stdout == "ended\n", done.stderr
    assert len(to.posts) == 1


def test_the_end_asks_a_busy_receiver_again(receiver, tmp_path):
    to = receiver(503, 503, 200)
    done = program(tmp_path, END, to.url, timeout=40)
    assert done.returncode == 0 and done.stdout == "ended\n", done.stderr
    assert len(to.posts) == 3 and [event["name"] for span in to.spans() for event in span.get("events", ())] == ["x"]
