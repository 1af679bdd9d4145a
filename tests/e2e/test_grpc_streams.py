"""Calls of gRPC whose reply has several messages: as many as the client received, at the times of its clock (grpcio)."""
import json
import re
import subprocess

import pytest
from harness.paths import TOP
from harness.processes import wait_for
from harness.results import variants
from real_servers import why
from test_grpc_tls import NEWEST, python_of
from test_request_counts import NO_BUDGET, named
from test_requests_tls import certificate, watch  # noqa: F401
from test_streams import assert_parts_add_up

pytestmark = [pytest.mark.usefixtures("root"), pytest.mark.peer]
PROGRAM = TOP / "tests/workloads/python/grpc_streams.py"
LATE_S = 0.02  # the client's threads share its GIL


def call(server, *certificates):
    done = subprocess.run([python_of(NEWEST), PROGRAM, "call", str(server.port), *certificates], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return {line["client"]: line for line in map(json.loads, done.stdout.splitlines())}


def start(run, *certificates):
    server = run(*named("grpc-streams"), python_of(NEWEST), PROGRAM, "serve", *certificates, name="grpc-streams")
    server.port = int(wait_for(lambda: re.search(r"^port (\d+)\n", server.out), what="the server")[1])
    return server


def streams_of(sonde, watching, server, clients):
    def found():
        ended = {int(r["peer"].rsplit(":", 1)[1]): r for r in why(sonde, watching) if r["pid"] == server.pid and "stream" in r and r.get("grpc_status") == 0}
        return {client: ended[client] for client in clients} if ended.keys() >= clients else None
    return wait_for(found, 30, "the streams")


def assert_as_the_client_saw(found, wanted):
    for client, request in found.items():
        stream, seen = request["stream"], wanted[client]
        assert (stream["unit"], stream["count"], stream["is_incomplete"]) == ("chunk", seen["messages"], False), (request, seen)
        assert abs(stream["first_ns"] / 1e9 - seen["first_s"]) < LATE_S and abs(stream["last_ns"] / 1e9 - seen["last_s"]) < LATE_S, (stream, seen)
        assert request["route"] == f"/llm.Service/{seen['method']}", request
        assert_parts_add_up(request)


@pytest.mark.parametrize("tls", variants(False, True))
def test_messages_of_a_reply_are_those_of_its_client(sonde, agent, run, certificate, tls):  # noqa: F811
    server = start(run, *(certificate if tls else ()))
    certificates = certificate[:1] if tls else ()
    watching = watch(agent) if tls else agent(*NO_BUDGET)
    if tls:
        call(server, *certificates)  # the agent finds the connections' sockets
    wanted = call(server, *certificates)
    found = streams_of(sonde, watching, server, wanted.keys())
    assert_as_the_client_saw(found, wanted)
    for request in found.values():
        assert sum(part["ns"] for part in request["stream"]["first_parts"] if part["kind"] == "sleep") > 0.1e9, request
    text = subprocess.run([sonde, "why", "--agent", f"127.0.0.1:{watching.port}"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.search(r"Stream: first chunk after 1\d\d ms, then 3\d(\.\d)? ms per chunk, 12 chunks\n", text), text
    assert not any("stream" in r for r in why(sonde, watching) if r["route"].endswith("Whole"))
