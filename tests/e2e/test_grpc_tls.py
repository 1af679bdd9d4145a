"""gRPC over TLS by grpcio, whose library contains BoringSSL without symbols: each call is counted once, with its status, on its own connection. The versions
have BoringSSLs of different years."""
import json
import re
import subprocess
import sys
import time
from collections import Counter

import pytest
from harness.paths import TOP
from harness.processes import wait_for
from http2_client import Http2Client
from pypi import environment
from test_calls import run_calls
from test_http2_tls import close
from test_request_counts import named
from test_requests_tls import assert_on_their_connections, certificate, records, unbound, watch  # noqa: F401

pytestmark = [pytest.mark.usefixtures("root"), pytest.mark.peer]
SERVER = TOP / "tests/workloads/python/grpc_tls_server.py"
NEWEST = "1.85.3"
CONNECTIONS, ROUNDS, STREAMS = 5, 10, 5
CLIENT = """
import sys, threading, grpc
port, certificate, connections, calls = sys.argv[1], open(sys.argv[2], "rb").read(), int(sys.argv[3]), int(sys.argv[4])
def repeat():
    options = [("grpc.ssl_target_name_override", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel("127.0.0.1:" + port, grpc.ssl_channel_credentials(certificate), options) as channel:
        for _ in range(calls):
            assert channel.unary_unary("/test.Service/Calling")(b"hello") == b"ok"
threads = [threading.Thread(target=repeat) for _ in range(connections)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def python_of(version):
    return environment(f"grpcio-{version}-venv", [f"grpcio=={version}"], [sys.executable, "/usr/bin/python3"], "(3, 9) <= sys.version_info[:2] <= (3, 12)") / "python"


@pytest.fixture
def server(request, run, certificate):  # noqa: F811
    """Of this version of grpcio, the newest one by default."""
    server = run(*named("grpc-tls"), python_of(getattr(request, "param", NEWEST)), SERVER, *certificate, name="grpc-tls")
    server.port = int(wait_for(lambda: server.out, what="the server"))
    return server


def connect(server):
    return Http2Client(server.port, tls=True)


def call(clients, rounds=ROUNDS):
    """STREAMS at a time on each connection; returns how many."""
    for _ in range(rounds):
        called = [(client, client.call(f"/of/p{client.own_port}", b"\x0a\x05hello")) for client in clients for _ in range(STREAMS)]
        assert all(client.reply(stream)["grpc-status"] == "0" for client, stream in called)
    return len(clients) * rounds * STREAMS


def counted(watching):
    """{status of gRPC: calls}"""
    found = Counter()
    for key, value in watching.metrics().items():
        if key.startswith("rpc_server_call_duration_seconds_count{") and 'service_name="grpc-tls"' in key:
            status = re.search(r'rpc_response_status_code="(\w+)"', key)
            found[status[1] if status else "not known"] += int(value)
    return +found


def settled(watching):
    """What was counted, once nothing more follows."""
    seen = [Counter(), counted(watching)]
    while seen[-1] != seen[-2] or not seen[-1]:
        time.sleep(1.5)  # the counts of a series follow within a second
        seen.append(counted(watching))
    return seen[-1]


def call_until_found(watching, clients):
    """The first replies show that TLS is in memory; their calls are held until a later one shows the socket. Returns how many there were."""
    called = []
    wait_for(lambda: called.append(call(clients, 1)) or counted(watching), what="the agent to find the connections")
    return sum(called)


@pytest.mark.parametrize("server", ["1.59.5", "1.72.2", NEWEST], indirect=True)
def test_calls(agent, server):
    """The reply of Large is several records of TLS."""
    watching, clients = watch(agent), [connect(server) for _ in range(CONNECTIONS)]
    called = call_until_found(watching, clients) + call(clients)
    assert clients[0].reply(clients[0].call("/test.Service/Missing"))["grpc-status"] == "5"
    assert clients[0].reply(clients[0].call("/test.Service/Large"))["grpc-status"] == "0"
    wait_for(lambda: counted(watching).total() >= called + 2, 60, "all calls to be counted")
    close(clients)
    assert counted(watching) == {"OK": called + 1, "NOT_FOUND": 1}
    found = wait_for(lambda: records(watching, server.pid), what="calls with a record")
    assert_on_their_connections([call for call in found if call["route"].startswith("/of/")])
    assert {call["protocol"] for call in found} == {"grpc"}
    missing, = [call for call in found if call["route"] == "/test.Service/Missing"]
    assert missing["grpc_status"] == 5 and missing["tls"]
    assert unbound(watching) == 0


def test_objects_at_the_addresses_of_others(agent, server):
    """Each connection ends before the next one begins. The first ones end before the agent knows that TLS is in memory, and nothing of them is left to others."""
    watching = watch(agent)

    def call_on_new_connection():
        client = connect(server)
        called = call([client], 1)
        close([client])
        return called
    for _ in range(10):
        call_on_new_connection()
    wait_for(lambda: call_on_new_connection() and counted(watching), what="the agent to find the connections")
    before = settled(watching)
    called = sum(call_on_new_connection() for _ in range(30))
    wait_for(lambda: (counted(watching) - before).total() >= called, 30, "all calls to be counted")
    assert counted(watching) - before == {"OK": called}
    assert_on_their_connections(records(watching, server.pid))


def test_connection_that_is_older_than_the_agent(agent, server):
    """It is recognized once a newer one has shown that TLS is in memory."""
    clients = [connect(server) for _ in range(2)]
    call(clients, 1)
    watching = watch(agent)
    call_until_found(watching, [connect(server)])
    call(clients, 3)
    before = settled(watching)
    called = call(clients)
    wait_for(lambda: (counted(watching) - before).total() >= called, 30, "all calls to be counted")
    assert (counted(watching) - before).total() == called, "their status is sent as an index that is older than the agent"
    close(clients)


def test_calls_of_a_client(sonde, agent, server, certificate):  # noqa: F811
    """grpcio's client, on four connections at once; and the server's own client, whose calls are known once the process has served a call."""
    watching, clients = watch(agent), [connect(server)]
    called = call_until_found(watching, clients)
    done = subprocess.run([python_of(NEWEST), "-c", CLIENT, str(server.port), certificate[0], "4", "100"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    wait_for(lambda: counted(watching).total() >= called + 2 * 400, 60, "all calls to be counted")
    assert counted(watching) == {"OK": called + 2 * 400}

    def call_of_server():
        calls = json.loads(run_calls(sonde, "--json", "--service", f"127.0.0.1:{server.port}", "--agent", f"127.0.0.1:{watching.port}").stdout)["calls"]
        return next((call for call in calls if call["protocol"] == "gRPC" and call["calls"] >= 400), None)
    call_found = wait_for(call_of_server, what="the calls of the server")
    assert [(kind["kind"], kind["calls"]) for kind in call_found["kinds"]] == [("/test.Service/Inner", 400)] and not call_found["failed"], call_found
    close(clients)
