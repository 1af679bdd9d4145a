"""A gRPC receiver of OTLP profiles that gives every kind of answer, valid or malformed, down to HTTP/2 frames (h2_grpc_receiver.py)."""
import gzip
import socket

import pytest
from h2_grpc_receiver import DATA, END_HEADERS, END_STREAM, HEADERS, H2GrpcReceiver, literal

RESET = 3
OK = b"\x88"  # :status 200, index 8 of HPACK's static table
GRPC = OK + literal("content-type", "application/grpc")


class ProfilesGrpcReceiver(H2GrpcReceiver):
    """An answer may also be a function of the connection and the stream id that writes the response itself."""

    def answer(self, connection, stream, headers, message):
        with self.lock:
            if not callable(self.answers[0]):
                answer = None
            else:
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                body = message[5:]
                self.calls.append({"path": headers[":path"], "headers": headers, "body": gzip.decompress(body) if message[0] else body})
        if answer:
            answer(connection, stream)
        else:
            super().answer(connection, stream, headers, message)

    def bodies(self):
        return [call["body"] for call in list(self.calls)]


def send(connection, kind, flags, stream, payload):
    H2GrpcReceiver.send(connection, kind, flags, stream, payload)


def send_headers(connection, stream, block=GRPC, ends=False):
    send(connection, HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, block)


def answer_with(prefix, body=b"", *fields):
    """Accepts; the response message has `prefix` (which may state a wrong length) and `fields` go into the headers."""
    def answer(connection, stream):
        send_headers(connection, stream, GRPC + b"".join(literal(*field) for field in fields))
        send(connection, DATA, 0, stream, prefix + body)
        send_headers(connection, stream, literal("grpc-status", "0"), ends=True)
    return answer


def hang_up_after(*frames):
    """Closes the connection after these frames: each (kind, flags, payload), or bytes."""
    def answer(connection, stream):
        for one in frames:
            connection.sendall(one) if isinstance(one, bytes) else send(connection, one[0], one[1], stream, one[2])
        connection.shutdown(socket.SHUT_RDWR)
    return answer


def reset(connection, stream):
    send(connection, RESET, 0, stream, (11).to_bytes(4, "big"))  # ENHANCE_YOUR_CALM


@pytest.fixture
def h2_receiver():
    """h2_receiver(answers...): a ProfilesGrpcReceiver."""
    created = []

    def make(*answers):
        created.append(ProfilesGrpcReceiver(*answers))
        return created[-1]
    yield make
    for one in created:
        one.close()
