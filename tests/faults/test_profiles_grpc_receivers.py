"""An agent whose receiver by gRPC is away, slow, busy or wrong: as by HTTP (test_profiles_receivers.py), it goes on sampling, and what is lost is
counted by reason. The server is grpcio's with OpenTelemetry's own service, or a socket that speaks something else."""
import socket
import sys
import threading
from pathlib import Path

import pytest
from harness.machine import free_port
from harness.processes import wait_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from grpc_receiver import grpc_receiver  # noqa: E402, F401
from profiles_receiver import ProfilesReceiver, told, total, write  # noqa: E402
from test_otlp_profiles import profcheck  # noqa: E402, F401
from test_profiles_export import exporting, sets  # noqa: E402, F401
from test_profiles_grpc import by_grpc  # noqa: E402, F401
from test_profiles_receivers import NAME, goes_on  # noqa: E402

AGAIN = ["CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"]
NEVER = ["UNKNOWN", "INVALID_ARGUMENT", "NOT_FOUND", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "INTERNAL", "UNAUTHENTICATED"]


def test_a_receiver_that_is_busy_is_asked_again(by_grpc, grpc_receiver, profcheck, tmp_path):  # noqa: F811
    """With the codes that OTLP names; not before it wants to be, with either code."""
    answers = [{"code": code, "words": "not now"} for code in AGAIN[:2]]
    late = [{"code": "UNAVAILABLE", "retry_ms": 5000}, {"code": "RESOURCE_EXHAUSTED", "words": "full", "retry_ms": 6500}]
    to = grpc_receiver(*answers, *late, {})
    started = by_grpc(to.url)
    wait_for(lambda: len(to.calls) >= 6, 90, "six calls")
    assert started.metric(NAME + "failures_total") == 4
    assert started.stop() == 0
    calls = to.calls
    assert len({call["body"] for call in calls[:5]}) == 1 and calls[5]["body"] != calls[0]["body"]
    assert calls[3]["at"] - calls[2]["at"] >= 4.9 and calls[4]["at"] - calls[3]["at"] >= 6.4
    says = told(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"] == total(profcheck(*write(tmp_path, to.bodies())))
    assert "gRPC status CANCELLED: not now" in started.running.error


def test_all_codes_that_are_worth_another_attempt(by_grpc, grpc_receiver):  # noqa: F811
    to = grpc_receiver(*({"code": code, "retry_ms": 1} for code in AGAIN[2:]), {})
    started = by_grpc(to.url)
    wait_for(lambda: len(to.calls) >= 6, 90, "six calls")
    assert started.stop() == 0
    assert len({call["body"] for call in to.calls[:5]}) == 1 and told(started)["dropped"] == 0


def test_a_receiver_that_refuses_is_not_asked_again(by_grpc, grpc_receiver, profcheck, tmp_path):  # noqa: F811
    to = grpc_receiver(*({"code": code} for code in NEVER), {})
    started = by_grpc(to.url)
    wait_for(lambda: len(to.calls) >= len(NEVER) + 2, 60, "as many calls and two")
    refused = started.metric(NAME + "dropped_samples_total", reason="refused")
    assert started.metric(NAME + "failures_total") == len(NEVER) and refused > 0
    assert started.stop() == 0
    assert len({call["body"] for call in to.calls}) == len(to.calls)
    says = told(started)
    assert says["dropped"] == refused and says["sent"] == says["taken"] - refused
    assert total(profcheck(*write(tmp_path, to.bodies()))) == says["sent"]
    assert "gRPC status UNKNOWN" in started.running.error and "accepts profiles again" in started.running.error


def test_a_receiver_without_the_service(by_grpc, grpc_receiver):  # noqa: F811
    """Many a receiver takes traces and no profiles: it is told, and the samples are counted."""
    to = grpc_receiver(without=["profiles"])
    started = by_grpc(to.url)
    wait_for(lambda: started.metric(NAME + "dropped_samples_total", reason="refused") > 0, 60, "a packet to be refused")
    assert started.stop() == 0 and told(started)["sent"] == 0
    assert "gRPC status UNIMPLEMENTED" in started.running.error


@pytest.mark.parametrize("gzip", [True, False])
def test_what_a_receiver_rejects_is_counted(by_grpc, grpc_receiver, gzip):  # noqa: F811
    to = grpc_receiver({"rejected": 1, "words": "full"}, {"rejected": 0, "words": "slow\ndown"}, {}, gzip=gzip)
    started = by_grpc(to.url, "--set", "log.level=debug")
    wait_for(lambda: len(to.calls) >= 4, 60, "four calls")
    assert (started.metric(NAME + "rejected_profiles_total"), started.metric(NAME + "failures_total")) == (1, 0)
    assert started.stop() == 0 and told(started)["dropped"] == 0
    assert "rejected 1 profiles: full" in started.running.error and "rejected 0 profiles: slow down" in started.running.error


def test_an_attempt_has_its_time(by_grpc, grpc_receiver):  # noqa: F811
    """It is not waited for, and told so: its own deadline is over, too."""
    to = grpc_receiver({"after_s": 60}, {})
    started = by_grpc(to.url, *sets(timeout=3000))
    wait_for(lambda: len(to.calls) >= 2, 60, "a second attempt")
    assert to.calls[0]["body"] == to.calls[1]["body"] and started.metric(NAME + "failures_total") >= 1
    assert to.calls[0]["remaining_s"] <= 3
    assert started.stop() == 0 and told(started)["dropped"] == 0


def test_nobody_waits_for_a_receiver_that_hangs(by_grpc, grpc_receiver):  # noqa: F811
    to = grpc_receiver({"after_s": 600})
    started = by_grpc(to.url, *sets(timeout=600000))
    wait_for(lambda: to.calls and started.metric(NAME + "queue_bytes") > 0, 60, "a call, and a profile that waits behind it")
    goes_on(started)
    assert started.stop() == 0
    says = told(started)
    assert len(to.calls) == 1 and says["sent"] == 0 and says["dropped"] == says["taken"] > 0
    assert "no answer until the program's end" in started.running.error


class Stranger:
    """A server on a port that reads one request of HTTP/2, says `words` and hangs up; or waits until the other end does. Without words it is
    silent."""

    def __init__(self, words, hangs_up=True):
        self.words, self.hangs_up, self.asked, self.listener = words, hangs_up, 0, socket.create_server(("127.0.0.1", free_port()))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(client,), daemon=True).start()

    def talk(self, client):
        with client, client.makefile("rb") as stream:
            try:
                assert stream.read(24) == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                kind, flags = -1, 0
                while (kind, flags & 1) != (0, 1):  # DATA that is the last of it
                    head = stream.read(9)
                    kind, flags = head[3], head[4]
                    stream.read(int.from_bytes(head[:3], "big"))
                self.asked += 1
                if self.words is not None:
                    client.sendall(self.words)
                if self.words is not None and self.hangs_up:
                    client.shutdown(socket.SHUT_WR)
                while stream.read(1):
                    pass
            except (OSError, IndexError):
                pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def frame(kind, flags, stream, body):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def field(name, value):
    """A literal of HPACK, which no table has."""
    rest = len(value) - 127
    size = bytes([len(value)]) if rest < 0 else bytes([127, rest & 127 | 128, rest >> 7])
    return b"\0" + bytes([len(name)]) + name + size + value


