"""Streams of server-sent events: their tokens, as the agent counts and times them, are those in the log of a model server (model_server.py)."""
import http.client
import json
import re
import socket
import ssl
import sys
import threading
import time

import pytest
from harness.paths import TOP
from harness.processes import wait_for
from harness.results import variants
from real_servers import Server, why
from test_requests_tls import certificate, watch  # noqa: F401 (a fixture)

pytestmark = pytest.mark.usefixtures("root")
SERVER = TOP / "tests/workloads/python/model_server.py"
HOSTILE = TOP / "tests/workloads/python/hostile_streams.py"
STREAMS, TOKENS = 20, 12
WARM_UP = "/warm-up"
# By model: tokens, chunks, whether something was not read.
HOSTILE_TOKENS = {"/bytes": (3, 3, False), "/chunks": (3, 3, False), "/head": (1, 1, False), "/data-in-head": (1, 1, False), "/megabyte": (2, 2, True),
                  "/no-newline": (0, 1, True), "/binary": (1, 2, False), "/not-chunks": (1, 1, True), "/cut": (2, 2, False), "/many": (200, 200, False),
                  "/parts": (11, 11, False)}
NO_BUDGET = ("--set", "budget.one_cpu=1000%")
UNVERIFIED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
UNVERIFIED.check_hostname, UNVERIFIED.verify_mode = False, ssl.CERT_NONE


def start_model_server(run, folder, *options):
    """(server, its log)"""
    log = folder / "tokens.jsonl"
    running = run(sys.executable, SERVER, log, *options, name="model-server")
    said = wait_for(lambda: re.search(r"^port (\d+)\n", running.out) or not running.alive, what="the server")
    assert running.alive, running.error
    return Server(running, int(said[1]), [running.pid]), log


def connect(port, tls):
    return (http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=UNVERIFIED) if tls
            else http.client.HTTPConnection("127.0.0.1", port, timeout=60))


def ask(port, body=None, path="/v1/chat/completions", tls=False):
    """One request on a connection of its own, read to its end."""
    connection = connect(port, tls)
    try:
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
        return connection.getresponse().read()
    finally:
        connection.close()


def ask_after_continue(port, body, tls):
    """The same; the body follows the server's 100 (Continue)."""
    data, expected = json.dumps(body).encode(), b"HTTP/1.1 100 Continue\r\n\r\n"
    connection = connect(port, tls)
    try:
        connection.putrequest("POST", "/v1/chat/completions")
        connection.putheader("Expect", "100-continue")
        connection.putheader("Content-Length", str(len(data)))
        connection.endheaders()
        assert connection.sock.recv(len(expected)) == expected
        connection.send(data)
        return connection.getresponse().read()
    finally:
        connection.close()


def ask_early(port, body, path, tls=False):
    """The same; the body follows the head of the reply."""
    data = json.dumps(body).encode()
    connection = connect(port, tls)
    try:
        connection.putrequest("POST", path)
        connection.putheader("Content-Length", str(len(data)))
        connection.endheaders()
        response = connection.response_class(connection.sock, method="POST")
        response.begin()
        connection.send(data)
        return response.read()
    finally:
        connection.close()


