"""Who may read the agent: the rights on its Unix socket, and how subcommands find it."""
import http.client
import os
import socket
import stat
import subprocess

import pytest
from harness.processes import wait_for
from test_http import FAKE_PAGE, Server

OWN_SOCKET = ["unshare", "--mount", "sh", "-ec", "mkdir -p /run/sonde; mount -t tmpfs sonde /run/sonde; exec \"$@\"", "own-socket"]


class OverSocket(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("anything.example", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


def get(connection, path, headers=None):
    """(status, body)"""
    connection.request("GET", path, headers=headers or {})
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, body


def test_socket_serves_the_page_under_any_host_name(tmp_path):
    path = tmp_path / "run" / "page.sock"
    s = Server(PAGE_SOCKET=str(path))
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert get(OverSocket(path), "/healthz") == (200, b"ok\n")
        assert get(OverSocket(path), "/api/v1/status")[1] == s.ask("/api/v1/status")[2]
        second = subprocess.run([FAKE_PAGE, "normal", "127.0.0.1:0"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
                                env={**os.environ, "PAGE_SOCKET": str(path)})
        assert second.returncode == 1 and f"page.socket: {path}: another program, perhaps another agent, listens there" in second.stderr
        s.process.kill()
        s.process.wait()
        again = Server(PAGE_SOCKET=str(path))
        assert get(OverSocket(path), "/healthz")[0] == 200
        assert again.stop() == 0 and not path.exists()
    finally:
        s.process.kill()


def test_network_address_is_enough_where_no_socket_can_be_made():
    done = Server(PAGE_SOCKET="/proc/sonde/page.sock")
    assert done.ask("/healthz")[0] == 200 and done.stop() == 0


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


@pytest.fixture
def socket_agent(agent, tmp_path):
    """An agent that only its socket serves, and the path."""
    tmp_path.chmod(0o755)
    for folder in (tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    path = tmp_path / "run" / "sonde.sock"

    def start(*options):
        started = agent("--listen", "none", "--set", f"page.socket={path}", *options, wait=False)
        wait_for(lambda: str(path) in started.running.out, 60, "the agent's socket")
        return started, path
    return start


def test_agent_on_its_socket_alone_answers_root_and_refuses_others(socket_agent, sonde):
    started, path = socket_agent("--set", "requests.enabled=false", "--set", "recorder.enabled=false")
    assert "http://" not in started.running.out and "password" not in started.running.error
    ask = [sonde, "requests", "--json", "--agent", path]
    assert subprocess.run(ask, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30).stdout.startswith('{"coverage"')
    refused = subprocess.run(ask, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, preexec_fn=as_nobody)
    assert refused.returncode == 1 and refused.stdout == "" and "only root and the socket's group can query the agent" in refused.stderr
    assert started.stop() == 0 and not path.exists()


def test_subcommands_find_the_agent_by_its_socket(sonde, root):
    """In a mount namespace of its own, so that it meets no other agent of the node."""
    script = """
        "$1" up --listen none --set requests.enabled=false --set recorder.enabled=false & agent=$!
        until [ -S /run/sonde/sonde.sock ]; do sleep 0.1; kill -0 $agent; done
        "$1" requests --json; "$1" doctor --json; kill $agent; wait $agent; [ ! -e /run/sonde/sonde.sock ]"""
    done = subprocess.run([*OWN_SOCKET, "sh", "-ec", script, "script", sonde], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert '{"coverage"' in done.stdout and '"running agent","good":true,"value":"at /run/sonde/sonde.sock, nothing is reduced' in done.stdout