SETTINGS = frame(4, 0, 0, b"") + frame(4, 1, 0, b"")
HEADERS = frame(1, 4, 1, b"\x88" + field(b"content-type", b"application/grpc"))
MESSAGE = frame(0, 0, 1, bytes(5))


def trailers(*fields):
    return frame(1, 1, 1, fields[0]) + b"".join(frame(9, 0, 1, one) for one in fields[1:-1]) + frame(9, 4, 1, fields[-1])


STRANGERS = {
    "nothing": b"", "garbage": b"\x00\xffnot HTTP at all\r\n" * 100, "http1": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "silence": None,
    "settings and garbage": SETTINGS + b"\xff" * 4000,
    "goaway": SETTINGS + frame(7, 0, 0, bytes(8)),
    "reset": SETTINGS + frame(3, 0, 1, (11).to_bytes(4, "big")),
    "headers and no end": SETTINGS + HEADERS,
    "a message and no end": SETTINGS + HEADERS + MESSAGE,
    "broken headers": SETTINGS + frame(1, 5, 1, b"\xff" * 200),
    "huge trailers": SETTINGS + HEADERS + MESSAGE + trailers(*[field(b"x-large", b"x" * 15000)] * 300, field(b"grpc-status", b"0")),
    "a huge message": SETTINGS + HEADERS + frame(0, 0, 1, b"\0\0\1\x86\xa0" + b"x" * 16000) + frame(0, 0, 1, b"x" * 16000) * 6,
    "busy, in the words of a proxy": SETTINGS + frame(1, 5, 1, b"\x08\x03503"),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_somebody_who_speaks_no_grpc(by_grpc, grpc_receiver, profcheck, tmp_path, kind):  # noqa: F811
    """It is as if nobody were there: what could not be delivered arrives when a receiver has the port."""
    stranger = Stranger(STRANGERS[kind])
    started = by_grpc(f"http://127.0.0.1:{stranger.port}", *(sets(timeout=8000) if STRANGERS[kind] is None else ()))
    wait_for(lambda: stranger.asked and started.metric(NAME + "failures_total") > 0, 60, "an attempt to fail")
    goes_on(started)
    stranger.close()
    to = grpc_receiver(port=stranger.port)
    wait_for(lambda: len(to.calls) >= 2 and not started.metric(NAME + "queue_bytes"), 120, "all that waited")
    assert started.stop() == 0
    says = told(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"] == total(profcheck(*write(tmp_path, to.bodies()))), started.running.error


REFUSALS = {  # what is said, and what is said of it
    "200": (frame(1, 5, 1, b"\x88"), "HTTP status 200 without a status of gRPC"),
    "404": (frame(1, 5, 1, b"\x8d"), "HTTP status 404 without a status of gRPC"),
    "no number": (HEADERS + MESSAGE + trailers(field(b"grpc-status", b"zero"), field(b"grpc-message", b"a%0Ab%")), "gRPC status UNKNOWN: a b%"),
    "a number too large": (HEADERS + MESSAGE + trailers(field(b"grpc-status", b"99999999999"), field(b"x", b"y")), "gRPC status UNKNOWN"),
    "trailers alone": (frame(1, 5, 1, b"\x88" + field(b"grpc-status", b"7") + field(b"grpc-message", b"no%2C you")), "gRPC status PERMISSION_DENIED: no, you"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_strange_answers_that_are_none_of_acceptance(by_grpc, kind):  # noqa: F811
    said, told_as = REFUSALS[kind]
    stranger = Stranger(SETTINGS + said, hangs_up=False)
    started = by_grpc(f"http://127.0.0.1:{stranger.port}")
    wait_for(lambda: started.metric(NAME + "dropped_samples_total", reason="refused") > 0, 60, "a packet to be refused")
    assert started.stop() == 0 and told(started)["sent"] == 0
    stranger.close()
    assert told_as in started.running.error, started.running.error


def test_messages_that_are_none(by_grpc):  # noqa: F811
    """The status counts: a message that is cut, or said to be compressed and is not, says nothing of a partial success."""
    for message in (b"\0\0\0\0\xff\x0a", b"\1\0\0\0\2\x1f\x8b", b"\0\0", b""):
        stranger = Stranger(SETTINGS + frame(1, 4, 1, b"\x88" + field(b"content-type", b"application/grpc") + field(b"grpc-encoding", b"gzip")) + frame(0, 0, 1, message) +
                            trailers(field(b"grpc-status", b"0"), field(b"x", b"y")), hangs_up=False)
        started = by_grpc(f"http://127.0.0.1:{stranger.port}")
        wait_for(lambda: stranger.asked >= 2, 60, "two packets")
        assert started.stop() == 0 and told(started)["dropped"] == 0
        stranger.close()


def test_a_receiver_of_http_alone(by_grpc):  # noqa: F811
    """The usual mistake: the port of the other protocol."""
    to = ProfilesReceiver()
    started = by_grpc(to.base)
    wait_for(lambda: started.metric(NAME + "failures_total") > 0, 60, "an attempt to fail")
    goes_on(started)
    assert started.stop() == 0 and told(started)["sent"] == 0
    to.close()
    assert "profiles do not arrive" in started.running.error
