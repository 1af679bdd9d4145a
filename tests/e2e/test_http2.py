"""Streams of HTTP/2 and gRPC calls are requests: each once, with its method, route, status and protocol, also on connections that are older than the
agent; and hostile connections do no harm."""
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from h2_grpc_receiver import H2GrpcReceiver
from harness.machine import free_port, need_command
from harness.processes import wait_for
from http2_client import CONTINUATION, DATA, END_HEADERS, GET, HEADERS, PREFACE, RST_STREAM, SETTINGS, Http2Client, frame
from pypi import environment
from real_servers import start_nginx, start_threading, why
from test_request_counts import NO_BUDGET, assert_counted, counted, named

pytestmark = pytest.mark.usefixtures("root")
LOCATIONS = "location /ok {{ return 200 ok; }} location /failing {{ return 503; }} location /slow/ {{ proxy_pass http://127.0.0.1:{}/; }} location / {{ root {}; }}"


@pytest.fixture
def nginx(run, tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "file").write_bytes(b"x" * 300_000)
    upstream = start_threading(run)
    return start_nginx(run, tmp_path, LOCATIONS.format(upstream.port, tmp_path), "http2_max_concurrent_streams 200;", named("h2-nginx"), options="http2")


@pytest.fixture
def grpc_server():
    server = H2GrpcReceiver((0, ""), (5, "no such thing"), (0, ""))
    yield server
    server.close()


def port_of(receiver):
    return int(receiver.url.rpartition(":")[2])


def recorded(sonde, watching, count, **wanted):
    """At least `count` requests with these members."""
    def found():
        all_of_them = [r for r in why(sonde, watching) if all(r.get(key) == value for key, value in wanted.items())]
        return all_of_them if len(all_of_them) >= count else None
    return wait_for(found, 30, f"{count} requests with {wanted}")


def test_streams_are_counted_with_their_status(sonde, agent, nginx):
    """100 streams at a time on one connection; nginx's file of 300 kB ends when its last byte was sent."""
    watching, client = agent(*NO_BUDGET), Http2Client(nginx.port)
    targets = ["/ok?token=secret", "/missing", "/failing", "/ok"] * 25
    streams = [client.ask(target) for target in targets]
    statuses = Counter(f"{client.reply(stream)[':status'][0]}xx" for stream in streams)
    assert statuses == {"2xx": 50, "4xx": 25, "5xx": 25}
    assert client.reply(client.ask("/slow/sleep"))[":status"] == "200"
    assert_counted(watching, "h2-nginx", statuses + Counter({"2xx": 1}))
    slow, = recorded(sonde, watching, 1, route="/slow/sleep", protocol="http/2")
    assert slow["status"] == 200 and slow["method"] == "GET" and slow["pid"] == nginx.pid and slow["upstream"], slow
    assert any("nanosleep" in part["detail"] for part in slow["parts"]), slow
    assert "secret" not in str(why(sonde, watching))


