"""Streams of HTTP/2 over TLS are requests like those without TLS: each once, with the peer of its own connection; in a server with OpenSSL on its
socket (nginx), in one that keeps TLS in memory (asyncio), and in one of Go. Each path has the port of its client, so that a request on another's
connection shows."""
import random
import re
import subprocess
import sys
from collections import Counter

import pytest
from h2_grpc_receiver import H2GrpcReceiver
from harness.machine import free_port, need_command
from harness.processes import wait_for
from harness.workloads import workload_path
from http2_client import PREFACE, SETTINGS, Http2Client, frame
from pypi import environment
from real_servers import listens, parts_of, start_nginx, start_threading
from test_http2 import recorded
from test_request_counts import assert_counted, counted, named
from test_requests_tls import SERVER, assert_on_their_connections, certificate, records, unbound, watch  # noqa: F401

pytestmark = pytest.mark.usefixtures("root")
CONNECTIONS, ROUNDS, STREAMS = 3, 10, 5


@pytest.fixture
def grpc_server():
    server = H2GrpcReceiver((5, "no such thing"))
    yield server
    server.close()


@pytest.fixture
def nginx(run, tmp_path, certificate, grpc_server):  # noqa: F811
    tmp_path.chmod(0o755)
    upstream = start_threading(run)
    (tmp_path / "large").write_bytes(b"x" * 50_000)
    return start_nginx(run, tmp_path, f"ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]}; location /of/ {{ return 200 ok; }}"
                       f" location /failing {{ return 503; }} location /slow/ {{ proxy_pass http://127.0.0.1:{upstream.port}/; }}"
                       f" location /shop.Cart/ {{ grpc_pass {grpc_server.url.replace('http', 'grpc')}; }} location / {{ root {tmp_path}; }}", "http2_max_concurrent_streams 200;",
                       before=named("h2-tls-nginx"), options="ssl http2")


def connect(port):
    return Http2Client(port, tls=True)


def ask(clients, rounds=ROUNDS):
    """STREAMS at a time on each connection; returns how many."""
    for _ in range(rounds):
        asked = [(client, client.ask(f"/of/p{client.own_port}?token=secret")) for client in clients for _ in range(STREAMS)]
        assert all(client.reply(stream)[":status"] == "200" for client, stream in asked)
    return len(clients) * rounds * STREAMS


def close(clients):
    for client in clients:
        client.close()


def test_openssl_on_the_socket(agent, nginx):
    """nginx's file of 50 kB ends when its last byte was sent."""
    watching = watch(agent)
    clients = [connect(nginx.port) for _ in range(CONNECTIONS)]
    asked = ask(clients)
    assert clients[0].reply(clients[0].ask("/large"))[":status"] == "200"
    assert clients[0].reply(clients[0].ask("/failing"))[":status"] == "503"
    close(clients)
    assert_counted(watching, "h2-tls-nginx", Counter({"2xx": asked + 1, "5xx": 1}))
    found = wait_for(lambda: records(watching, nginx.pid), what="requests with a record")
    assert_on_their_connections([request for request in found if request["route"].startswith("/of/")])
    assert {request["protocol"] for request in found} == {"http/2"}
    assert unbound(watching) == 0


def test_causes_and_statuses_are_those_without_tls(sonde, agent, nginx):
    """A request that waits for an upstream server, and a gRPC call that nginx passes on."""
    watching, client = watch(agent), connect(nginx.port)
    assert client.reply(client.ask("/slow/sleep"))[":status"] == "200"
    assert client.reply(client.call("/shop.Cart/GetItem"))["grpc-status"] == "5"
    slow, = recorded(sonde, watching, 1, route="/slow/sleep", protocol="http/2")
    assert slow["tls"] and slow["pid"] == nginx.pid and slow["upstream"], slow
    assert any("nanosleep" in part["detail"] for part in slow["parts"]), slow
    call, = recorded(sonde, watching, 1, route="/shop.Cart/GetItem", pid=nginx.pid)
    assert call["tls"] and (call["protocol"], call["grpc_status"], call["status"]) == ("grpc", 5, 200), call
    client.close()


