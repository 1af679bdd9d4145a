"""Unusual lives of TLS connections: SSL objects that are freed in the middle of a request and whose address another one gets, connections of Go at the address of others, processes that fork after a handshake, a
library that is replaced under a running program, renegotiation and early data. No client sees an error, and each request is counted once, on its own connection."""
import json
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from harness.machine import free_port, need_command
from harness.paths import TOP
from harness.processes import wait_for
from http2_client import Http2Client
from real_servers import listens, start_nginx
from test_calls import run_calls
from test_http2_tls import start_go
from test_request_counts import assert_counted, counted, named
from test_requests_tls import Client, assert_on_their_connections, certificate, records, watch  # noqa: F401

pytestmark = pytest.mark.usefixtures("root")
SERVER, PYTHON = TOP / "tests/workloads/python/tls_objects.py", "/usr/bin/python3"
CONNECTIONS, REQUESTS = 10, 4


@pytest.fixture(scope="module")
def watching(module_agent):
    """An agent that reads what goes through the OpenSSL of the node, which this process uses as well."""
    return watch(module_agent)


def start_server(run, certificate, service, *arguments, env=None):  # noqa: F811
    """(server, port)"""
    server = run(*named(service), PYTHON, SERVER, *certificate, *arguments, name=service, env=env)
    return server, int(wait_for(lambda: server.out.splitlines(), what="the server")[0])


def ask(port, connections=CONNECTIONS):
    """One connection after the other; returns how many requests there were."""
    for _ in range(connections):
        client = Client(port)
        for _ in range(REQUESTS):
            client.ask()
        client.close()
    return connections * REQUESTS


def abandon(port, text):
    """Sends the begin of a request, or one that the server does not reply to, and waits until the server has closed the connection."""
    client = Client(port)
    client.connection.sendall(text)
    if b"/gone" in text:
        assert not client.connection.recv(100)
    client.close()


@pytest.mark.thorough
def test_object_freed_in_the_middle_of_a_request(watching, run, certificate):  # noqa: F811
    """The next connection's object has its address: none of its requests is that of the connection before."""
    server, port = start_server(run, certificate, "tls-freed")
    asked = 0
    for text in (b"GET /gone HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /half HTTP/1.1\r\nHost:", b"POST /gone HTTP/1.1\r\nContent-Length: 100\r\n\r\nGET /body HTTP/1.1\r\n") * 3:
        abandon(port, text)
        asked += ask(port, 1)
    assert_counted(watching, "tls-freed", Counter({"2xx": asked}))
    assert_on_their_connections(wait_for(lambda: [r for r in records(watching, server.pid) if r["status"]], what="requests with a record"))
    addresses = server.out.splitlines()[1:]
    assert len(set(addresses)) < len(addresses), "no address was used again"


@pytest.mark.thorough
def test_fork_after_the_handshake(watching, run, certificate):  # noqa: F811
    """The object that the child uses was the parent's."""
    _, port = start_server(run, certificate, "tls-fork", "fork")
    asked = ask(port)
    assert_counted(watching, "tls-fork", Counter({"2xx": asked}))


def test_connection_of_go_at_the_address_of_one_with_http2(sonde, watching, run, certificate):  # noqa: F811
    """Go frees a connection without a call. The one that gets its address calls a service over HTTP/1."""
    _, port = start_go(run, watching, certificate)
    client = Http2Client(port, tls=True)
    for _ in range(CONNECTIONS):
        assert client.reply(client.ask("/reused"))[":status"] == "200"
    client.close()

    def over_http1():
        calls = json.loads(run_calls(sonde, "--json", "--service", f"127.0.0.1:{port}", "--agent", f"127.0.0.1:{watching.port}").stdout)["calls"]
        return next((call for call in calls if call["protocol"] == "HTTP" and call["calls"] >= CONNECTIONS), None)
    call = wait_for(over_http1, what="the calls")
    assert [(kind["kind"], kind["calls"]) for kind in call["kinds"]] == [("GET", CONNECTIONS)], call


def library_of(name):
    for line in subprocess.run([need_command("ldconfig"), "-p"], capture_output=True, text=True, check=True).stdout.splitlines():
        if line.split()[0] == name:
            return Path(line.split()[-1])
    pytest.skip(f"there is no {name}")


