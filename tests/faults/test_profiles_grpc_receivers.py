"""An agent whose gRPC receiver is slow, busy or wrong: as over HTTP (test_profiles_receivers.py), it keeps sampling and counts lost samples by
reason. tests/unit/lib/otlp/test_grpc.c tests each status and header; test_retry.c and test_sender.c there test retries."""
import sys
from pathlib import Path

import pytest
from harness.processes import wait_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from exporting import by_grpc, exporting, sets  # noqa: E402, F401
from grpc_receiver import grpc_receiver  # noqa: E402, F401
from h2_grpc_receiver import DATA, END_HEADERS, END_STREAM, HEADERS, literal  # noqa: E402
from otlp_profiles import profcheck  # noqa: E402, F401
from profiles_grpc import GRPC, OK, answer_with, h2_receiver, hang_up_after, reset, send_headers  # noqa: E402, F401
from profiles_receiver import ProfilesReceiver, export_stats, total, write  # noqa: E402
from test_profiles_receivers import NAME, keeps_sampling  # noqa: E402

ACCEPT = (0, "")
EMPTY_MESSAGE = (DATA, 0, bytes(5))
CONTINUATION = 9
LARGE = b"\0\7x-large\x7f\x99\x74" + b"x" * 15000  # a literal field of HPACK: 127 + 0x19 + (0x74 << 7) bytes


def huge_trailers(connection, stream):
    """300 fields of 15 kB, then a success status."""
    frames = [(HEADERS, END_STREAM, LARGE), *[(CONTINUATION, 0, LARGE)] * 299, (CONTINUATION, END_HEADERS, literal("grpc-status", "0"))]
    try:
        hang_up_after((HEADERS, END_HEADERS, GRPC), EMPTY_MESSAGE, *frames)(connection, stream)
    except OSError:
        pass  # the agent has closed the connection


NON_RESPONSES = {  # byte streams that are no response
    "garbage": hang_up_after(b"\xff" * 4000),
    "reset": reset,
    "a message and no end": hang_up_after((HEADERS, END_HEADERS, GRPC), EMPTY_MESSAGE),
    "huge trailers": huge_trailers,
}
REJECTED = b"\x0a\x08\x08\x01\x12\x04full"  # a partial success
COMPRESSED = ("grpc-encoding", "gzip")


def refuse(connection, stream):
    """Refuses with a response of trailers only."""
    send_headers(connection, stream, OK + literal("grpc-status", "7") + literal("grpc-message", "no%2C you"), ends=True)


@pytest.mark.thorough
@pytest.mark.sanitized
def test_malformed_answers_are_retried_refused_or_ignored(by_grpc, h2_receiver, profcheck, tmp_path):  # noqa: F811
    """A packet without a response, or one that the receiver is too busy for, is sent again. A refused one is not: its samples are counted as lost.
    With a success status, a message that is not compressed as declared is ignored, and profiles rejected by a valid message are counted."""
    first = [NON_RESPONSES["garbage"], NON_RESPONSES["reset"], answer_with(b"\0\0\0\0" + bytes([len(REJECTED)]), REJECTED)]
    second = [NON_RESPONSES["a message and no end"], NON_RESPONSES["huge trailers"], (14, "not now"), answer_with(b"\1\0\0\0\2", b"\x1f\x8b", COMPRESSED)]
    to = h2_receiver(*first, *second, refuse, ACCEPT)
    started = by_grpc(to.url, "--set", "log.level=debug")
    wait_for(lambda: len(to.calls) >= 9, 120, "four packets")
    refused = started.metric(NAME + "dropped_samples_total", reason="refused")
    assert (started.metric(NAME + "failures_total"), started.metric(NAME + "rejected_profiles_total")) == (len(NON_RESPONSES) + 2, 1) and refused > 0
    assert started.stop() == 0
    bodies = to.bodies()
    assert len(set(bodies[:3])) == len(set(bodies[3:7])) == 1 and len({bodies[i] for i in (0, 3, 7, 8)}) == 4
    says = export_stats(started)
    assert says["dropped"] == refused and says["sent"] == says["taken"] - refused == total(profcheck(*write(tmp_path, bodies[:7] + bodies[8:])))
    for words in ("gRPC status PERMISSION_DENIED: no, you", "accepts profiles again", "rejected 1 profiles of a packet: full"):
        assert words in started.running.error, started.running.error


def test_http_only_receiver_is_reported(by_grpc):  # noqa: F811
    """The usual mistake: the port of the other protocol."""
    to = ProfilesReceiver()
    started = by_grpc(to.base)
    wait_for(lambda: started.metric(NAME + "failures_total") > 0, 60, "an attempt to fail")
    keeps_sampling(started)
    assert started.stop() == 0 and export_stats(started)["sent"] == 0
    to.close()
    assert "profiles cannot be delivered" in started.running.error