def test_openssl_in_memory(agent, run, certificate):  # noqa: F811
    server = run(*named("h2-tls-asyncio"), sys.executable, SERVER, *certificate, name="h2-tls-asyncio")
    port = int(wait_for(lambda: server.out, what="the server"))
    watching, clients, asked = watch(agent), [connect(port) for _ in range(CONNECTIONS)], []
    # Its first replies show that TLS is in memory; their requests are held until a later one shows the socket.
    wait_for(lambda: asked.append(ask(clients, 1)) or counted(watching, "h2-tls-asyncio"), what="the agent to find the connections")
    asked.append(ask(clients))
    wait_for(lambda: counted(watching, "h2-tls-asyncio").total() >= sum(asked), 60, "all requests to be counted")
    close(clients)
    assert counted(watching, "h2-tls-asyncio") == {"2xx": sum(asked)}
    assert_on_their_connections(wait_for(lambda: records(watching, server.pid), what="requests with a record"))
    assert unbound(watching) == 0


def start_go(run, watching, certificate):  # noqa: F811
    """(server, port): a program of Go whose requests the agent counts. Those that show it are redirected (3xx)."""
    server = run(*named("h2-tls-go"), workload_path("tls_server"), *certificate, name="h2-tls-go")
    port = int(wait_for(lambda: server.out, what="the server"))

    def is_counted():
        client = connect(port)
        client.reply(client.ask("/of"))
        client.close()
        return counted(watching, "h2-tls-go")
    wait_for(is_counted, 60, "the agent to attach to the program")
    return server, port


@pytest.mark.thorough
def test_go(agent, run, certificate):  # noqa: F811
    watching = watch(agent)
    server, port = start_go(run, watching, certificate)
    clients = [connect(port) for _ in range(CONNECTIONS)]
    asked = ask(clients)
    assert clients[0].reply(clients[0].ask("/large"))[":status"] == "200"
    close(clients)
    wait_for(lambda: counted(watching, "h2-tls-go")["2xx"] >= asked + 1, 60, "all requests to be counted")
    assert counted(watching, "h2-tls-go")["2xx"] == asked + 1
    found = wait_for(lambda: records(watching, server.pid), what="requests with a record")
    assert_on_their_connections([request for request in found if request["route"].startswith("/of/")])
    assert unbound(watching) == 0


@pytest.mark.thorough
def test_connection_that_is_older_than_the_agent(agent, nginx):
    """The agent recognizes HTTP/2 in the middle of a connection by two frames, after it found that the text is no HTTP/1."""
    client = connect(nginx.port)
    ask([client], 1)
    watching = watch(agent)
    ask([client], 3)
    wait_for(lambda: counted(watching, "h2-tls-nginx").total() >= STREAMS, what="requests to be counted")
    before = counted(watching, "h2-tls-nginx").total()
    asked = ask([client])
    wait_for(lambda: counted(watching, "h2-tls-nginx").total() >= before + asked, what="all requests to be counted")
    assert counted(watching, "h2-tls-nginx") == {"2xx": before + asked}


@pytest.mark.thorough
def test_garbage_after_the_preface_does_no_harm(agent, nginx):
    watching = watch(agent)
    for data in (random.Random(7).randbytes(20_000), frame(SETTINGS, 0, 0) + b"\xff" * 5000, b""):
        client = Http2Client(nginx.port, PREFACE + data, tls=True)
        client.socket.settimeout(1)  # nginx may wait for more for a minute
        try:
            while client.socket.recv(65536):
                pass
        except OSError:
            pass  # reset by nginx, or no reply
        client.close()
    clients = [connect(nginx.port)]
    asked = ask(clients)
    wait_for(lambda: counted(watching, "h2-tls-nginx")["2xx"] >= asked, 60, "the requests of others")
    assert counted(watching, "h2-tls-nginx")["2xx"] == asked
    assert watching.running.alive


SLEEPS = 10


