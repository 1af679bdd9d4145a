"""Requests over TLS: each is counted once and recorded with the peer of its own connection, in a server with OpenSSL on its socket (nginx) and in one
that keeps TLS in memory (asyncio). Each path has the port of its client, so that a request on another's connection shows."""
import json
import re
import ssl
import socket
import subprocess
import sys

import pytest
from harness.machine import free_port, need_command
from harness.paths import TOP
from harness.processes import wait_for
from real_servers import listens, start_nginx
from test_request_counts import counted, named

pytestmark = pytest.mark.usefixtures("root")
SERVER = TOP / "tests/workloads/python/tls_server.py"
CONNECTIONS, REQUESTS = 4, 25


@pytest.fixture
def certificate(tmp_path):
    """(certificate, key)"""
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run([need_command("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


@pytest.fixture
def nginx(run, tmp_path, certificate):
    tmp_path.chmod(0o755)
    port = free_port()
    server = start_nginx(run, tmp_path, f"listen 127.0.0.1:{port} ssl; ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]}; return 200 ok;",
                         before=named("tls-nginx"))
    wait_for(lambda: listens(port), what="nginx over TLS")
    server.port = port
    return server


class Client:
    """A connection over TLS."""

    def __init__(self, port):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.connection = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60))
        self.own_port = self.connection.getsockname()[1]

    def send(self):
        self.connection.sendall(b"GET /of/p%d?token=secret HTTP/1.1\r\nHost: a\r\n\r\n" % self.own_port)

    def receive(self):
        reply = b""
        while not (end := reply.find(b"\r\n\r\n") + 4) > 3 or len(reply) < end + int(re.search(rb"(?i)content-length: (\d+)", reply)[1]):
            more = self.connection.recv(4096)
            assert more, reply
            reply += more
        assert reply.startswith(b"HTTP/1.1 200"), reply

    def ask(self):
        self.send()
        self.receive()

    def close(self):
        self.connection.close()


def watch(agent, *arguments):
    watching = agent("--set", "budget.one_cpu=1000%", *arguments)
    wait_for(lambda: watching.metric("sonde_requests_tls_attachments") and not watching.metric("sonde_requests_tls_attachments_waiting"),
             what="the agent to attach to OpenSSL")
    return watching


def load(port, older=()):
    clients = [*older, *(Client(port) for _ in range(CONNECTIONS - len(older)))]
    for _ in range(REQUESTS):
        for client in clients:
            client.ask()
    for client in clients:
        client.close()


def records(watching, pid):
    found = json.loads(watching.text("/api/v1/requests?seconds=60&max=1000&which=all"))["requests"]
    assert "secret" not in json.dumps(found)
    return [request for request in found if request["pid"] == pid]


def unbound(watching):
    return int(watching.metric("sonde_self_losses_total", reason="request_unbound"))


def assert_on_their_connections(found):
    assert found and all(request["tls"] and request["route"] == "/of/p" + request["peer"].rpartition(":")[2] for request in found), found
    assert all(request["status"] == 200 and request["duration_ns"] > 0 for request in found), found


def test_openssl_on_the_socket(agent, nginx):
    older = Client(nginx.port)
    older.ask()
    watching = watch(agent)
    load(nginx.port, [older])
    wait_for(lambda: counted(watching, "tls-nginx").total() >= CONNECTIONS * REQUESTS, 60, "all requests to be counted")
    assert counted(watching, "tls-nginx") == {"2xx": CONNECTIONS * REQUESTS}
    assert_on_their_connections(wait_for(lambda: records(watching, nginx.pid), what="requests with a record"))
    assert unbound(watching) == 0
    assert watching.metric("sonde_opaque_bytes_total", service_name="tls-nginx") == 0
    assert watching.metric("http_server_request_duration_seconds_count", service_name="tls-nginx", url_scheme="https") == CONNECTIONS * REQUESTS


def test_openssl_in_memory(agent, run, certificate):
    server = run(*named("tls-asyncio"), sys.executable, SERVER, *certificate, name="tls-asyncio")
    port = int(wait_for(lambda: server.out, what="the server"))
    watching = watch(agent)
    older, first = Client(port), []
    # Its first replies show that TLS is in memory.
    wait_for(lambda: first.append(older.ask()) or counted(watching, "tls-asyncio"), what="the agent to find the connection")
    load(port, [older])
    asked = len(first) + CONNECTIONS * REQUESTS
    wait_for(lambda: counted(watching, "tls-asyncio").total() + unbound(watching) >= asked, 60, "all requests to be counted")
    assert counted(watching, "tls-asyncio").total() + unbound(watching) == asked
    assert unbound(watching) < len(first), "connections are not found once TLS in memory is known"
    assert_on_their_connections(wait_for(lambda: records(watching, server.pid), what="requests with a record"))


@pytest.mark.thorough
def test_switched_off(agent, nginx):
    watching = agent("--set", "requests.tls=false")
    load(nginx.port)
    wait_for(lambda: watching.metric("sonde_opaque_bytes_total", service_name="tls-nginx", protocol="TLS") > 0, what="opaque traffic")
    assert counted(watching, "tls-nginx").total() == 0


@pytest.mark.statistical
def test_reading_that_costs_too_much_is_given_up(agent, nginx):
    """Of a budget of 1 %, half is about 2,500 calls a second."""
    watching = agent("--set", "budget.one_cpu=1%")
    wait_for(lambda: watching.metric("sonde_requests_tls_attachments"), what="the agent to attach to OpenSSL")
    client = Client(nginx.port)

    def ask():
        for _ in range(500):
            client.ask()
        return watching.metric("sonde_requests_tls_stopped") == 1
    wait_for(ask, 60, "the agent to give up")
    wait_for(lambda: watching.metric("sonde_requests_tls_attachments") == 0, what="the agent to detach")
    before = counted(watching, "tls-nginx").total()
    load(nginx.port)
    client.close()
    wait_for(lambda: watching.metric("sonde_opaque_bytes_total", service_name="tls-nginx", protocol="TLS") > 0, what="opaque traffic")
    assert counted(watching, "tls-nginx").total() == before
    assert "requests over TLS are not read any more" in watching.running.error
