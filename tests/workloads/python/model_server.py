"""A model server: asyncio, HTTP/1.1, OpenAI's API with server-sent events, and one loop that makes a token of each running request per step (continuous
batching). `model_server.py LOG [together] [split] [tls CERTIFICATE KEY]`

together: the header and the first event in one send. split: an event in several sends. tls: over TLS, in memory BIOs. LOG gets a line of JSON for each stream: its path, its client's
port, and for each token when its send began and returned (CLOCK_MONOTONIC), in ns.
GET /stream?n=N is the same without OpenAI's API. In the body: max_tokens; stream; stream_options.include_usage; "plain" (events that are not JSON); model "missing" gets
status 404; "waits" (its first token waits in memory until the connection's next request has been read, which is printed). GET /two-writes: no stream; the second of two writes that are sent together begins like an event. A request with Expect: 100-continue is told to continue.
"""
import asyncio
import json
import socket
import ssl
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

STEP_S = 0.01
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
together, split = "together" in sys.argv, "split" in sys.argv
context = None
if "tls" in sys.argv:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[-2:])
running = []
log = Path(sys.argv[1]).open("a", buffering=1)


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(value):
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def completion(delta, model):
    return event({"id": "c-1", "object": "chat.completion.chunk", "model": model, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


class Stream:
    def __init__(self, writer, path, body):
        self.socket, self.path, self.body = writer.get_extra_info("socket"), path, body
        self.client, self.left, self.times, self.done = self.socket.getpeername()[1], body.get("max_tokens", 16), [], asyncio.Event()
        self.writer, self.made, self.pending = writer, 0, b""

    def send(self, data):
        """At once: in time for the loop's next step, in one call or in several."""
        pieces = [data[i:i + 11] for i in range(0, len(data), 11)] if split else [data]
        began = time.monotonic_ns()
        for piece in pieces:
            self.writer.write(piece)
        assert not self.writer.transport.get_write_buffer_size()
        return began, time.monotonic_ns()

    def start(self):
        first = HEAD if self.body.get("plain") else HEAD + chunk(completion({"role": "assistant", "content": ""}, self.body.get("model")))
        if together:
            self.pending = first
        elif self.body.get("plain"):
            self.send(HEAD)
        else:
            self.send(HEAD)
            self.send(first[len(HEAD):])

    def step(self):
        text = event(b"piece %d" % self.made) if self.body.get("plain") else completion({"content": f"tok{self.made} "}, self.body.get("model"))
        self.times.append(self.send(self.pending + chunk(text)))
        self.pending, self.made, self.left = b"", self.made + 1, self.left - 1
        if not self.left:
            self.finish()

    def finish(self):
        if self.body.get("stream_options", {}).get("include_usage"):
            usage = {"prompt_tokens": 7, "total_tokens": 7 + 2 * self.made, "completion_tokens": 2 * self.made}
            self.send(chunk(event({"id": "c-1", "object": "chat.completion.chunk", "choices": [], "usage": usage})))
        self.send(chunk(event(b"[DONE]")) + b"0\r\n\r\n")
        log.write(json.dumps({"path": self.path, "client": self.client, "times": self.times, "model": self.body.get("model")}) + "\n")
        self.done.set()


async def serve_waiting(reader, writer, model):
    """The comment is longer than what the socket takes before the client reads it."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    writer.write(HEAD + chunk(b": " + b"x" * 100_000 + b"\n\n"))
    writer.write(chunk(completion({"content": "waits"}, model)))
    await reader.readuntil(b"\r\n\r\n")
    print("read", flush=True)
    writer.write(chunk(completion({"content": "too"}, model)) + chunk(event(b"[DONE]")) + b"0\r\n\r\n")
    await writer.drain()
    writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def batches():
    while True:
        await asyncio.sleep(STEP_S)
        for stream in list(running):
            stream.step()
            if not stream.left:
                running.remove(stream)


async def serve(reader, writer):
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            method, target, _ = head.split(None, 2)
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
            if b"expect" in fields:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = json.loads(await reader.readexactly(int(fields[b"content-length"]))) if b"content-length" in fields else {}
            url = urlsplit(target.decode())
            if url.path == "/two-writes":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n")
                writer.writelines([b"xyz", b"data: 1\n\n"])
                continue
            if method == b"GET":
                body = {"stream": True, "max_tokens": int(parse_qs(url.query).get("n", ["16"])[0])}
            if body.get("model") == "missing":
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                continue
            if not body.get("stream"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
                continue
            if body.get("waits"):
                await serve_waiting(reader, writer, body["model"])
                continue
            stream = Stream(writer, url.path, body)
            stream.start()
            running.append(stream)
            await stream.done.wait()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024, ssl=context)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await batches()


asyncio.run(main())
