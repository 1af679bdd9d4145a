"""`sonde calls`: the table and its JSON on synthetic data; real servers that call a Redis, and a service over gRPC."""
import contextlib
import json
import re
import socketserver
import subprocess
import sys
import threading
import time

import pytest
from h2_grpc_receiver import END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS
from harness.processes import wait_for
from http2_client import frame
from real_servers import get
from synthetic_agent import synthetic_agent  # noqa: F401 (a fixture)
from test_http import Server


def run_calls(sonde, *arguments):
    return subprocess.run([str(sonde), "calls", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


@pytest.mark.sanitized
def test_table_of_calls(sonde, synthetic_agent):
    done = run_calls(sonde, "--agent", synthetic_agent("normal"))
    assert done.returncode == 0 and done.stderr == "", done
    period, empty, heading, *rows = [re.split(r"  +", line.strip()) for line in done.stdout.splitlines()]
    assert period == ["Calls of other services in the last 60.0 s, those waited for longest first:"]
    assert heading == ["CLIENT", "SERVER", "PROTOCOL", "CALLS/S", "WAITED", "MEAN", "P99", "FAILED", "MOST TIME IN"]
    assert rows == [["shop :8100", "postgres :5432 at 127.0.0.1:5432", "PostgreSQL", "2.00", "9.12 s", "76.0 ms", "180 ms", "3", "60 SELECT of 150 ms, 60 BEGIN of 2.00 ms"],
                    ["shop :8100", "10.0.0.7:6379", "Redis", "0.50", "30.0 ms", "1.00 ms", "1.00 ms", "0", "30 GET of 1.00 ms"],
                    ["nginx.service :80", "a Unix socket", "HTTP", "0.25", "15.0 ms", "1.00 ms", "1.00 ms", "0"]]


@pytest.mark.sanitized
@pytest.mark.parametrize("name, rows", [("shop", 2), ("shop :8100", 2), ("postgres", 1), ("10.0.0.7:6379", 1), ("sho", 0)])
def test_calls_of_one_service(sonde, synthetic_agent, name, rows):
    done = run_calls(sonde, "--json", "--service", name, "--agent", synthetic_agent("normal"))
    assert len(json.loads(done.stdout)["calls"]) == rows, done
    text = run_calls(sonde, "--service", name, "--agent", synthetic_agent("normal"))
    assert rows or text.stdout == "None of the 3 outgoing calls recorded in the last 60.0 s matches.\n", text


@pytest.mark.sanitized
def test_empty_answer_says_why(sonde, synthetic_agent):
    done = run_calls(sonde, "--agent", synthetic_agent("empty"))
    assert done.returncode == 0
    assert done.stdout.splitlines()[:2] == ["Nothing was observed in the last 60.0 s: whether there was an outgoing call is not known.",
                                            "Requests cannot be observed: fentry: Operation not permitted. See sonde doctor."]


@pytest.mark.sanitized
def test_json_of_calls_is_the_agents(sonde):
    """Decoding the agent's JSON and writing it again loses nothing."""
    server = Server("normal")
    try:
        done = run_calls(sonde, "--json", "--agent", f"127.0.0.1:{server.port}")
        assert json.loads(done.stdout) == json.loads(server.ask("/api/v1/calls")[2])
    finally:
        server.stop()


class Redis(socketserver.StreamRequestHandler):
    def handle(self):
        while command := self.rfile.read(len(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n")):
            self.wfile.write(b"-ERR no\r\n" if b"DEL" in command else b"$-1\r\n")


APP = """
import http.server, socket, sys
redis = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
class App(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        redis.sendall(b"*2\\r\\n$3\\r\\n%s\\r\\n$1\\r\\na\\r\\n" % self.path[1:].encode())
        redis.recv(100)
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), App)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def server_that_calls(called=Redis, program=APP):
    """A server of HTTP that calls another one: by default a Redis, with the command that the request's path names: GET, DEL. Yields the ports of both."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), called) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        port = service.server_address[1]
        app = subprocess.Popen([sys.executable, "-c", program, str(port)], stdout=subprocess.PIPE, text=True)
        try:
            yield int(app.stdout.readline()), port
        finally:
            app.kill()
            app.wait()
            service.shutdown()


def test_calls_of_a_real_server_are_counted(sonde, agent):
    """Every call once, also of requests that have no record. The called service is named: it is on this node."""
    watching = agent()
    with server_that_calls() as (served, port):
        for _ in range(40):
            get(served, "/GET")
        get(served, "/DEL")

        def row():
            calls = json.loads(run_calls(sonde, "--json", "--service", f"127.0.0.1:{port}", "--agent", f"127.0.0.1:{watching.port}").stdout)["calls"]
            return calls[0] if calls and calls[0]["calls"] >= 41 else None

        call = wait_for(row, what="the calls of the server")
    assert call["client"].endswith(f" :{served}") and call["server"].endswith(f" :{port}"), call
    assert call["protocol"] == "Redis" and call["calls"] == 41 and call["failed"] == 1, call
    assert {k["kind"]: k["calls"] for k in call["kinds"]} == {"GET": 40, "DEL": 1}, call


class Grpc(socketserver.StreamRequestHandler):
    """Answers each stream of HTTP/2 after 100 ms, with grpc-status 5."""
    statuses = b"\x40\x0bgrpc-status\x015",  # of the first reply, and of all others

    def handle(self):
        self.rfile.read(len(PREFACE))
        replies = 0
        while head := self.rfile.read(9):
            self.rfile.read(int.from_bytes(head[:3], "big"))
            if head[3] == HEADERS:
                stream = int.from_bytes(head[5:], "big")
                time.sleep(0.1)
                self.wfile.write(frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, stream, b"\x88") +
                                 frame(HEADERS, END_HEADERS | END_STREAM, stream, self.statuses[0 if not replies else -1]))
                replies += 1


# Header fields: POST, http, :path as a new entry, content-type. The second call sends the path as that entry's index.
GRPC_APP = """
import http.server, socket, sys
calls = None
first = bytes.fromhex("8386") + b"\\x44\\x10/shop.Stock/Find" + b"\\x5f\\x10application/grpc"
def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
class App(http.server.BaseHTTPRequestHandler):
    streams = 0
    def do_GET(self):
        global calls
        if not calls:
            calls = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
            calls.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + frame(4, 0, 0, b""))
        App.streams += 1
        stream = 2 * App.streams - 1
        calls.sendall(frame(1, 4, stream, first if App.streams == 1 else bytes.fromhex("8386bfbe")) + frame(0, 1, stream, b"\\0\\0\\0\\0\\2\\x10\\1"))
        calls.recv(1000)
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), App)
print(server.server_port, flush=True)
server.serve_forever()
"""


class OlderGrpc(Grpc):
    """The agent does not see the first status, of which the others are the index."""
    statuses = Grpc.statuses[0], b"\xbe"


def grpc_calls(sonde, watching, served, port, count):
    """The requests of the server that calls, and the row of its calls, once it has served `count` requests."""
    def requests():
        found = [r for r in json.loads(watching.text("/api/v1/requests"))["requests"] if r["port"] == served]
        return found if len(found) >= count else None

    def row():
        calls = json.loads(run_calls(sonde, "--json", "--service", f"127.0.0.1:{port}", "--agent", f"127.0.0.1:{watching.port}").stdout)["calls"]
        return calls[0] if calls and calls[0]["calls"] >= count else None

    return wait_for(requests, what="the requests"), wait_for(row, what="the calls")


def assert_call_is_named(requests, name):
    for request in requests:
        assert request["upstream_call"] == name, request
        waited = [s for s in request["segments"] if s["ns"] > 50_000_000]
        assert len(waited) == 1 and name in waited[0]["detail"], request


@pytest.mark.statistical  # beside other tests it missed a call on the older connection once in three runs; the cause is not known
def test_grpc_calls_are_named_and_counted(sonde, agent):
    """On a connection that is older than the agent, only that they are gRPC is known: by their messages."""
    with server_that_calls(OlderGrpc, GRPC_APP) as older, server_that_calls(Grpc, GRPC_APP) as newer:
        get(older[0], "/")
        watching = agent()
        for _ in range(5):
            get(older[0], "/")
            get(newer[0], "/")
        requests, call = grpc_calls(sonde, watching, *newer, 5)
        older_requests, older_call = grpc_calls(sonde, watching, *older, 5)
    assert_call_is_named(requests, "gRPC /shop.Stock/Find")
    assert_call_is_named(older_requests, "gRPC call")
    assert call["client"].endswith(f" :{newer[0]}") and call["server"].endswith(f" :{newer[1]}"), call
    assert (call["protocol"], call["failed"]) == ("gRPC", 5) and call["wait_ns"] > 5 * 100_000_000, call
    assert (older_call["protocol"], older_call["failed"]) == ("gRPC", 0) and older_call["wait_ns"] > 5 * 100_000_000, older_call
    assert [(k["kind"], k["calls"]) for k in call["kinds"]] == [("/shop.Stock/Find", 5)], call
    assert [k["calls"] for k in older_call["kinds"]] in ([], [5]), older_call