@pytest.mark.statistical
def test_path_follows_the_goroutine_that_serves_the_stream(sonde, agent, run, certificate):  # noqa: F811
    """One goroutine reads the frames, one serves the request, and one sends. The one that serves may run between others without being seen."""
    watching = watch(agent)
    server, port = start_go(run, watching, certificate)
    client = connect(port)
    for _ in range(SLEEPS):
        assert client.reply(client.ask("/sleep"))[":status"] == "200"
    found = recorded(sonde, watching, SLEEPS, route="/sleep", pid=server.pid)
    slept = [sum(part["ns"] for part in parts_of(request, "sleep")) for request in found]
    assert sum(ns > 90_000_000 for ns in slept) >= SLEEPS * 0.7, found
    client.close()


@pytest.mark.statistical
def test_goroutine_behind_another_that_waits_for_a_lock(sonde, agent, run, certificate):  # noqa: F811
    """Of two requests at once, one takes the lock; the other one waits for a goroutine of its own, which waits for the lock. Neither does a system call."""
    watching = watch(agent)
    server, port = start_go(run, watching, certificate)
    clients = [connect(port), connect(port)]
    for _ in range(SLEEPS // 2):
        assert all(client.reply(stream)[":status"] == "200" for client, stream in [(client, client.ask("/lock")) for client in clients])
    found = recorded(sonde, watching, SLEEPS, route="/lock", pid=server.pid)
    waited = [sum(part["ns"] for part in parts_of(request, "lock")) / request["duration_ns"] for request in found]
    assert sum(share > 0.9 for share in waited) >= SLEEPS * 0.7, found
    close(clients)


# ---- other projects' clients ----

@pytest.mark.peer
@pytest.mark.parametrize("streams", [1, 100])
@pytest.mark.parametrize("server", ["nginx", "go"])
def test_counts_equal_those_of_h2load(agent, run, nginx, certificate, server, streams):  # noqa: F811
    """4,000 requests on 4 connections, some of them with replies of 50 kB."""
    watching = watch(agent)
    port, service = (nginx.port, "h2-tls-nginx") if server == "nginx" else (start_go(run, watching, certificate)[1], "h2-tls-go")
    for path, requests in (("large", 100), ("missing", 3900)):
        done = subprocess.run([need_command("h2load"), "-n", str(requests), "-c", "4", "-m", str(streams), f"https://127.0.0.1:{port}/{path}"],
                              capture_output=True, text=True, timeout=60)
        assert re.search(rf"{requests} total, {requests} started, {requests} done, .* 0 errored, 0 timeout", done.stdout), done.stdout
    wait_for(lambda: counted(watching, service)["4xx"] >= 3900, 60, "all requests to be counted")
    assert [counted(watching, service)[status] for status in ("2xx", "4xx", "5xx")] == [100, 3900, 0]
    assert unbound(watching) == 0


APP = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
"""


@pytest.mark.peer
def test_counts_of_hypercorn_equal_those_of_h2load(agent, run, tmp_path, certificate):  # noqa: F811
    """TLS in memory: the requests until the agent has attached to BIO_write are held, and counted as well."""
    python, port = environment("hypercorn-venv", ["hypercorn==0.18.0"], [sys.executable, "/usr/bin/python3"], "sys.version_info >= (3, 10)") / "python", free_port()
    (tmp_path / "app.py").write_text(APP)
    server = run(*named("h2-tls-hypercorn"), python, "-m", "hypercorn", "--bind", f"127.0.0.1:{port}", "--certfile", certificate[0], "--keyfile", certificate[1], "app:app",
                 cwd=tmp_path, name="hypercorn")
    wait_for(lambda: listens(port) or not server.alive, what="hypercorn")
    watching = watch(agent)
    first, asked = connect(port), []
    wait_for(lambda: asked.append(ask([first], 1)) or counted(watching, "h2-tls-hypercorn"), what="the agent to find the connection")
    done = subprocess.run([need_command("h2load"), "-n", "2000", "-c", "4", "-m", "10", f"https://127.0.0.1:{port}/"], capture_output=True, text=True, timeout=60)
    assert "2000 done, 2000 succeeded, 0 failed" in done.stdout, done.stdout
    first.close()
    assert_counted(watching, "h2-tls-hypercorn", Counter({"2xx": sum(asked) + 2000}))
    assert unbound(watching) == 0
