"""A gRPC receiver of OTLP without another project's server: HTTP/2 frames in Python, header compression by libnghttp2, which comes with libcurl.
It serves requests one at a time with scripted answers and keeps their bodies."""
import ctypes
import gzip
import socket
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 32
LAST_OF_BLOCK, EMITTED = 1, 2  # NGHTTP2_HD_INFLATE_FINAL and _EMIT


class NameValue(ctypes.Structure):
    _fields_ = [("name", ctypes.POINTER(ctypes.c_uint8)), ("value", ctypes.POINTER(ctypes.c_uint8)), ("name_size", ctypes.c_size_t), ("value_size", ctypes.c_size_t),
                ("flags", ctypes.c_uint8)]


class Inflater:
    """HPACK decompression state of one connection."""

    def __init__(self):
        self.library = ctypes.CDLL("libnghttp2.so.14")
        self.library.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        self.state = ctypes.c_void_p()
        assert self.library.nghttp2_hd_inflate_new(ctypes.byref(self.state)) == 0

    def headers(self, block):
        found = {}
        while True:
            pair, flags = NameValue(), ctypes.c_int(0)
            used = self.library.nghttp2_hd_inflate_hd2(self.state, ctypes.byref(pair), ctypes.byref(flags), block, ctypes.c_size_t(len(block)), 1)
            assert used >= 0, used
            block = block[used:]
            if flags.value & EMITTED:
                found[ctypes.string_at(pair.name, pair.name_size).decode()] = ctypes.string_at(pair.value, pair.value_size).decode()
            if flags.value & LAST_OF_BLOCK:
                self.library.nghttp2_hd_inflate_end_headers(self.state)
                return found
            assert block or flags.value & EMITTED

    def close(self):
        self.library.nghttp2_hd_inflate_del(self.state)


def literal(name, value):
    """A header field as an uncompressed HPACK literal."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class H2GrpcReceiver:
    """`answers`: (status, message) per call, in order; the last one repeats. .calls: {"path", "headers", "body"} of each, the body being the
    protobuf message."""

    def __init__(self, *answers):
        self.calls, self.answers, self.lock = [], list(answers or ((0, ""),)), threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # otherwise a restarted accept() may block on the next socket that gets this descriptor
        self.listener.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve_until_closed, args=(connection,), daemon=True).start()

    def serve_until_closed(self, connection):
        try:
            self.serve(connection)
        except OSError:
            pass  # the client closed the connection while a frame was being sent

    def serve(self, connection):
        inflater, requests = Inflater(), {}
        with connection, connection.makefile("rb") as incoming:
            assert incoming.read(len(PREFACE)) == PREFACE
            self.send(connection, SETTINGS, 0, 0, b"")
            while len(head := incoming.read(9)) == 9:
                size, kind, flags, stream = int.from_bytes(head[:3], "big"), head[3], head[4], int.from_bytes(head[5:], "big") & 0x7fffffff
                payload = incoming.read(size)
                if kind == SETTINGS and not flags & ACK:
                    self.send(connection, SETTINGS, ACK, 0, b"")
                elif kind == PING and not flags & ACK:
                    self.send(connection, PING, ACK, 0, payload)
                elif kind in (HEADERS, DATA):
                    payload = payload[1:len(payload) - payload[0]] if flags & PADDED else payload
                    if kind == HEADERS:
                        assert flags & END_HEADERS
                        requests[stream] = inflater.headers(payload[5:] if flags & PRIORITY else payload), []
                    elif payload:
                        requests[stream][1].append(payload)
                        for window in (0, stream):
                            self.send(connection, WINDOW_UPDATE, 0, window, size.to_bytes(4, "big"))
                    if flags & END_STREAM:
                        headers, parts = requests.pop(stream)
                        self.answer(connection, stream, headers, b"".join(parts))
        inflater.close()

    def answer(self, connection, stream, headers, message):
        body = message[5:5 + int.from_bytes(message[1:5], "big")]
        with self.lock:
            status, text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            self.calls.append({"path": headers[":path"], "headers": headers, "body": gzip.decompress(body) if message[0] else body})
        self.send(connection, HEADERS, END_HEADERS, stream, b"\x88" + literal("content-type", "application/grpc"))  # :status 200
        if status == 0:
            self.send(connection, DATA, 0, stream, bytes(5))
        trailers = literal("grpc-status", str(status)) + (literal("grpc-message", text) if text else b"")
        self.send(connection, HEADERS, END_HEADERS | END_STREAM, stream, trailers)

    @staticmethod
    def send(connection, kind, flags, stream, payload):
        connection.sendall(len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload)