def ask_at_once(port, bodies, tls=False):
    threads = [threading.Thread(target=ask, args=(port, body), kwargs={"tls": tls}) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def logged(log):
    return {line["client"]: line for line in map(json.loads, log.read_text().splitlines())}


def streams_of(sonde, watching, server, count, least=None):
    """{client's port: request} of the server, once `count` streams have ended since the agent started. `least`: so many of them have a record, if not all."""
    name = "gen_ai_server_request_duration_seconds_count"
    wait_for(lambda: watching.metric(name) - watching.metric(name, http_route=WARM_UP) >= count, 60, "the streams to end")
    found = {int(r["peer"].rsplit(":", 1)[1]): r for r in why(sonde, watching) if r["pid"] == server.pid and r["route"] != WARM_UP}
    assert (least or count) <= len(found) <= count and all("stream" in r for r in found.values()), found
    return found


def chat(tokens=TOKENS, **more):
    return {"messages": [{"role": "user", "content": 'say "model":"wrong"'}], "model": "meta/llama-3.1-8b", "stream": True, "max_tokens": tokens, **more}


def assert_parts_add_up(request):
    assert sum(part["ns"] for part in request["stream"]["first_parts"]) == request["stream"]["first_ns"], request


def unattributed(parts):
    return sum(part["ns"] for part in parts if part["kind"] == "unattributed")


def watch_tls(agent, port):
    """An agent that has found the connections of the server's process, by its first replies."""
    watching = watch(agent)

    def is_seen():
        ask(port, {"stream": False}, WARM_UP, tls=True)
        return watching.metric("http_server_request_duration_seconds_count", http_route=WARM_UP)
    wait_for(is_seen, what="the agent to find the connections")
    return watching


def assert_tokens_are_logged(sonde, watching, server, log, least=STREAMS):
    found, wanted = streams_of(sonde, watching, server, STREAMS, least), logged(log)
    assert found.keys() <= wanted.keys()
    for request in found.values():
        stream = request["stream"]
        assert (stream["unit"], stream["tokens"], stream["count"], stream["is_late"], stream["is_incomplete"]) == ("token", TOKENS, TOKENS, False, False), request
        assert (request["model"], request["route"]) == ("meta/llama-3.1-8b", "/v1/chat/completions"), request
        assert 0 < stream["first_byte_ns"] <= stream["first_ns"] < stream["last_ns"] <= request["duration_ns"], request
        assert_parts_add_up(request)
    labels = {"gen_ai_operation_name": "chat", "gen_ai_request_model": "meta/llama-3.1-8b", "http_route": "/v1/chat/completions"}
    for name in ("request_duration", "time_to_first_token", "time_per_output_token"):
        assert watching.metric(f"gen_ai_server_{name}_seconds_count", **labels) == STREAMS, name


@pytest.mark.parametrize("header", variants("apart", "together", "split"))
def test_tokens_are_those_of_the_log(sonde, run, agent, tmp_path, header):
    """With the header of the reply apart, together with the first event, or in two writes."""
    server, log = start_model_server(run, tmp_path, header)
    watching = agent(*NO_BUDGET)
    ask_at_once(server.port, [chat() for _ in range(STREAMS)])
    assert_tokens_are_logged(sonde, watching, server, log)


@pytest.mark.thorough
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_body_that_waits_for_a_continue(run, agent, tmp_path, certificate, tls):  # noqa: F811
    """The body is no new request: this is still one of OpenAI's API, whose model it names, and whose reply is read from its head on."""
    server, _ = start_model_server(run, tmp_path, *(("tls", *certificate) if tls else ()))
    watching = watch_tls(agent, server.port) if tls else watch(agent)
    ask_after_continue(server.port, chat(), tls)
    name, labels = "gen_ai_server_{}_seconds_count", {"http_route": "/v1/chat/completions", "gen_ai_request_model": chat()["model"]}
    wait_for(lambda: watching.metric(name.format("request_duration"), **labels), 60, "the stream to end")
    assert watching.metric(name.format("time_to_first_token"), **labels) == 1


@pytest.mark.thorough
def test_later_write_of_a_send_over_tls_is_not_its_begin(sonde, run, agent, tmp_path, certificate):  # noqa: F811
    server, _ = start_model_server(run, tmp_path, "tls", *certificate)
    watching = watch_tls(agent, server.port)
    for _ in range(STREAMS):
        assert ask(server.port, path="/two-writes", tls=True) == b"xyzdata: 1\n\n"
    wait_for(lambda: watching.metric("http_server_request_duration_seconds_count", http_route="/two-writes") == STREAMS, 60, "the requests")
    found = wait_for(lambda: [r for r in why(sonde, watching) if r["route"] == "/two-writes"], 60, "a record of one")
    assert not [r for r in found if "stream" in r], found


def test_tokens_over_tls_are_those_of_the_log(sonde, run, agent, tmp_path, certificate):  # noqa: F811
    server, log = start_model_server(run, tmp_path, "split", "tls", *certificate)
    watching = watch_tls(agent, server.port)
    ask_at_once(server.port, [chat() for _ in range(STREAMS)], tls=True)
    assert_tokens_are_logged(sonde, watching, server, log, 1)  # as the process served many others just before


@pytest.mark.thorough
def test_token_that_waits_in_memory_while_a_request_is_read_over_tls(sonde, run, agent, tmp_path, certificate):  # noqa: F811
    """The client sends its next request before it reads the reply, most of which waits for the socket."""
    server, _ = start_model_server(run, tmp_path, "tls", *certificate)
    watching, body = watch_tls(agent, server.port), json.dumps(chat(waits=True)).encode()
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect(("127.0.0.1", server.port))
    with UNVERIFIED.wrap_socket(plain) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        reply = client.recv(1)
        client.sendall(b"GET /next HTTP/1.1\r\n\r\n")
        wait_for(lambda: "read" in server.running.out, what="the server to read the next request")
        while b" 204 No" not in reply:
            reply += client.recv(65536)
    name, labels = "gen_ai_server_request_duration_seconds_count", {"http_route": "/v1/chat/completions"}
    wait_for(lambda: watching.metric(name, **labels), 60, "the stream to end")
    request, = (r for r in why(sonde, watching) if r["pid"] == server.pid and r["route"] == labels["http_route"])
    assert (request["stream"]["unit"], request["stream"]["tokens"]) == ("token", 2), request


@pytest.mark.statistical  # the stream must last until the first record is found
def test_first_token_is_explained_while_the_stream_goes_on(sonde, run, agent, tmp_path):
    """Its tokens follow each other without a pause. The record of the end has the components of the first one."""
    server, _ = start_model_server(run, tmp_path)
    watching = agent(*NO_BUDGET)
    stream = threading.Thread(target=ask, args=(server.port, chat(400)))
    stream.start()
    early = wait_for(lambda: [r for r in why(sonde, watching) if r["pid"] == server.pid and r.get("stream", {}).get("tokens")], what="the first token")[0]
    assert stream.is_alive() and early["duration_ns"] < 1_000_000_000, early
    assert_parts_add_up(early)
    stream.join()
    late, = streams_of(sonde, watching, server, 1).values()
    assert late["stream"]["tokens"] == 400 and late["stream"]["first_ns"] == early["stream"]["first_ns"], (early, late)
    assert_parts_add_up(late)
    assert unattributed(late["stream"]["first_parts"]) <= unattributed(early["stream"]["first_parts"]), (early, late)


def test_usage_and_chunks(sonde, run, agent, tmp_path):
    """The server's own count goes before that of events, and events that are not of a completion are chunks."""
    server, _ = start_model_server(run, tmp_path)
    watching = agent(*NO_BUDGET)
    ask(server.port, chat(8, stream_options={"include_usage": True}))
    ask(server.port, chat(8, plain=True))
    by_unit = {request["stream"]["unit"]: request["stream"] for request in streams_of(sonde, watching, server, 2).values()}
    assert (by_unit["token"]["count"], by_unit["token"]["tokens"], by_unit["token"]["usage"]) == (16, 8, 16), by_unit
    assert (by_unit["chunk"]["count"], by_unit["chunk"]["tokens"]) == (8, 0), by_unit


def start_hostile_server(run):
    running = run(sys.executable, HOSTILE, name="hostile-streams")
    said = wait_for(lambda: re.search(r"^port (\d+)\n", running.out) or not running.alive, what="the server")
    assert running.alive, running.error
    return Server(running, int(said[1]), [running.pid])


def ask_raw(port, model):
    """Reads whatever comes until the end."""
    body = json.dumps({"model": model}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        while connection.recv(65536):
            pass


def test_server_that_replies_before_it_has_read_the_body(sonde, run, agent):
    """The stream is whole. Its model is not known, as the reply is read meanwhile."""
    server, watching = start_hostile_server(run), agent(*NO_BUDGET)
    assert ask_early(server.port, {"model": "/many"}, "/v1/early").count(b"tok") == 200
    request, = streams_of(sonde, watching, server, 1).values()
    assert (request["stream"]["tokens"], request["stream"]["is_late"], request["stream"]["is_incomplete"]) == (200, False, False), request
    assert request["bytes_in"] > len('{"model": "/many"}') + len("POST /v1/early HTTP/1.1"), request


@pytest.mark.thorough
def test_hostile_streams(sonde, run, agent):
    """Wherever events and chunks are split, their number is right; where bytes were not read, the answer says so."""
    server, watching = start_hostile_server(run), agent(*NO_BUDGET)
    for model in HOSTILE_TOKENS:
        ask_raw(server.port, model)
    requests = {r["model"]: r for r in streams_of(sonde, watching, server, len(HOSTILE_TOKENS)).values()}
    for model, (tokens, chunks, is_incomplete) in HOSTILE_TOKENS.items():
        stream = requests[model]["stream"]
        assert (stream["tokens"], stream["chunks"], stream["is_incomplete"], stream["is_late"]) == (tokens, chunks, is_incomplete, False), (model, stream)
    assert watching.metric("sonde_self_losses_total", reason="stream_unread") >= 2


@pytest.mark.statistical
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_times_of_tokens_match_the_log(sonde, run, agent, tmp_path, certificate, tls):  # noqa: F811
    """100 streams, 20 at once. For each that has a record, two times are within 1 ms: when the first token was sent, and how long after it the last one."""
    server, log = start_model_server(run, tmp_path, *(("tls", *certificate) if tls else ()))
    watching = watch_tls(agent, server.port) if tls else agent(*NO_BUDGET)
    for _ in range(5):
        ask_at_once(server.port, [chat(20) for _ in range(STREAMS)], tls)
    found, wanted = streams_of(sonde, watching, server, 5 * STREAMS, 2 * STREAMS), logged(log)
    unix_ns = time.time_ns() - time.monotonic_ns()
    firsts, lasts = [], []
    for client, request in found.items():
        (began, ended), stream = wanted[client]["times"][0], request["stream"]
        first = request["start_time_unix_nano"] + stream["first_ns"] - unix_ns
        firsts.append(max(began - first, first - ended, 0))
        lasts.append(abs(stream["last_ns"] - stream["first_ns"] - (wanted[client]["times"][-1][0] - began)))
    print(len(found), "streams; first, us:", [ns // 1000 for ns in sorted(firsts)[::10]], "last:", [ns // 1000 for ns in sorted(lasts)[::10]])
    assert max(firsts) < 1_000_000 and max(lasts) < 1_000_000, (sorted(firsts)[-5:], sorted(lasts)[-5:])
