"""Streams of server-sent events: their tokens, as the agent counts and times them, are those in the log of a model server (model_server.py)."""
import http.client
import json
import re
import sys
import threading

import pytest
from harness.paths import TOP
from harness.processes import wait_for
from real_servers import Server, why

pytestmark = pytest.mark.usefixtures("root")
SERVER = TOP / "tests/workloads/python/model_server.py"
STREAMS, TOKENS = 20, 12
NO_BUDGET = ("--set", "budget.one_cpu=1000%")


def start_model_server(run, folder, *options):
    """(server, its log)"""
    log = folder / "tokens.jsonl"
    running = run(sys.executable, SERVER, log, *options, name="model-server")
    said = wait_for(lambda: re.search(r"^port (\d+)\n", running.out) or not running.alive, what="the server")
    assert running.alive, running.error
    return Server(running, int(said[1]), [running.pid]), log


def ask(port, body=None, path="/v1/chat/completions"):
    """One request on a connection of its own, read to its end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
        return connection.getresponse().read()
    finally:
        connection.close()


def ask_at_once(port, bodies):
    threads = [threading.Thread(target=ask, args=(port, body)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def logged(log):
    return {line["client"]: line for line in map(json.loads, log.read_text().splitlines())}


def streams_of(sonde, watching, server, count):
    """{client's port: request}, once `count` requests of the server have a record of their end."""
    def found():
        ended = {int(r["peer"].rsplit(":", 1)[1]): r for r in why(sonde, watching) if r["pid"] == server.pid and r["route"] != "/warm"}
        return ended if len(ended) >= count and all("stream" in r for r in ended.values()) else None
    return wait_for(found, 60, "the streams")


def chat(tokens=TOKENS, **more):
    return {"messages": [{"role": "user", "content": 'say "model":"wrong"'}], "model": "meta/llama-3.1-8b", "stream": True, "max_tokens": tokens, **more}


def assert_parts_add_up(request):
    assert sum(part["ns"] for part in request["stream"]["first_parts"]) == request["stream"]["first_ns"], request


@pytest.mark.parametrize("options", [(), ("together",), ("split",)], ids=["header-apart", "header-with-event", "split"])
def test_tokens_are_those_of_the_log(sonde, run, agent, tmp_path, options):
    server, log = start_model_server(run, tmp_path, *options)
    watching = agent(*NO_BUDGET)
    ask_at_once(server.port, [chat() for _ in range(STREAMS)])
    found, wanted = streams_of(sonde, watching, server, STREAMS), logged(log)
    assert found.keys() == wanted.keys()
    for client, request in found.items():
        stream = request["stream"]
        assert (stream["unit"], stream["tokens"], stream["count"], stream["is_late"], stream["is_incomplete"]) == ("token", TOKENS, TOKENS, False, False), request
        assert (request["model"], request["route"]) == ("meta/llama-3.1-8b", "/v1/chat/completions"), request
        assert 0 < stream["first_byte_ns"] <= stream["first_ns"] < stream["last_ns"] <= request["duration_ns"], request
        assert_parts_add_up(request)
    labels = {"gen_ai_operation_name": "chat", "gen_ai_request_model": "meta/llama-3.1-8b", "http_route": "/v1/chat/completions"}
    for name in ("request_duration", "time_to_first_token", "time_per_output_token"):
        assert watching.metric(f"gen_ai_server_{name}_seconds_count", **labels) == STREAMS, name


def test_usage_and_chunks(sonde, run, agent, tmp_path):
    """The server's own count goes before that of events, and events that are not of a completion are chunks."""
    server, _ = start_model_server(run, tmp_path)
    watching = agent(*NO_BUDGET)
    ask(server.port, chat(8, stream_options={"include_usage": True}))
    ask(server.port, chat(8, plain=True))
    by_unit = {request["stream"]["unit"]: request["stream"] for request in streams_of(sonde, watching, server, 2).values()}
    assert (by_unit["token"]["count"], by_unit["token"]["tokens"], by_unit["token"]["usage"]) == (16, 8, 16), by_unit
    assert (by_unit["chunk"]["count"], by_unit["chunk"]["tokens"]) == (8, 0), by_unit


@pytest.mark.statistical
def test_time_to_first_token_is_that_of_the_log(sonde, run, agent, tmp_path):
    server, log = start_model_server(run, tmp_path)
    watching = agent(*NO_BUDGET)
    ask_at_once(server.port, [chat(40) for _ in range(STREAMS)])
    found, wanted = streams_of(sonde, watching, server, STREAMS), logged(log)
    errors = []
    for client, request in found.items():
        times, stream = wanted[client]["times"], request["stream"]
        between = times[-1][0] - times[0][1]  # from the return of the first send to the begin of the last one
        errors.append(abs(stream["last_ns"] - stream["first_ns"] - between))
    assert sorted(errors)[-1] < 1_000_000, sorted(errors)
