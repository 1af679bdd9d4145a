"""Every request is counted once, under its status: the log of nginx, and the counts of clients of nginx and of a pre-fork Python server, equal the
agent's /metrics; and what `sonde why` prints about the requests adds up."""
import http.client
import re
import subprocess
import threading
from collections import Counter

import pytest
from harness.machine import need_command
from harness.processes import wait_for
from real_servers import start_nginx, start_prefork, why

pytestmark = pytest.mark.usefixtures("root")
NO_BUDGET = ("--set", "budget.one_cpu=1000%")  # over budget, requests would have no path
CONNECTIONS = 16
PATHS = ["/ok", "/ok", "/ok", "/missing", "/file", "/file", "/failing", "/missing"]
WANTED = {"/ok": 200, "/missing": 404, "/file": 200, "/failing": 503}
MIXED = f"local paths = {{{', '.join(map(repr, PATHS))}}}" + """
local n = 0
request = function()
    n = n + 1
    return wrk.format("GET", paths[n % #paths + 1])
end
"""
LOCATIONS = "location /ok {{ return 200 ok; }} location /failing {{ return 503; }} location / {{ root {}; }}"


def counted(agent, service):
    """{status class: requests} of a service."""
    found = Counter()
    for key, value in agent.metrics().items():
        if key.startswith("http_server_request_duration_seconds_count{") and f'service_name="{service}"' in key:
            status = re.search(r'status_code="(\d)', key)
            found[f"{status[1]}xx" if status else "none"] += int(value)
    return +found


def named(service):
    """A command prefix that gives a server a name of its own."""
    return need_command("env"), f"OTEL_SERVICE_NAME={service}"


@pytest.fixture
def logging_nginx(run, tmp_path):
    """(nginx, its log): a quarter of the requests to PATHS is not found, an eighth fails."""
    log = tmp_path / "access.log"
    tmp_path.chmod(0o755)
    (tmp_path / "file").write_bytes(b"x" * 20_000)
    return start_nginx(run, tmp_path, LOCATIONS.format(tmp_path) + f" access_log {log} status buffer=64k;", "sendfile on; log_format status $status;",
                       named("counted-nginx")), log


def assert_counted(watching, service, counts):
    wait_for(lambda: counted(watching, service).total() >= counts.total(), 60, "all requests to be counted")
    assert counted(watching, service) == counts


def printed(sonde, watching, server):
    """The server's requests, once `sonde why` reports some."""
    return wait_for(lambda: [request for request in why(sonde, watching) if request["pid"] in server.pids], what="requests with a record")


def assert_printed(ours):
    assert {request["route"] for request in ours} <= WANTED.keys()
    assert all(request["status"] == WANTED[request["route"]] for request in ours if request["status"])


def logged(log):
    return Counter(f"{status[0]}xx" for status in log.read_text().split())


def ask_nginx(port, keep, answers, count=100):
    connection = None
    for i in range(count):
        connection = connection if connection and keep else http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", PATHS[i % len(PATHS)], headers={} if keep else {"Connection": "close"})
        reply = connection.getresponse()
        reply.read()
        answers.append(f"{reply.status // 100}xx")
    connection.close()


def run_threads(*threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)


def test_counts_match_nginx_log_and_clients(sonde, agent, logging_nginx):
    """On kept-alive connections and on a new one per request, at the same time."""
    watching, (server, log), answers = agent(*NO_BUDGET), logging_nginx, []
    run_threads(*[threading.Thread(target=ask_nginx, args=(server.port, keep, answers)) for keep in (True, False) for _ in range(2)])
    assert len(answers) == 400
    assert_counted(watching, "counted-nginx", Counter(answers))
    assert_printed(printed(sonde, watching, server))
    assert server.running.stop() == 0
    assert logged(log) == Counter(answers)


@pytest.mark.statistical
@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_counts_match_nginx_log_and_wrk(sonde, agent, logging_nginx, tmp_path, connection):
    """Several hundred thousand requests."""
    wrk = need_command("wrk")
    (tmp_path / "mixed.lua").write_text(MIXED)
    watching, (server, log) = agent(*NO_BUDGET), logging_nginx
    done = subprocess.run([wrk, "-t1", f"-c{CONNECTIONS}", "-d2s", "-s", tmp_path / "mixed.lua", "-H", f"Connection: {connection}", f"http://127.0.0.1:{server.port}/"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    by_wrk = int(re.search(r"(\d+) requests in", done.stdout)[1])
    failed_by_wrk = int(re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)[1])
    assert "Socket errors" not in done.stdout and by_wrk > 1000, done.stdout
    ours = printed(sonde, watching, server)
    assert server.running.stop() == 0
    assert_counted(watching, "counted-nginx", logged(log))
    by_sonde = counted(watching, "counted-nginx")
    # wrk exits when its time is over: nginx has served a last request on each connection that wrk does not count.
    assert by_wrk <= by_sonde.total() <= by_wrk + CONNECTIONS
    assert failed_by_wrk <= by_sonde["4xx"] + by_sonde["5xx"] <= failed_by_wrk + CONNECTIONS
    assert_printed(ours)


WORKERS, EACH = 4, 100
STATUSES = ("200", "201", "301", "404", "500")


def ask(port, answers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for i in range(EACH):
        connection.request("GET", f"/status?{STATUSES[i % len(STATUSES)]}")
        reply = connection.getresponse()
        reply.read()
        answers.append(f"{reply.status // 100}xx")
    connection.close()


def test_counts_match_clients_of_a_prefork_server(sonde, agent, run):
    """As many kept-alive connections as workers: each worker serves one until it is closed."""
    watching, server = agent(*NO_BUDGET), start_prefork(run, WORKERS, named("counted-prefork"))
    answers = []
    run_threads(*[threading.Thread(target=ask, args=(server.port, answers)) for _ in range(WORKERS)])
    assert len(answers) == WORKERS * EACH
    assert_counted(watching, "counted-prefork", Counter(answers))
    assert all(request["route"] == "/status" and request["status"] in map(int, STATUSES) for request in printed(sonde, watching, server))
