"""An agent whose profile receiver is down, slow, busy or wrong: it keeps sampling and counts lost samples by reason. Retries and logged warnings are
tested in tests/unit: lib/otlp/test_retry.c and test_sender.c, agent/test_profile_export.c and test_send_warnings.c."""
import sys
import threading
from pathlib import Path

import pytest
from harness.processes import wait_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from exporting import exporting, receiver  # noqa: E402, F401
from otlp_profiles import profcheck  # noqa: E402, F401
from otlp_receiver import endless, garbage, hang_up  # noqa: E402
from profiles_receiver import accept, export_stats, total, write  # noqa: E402

NAME = "sonde_self_export_"


def keeps_sampling(started):
    """Waits until more samples are taken, whatever the receiver does."""
    before = started.metric("sonde_self_samples_total")
    wait_for(lambda: started.metric("sonde_self_samples_total") > before, 60, "more samples")


@pytest.mark.thorough
@pytest.mark.sanitized
def test_busy_or_broken_receiver_gets_the_same_packet_again(exporting, receiver, profcheck, tmp_path):  # noqa: F811
    """Not before its Retry-After has expired. A body without end does not matter: the status decides."""
    to = receiver(503, lambda handler: handler.answer(429, Retry_After="1"), accept, garbage, hang_up, endless, accept)
    started = exporting(to.url)
    wait_for(lambda: len(to.posts) >= 7, 60, "seven posts")
    assert started.metric(NAME + "failures_total") == 4
    assert started.stop() == 0
    bodies = [post["body"] for post in to.posts]
    assert bodies[0] == bodies[1] == bodies[2] != bodies[3] == bodies[4] == bodies[5] != bodies[6]
    assert to.posts[2]["at"] - to.posts[1]["at"] >= 0.95
    says = export_stats(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"] == total(profcheck(*write(tmp_path, to.bodies(endless, accept))))


@pytest.mark.sanitized
def test_refused_and_rejected_samples_are_counted(exporting, receiver, profcheck, tmp_path):  # noqa: F811
    """A refused packet is not sent again. A redirect is not followed: it could send the packet, with its headers, to any host. Profiles that an
    accepting receiver rejects are counted too."""
    elsewhere = receiver()

    def partial(body):
        return lambda handler: handler.answer(200, body)
    partly = partial(b"\x0a\x08\x08\x01\x12\x04full")
    to = receiver(400, lambda handler: handler.answer(307, Location=elsewhere.url), partly, accept)
    started = exporting(to.url, "--set", "otlp.headers=authorization=for-one-receiver")
    wait_for(lambda: len(to.posts) >= 4, 60, "four posts")
    refused = started.metric(NAME + "dropped_samples_total", reason="refused")
    assert (started.metric(NAME + "failures_total"), started.metric(NAME + "rejected_profiles_total")) == (2, 1) and refused > 0
    assert started.stop() == 0
    assert not elsewhere.posts and len({post["body"] for post in to.posts}) == len(to.posts)
    says = export_stats(started)
    assert says["dropped"] == refused and says["sent"] == says["taken"] - refused == total(profcheck(*write(tmp_path, to.bodies(partly, accept))))
    assert "profiles cannot be delivered" in started.running.error and "accepts profiles again" in started.running.error


@pytest.mark.thorough
@pytest.mark.sanitized
def test_agent_does_not_wait_for_a_receiver_that_hangs(exporting, receiver):  # noqa: F811
    """The receiver holds the first packet for the agent's lifetime; the agent keeps sampling, answers requests and ends when asked to."""
    release = threading.Event()
    to = receiver(lambda handler: release.wait(120))
    started = exporting(to.url, "--set", "otlp.timeout=600000", "--set", "log.level=debug")
    try:
        wait_for(lambda: to.posts and started.metric(NAME + "queue_bytes") > 0, 60, "a post, and a profile that waits behind it")
        keeps_sampling(started)
        assert started.stop() == 0
    finally:
        release.set()
    says = export_stats(started)
    assert len(to.posts) == 1 and says["sent"] == 0 and says["dropped"] == says["taken"] > 0
    said = started.running.error
    assert "no answer before the program ended" in said and "allback" not in said
    assert said.index("detached; waiting") < said.index(" samples were sent to "), "probes stayed attached while the receiver was waited for"
