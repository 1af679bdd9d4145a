"""A client of HTTP/2 whose every frame a test can choose, without TLS or over TLS. Repeated header fields are sent as indices, as other clients do."""
import socket
import ssl

from h2_grpc_receiver import ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, PRIORITY, SETTINGS, Inflater

RST_STREAM, GOAWAY, CONTINUATION = 3, 7, 9
FRAME_BYTES = 16384
GET, POST = b"\x82", b"\x83"  # :method


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def message(payload, compressed=0):
    """A message of gRPC."""
    return bytes([compressed]) + len(payload).to_bytes(4, "big") + payload


def frames_of(stream, body):
    """A body, in frames that every receiver takes."""
    parts = [body[at:at + FRAME_BYTES] for at in range(0, len(body), FRAME_BYTES)] or [b""]
    return [frame(DATA, END_STREAM if part is parts[-1] else 0, stream, part) for part in parts]


class Http2Client:
    def __init__(self, port, preface=PREFACE + frame(SETTINGS, 0, 0), tls=False):
        self.socket, self.inflater, self.sent, self.next = socket.create_connection(("127.0.0.1", port), 30), Inflater(), [], 1
        self.own_port = self.socket.getsockname()[1]
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket)
            assert self.socket.selected_alpn_protocol() == "h2"
        self.incoming, self.replies = self.socket.makefile("rb"), {}
        self.send(preface)

    def send(self, data):
        self.socket.sendall(data)

    def fields(self, *pairs):
        """A block of header fields. A field that was sent before is an index of the dynamic table."""
        block = b""
        for pair in pairs:
            name, value = (text.encode() for text in pair)
            if pair in self.sent:
                block += bytes([0x80 | 62 + self.sent.index(pair)])
            else:
                block += b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value
                self.sent.insert(0, pair)
        return block

    def ask(self, path, *pairs, method=GET, body=None, flags=0):
        """Sends a request; returns its stream."""
        stream, self.next = self.next, self.next + 2
        block = method + b"\x86" + self.fields((":path", path), (":authority", "test"), *pairs)
        self.send(frame(HEADERS, flags | END_HEADERS | (END_STREAM if body is None else 0), stream, block)
                  + (b"" if body is None else b"".join(frames_of(stream, body))))
        return stream

    def call(self, path, payload=b""):
        """Sends a gRPC call."""
        return self.ask(path, ("content-type", "application/grpc"), ("te", "trailers"), method=POST, body=message(payload))

    def reply(self, stream):
        """The header fields of the stream's reply and trailers, once it has ended; None if it was reset."""
        while stream not in self.replies or not self.replies[stream][1]:
            head = self.incoming.read(9)
            assert len(head) == 9, "the server closed the connection"
            size, kind, flags, at = int.from_bytes(head[:3], "big"), head[3], head[4], int.from_bytes(head[5:], "big")
            payload = self.incoming.read(size)
            if kind == SETTINGS and not flags & ACK:
                self.send(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self.send(frame(PING, ACK, 0, payload))
            elif kind == RST_STREAM:
                self.replies[at] = [None, True]
            elif kind in (HEADERS, DATA):
                found = self.replies.setdefault(at, [{}, False])
                if kind == HEADERS:
                    found[0].update(self.inflater.headers(payload[5:] if flags & PRIORITY else payload))
                found[1] |= bool(flags & END_STREAM)
        return self.replies[stream][0]

    def close(self):
        self.incoming.close()
        self.socket.close()