def ask_until_counted(watching, service, port):
    """Until the agent has attached to the server's library. Returns how many requests have been counted."""
    wait_for(lambda: ask(port, 1) and counted(watching, service), 60, f"the agent to read {service}")
    seen = [Counter(), counted(watching, service)]
    while seen[-1] != seen[-2]:
        time.sleep(1.5)  # the counts of a series follow within a second
        seen.append(counted(watching, service))
    return seen[-1]


@pytest.mark.thorough
def test_library_replaced_under_a_running_program(watching, run, certificate, tmp_path):  # noqa: F811
    """As an upgrade does it: the running program keeps the old file, programs that start later have the new one."""
    libraries = [library_of(name) for name in ("libssl.so.3", "libcrypto.so.3")]
    place = tmp_path / "libraries"
    place.mkdir()
    for library in libraries:
        shutil.copy(library, place)
    environment = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(place)}
    _, old_port = start_server(run, certificate, "tls-old", env=environment)
    before = ask_until_counted(watching, "tls-old", old_port)
    for library in libraries:
        shutil.copy(library, place / "new")
        (place / "new").rename(place / library.name)
    _, new_port = start_server(run, certificate, "tls-new", env=environment)
    assert set(ask_until_counted(watching, "tls-new", new_port)) == {"2xx"}
    assert_counted(watching, "tls-old", before + Counter({"2xx": ask(old_port)}))


class OpensslClient:
    """`openssl s_client`, whose output shows what the server sent."""

    def __init__(self, port, *options):
        self.process = subprocess.Popen([need_command("openssl"), "s_client", "-connect", f"127.0.0.1:{port}", *map(str, options)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.said = b""

    def say(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def until(self, text):
        while text not in self.said:
            data = self.process.stdout.read1()
            assert data, self.said
            self.said += data
        self.said = self.said.partition(text)[2]

    def close(self):
        self.process.kill()
        self.process.communicate()


@pytest.mark.thorough
def test_renegotiation(watching, run, certificate, tmp_path):  # noqa: F811
    """Between the handshakes there is no request, and after the second one it is read as before."""
    port = free_port()
    (tmp_path / "file").write_text("content\n")
    server = run(*named("tls-again"), need_command("openssl"), "s_server", "-accept", f"127.0.0.1:{port}", "-cert", certificate[0], "-key", certificate[1], "-tls1_2",
                 "-client_renegotiation", "-WWW", cwd=tmp_path, name="s_server")
    wait_for(lambda: listens(port) or not server.alive, what="s_server")
    for _ in range(3):
        client = OpensslClient(port)
        client.until(b"Verify return code")
        client.say(b"R\n")
        client.until(b"verify return:1")
        client.say(b"GET /file HTTP/1.0\r\n\r\n")
        client.until(b"content\n")
        client.close()
    assert_counted(watching, "tls-again", Counter({"2xx": 3}))
    assert {request["route"] for request in records(watching, server.pid)} <= {"/file"}


def test_early_data(watching, run, certificate, tmp_path):  # noqa: F811
    """A request that comes with the handshake is one as well."""
    tmp_path.chmod(0o755)
    port = free_port()
    start_nginx(run, tmp_path, f"listen 127.0.0.1:{port} ssl; ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]}; return 200 ok-$uri-end;",
                         "ssl_early_data on; ssl_protocols TLSv1.3;", named("tls-early"))
    wait_for(lambda: listens(port), what="nginx over TLS")
    session, early = tmp_path / "session", tmp_path / "early"
    early.write_bytes(b"GET /early HTTP/1.1\r\nHost: a\r\n\r\n")
    client = OpensslClient(port, "-tls1_3", "-sess_out", session, "-ign_eof")
    client.say(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n")
    client.until(b"ok-/first-end")
    wait_for(session.exists, what="the session")
    client.close()
    for _ in range(3):
        client = OpensslClient(port, "-tls1_3", "-sess_in", session, "-early_data", early, "-ign_eof")
        client.until(b"ok-/early-end")
        client.say(b"GET /later HTTP/1.1\r\nHost: a\r\n\r\n")
        client.until(b"ok-/later-end")
        client.close()
    assert_counted(watching, "tls-early", Counter({"2xx": 7}))
    of_route = [watching.metric("http_server_request_duration_seconds_count", service_name="tls-early", http_route=route) for route in ("/first", "/early", "/later")]
    assert of_route == [1, 3, 3]
