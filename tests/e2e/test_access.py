"""Who may read the agent: the rights on its Unix socket, and how subcommands find it."""
import base64
import fcntl
import hashlib
import json
import os
import re
import signal
import socket
import stat
import subprocess
import termios
from pathlib import Path

import pytest
from harness.machine import need_command
from harness.over_socket import OverSocket, get
from harness.paths import TOP
from harness.processes import wait_for
from test_http import FAKE_PAGE, Server

OWN_SOCKET = ["unshare", "--mount", "sh", "-ec", "mkdir -p /run/sonde; mount -t tmpfs sonde /run/sonde; exec \"$@\"", "own-socket"]


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
    assert '{"coverage"' in done.stdout and '"running agent","good":true,"value":"at /run/sonde/sonde.sock, nothing is reduced, uses ' in done.stdout and " % of one CPU (at most 10 %) and " in done.stdout


TOKEN = "sonde_0123456789"
LINE = f"sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()} read for this test\n"
BASIC = f"Authorization: Basic {base64.b64encode(f'anybody:{TOKEN}'.encode()).decode()}"


def test_network_clients_need_a_token_and_the_socket_none(tmp_path):
    file, path = tmp_path / "tokens", tmp_path / "page.sock"
    file.write_text(LINE)
    s = Server(PAGE_TOKENS=str(file), PAGE_SOCKET=str(path), stderr=subprocess.PIPE)
    try:
        for target in ("/", "/api/v1/profile", "/metrics", "/nothing"):
            status, headers, body = s.ask(target)
            assert status == 401 and headers["www-authenticate"] == 'Basic realm="Sonde", charset="UTF-8"' and b"a token is needed" in body
        for header in (f"Authorization: Bearer {TOKEN}", BASIC):
            assert [s.ask(target, headers=[header])[0] for target in ("/", "/api/v1/status", "/metrics", "/nothing")] == [200, 200, 200, 404]
        for wrong in (f"Bearer {TOKEN}0", f"Bearer {TOKEN[:-1]}", "Bearer ", "Basic Og==", TOKEN, "Digest x"):
            assert s.ask("/metrics", headers=[f"Authorization: {wrong}"])[0] == 401, wrong
        assert s.ask(f"/metrics?token={TOKEN}")[0] == 401
        assert s.ask("/healthz")[::2] == (200, b"ok\n")
        name = "node-7.example.org"  # a token protects the page: any name of the node will do
        assert [s.ask("/metrics", host=name, headers=headers)[0] for headers in ([], [BASIC])] == [401, 200]
        assert get(OverSocket(path), "/metrics")[0] == 200
    finally:
        assert s.stop() == 0
    said = s.process.stderr.read()
    assert said.count("without a valid token refused") == 1 and "the last one from 127.0.0.1" in said, "refusals are logged at a limited rate"
    assert TOKEN[6:] not in said


