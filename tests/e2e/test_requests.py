"""`sonde why` on servers that were not written for it: nginx with a slow upstream service, and Python's threading server. Without an agent, `sonde
why` observes them itself."""
import json
import os

import pytest
from harness.processes import EPOLL_WAITS, system_call, wait_for
from real_servers import get, parts_of, start_nginx, start_threading, total, why_without_agent

pytestmark = pytest.mark.usefixtures("root")


@pytest.fixture
def behind_nginx(run, tmp_path):
    """(nginx, the upstream service of its /p/); /f/big is a file of 3 MB."""
    tmp_path.chmod(0o755)
    (tmp_path / "big").write_bytes(os.urandom(3_000_000))
    service = start_threading(run)
    return start_nginx(run, tmp_path, f"location /f/ {{ alias {tmp_path}/; }} location /p/ {{ proxy_pass http://127.0.0.1:{service.port}/; }}", "sendfile on;"), service


def ask_until_done(server, *targets):
    """Returns when the server is busy with something else: then its last request has been recorded."""
    for target in targets:
        get(server.port, target)
    if server.running.process.args[0].endswith("nginx"):
        wait_for(lambda: system_call(server.pid) in EPOLL_WAITS, what="nginx to wait for other requests")
    else:
        wait_for(lambda: len(os.listdir(f"/proc/{server.pid}/task")) == 1, what="the threads of the requests to end")


def only(requests, server, route):
    found = [r for r in requests if r["pid"] == server.pid and r["route"] == route]
    assert len(found) == 1, [(r["pid"], r["route"]) for r in requests]
    return found[0]


def causes_in_python(sonde, run):
    """{route: its request} of Python's threading server."""
    server = start_threading(run)
    requests = why_without_agent(sonde, run, lambda: ask_until_done(server, "/sleep?token=secret", "/lock", "/cpu"))
    assert "secret" not in json.dumps(requests)
    return {route: only(requests, server, route) for route in ("/sleep", "/lock", "/cpu")}


def requests_of_nginx(sonde, run, servers):
    nginx, service = servers
    requests = why_without_agent(sonde, run, lambda: ask_until_done(nginx, "/p/sleep", "/f/big"))
    slow, big = only(requests, nginx, "/p/sleep"), only(requests, nginx, "/f/big")
    assert slow["service"] and any(f"of process {service.pid}" in part["detail"] for part in parts_of(slow, "sleep")), slow
    assert big["bytes_out"] > 3_000_000  # headers by writev, body by sendfile
    return slow


def test_causes_in_a_threading_server(sonde, run):
    found = causes_in_python(sonde, run)
    assert all(request["status"] == 200 and request["method"] == "GET" for request in found.values()), found
    for route, kind, detail in (("/sleep", "sleep", "nanosleep"), ("/lock", "sleep", "in thread"), ("/cpu", "cpu", "")):
        assert any(detail in part["detail"] for part in parts_of(found[route], kind)), found[route]


def test_nginx_waits_for_its_upstream(sonde, run, behind_nginx):
    requests_of_nginx(sonde, run, behind_nginx)


@pytest.mark.statistical
def test_time_of_each_cause_matches(sonde, run, behind_nginx):
    found = causes_in_python(sonde, run)
    for route, kind in (("/sleep", "sleep"), ("/lock", "sleep"), ("/cpu", "cpu")):
        assert total(found[route], kind) >= 40_000_000, found[route]
        assert total(found[route], "unattributed") <= found[route]["duration_ns"] / 10, found[route]
    slow = requests_of_nginx(sonde, run, behind_nginx)
    assert total(slow, "sleep") >= 40_000_000, slow
