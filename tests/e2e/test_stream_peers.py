"""Streams of tokens from servers that were not written for Sonde: FastAPI on uvicorn, Node.js, Go's net/http."""
import re
from pathlib import Path

import pytest
from asgi_environment import environment  # noqa: F401 (a fixture)
from go_programs import go_build
from harness.machine import need_command
from harness.paths import TOP
from harness.processes import wait_for
from real_servers import Server
from test_streams import NO_BUDGET, ask, ask_at_once, assert_parts_add_up, chat, streams_of

pytestmark = pytest.mark.usefixtures("root")
TOKENS = 8


def started(running):
    said = wait_for(lambda: re.search(r"^port (\d+)\n", running.out) or not running.alive, what="the server")
    assert running.alive, running.error
    return Server(running, int(said[1]), [running.pid])


def assert_streams(sonde, agent, server):
    """Of OpenAI's API, each stream is whole. Of other paths the first one may lack the event that went out with its header."""
    watching = agent(*NO_BUDGET)
    ask_at_once(server.port, [chat() for _ in range(10)])
    for request in streams_of(sonde, watching, server, 10).values():
        stream = request["stream"]
        assert (stream["unit"], stream["count"], stream["is_late"], stream["is_incomplete"]) == ("token", TOKENS, False, False), request
        assert_parts_add_up(request)


def assert_later_streams(sonde, agent, server):
    watching = agent(*NO_BUDGET)
    for _ in range(3):
        ask(server.port, path="/notes")
    streams = [r["stream"] for r in sorted(streams_of(sonde, watching, server, 3).values(), key=lambda r: r["start_time_unix_nano"])]
    assert streams[0]["is_late"] and streams[0]["count"] >= TOKENS - 1, streams
    assert [(s["is_late"], s["count"]) for s in streams[1:]] == [(False, TOKENS)] * 2, streams


@pytest.mark.peer
@pytest.mark.parametrize("check", [assert_streams, assert_later_streams], ids=["openai", "others"])
def test_fastapi(sonde, run, agent, environment, check):  # noqa: F811
    check(sonde, agent, started(run(environment / "python", Path(__file__).with_name("stream_app.py"), name="fastapi")))


@pytest.mark.peer
@pytest.mark.parametrize("check", [assert_streams, assert_later_streams], ids=["openai", "others"])
def test_node(sonde, run, agent, check):
    check(sonde, agent, started(run(need_command("node"), TOP / "tests/workloads/node/tokens.js", name="node")))


@pytest.mark.peer
@pytest.mark.parametrize("check", [assert_streams, assert_later_streams], ids=["openai", "others"])
def test_go(sonde, run, agent, tmp_path, check):
    check(sonde, agent, started(run(go_build(tmp_path, "local", name="tokens"), name="go")))