@pytest.mark.peer
def test_busy_receiver_gets_the_same_packet_again(by_grpc, grpc_receiver, profcheck, tmp_path):  # noqa: F811
    """Not before the delay that the receiver asks for, with either status code."""
    answers = [{"code": "CANCELLED", "words": "not now"}, {"code": "UNAVAILABLE", "retry_ms": 1500}, {"code": "RESOURCE_EXHAUSTED", "words": "full", "retry_ms": 2500}]
    to = grpc_receiver(*answers, {})
    started = by_grpc(to.url)
    wait_for(lambda: len(to.calls) >= 5, 90, "five calls")
    assert started.metric(NAME + "failures_total") == 3
    assert started.stop() == 0
    calls = to.calls
    assert len({call["body"] for call in calls[:4]}) == 1 and calls[4]["body"] != calls[0]["body"]
    assert calls[2]["at"] - calls[1]["at"] >= 1.45 and calls[3]["at"] - calls[2]["at"] >= 2.45
    says = export_stats(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"] == total(profcheck(*write(tmp_path, to.bodies())))
    assert "gRPC status CANCELLED: not now" in started.running.error


@pytest.mark.peer
def test_refused_packet_is_not_sent_again(by_grpc, grpc_receiver, profcheck, tmp_path):  # noqa: F811
    codes = ["UNKNOWN", "RESOURCE_EXHAUSTED"]
    to = grpc_receiver(*({"code": code} for code in codes), {})
    started = by_grpc(to.url)
    wait_for(lambda: len(to.calls) >= len(codes) + 2, 60, "as many calls and two")
    refused = started.metric(NAME + "dropped_samples_total", reason="refused")
    assert started.metric(NAME + "failures_total") == len(codes) and refused > 0
    assert started.stop() == 0
    assert len({call["body"] for call in to.calls}) == len(to.calls)
    says = export_stats(started)
    assert says["dropped"] == refused and says["sent"] == says["taken"] - refused == total(profcheck(*write(tmp_path, to.bodies())))
    assert "gRPC status UNKNOWN" in started.running.error and "accepts profiles again" in started.running.error


@pytest.mark.peer
def test_unimplemented_service_is_reported(by_grpc, grpc_receiver):  # noqa: F811
    """Some receivers accept traces and no profiles: that is logged, and the samples are counted as lost."""
    to = grpc_receiver(without=["profiles"])
    started = by_grpc(to.url)
    wait_for(lambda: started.metric(NAME + "dropped_samples_total", reason="refused") > 0, 60, "a packet to be refused")
    assert started.stop() == 0 and export_stats(started)["sent"] == 0
    assert "gRPC status UNIMPLEMENTED" in started.running.error


@pytest.mark.peer
def test_rejected_profiles_are_counted(by_grpc, grpc_receiver):  # noqa: F811
    """Also in a compressed response."""
    to = grpc_receiver({"rejected": 1, "words": "full"}, {"rejected": 0, "words": "slow\ndown"}, {}, gzip=True)
    started = by_grpc(to.url, "--set", "log.level=debug")
    wait_for(lambda: len(to.calls) >= 4, 60, "four calls")
    assert (started.metric(NAME + "rejected_profiles_total"), started.metric(NAME + "failures_total")) == (1, 0)
    assert started.stop() == 0 and export_stats(started)["dropped"] == 0
    assert started.running.error.count("rejected 1 profiles of a packet: full") == 1 and "slow down" not in started.running.error  # the first of a while


@pytest.mark.peer
def test_each_attempt_has_a_deadline(by_grpc, grpc_receiver):  # noqa: F811
    """The receiver gets the deadline too, and its own call expires."""
    to = grpc_receiver({"after_s": 60}, {})
    started = by_grpc(to.url, *sets(timeout=2000))
    wait_for(lambda: len(to.calls) >= 2, 60, "a second attempt")
    assert to.calls[0]["body"] == to.calls[1]["body"] and started.metric(NAME + "failures_total") >= 1
    assert to.calls[0]["remaining_s"] <= 2
    assert started.stop() == 0 and export_stats(started)["dropped"] == 0


@pytest.mark.peer
def test_agent_does_not_wait_for_a_receiver_that_hangs(by_grpc, grpc_receiver):  # noqa: F811
    to = grpc_receiver({"after_s": 600})
    started = by_grpc(to.url, *sets(timeout=600000))
    wait_for(lambda: to.calls and started.metric(NAME + "queue_bytes") > 0, 60, "a call, and a profile that waits behind it")
    keeps_sampling(started)
    assert started.stop() == 0
    says = export_stats(started)
    assert len(to.calls) == 1 and says["sent"] == 0 and says["dropped"] == says["taken"] > 0
    assert "no answer before the program ended" in started.running.error
