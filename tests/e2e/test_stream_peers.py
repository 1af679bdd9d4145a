"""Streams of tokens from servers that were not written for Sonde: FastAPI on uvicorn, Node.js, Go's net/http, without TLS and over it."""
import re
from pathlib import Path

import pytest
from asgi_environment import environment  # noqa: F401 (a fixture)
from go_programs import go_build
from harness.machine import free_port, need_command
from harness.paths import TOP
from harness.processes import wait_for
from real_servers import Server, start_nginx
from test_requests_tls import certificate  # noqa: F401 (a fixture)
from test_streams import NO_BUDGET, ask, ask_at_once, ask_early, assert_parts_add_up, chat, start_model_server, streams_of, watch_tls

pytestmark = pytest.mark.usefixtures("root")
TOKENS = 8


def started(running):
    said = wait_for(lambda: re.search(r"^port (\d+)\n", running.out) or not running.alive, what="the server")
    assert running.alive, running.error
    return Server(running, int(said[1]), [running.pid])


def assert_tokens(sonde, watching, server, tls=False, count=10):
    """`count`: streams that the agent sees, ten of them of the server."""
    ask_at_once(server.port, [chat(TOKENS) for _ in range(10)], tls)
    for request in streams_of(sonde, watching, server, count, 1 if tls else 10).values():
        stream = request["stream"]
        assert (stream["unit"], stream["count"], stream["is_late"], stream["is_incomplete"]) == ("token", TOKENS, False, False), request
        assert (request["tls"] if tls else "tls" not in request) and request["model"] == "meta/llama-3.1-8b", request
        assert_parts_add_up(request)


def assert_streams(sonde, agent, server):
    """Of OpenAI's API, each stream is whole. Of other paths the first one may lack the event that went out with its header."""
    assert_tokens(sonde, agent(*NO_BUDGET), server)


def assert_streams_over_tls(sonde, agent, server):
    assert_tokens(sonde, watch_tls(agent, server.port), server, tls=True)


def assert_later_streams(sonde, agent, server):
    watching = agent(*NO_BUDGET)
    for _ in range(3):
        ask(server.port, path="/notes")
    streams = [r["stream"] for r in sorted(streams_of(sonde, watching, server, 3).values(), key=lambda r: r["start_time_unix_nano"])]
    assert streams[0]["is_late"] and streams[0]["count"] >= TOKENS - 1, streams
    assert [(s["is_late"], s["count"]) for s in streams[1:]] == [(False, TOKENS)] * 2, streams


CHECKS = pytest.mark.parametrize("check, is_tls", [(assert_streams, False), (assert_later_streams, False), (assert_streams_over_tls, True)],
                                 ids=["openai", "others", "openai-tls"])


@pytest.mark.peer
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_fastapi_replies_before_it_has_read_the_body(sonde, run, agent, environment, certificate, tls):  # noqa: F811
    server = started(run(environment / "python", Path(__file__).with_name("stream_app.py"), *(certificate if tls else ()), name="fastapi"))
    watching = watch_tls(agent, server.port) if tls else agent(*NO_BUDGET)
    for _ in range(5):
        ask_early(server.port, chat(TOKENS), "/v1/chat/completions", tls)
    for request in streams_of(sonde, watching, server, 5).values():
        assert (request["stream"]["count"], request["stream"]["is_late"], request["stream"]["is_incomplete"]) == (TOKENS, False, False), request


@pytest.mark.peer
@CHECKS
def test_fastapi(sonde, run, agent, environment, certificate, check, is_tls):  # noqa: F811
    check(sonde, agent, started(run(environment / "python", Path(__file__).with_name("stream_app.py"), *(certificate if is_tls else ()), name="fastapi")))


@pytest.mark.peer
@CHECKS
def test_node(sonde, run, agent, certificate, check, is_tls):  # noqa: F811
    check(sonde, agent, started(run(need_command("node"), TOP / "tests/workloads/node/tokens.js", *(certificate if is_tls else ()), name="node")))


@pytest.mark.peer
@CHECKS
def test_go(sonde, run, agent, tmp_path, certificate, check, is_tls):  # noqa: F811
    check(sonde, agent, started(run(go_build(tmp_path, "local", name="tokens"), *(certificate if is_tls else ()), name="go")))


@pytest.mark.peer
def test_nginx_in_front(sonde, run, agent, tmp_path, certificate):  # noqa: F811
    """nginx, with TLS on its socket, forwards the stream of a server without TLS: both are streams."""
    behind, _ = start_model_server(run, tmp_path)
    tmp_path.chmod(0o755)
    port = free_port()
    nginx = start_nginx(run, tmp_path, f"listen 127.0.0.1:{port} ssl; ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]};"
                                       f"location / {{ proxy_pass http://127.0.0.1:{behind.port}; proxy_buffering off; }}")
    nginx.port = port
    assert_tokens(sonde, watch_tls(agent, port), nginx, tls=True, count=20)
