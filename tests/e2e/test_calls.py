"""`sonde calls`: the table and its JSON on synthetic data, and a real server that calls a Redis of three lines."""
import contextlib
import json
import re
import socketserver
import subprocess
import sys
import threading

import pytest
from harness.processes import wait_for
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
def server_that_calls():
    """A server of HTTP that asks a Redis for what its path says: GET, DEL. Yields the ports of both."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Redis) as redis:
        threading.Thread(target=redis.serve_forever, daemon=True).start()
        port = redis.server_address[1]
        app = subprocess.Popen([sys.executable, "-c", APP, str(port)], stdout=subprocess.PIPE, text=True)
        try:
            yield int(app.stdout.readline()), port
        finally:
            app.kill()
            app.wait()
            redis.shutdown()


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
