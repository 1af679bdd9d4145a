"""Calls of other services over TLS are named and counted as those without TLS: of a server whose TLS is in memory (asyncio), which keeps its
connection, and of one with OpenSSL on its sockets (Python's threads), which connects for each call."""
import json
import socketserver
import ssl
import sys
import threading
import time

import pytest
from h2_grpc_receiver import END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS
from harness.processes import wait_for
from harness.results import variants
from http2_client import frame
from real_servers import get
from test_calls import Grpc, run_calls
from test_request_counts import named
from test_requests_tls import certificate, watch  # noqa: F401

pytestmark = pytest.mark.usefixtures("root")
DELAY_S = 0.1  # of the services
CALLS = 5


def service(question, answer):
    """A handler that gives this answer to each such question."""
    class Service(socketserver.StreamRequestHandler):
        def handle(self):
            while self.rfile.read(len(question)):
                time.sleep(DELAY_S)
                self.wfile.write(answer)
    return Service


class OverTls(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, certificate, handler):  # noqa: F811
        super().__init__(("127.0.0.1", 0), handler)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*certificate)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def get_request(self):
        connection, peer = super().get_request()
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), peer


GET = b"GET /stock?token=secret HTTP/1.1\r\nHost: a\r\n\r\n"
SELECT = b"Q\0\0\0\x20\n  SELECT secret FROM users\0"
FIELDS = bytes.fromhex("8386") + b"\x44\x10/shop.Stock/Find" + b"\x5f\x10application/grpc"
STREAM = b"STRM"  # in place of a stream's number
CALL = PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS | END_STREAM, int.from_bytes(STREAM, "big"), FIELDS)
NEXT_CALL = frame(HEADERS, END_HEADERS | END_STREAM, int.from_bytes(STREAM, "big"), bytes.fromhex("8386bfbe"))
HTTP = service(GET, b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"), (GET,)
SQL = service(SELECT, b"E\0\0\0\x05\0"), (SELECT,)
GRPC = Grpc, (CALL, NEXT_CALL)

HEAD = """
import ssl, sys
port, questions = int(sys.argv[1]), [bytes.fromhex(argument) for argument in sys.argv[2:]]
def question(number):  # on its connection
    return questions[0 if number == 0 else -1].replace(b"STRM", (2 * number + 1).to_bytes(4, "big"))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
"""
IN_MEMORY = HEAD + """
import asyncio
calls, asked = None, 0
async def serve(reader, writer):
    global calls, asked
    await reader.readuntil(b"\\r\\n\\r\\n")
    calls = calls or await asyncio.open_connection("127.0.0.1", port, ssl=context)
    calls[1].write(question(asked))
    asked += 1
    await calls[0].read(100)
    writer.write(b"HTTP/1.1 204 No\\r\\nConnection: close\\r\\n\\r\\n")
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
ON_SOCKETS = HEAD + """
import http.server, socket
class App(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as calls:
            calls.sendall(question(0))
            calls.recv(100)
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), App)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize("program", [IN_MEMORY, ON_SOCKETS], ids=["memory", "sockets"])
@pytest.mark.parametrize("protocol, kind, called", variants(("HTTP", "GET", HTTP), ("PostgreSQL", "SELECT", SQL), ("gRPC", "/shop.Stock/Find", GRPC)), ids=["http", "sql", "grpc"])
def test_calls_over_tls(sonde, agent, run, certificate, program, protocol, kind, called):  # noqa: F811
    (handler, questions), first, watching = called, [], watch(agent)
    with OverTls(certificate, handler) as over_tls:
        port = over_tls.server_address[1]
        server = run(*named("calls-tls"), sys.executable, "-c", program, port, *(question.hex() for question in questions), name="calls-tls")
        served = int(wait_for(lambda: server.out, what="the server"))

        def row(at_least=1):
            calls = json.loads(run_calls(sonde, "--json", "--service", f"127.0.0.1:{port}", "--agent", f"127.0.0.1:{watching.port}").stdout)["calls"]
            return next((call for call in calls if call["protocol"] == protocol and call["calls"] >= at_least), None)

        def requests():
            found = [r for r in json.loads(watching.text("/api/v1/requests"))["requests"] if r["route"] == "/last"]
            return found if len(found) >= CALLS else None

        # Its first calls show that TLS is in memory.
        before = wait_for(lambda: first.append(get(served, "/")) or row(), what="a call that is seen")["calls"]
        for _ in range(CALLS):
            get(served, "/last")
        call, found = wait_for(lambda: row(before + CALLS), what="the calls of the server"), wait_for(requests, what="the requests")
        over_tls.shutdown()
    assert call["calls"] == call["failed"] <= len(first) + CALLS, call
    assert [k["kind"] for k in call["kinds"]] == [kind], call
    assert call["wait_ns"] > call["calls"] * DELAY_S * 1e9, call
    for request in found:
        assert request["upstream_call"] == f"{protocol} {kind}", request
        assert sum(s["ns"] for s in request["segments"] if f"{protocol} {kind}" in s["detail"]) > DELAY_S * 0.9e9, request
    assert "secret" not in json.dumps(found)
