"""Sends the requests: each scored one is timed, and others keep the server busy meanwhile."""
import asyncio
import contextlib
import functools
import itertools
import json
import random
import re
import ssl
import time
from dataclasses import dataclass

from client_http2 import Http2Connection

SLOW_PER_SECOND = 10  # scored requests and those that delay them; a process has 32 records a second
BEFORE_S = AFTER_S = 0.005
numbers = itertools.count(1)


@dataclass
class Sent:
    """A scored request, on CLOCK_MONOTONIC. `port`: the client's; it identifies the record."""
    id: int
    port: int
    sent_ns: int
    done_ns: int


def request_of(target, model):
    """The bytes of a request; for a model, an inference whose input is the target."""
    if not model:
        return f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    body = json.dumps({"inputs": [{"name": "target", "datatype": "BYTES", "shape": [1], "data": [target]}]})
    return (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()


def tls_context(protocol):
    """The certificate of an evaluated server is not checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


class Http1Connection:
    """Kept alive as long as the server does."""

    def __init__(self, port, tls, model):
        self.port, self.tls, self.model, self.writer = port, tls, model, None

    async def ask(self, target):
        """(own port, time of sending, time of the reply's end)"""
        if not self.writer:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
        own_port = self.writer.get_extra_info("sockname")[1]
        sent = time.monotonic_ns()
        self.writer.write(request_of(target, self.model))
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        body = await self.body(head)
        assert b" 200 " in head.split(b"\r\n")[0], head + body
        done = time.monotonic_ns()
        if b"connection: close" in head:
            self.close()
        return own_port, sent, done

    async def body(self, head):
        if b"transfer-encoding: chunked" not in head:
            return await self.reader.readexactly(int(re.search(rb"content-length: *(\d+)", head)[1]))
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)
        return body

    def close(self):
        if self.writer:
            self.writer.close()
        self.writer = None


class Connection:
    """Of a client to an evaluated server, in the server's protocol."""

    def __init__(self, port, kind):
        tls = tls_context("h2" if kind.protocol == "http2" else "http/1.1") if kind.tls else None
        self.wire = Http1Connection(port, tls, kind.model) if kind.protocol == "http1" else Http2Connection(port, tls, kind.protocol == "grpc")

    async def get(self, route, **parameters):
        number = next(numbers)
        query = "".join(f"&{name}={value}" for name, value in parameters.items())
        return Sent(number, *await self.wire.ask(f"/{route}?id={number}{query}"))

    def close(self):
        self.wire.close()


async def neighbour(connect, period_s, ended):
    connection = connect()
    while not ended.is_set():
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(ended.wait(), random.uniform(0, 2 * period_s))
        await connection.get("clean")
    connection.close()


async def scored(connect, cause, ms, parameters, left, at_once, companions):
    connection, others, sent = connect(), [connect() for _ in (*cause.before, *cause.after)], []
    for _ in left:
        began = time.monotonic()
        beside = []

        def start(requests, those):
            if companions:
                beside.extend(asyncio.create_task(other.get(route, ms=ms, **parameters)) for (route, ms), other in zip(requests, those, strict=True))
        start(cause.before, others[:len(cause.before)])
        if beside:
            await asyncio.sleep(BEFORE_S)
        one = asyncio.create_task(connection.get(cause.route, ms=ms, **parameters))
        if cause.after:
            await asyncio.sleep(AFTER_S)
        start(cause.after, others[len(cause.before):])
        sent.append(await one)
        await asyncio.gather(*beside)
        period_s = at_once * (1 + len(others)) / SLOW_PER_SECOND
        await asyncio.sleep(max(0.005, began + period_s - time.monotonic()))
    for one in (connection, *others):
        one.close()
    return sent


async def load(connect, cause, options, injected, parameters):
    at_once = max(1, min(cause.at_once, options.concurrency // 2))
    connections = options.concurrency - at_once
    period_s = max(0.1, connections / options.neighbours)
    left, ms, ended = iter(range(options.requests)), cause.ms if injected else cause.baseline_ms, asyncio.Event()
    neighbours = [asyncio.create_task(neighbour(connect, period_s, ended)) for _ in range(connections)]
    try:
        done = await asyncio.gather(*(scored(connect, cause, ms, parameters, left, at_once, injected) for _ in range(at_once)))
    finally:
        ended.set()
        await asyncio.gather(*neighbours)
    return [sent for each in done for sent in each]


def send(port, kind, cause, options, injected, **parameters):
    """Sends the requests of a cause, with or without its injection; returns them. `kind`: the catalogue's Server; `options`: of the command line."""
    return asyncio.run(load(functools.partial(Connection, port, kind), cause, options, injected, parameters))
