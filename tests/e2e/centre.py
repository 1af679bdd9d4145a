"""Servers (`sonde server`) in tests, and OTLP packets for them. Tests that need the engine's library skip where it is not installed (`make server`): it
is 167 MB."""
import contextlib
import gzip
import http.client
import os
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness.machine import skip
from http2_client import POST, Http2Client, message

PLACES = [os.environ.get("SONDE_ENGINE", ""), "build/engine/libchdb.so", "/usr/local/lib/sonde/libchdb.so", "/usr/lib/sonde/libchdb.so"]
LISTEN = ["--listen", "127.0.0.1:0", "--otlp-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"]  # free ports
TOP = Path(__file__).resolve().parents[2]


def engine_library():
    for place in PLACES:
        if place and (TOP / place).is_file():
            return TOP / place
    skip("the engine's library is not installed: tools/install-engine build/engine downloads it (167 MB)")


class Server:
    """A running `sonde server`."""

    def __init__(self, running):
        self.running = running
        self.grpc_port, self.otlp_port, self.sql_port = map(int, re.findall(r"^  (?:OTLP/gRPC|OTLP/HTTP|SQL) +https?://[\d.]+:(\d+)", running.out, re.M))

    def post(self, path, body, headers=None, compressed=False):
        """(status, headers, body) of the receiver's answer."""
        everything = {"Content-Type": "application/x-protobuf", **({"Content-Encoding": "gzip"} if compressed else {}), **(headers or {})}
        return ask(self.otlp_port, "POST", path, gzip.compress(body) if compressed else body, everything)

    def call(self, service, body, *pairs, compressed=False):
        """(status of gRPC, its message) of the answer to a call of the service's method Export, over a connection of its own."""
        connection = Http2Client(self.grpc_port)
        with contextlib.closing(connection):
            encoding = [("grpc-encoding", "gzip")] if compressed else []
            stream = connection.ask(f"/opentelemetry.proto.collector.{service}/Export", ("content-type", "application/grpc"), ("te", "trailers"), *encoding, *pairs, method=POST,
                                    body=message(gzip.compress(body) if compressed else body, int(compressed)))
            fields = connection.reply(stream)
            return int(fields["grpc-status"]), fields.get("grpc-message", "")

    def query(self, sql, **parameters):
        """(status, text)"""
        from urllib.parse import urlencode
        status, _, body = ask(self.sql_port, "POST", "/?" + urlencode(parameters), sql.encode(), {})
        return status, body.decode()

    def value(self, sql):
        status, text = self.query(sql)
        assert status == 200, text
        return text.strip()

    def await_value(self, sql, expected, timeout_s=30):
        ends = time.monotonic() + timeout_s
        while (seen := self.query(sql)[1].strip()) != expected:
            assert time.monotonic() < ends, f"{sql}: {seen} and not {expected}; {self.running.error[-2000:]}"
            time.sleep(0.1)

    def engine_pid(self):
        children = Path(f"/proc/{self.running.pid}/task").glob("*/children")
        return next((int(pid) for file in children for pid in file.read_text().split() if Path(f"/proc/{pid}/comm").read_text().strip() == "sonde-engine"), None)


# Arguments: library, directory, statements.
RUN = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.chdb_connect.restype, library.chdb_query_n.restype = ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
library.chdb_query_n.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t
library.chdb_result_error.restype, library.chdb_result_error.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
library.chdb_close_conn.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
connection = library.chdb_connect(2, (ctypes.c_char_p * 2)(b"clickhouse", b"--path=" + sys.argv[2].encode()))
errors = [library.chdb_result_error(library.chdb_query_n(connection[0], sql.encode(), len(sql.encode()), b"TSV", 3)) for sql in sys.argv[3:]]
library.chdb_close_conn(connection)
assert not any(errors), errors
"""


def run_in_engine(data, *statements):
    """Runs statements in the engine of a server that does not run."""
    subprocess.run([sys.executable, "-c", RUN, engine_library(), data / "engine", *statements], check=True, timeout=120, env={"TZ": "UTC"})


def ask(port, method, path, body, headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()


def start_server(run, sonde, data, *arguments, library=None, number=0):
    """Starts a server on free ports and waits until it listens."""
    ready, write = os.pipe()
    running = run(sonde, "server", "--data", data, "--engine", library or engine_library(), *LISTEN, "--ready-fd", write,
                  *arguments, name=f"server-{number}", pass_fds=[write])
    os.close(write)
    with os.fdopen(ready) as reader:
        line = reader.readline()
    assert line == "ready\n", running.error[-3000:]
    return Server(running)


@pytest.fixture
def server(run, sonde, tmp_path):
    """server(arguments..., data=...) starts a server; it must end in order."""
    started = []

    def start(*arguments, **options):
        started.append(start_server(run, sonde, tmp_path / "data", *arguments, number=len(started), **options))
        return started[-1]
    engine_library()
    yield start
    for one in started:
        if one.running.alive:
            assert one.running.stop() == 0, one.running.error[-3000:]


# ---- packets ----

def varint(value):
    out, value = b"", value & (1 << 64) - 1
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """A field: bytes and text by their length, integers as varints, floats as doubles."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    return varint(number << 3) + varint(value)


def fixed64(number, value):
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def pair(key, value):
    kind = {str: 1, bool: 2, int: 3, float: 4}[type(value)]
    return field(1, key) + field(2, field(kind, int(value) if kind == 2 else value))


def span(number, name="GET /", start_ns=None, duration_ns=1_000_000, **about):
    start_ns = start_ns or time.time_ns()
    return (field(1, number.to_bytes(16, "big")) + field(2, number.to_bytes(8, "big")) + field(5, name) + field(6, 2) + fixed64(7, start_ns) +
            fixed64(8, start_ns + duration_ns) + b"".join(field(9, pair(key, value)) for key, value in about.items()))


def request(items, service="shop", host="node-1"):
    """A request for /v1/traces or /v1/logs."""
    resource = field(1, pair("service.name", service)) + field(1, pair("host.name", host))
    scope = field(1, field(1, "test") + field(2, "1.0")) + b"".join(field(2, item) for item in items)
    return field(1, field(1, resource) + field(2, scope))
