"""A connection of HTTP/2 for the scored requests: one request at a time, plain or as a call of gRPC. Field blocks of replies are not decoded: a request is
done when its stream ends with the body that all servers send."""
import asyncio
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
GRPC_PREFIX = 5  # bytes before a message: compressed, length
GET, POST, HTTP = b"\x82", b"\x83", b"\x86"  # :method and :scheme, in the static table


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def fields(**named):
    """Field lines that are not added to the dynamic table; a name's first _ is a colon, others are hyphens."""
    block = b""
    for name, value in named.items():
        name = (":" + name[1:] if name[0] == "_" else name.replace("_", "-")).encode()
        block += b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value.encode()
    return block


class Http2Connection:
    def __init__(self, port, tls, is_grpc):
        self.port, self.tls, self.is_grpc, self.writer, self.stream = port, tls, is_grpc, None, -1

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
        self.writer.write(PREFACE + frame(SETTINGS, 0, 0))

    def request_of(self, target):
        """A call of gRPC has the whole target as its message, because its path is the method's name."""
        if not self.is_grpc:
            return frame(HEADERS, END_HEADERS | END_STREAM, self.stream, GET + HTTP + fields(_path=target, _authority="localhost"))
        method, body = target.partition("?")[0], target.encode()
        head = POST + HTTP + fields(_path=f"/causes.Causes{method}", _authority="localhost", content_type="application/grpc", te="trailers")
        return frame(HEADERS, END_HEADERS, self.stream, head) + frame(DATA, END_STREAM, self.stream, b"\x00" + len(body).to_bytes(4, "big") + body)

    async def ask(self, target):
        """(own port, time of sending, time of the reply's end)"""
        if not self.writer:
            await self.open()
        self.stream += 2
        sent, body = time.monotonic_ns(), b""
        self.writer.write(self.request_of(target))
        while True:
            head = await self.reader.readexactly(9)
            payload = await self.reader.readexactly(int.from_bytes(head[:3], "big"))
            kind, flags = head[3], head[4]
            assert kind not in (RST_STREAM, GOAWAY), f"{target}: {head!r} {payload!r}"
            if kind in (SETTINGS, PING) and not flags & ACK:
                self.writer.write(frame(kind, ACK, 0, payload if kind == PING else b""))
            if kind == DATA:
                body += payload
            if kind == DATA and payload:
                self.writer.write(frame(WINDOW_UPDATE, 0, 0, len(payload).to_bytes(4, "big")))
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                break
        assert body[GRPC_PREFIX if self.is_grpc else 0:] == b"ok", f"{target}: {body!r}"
        return self.writer.get_extra_info("sockname")[1], sent, time.monotonic_ns()

    def close(self):
        if self.writer:
            self.writer.close()
        self.writer = None