def test_browser_that_knows_the_token_shows_the_page(tmp_path):
    node, file = need_command("node"), tmp_path / "tokens"
    need_command("chromium", "chromium-browser", "google-chrome")
    file.write_text(LINE)
    s = Server(PAGE_TOKENS=str(file))
    try:
        done = subprocess.run([node, TOP / "web/tests/see.mjs", f"http://127.0.0.1:{s.port}/", "{}"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120, env={**os.environ, "SONDE_TOKEN": TOKEN})
        assert done.returncode == 0, done.stderr
        shown = json.loads(done.stdout)[0]
        assert shown["chosen"].startswith("Whole node") and not shown["complaints"], shown
    finally:
        assert s.stop() == 0


@pytest.mark.parametrize("content, why", [(None, "No such file or directory"), ("", "has no token"), ("# none\n", "has no token"), (f"{TOKEN}\n", "line 1: this is a token")])
def test_unusable_token_files_are_errors(tmp_path, content, why):
    file = tmp_path / "tokens"
    if content is not None:
        file.write_text(content)
    done = subprocess.run([FAKE_PAGE, "normal", "127.0.0.1:0"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
                          env={**os.environ, "PAGE_TOKENS": str(file)})
    assert done.returncode == 1 and f"page.token_file: {file}" in done.stderr and why in done.stderr and TOKEN not in done.stderr


def test_new_token_opens_the_agent_for_the_subcommands(sonde, tmp_path):
    printed = subprocess.run([sonde, "token", "new", "laptop of Alice"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    token, line = re.search(r"^  (sonde_[0-9a-f]{40})$", printed, re.M)[1], re.search(r"^  (sha256:.* read laptop of Alice)$", printed, re.M)[1]
    assert line.split()[0] == f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"
    file = tmp_path / "tokens"
    file.write_text(line + "\n")
    s = Server(PAGE_TOKENS=str(file))
    try:
        def ask(**environment):
            return subprocess.run([sonde, "requests", "--json", "--agent", f"127.0.0.1:{s.port}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                                  env={**os.environ, **environment})
        assert ask(SONDE_TOKEN=token).stdout.startswith('{"coverage"')
        for refused in (ask(), ask(SONDE_TOKEN=f"{token}0")):
            assert refused.returncode == 1 and "in the environment variable SONDE_TOKEN" in refused.stderr and token not in refused.stderr
    finally:
        assert s.stop() == 0


def test_agent_refuses_to_serve_everybody_beyond_loopback(sonde):
    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:7070"):
        done = subprocess.run([sonde, "up", "--listen", address, "--set", "page.socket=none"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        assert done.returncode == 2 and f"everybody whose machine reaches {address} could read" in done.stderr and done.stdout == ""
        assert all(remedy in done.stderr for remedy in ("sonde token new", "page.token_file", "page.open: true"))


FAST = ("--set", "requests.enabled=false", "--set", "recorder.enabled=false", "--set", "profile.enabled=false")


def write(path, text):
    path.write_text(text)
    return path


@pytest.fixture
def manager(tmp_path):
    """A socket that receives what a program reports to its service manager: states() returns the lines so far."""
    received = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    received.bind(str(tmp_path / "notify"))
    received.setblocking(False)
    lines = []

    def states():
        while True:
            try:
                lines.extend(received.recv(4096).decode().splitlines())
            except BlockingIOError:
                return [line for line in lines if not line.startswith("WATCHDOG")]
    states.path = str(tmp_path / "notify")
    yield states
    received.close()


def test_hangup_reloads_tokens_level_and_budgets_and_names_the_rest(agent, tmp_path, manager):
    tokens, config = write(tmp_path / "tokens", LINE), tmp_path / "sonde.yaml"
    write(config, f"page:\n  token_file: {tokens}\nlog:\n  level: info\nbudget:\n  memory: 200MiB\n")
    started = agent("--config", config, *FAST, env={**os.environ, "NOTIFY_SOCKET": manager.path})
    bearer = {"Authorization": f"Bearer {TOKEN}"}

    def said(text):
        wait_for(lambda: text in started.running.error, 30, text)
    assert started.get("/metrics")[0] == 401 and started.get("/metrics", bearer)[0] == 200
    write(config, f"page:\n  token_file: {tmp_path / 'none'}\nbudget:\n  one_cpu: 7%\n")
    os.kill(started.pid, signal.SIGHUP)
    said("configuration not reloaded: nothing is changed")
    assert started.get("/metrics", bearer)[0] == 200
    write(config, "bugdet:\n  one_cpu: 7%\n")
    os.kill(started.pid, signal.SIGHUP)
    wait_for(lambda: started.running.error.count("configuration not reloaded") == 2, 30, "the second refusal")
    assert f"{config}:1: unknown section or key 'bugdet'" in started.running.error
    write(tokens, LINE.replace("sha256:", "# sha256:") + f"sha256:{hashlib.sha256(b'other').hexdigest()} read\n")
    write(config, f"page:\n  token_file: {tokens}\n  allowed_hosts: a.example\nbudget:\n  one_cpu: 7%\n  memory: 240MiB\nlog:\n  level: warning\n")
    os.kill(started.pid, signal.SIGHUP)
    said("configuration reloaded; a restart is needed for: page.allowed_hosts")
    assert started.get("/metrics", bearer)[0] == 401

    def budget():
        status, _, body = started.get("/api/v1/status", {"Authorization": "Bearer other"})
        return status == 200 and json.loads(body)["budget"]
    assert budget()["one_cpu_share_allowed"] == 0.07 and budget()["memory_bytes_allowed"] == 240 << 20
    write(config, f"page:\n  token_file: {tokens}\n  allowed_hosts: a.example\nbudget:\n  one_cpu: 7%\n  memory: 48MiB\nlog:\n  level: warning\n")
    os.kill(started.pid, signal.SIGHUP)
    said("budget.memory: 48 MiB are too little before a restart: until then tables keep their size, and at least ")
    said("configuration reloaded; a restart is needed for: budget.memory, page.allowed_hosts")
    assert budget()["memory_bytes_allowed"] == 240 << 20
    states = manager()
    assert states.count("RELOADING=1") == 4 and states.count("READY=1") == 5 and states[-1] == "READY=1"
    assert sum(line.startswith("MONOTONIC_USEC=") for line in states) == 4


def test_changed_tokens_are_read_without_a_signal(agent, tmp_path):
    tokens = write(tmp_path / "tokens", LINE)
    started = agent(*FAST, "--set", f"page.token_file={tokens}")
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert started.get("/metrics", bearer)[0] == 200
    write(tokens, "nonsense\n")
    wait_for(lambda: "the tokens that were read before stay valid" in started.running.error, 30, "the refusal")
    assert started.get("/metrics", bearer)[0] == 200
    write(tokens, "# all revoked\n")
    wait_for(lambda: started.get("/metrics", bearer)[0] == 401, 30, "the revocation")
    assert "has no token any more" in started.running.error


def test_agent_ends_when_its_terminal_is_gone(sonde, root, tmp_path):
    """But SIGHUP from elsewhere reloads, while the terminal is there. The tests themselves may run under nohup, which has SIGHUP ignored."""
    controller, terminal = os.openpty()
    errors = tmp_path / "errors"
    started = subprocess.Popen([sonde, "up", "--listen", "127.0.0.1:0", "--set", "page.socket=none", *FAST], stdin=terminal, stdout=terminal, stderr=open(errors, "w"),
                               preexec_fn=lambda: (signal.signal(signal.SIGHUP, signal.SIG_DFL), os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
    try:
        os.close(terminal)
        assert b"Sonde is watching" in os.read(controller, 4096)
        wait_for(lambda: int(re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{started.pid}/status").read_text())[1], 16) & 1, 30, "the handler of SIGHUP")
        started.send_signal(signal.SIGHUP)
        wait_for(lambda: "configuration reloaded" in errors.read_text(), 30, "a reload")
        assert started.poll() is None
        os.close(controller)
        assert started.wait(30) == 0 and "stopped" in errors.read_text()
    finally:
        started.kill()
        started.wait()