def test_grpc_calls_have_their_own_status(sonde, agent, grpc_server):
    watching, client = agent(*NO_BUDGET), Http2Client(port_of(grpc_server))
    for wanted in ("0", "5", "0"):
        assert client.reply(client.call("/shop.Cart/GetItem"))["grpc-status"] == wanted
    calls = recorded(sonde, watching, 3, route="/shop.Cart/GetItem")
    assert Counter(call["grpc_status"] for call in calls) == {0: 2, 5: 1}
    assert all((call["protocol"], call["method"], call["status"], call["pid"]) == ("grpc", "POST", 200, os.getpid()) for call in calls), calls
    text = subprocess.run([sonde, "why", "--agent", f"127.0.0.1:{watching.port}"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "status NOT_FOUND" in text, text
    called = {"rpc_method": "shop.Cart/GetItem", "rpc_system_name": "grpc"}
    wait_for(lambda: [watching.metric("rpc_server_call_duration_seconds_count", rpc_response_status_code=code, **called) for code in ("OK", "NOT_FOUND")] == [2, 1],
             what="the calls to be counted")


def test_model_names_the_route_of_an_inference_call(sonde, agent, grpc_server):
    watching, client = agent(*NO_BUDGET), Http2Client(port_of(grpc_server))
    infer = b"\x0a\x06resnet\x12\x012\x1a\x02id"
    client.reply(client.call("/inference.GRPCInferenceService/ModelInfer", infer))
    client.reply(client.call("/shop.Cart/GetItem", b"\x0a\x06secret"))
    found = recorded(sonde, watching, 2, protocol="grpc")
    assert {request["route"] for request in found} == {"/inference.GRPCInferenceService/ModelInfer resnet:2", "/shop.Cart/GetItem"}


def test_connection_that_is_older_than_the_agent(sonde, agent, nginx):
    """Its requests are counted; header fields that were sent before are not known, later ones are."""
    client = Http2Client(nginx.port)
    client.reply(client.ask("/ok"))
    watching = agent(*NO_BUDGET)
    for target in ("/ok", "/ok", "/missing", "/missing"):
        client.reply(client.ask(target))
    assert_counted(watching, "h2-nginx", Counter({"2xx": 2, "4xx": 2}))
    routes = Counter(request["route"] for request in recorded(sonde, watching, 4, pid=nginx.pid))
    assert routes == {"*": 2, "/missing": 2}


@pytest.mark.thorough
def test_model_on_a_connection_that_is_older_than_the_agent(sonde, agent, grpc_server):
    """Clients of gRPC keep a connection for as long as they run. KServe's request is recognized by its first tensor; another service's field stays unknown."""
    client = Http2Client(port_of(grpc_server))
    tensor = b"\x0a\x05image\x12\x04FP32\x1a\x01\x04"
    infer = b"\x0a\x06resnet\x12\x012\x1a\x02id\x2a" + bytes([len(tensor)]) + tensor
    calls = [("/inference.GRPCInferenceService/ModelInfer", infer), ("/shop.Cart/GetItem", b"\x0a\x06secret")]
    for path, payload in calls:
        client.reply(client.call(path, payload))
    watching = agent(*NO_BUDGET)
    for path, payload in calls:
        client.reply(client.call(path, payload))
    found = recorded(sonde, watching, 2, protocol="grpc", port=port_of(grpc_server))
    assert {request["route"] for request in found} == {"/inference.GRPCInferenceService/* resnet:2", "*"}, found
    assert "secret" not in str(why(sonde, watching))
    text = subprocess.run([sonde, "requests", "--agent", f"127.0.0.1:{watching.port}"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "*: not known, as the connection is older than the agent" in text, text


def test_frames_that_arrive_in_pieces(sonde, agent, nginx):
    """Every byte in a segment of its own, also of CONTINUATION frames with padding before them."""
    watching = agent(*NO_BUDGET)
    client = Http2Client(nginx.port)
    client.socket.setsockopt(6, 1, 1)  # TCP_NODELAY
    block = GET + b"\x86" + client.fields((":path", "/ok"), (":authority", "test"))
    whole = frame(HEADERS, 1 | 8, 1, b"\x03" + block[:7] + bytes(3)) + frame(CONTINUATION, 0, 1, block[7:9]) + frame(CONTINUATION, END_HEADERS, 1, block[9:])
    for i in range(len(whole)):
        client.send(whole[i:i + 1])
    assert client.reply(1)[":status"] == "200"
    found, = recorded(sonde, watching, 1, pid=nginx.pid)
    assert found["route"] == "/ok" and found["protocol"] == "http/2"


def hostile_connections():
    """(name, bytes) of connections that nginx refuses, or that a server must survive."""
    start = PREFACE + frame(SETTINGS, 0, 0)
    block = GET + b"\x86\x84\x41\x04test"
    yield "garbage", PREFACE + random.Random(7).randbytes(20_000)
    yield "too long", start + b"\xff\xff\xff" + frame(HEADERS, END_HEADERS, 1, block)[3:]
    yield "cut", start + frame(HEADERS, END_HEADERS, 1, block)[:-3]
    yield "continuation flood", start + frame(HEADERS, 0, 1, block) + frame(CONTINUATION, 0, 1, b"\x82" * 1000) * 500
    yield "reset flood", start + b"".join(frame(HEADERS, 1 | END_HEADERS, i, block) + frame(RST_STREAM, 0, i, b"\0\0\0\x08") for i in range(1, 4001, 2))
    yield "streams", start + b"".join(frame(HEADERS, END_HEADERS, i, block) for i in range(1, 20001, 2))
    yield "bomb", start + frame(HEADERS, 1 | END_HEADERS, 1, GET + b"\x3f\xe1\xff\xff\x07" + b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000 + b"\xbe" * 8000)
    yield "empty frames", start + frame(DATA, 0, 1) * 30_000
    yield "bad index", start + frame(HEADERS, 1 | END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff\xff")


@pytest.mark.thorough
def test_hostile_connections_do_no_harm(sonde, agent, nginx):
    """The agent keeps its memory, and counts the requests of others exactly."""
    watching = agent(*NO_BUDGET)
    for _, data in hostile_connections():
        client = Http2Client(nginx.port, b"")
        try:
            client.send(data)
            client.socket.shutdown(1)
            while client.socket.recv(65536):
                pass
        except OSError:
            pass  # reset by nginx
        client.close()
    settled = [-1, counted(watching, "h2-nginx")["4xx"]]
    while settled[-1] != settled[-2]:  # the counts of a series follow within a second
        time.sleep(1.5)
        settled.append(counted(watching, "h2-nginx")["4xx"])
    before, client = settled[-1], Http2Client(nginx.port)
    streams = [client.ask("/other") for _ in range(20)]
    assert all(client.reply(stream)[":status"] == "404" for stream in streams)
    wait_for(lambda: counted(watching, "h2-nginx")["4xx"] >= before + 20, what="the requests of others")
    assert counted(watching, "h2-nginx")["4xx"] == before + 20
    assert watching.running.alive


class UpgradingServer(H2GrpcReceiver):
    """Speaks HTTP/1 until a request asks for HTTP/2 without TLS (h2c), to which it replies on stream 1."""

    def serve(self, connection):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += connection.recv(1)
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + frame(SETTINGS, 0, 0) + frame(HEADERS, 1 | END_HEADERS, 1, b"\x88"))
        super().serve(connection)


@pytest.mark.thorough
def test_connection_that_is_upgraded_to_http2(sonde, agent):
    """The request that asks for it is counted once, and so is each stream after it."""
    server = UpgradingServer((0, ""))
    watching = agent(*NO_BUDGET)
    client = Http2Client(port_of(server), b"GET /upgraded HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n\r\n")
    while client.incoming.readline() != b"\r\n":
        pass
    client.send(PREFACE + frame(SETTINGS, 0, 0))
    client.next = 3
    assert client.reply(1)[":status"] == "200"
    for _ in range(3):
        assert client.reply(client.call("/shop.Cart/GetItem"))["grpc-status"] == "0"
    server.close()
    calls = recorded(sonde, watching, 3, route="/shop.Cart/GetItem")
    assert all((call["protocol"], call["grpc_status"], call["status"]) == ("grpc", 0, 200) for call in calls), calls
    wait_for(lambda: watching.metric("rpc_server_call_duration_seconds_count", rpc_method="shop.Cart/GetItem") == 3, what="the calls to be counted")
    assert watching.metric("http_server_request_duration_seconds_count", http_route="/upgraded") == 1


# ---- other projects' servers and clients ----

@pytest.mark.peer
@pytest.mark.parametrize("server", ["nghttpd", "nginx"])
@pytest.mark.parametrize("streams", [1, 100])
def test_counts_equal_those_of_h2load(sonde, agent, run, tmp_path, nginx, server, streams):
    """4,000 requests on 4 connections, some of them replies of 300 kB."""
    h2load, port, service = need_command("h2load"), nginx.port, "h2-nginx"
    if server == "nghttpd":
        port, service = free_port(), "nghttpd"
        run(need_command("nghttpd"), "--no-tls", "-d", tmp_path, port, name="nghttpd")
    watching = agent(*NO_BUDGET)
    for path, requests in (("file", 100), ("missing", 3900)):
        done = subprocess.run([h2load, "-n", str(requests), "-c", "4", "-m", str(streams), f"http://127.0.0.1:{port}/{path}"], capture_output=True, text=True, timeout=60)
        assert re.search(rf"{requests} total, {requests} started, {requests} done, .* 0 errored, 0 timeout", done.stdout), done.stdout
    assert_counted(watching, service, Counter({"2xx": 100, "4xx": 3900}))


GRPC_SERVER = Path(__file__).resolve().parent.parent / "workloads/python/grpc_server.py"


@pytest.fixture
def grpcio():
    return environment("grpcio-venv", ["grpcio==1.74.0"], [sys.executable, "/usr/bin/python3"], "True") / "python"


@pytest.mark.peer
@pytest.mark.statistical
def test_causes_of_grpcio_calls(sonde, agent, run, grpcio):
    """A thread pool of C-core: what each call waits for is found through the threads of the pool."""
    server = run(grpcio, GRPC_SERVER, "serve", name="grpcio")
    port = int(wait_for(lambda: re.search(r"^port (\d+)\n", server.out), what="the server")[1])
    watching = agent(*NO_BUDGET)
    client = subprocess.run([grpcio, GRPC_SERVER, "call", str(port)], capture_output=True, text=True, timeout=120)
    assert client.returncode == 0, client.stderr
    wanted = {"Sleepy": (["sleep"], "sleepy() grpc_server.py"), "Compute": (["cpu", "lock"], "burn() grpc_server.py"),  # those that compute share the GIL
              "Locked": (["lock"], "hold() grpc_server.py"),
              "Calling": (["sleep", "lock"], "sleepy() grpc_server.py")}  # C-core's thread hands the answer on under a lock
    for method, (kinds, place) in wanted.items():
        calls = recorded(sonde, watching, 5, route=f"/test.Service/{method}", grpc_status=0)
        named_right = [call for call in calls if max(call["parts"], key=lambda part: part["ns"])["kind"] in kinds and place in call["cause"]]
        assert len(named_right) >= len(calls) * 0.6, (method, [call["cause"] for call in calls])
