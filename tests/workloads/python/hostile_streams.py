"""Streams as no well-behaved server sends them. `hostile_streams.py`; the model selects the stream, and each item of it is one send. The path /v1/early has its
head sent before the body of the request is read."""
import json
import random
import socket
import threading

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
TOKEN = b'data: {"choices":[{"delta":{"content":"tok"}}]}\n\n'
END = b"0\r\n\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def single_bytes(data):
    return [data[i:i + 1] for i in range(len(data))]


STREAMS = {
    "/bytes": [CHUNKED, *single_bytes(chunk(TOKEN) * 3 + END)],  # every send has one byte
    "/chunks": [CHUNKED, *map(chunk, single_bytes(TOKEN * 3)), END],  # every chunk has one byte
    "/head": single_bytes(CHUNKED) + [chunk(TOKEN), END],
    "/data-in-head": [HEAD + b"X-Data: data: a\r\nX-Text: \"content\":\"a\"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(TOKEN), END],
    "/megabyte": [CHUNKED, chunk(b'data: {"content":"' + b"x" * 1_000_000 + b'"}\n\n'), chunk(TOKEN), END],
    "/no-newline": [CHUNKED, chunk(b"data: " + b"x" * 100_000), chunk(b'"content":"a"' * 100), END],
    "/binary": [CHUNKED, chunk(b"data: " + random.Random(1).randbytes(3000).replace(b"\n", b"").replace(b"\r", b"") + b"\n\n"), chunk(TOKEN), END],
    "/not-chunks": [CHUNKED, chunk(TOKEN), b"this is no chunk\r\n" + TOKEN],
    "/cut": [CHUNKED, chunk(TOKEN) + b"ff\r\n" + TOKEN],
    "/many": [CHUNKED, b"".join(chunk(TOKEN) for _ in range(200)), END],
    "/parts": [CHUNKED, [b"%x\r\n" % len(TOKEN), TOKEN[:20], b"", TOKEN[20:], b"\r\n"], [chunk(TOKEN)] * 10, END],
}


def send(connection, data):
    """A list is sent as a vector."""
    if isinstance(data, list):
        assert connection.sendmsg(data) == sum(map(len, data))
    else:
        connection.sendall(data)


def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(4096)
    is_early = b" /v1/early " in head
    if is_early:
        connection.sendall(CHUNKED)
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(head.split(b"\r\n\r\n", 1)[1]) < length:
        head += connection.recv(4096)
    for data in STREAMS[json.loads(head.split(b"\r\n\r\n", 1)[1])["model"]][is_early:]:
        send(connection, data)
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(4096):
        pass
    connection.close()


listener = socket.create_server(("127.0.0.1", 0))
print("port", listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
