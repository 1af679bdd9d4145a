"""An agent whose receiver of profiles is away, slow, busy or wrong: it goes on sampling, and what is lost is counted by reason."""
import socket
import sys
import threading
from pathlib import Path

import pytest
from harness.processes import wait_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from otlp_receiver import endless, garbage, hang_up  # noqa: E402
from profiles_receiver import accept, told, total, write  # noqa: E402
from test_otlp_profiles import profcheck  # noqa: E402, F401
from test_profiles_export import exporting, receiver  # noqa: E402, F401

NAME = "sonde_self_export_"


def goes_on(started):
    """More is sampled than was, whatever the receiver does."""
    before = started.metric("sonde_self_samples_total")
    wait_for(lambda: started.metric("sonde_self_samples_total") > before, 60, "more samples")


def test_a_receiver_that_is_away(exporting):
    with socket.socket() as taken:  # bound and not listening: nobody else gets it
        taken.bind(("127.0.0.1", 0))
        started = exporting(f"http://127.0.0.1:{taken.getsockname()[1]}/v1development/profiles")
        wait_for(lambda: started.metric(NAME + "failures_total") >= 2 and started.metric(NAME + "queue_bytes"), 60, "two attempts, and profiles that wait")
        goes_on(started)
        assert started.stop() == 0
    says = told(started)
    assert says["sent"] == says["packets"] == says["bytes"] == 0 and says["dropped"] == says["taken"] > 0
    said, = [line for line in started.running.error.splitlines() if "profiles do not arrive at http://127.0.0.1" in line]
    assert "Failed to connect" in said and " after " not in said  # a reason, not how long it took


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_that_is_busy_is_asked_again(exporting, receiver, profcheck, tmp_path, status):
    to = receiver(status, lambda handler: handler.answer(status, Retry_After="1"), accept)
    started = exporting(to.url)
    wait_for(lambda: len(to.posts) >= 4, 60, "four posts")
    assert started.metric(NAME + "failures_total") == 2
    assert started.stop() == 0
    assert to.posts[0]["body"] == to.posts[1]["body"] == to.posts[2]["body"] and to.posts[2]["at"] - to.posts[1]["at"] >= 0.95
    says = told(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"] == total(profcheck(*write(tmp_path, to.bodies(accept))))


def test_a_failure_that_passes_does_not_hide_a_refusal(exporting, receiver):
    """Each is told, once."""
    to = receiver(503, 503, 400, 400, 400, 400, 400, accept)
    started = exporting(to.url)
    wait_for(lambda: len(to.posts) >= 5, 60, "five posts")
    assert started.stop() == 0
    said = [line for line in started.running.error.splitlines() if "profiles do not arrive" in line]
    assert ["HTTP status 503" in line for line in said] == [True, False] and "HTTP status 400" in said[1], said


def test_a_receiver_that_refuses_is_not_asked_again(exporting, receiver, profcheck, tmp_path):
    """Nor is a redirect followed, which might lead the packet, with its headers, to anybody."""
    elsewhere = receiver()
    to = receiver(400, 404, 500, lambda handler: handler.answer(307, Location=elsewhere.url), accept)
    started = exporting(to.url, "--set", "otlp.headers=authorization=for-him-alone")
    wait_for(lambda: len(to.posts) >= 6, 60, "six posts")
    refused = started.metric(NAME + "dropped_samples_total", reason="refused")
    assert started.metric(NAME + "failures_total") == 4 and refused > 0
    assert started.stop() == 0
    assert not elsewhere.posts and len({post["body"] for post in to.posts}) == len(to.posts)
    says = told(started)
    assert says["dropped"] == refused and says["sent"] == says["taken"] - refused
    assert total(profcheck(*write(tmp_path, to.bodies(accept)))) == says["sent"]
    assert "profiles do not arrive" in started.running.error and "accepts profiles again" in started.running.error


def test_what_a_receiver_rejects_is_counted(exporting, receiver):
    """200, and an error inside; also one that says more than is true, and one that is no answer at all."""
    def partial(body):
        return lambda handler: handler.answer(200, body)
    to = receiver(partial(b"\x0a\x08\x08\x01\x12\x04full"), partial(b"\x0a\x7f\x08\x05"), partial(b"<html>"), partial(b"\x0a\x05\x12\x03off"), accept)
    started = exporting(to.url)
    wait_for(lambda: len(to.posts) >= 6, 60, "six posts")
    assert started.metric(NAME + "rejected_profiles_total") == 1
    assert started.metric(NAME + "failures_total") == 0
    assert started.stop() == 0 and told(started)["dropped"] == 0


def test_a_receiver_that_answers_garbage(exporting, receiver, profcheck, tmp_path):
    to = receiver(garbage, hang_up, endless, accept)
    started = exporting(to.url)
    wait_for(lambda: len(to.posts) >= 5, 60, "five posts")
    assert started.stop() == 0
    assert to.posts[0]["body"] == to.posts[1]["body"] == to.posts[2]["body"] != to.posts[3]["body"]
    says = told(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"] == total(profcheck(*write(tmp_path, to.bodies(endless, accept))))


def test_nobody_waits_for_a_receiver_that_hangs(exporting, receiver):
    """It holds the first packet for as long as the agent lives, which goes on, answers, and ends all the same."""
    release = threading.Event()
    to = receiver(lambda handler: release.wait(120))
    started = exporting(to.url, "--set", "otlp.timeout=600000", "--set", "log.level=debug")
    try:
        wait_for(lambda: to.posts and started.metric(NAME + "queue_bytes") > 0, 60, "a post, and a profile that waits behind it")
        goes_on(started)
        assert started.stop() == 0
    finally:
        release.set()
    says = told(started)
    assert len(to.posts) == 1 and says["sent"] == 0 and says["dropped"] == says["taken"] > 0
    said = started.running.error
    assert "no answer until the program's end" in said and "allback" not in said
    assert said.index("nothing is attached any more") < said.index(" samples were sent to "), "all was watched on while it was waited for"


def test_an_attempt_has_its_time(exporting, receiver):
    release = threading.Event()
    to = receiver(lambda handler: release.wait(120), accept)
    started = exporting(to.url, "--set", "otlp.timeout=3000")
    try:
        wait_for(lambda: len(to.posts) >= 2, 60, "a second attempt")
        assert to.posts[0]["body"] == to.posts[1]["body"] and started.metric(NAME + "failures_total") >= 1
        assert started.stop() == 0
    finally:
        release.set()
    assert told(started)["dropped"] == 0
