"""Mode opentelemetry with receivers that are down, slow, busy or wrong: a server responds as usual, and lost data is counted and logged.
tests/unit/lib/otlp/test_retry.c and test_sender.c test retries."""
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from harness.machine import sanitizers, skip
from harness.paths import BUILD, TOP
from harness.processes import wait_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from otlp_receiver import endless, garbage, hang_up, spans_of  # noqa: E402
from traced_server import NEEDED, receiver, serve, traces_of  # noqa: E402, F401

pytestmark = NEEDED


@pytest.mark.sanitized
def test_busy_receiver_gets_the_same_packet_again(serve, receiver):
    """Not before its Retry-After has expired."""
    to = receiver(429, 200, 502, 200, 503, 200, lambda handler: handler.answer(504, Retry_After="1"), 200)
    server = serve(to.url)
    for i in range(4):
        server.infer("simple", str(i))
        wait_for(lambda: len(to.posts) == 2 * i + 2, 60, "the packet, twice")  # noqa: B023
    counts = server.end()
    assert (counts["written"], counts["dropped_write"], counts["write_errors"]) == (4, 0, 4)
    bodies = [post["body"] for post in to.posts]
    assert bodies[::2] == bodies[1::2] and len(set(bodies)) == 4
    assert to.posts[7]["at"] - to.posts[6]["at"] >= 0.95


def redirect(handler):
    handler.answer(307, Location="http://127.0.0.1:9/v1/traces")


@pytest.mark.sanitized
def test_refused_packet_is_not_sent_again(serve, receiver):
    to = receiver(400, 404, 500, redirect, 200)
    server = serve(to.url)
    for i in range(5):
        server.infer("simple", str(i))
        wait_for(lambda: len(to.posts) == i + 1, 60, "the packet")  # noqa: B023
    counts = server.end()
    assert (counts["written"], counts["dropped_write"], counts["write_errors"]) == (1, 4, 4)
    assert server.running.error.count("spans are lost") == 1 and "spans are lost: HTTP status 400" in server.running.error, "logged once, not for each"
    assert set(traces_of(to.spans())) == {"4"}


def huge_headers(handler):
    handler.send_response(200)
    try:
        for i in range(100000):
            handler.send_header(f"x-{i}", "y" * 1000)
        handler.end_headers()
    except OSError:
        pass
    handler.close_connection = True


@pytest.mark.sanitized
def test_malformed_responses_lose_nothing(serve, receiver):
    """A packet without a response is sent again; a body without end does not matter: the status decides."""
    to = receiver(garbage, 200, hang_up, 200, huge_headers, 200, endless, 200)
    server = serve(to.url)
    for i in range(4):
        assert server.infer("simple", str(i))[0] == 200
        wait_for(lambda: len(to.posts) == min(2 * i + 2, 7), 60, "the packet")  # noqa: B023
    counts = server.end()
    assert (counts["written"], counts["dropped_write"]) == (4, 0)
    assert set(traces_of(to.spans())) == {"0", "1", "2"}  # the last packet was accepted by `endless`


@pytest.mark.sanitized
def test_server_does_not_wait_for_a_receiver_that_hangs(serve, receiver):
    """The receiver holds the first packet until the server has served more requests than its queue holds."""
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
    # 3 spans per request: the first is with the receiver, ten fit into the queue
    assert (counts["sampled"], counts["written"], counts["dropped_queue"], counts["dropped_write"]) == (41, 11, 30, 0)
    assert server.running.error.count("BatchSpanProcessor queue is full - dropping span") == 1
    assert set(traces_of(to.spans())) == set(map(str, range(1, 11)))  # the first was accepted by `hang`
    assert all(len(spans_of(json.loads(post["body"]))) <= 9 for post in to.posts)


def run_program(name, url):
    """The output of a program of tests/workloads/python that exports its traces in mode opentelemetry."""
    library = BUILD / "lib/libsonde.so"
    if sanitizers():
        skip("Python is not built with the library's sanitizer")
    settings = ("mode=opentelemetry", "opentelemetry,bsp_schedule_delay=50", f"opentelemetry,url={url}")
    done = subprocess.run([sys.executable, TOP / "tests/workloads/python" / name, library, *settings], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_forked_children_have_their_own_ids(receiver):
    """Requests of parent and children arrive once each, each with ids of its own."""
    to = receiver()
    run_program("traced_forks.py", to.url)
    spans = to.spans()
    names = sorted(event["name"] for span in spans for event in span.get("events", ()))
    assert names == sorted(["parent before", *(f"queued in the parent {i}" for i in range(4)), *(f"across {i}" for i in range(4)),
                            *(f"child {i} {j}" for i in range(4) for j in range(3))])
    assert len({span["spanId"] for span in spans}) == len(spans) == 2 * len(names)
    assert len({span["traceId"] for span in spans}) == len(names)


@pytest.mark.thorough
def test_exit_does_not_wait_for_a_receiver_that_hangs(receiver):
    """Unsent packets get a few seconds (tests/unit/lib/otlp/test_sender.c has the exact limit); the receiver holds on until the program has ended."""
    release = threading.Event()
    to = receiver(lambda handler: release.wait(600))
    try:
        assert run_program("traced_end.py", to.url) == "ended\n" and not release.is_set()
    finally:
        release.set()
    assert len(to.posts) == 1
