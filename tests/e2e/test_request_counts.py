"""Every request is counted, once and under its status: what wrk and nginx's own log count of some hundred thousand requests, and what a
client counts of a pre-fork Python server, against /metrics of the agent; and what `sonde why` prints of them adds up."""
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
NO_BUDGET = ("--set", "budget.cpu=100%")  # over it, requests would no longer be watched
CONNECTIONS = 16
# Every fourth request is to something that is not there, every eighth to something that fails.
MIXED = """
local paths = {"/ok", "/ok", "/ok", "/missing", "/file", "/file", "/failing", "/missing"}
local n = 0
request = function()
    n = n + 1
    return wrk.format("GET", paths[n % #paths + 1])
end
"""
LOCATIONS = "location /ok {{ return 200 ok; }} location /failing {{ return 503; }} location / {{ root {}; }}"


def counted(agent, service):
    """{class of status: requests} of a service."""
    found = Counter()
    for key, value in agent.metrics().items():
        if key.startswith("http_server_request_duration_seconds_count{") and f'service_name="{service}"' in key:
            found[re.search(r'status_class="(\w+)"', key)[1]] += int(value)
    return +found


def named(service):
    """What to put before a server to give it a name that nobody else has."""
    return need_command("env"), f"OTEL_SERVICE_NAME={service}"


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_nginx_and_wrk_count_the_same(sonde, agent, run, tmp_path, connection):
    wrk, log = need_command("wrk"), tmp_path / "access.log"
    tmp_path.chmod(0o755)
    (tmp_path / "file").write_bytes(b"x" * 20_000)
    (tmp_path / "mixed.lua").write_text(MIXED)
    watching = agent(*NO_BUDGET)
    server = start_nginx(run, tmp_path, LOCATIONS.format(tmp_path) + f" access_log {log} status buffer=64k;",
                         "sendfile on; log_format status $status;", named("counted-nginx"))
    done = subprocess.run([wrk, "-t1", f"-c{CONNECTIONS}", "-d2s", "-s", tmp_path / "mixed.lua", "-H", f"Connection: {connection}", f"http://127.0.0.1:{server.port}/"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    by_wrk = int(re.search(r"(\d+) requests in", done.stdout)[1])
    failed_by_wrk = int(re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)[1])
    assert "Socket errors" not in done.stdout and by_wrk > 1000, done.stdout
    printed = why(sonde, watching)
    assert server.running.stop() == 0
    by_nginx = Counter(f"{status[0]}xx" for status in log.read_text().split())
    wait_for(lambda: counted(watching, "counted-nginx").total() >= by_nginx.total(), 10, "all requests to be counted")
    by_sonde = counted(watching, "counted-nginx")
    assert by_sonde == by_nginx, f"nginx {by_nginx}, Sonde {by_sonde}, wrk {by_wrk}"
    # wrk goes when its time is over: what each connection then waits for nginx has served and wrk does not count.
    assert by_wrk <= by_sonde.total() <= by_wrk + CONNECTIONS
    assert failed_by_wrk <= by_sonde["4xx"] + by_sonde["5xx"] <= failed_by_wrk + CONNECTIONS
    ours = [request for request in printed if request["pid"] == server.pid]
    assert ours and {request["route"] for request in ours} <= {"/ok", "/missing", "/file", "/failing"}
    wanted = {"/ok": 200, "/missing": 404, "/file": 200, "/failing": 503}
    assert all(request["status"] == wanted[request["route"]] for request in ours if request["status"])


WORKERS, EACH = 4, 300
STATUSES = ("200", "201", "301", "404", "500")


def ask(port, answers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for i in range(EACH):
        connection.request("GET", f"/status?{STATUSES[i % len(STATUSES)]}")
        reply = connection.getresponse()
        reply.read()
        answers.append(f"{reply.status // 100}xx")
    connection.close()


def test_prefork_and_its_clients_count_the_same(sonde, agent, run):
    """As many kept connections as there are workers: each worker serves one to its end."""
    watching, server = agent(*NO_BUDGET), start_prefork(run, WORKERS, named("counted-prefork"))
    answers = []
    clients = [threading.Thread(target=ask, args=(server.port, answers)) for _ in range(WORKERS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(120)
    assert len(answers) == WORKERS * EACH
    wait_for(lambda: counted(watching, "counted-prefork").total() >= len(answers), 10, "all requests to be counted")
    assert counted(watching, "counted-prefork") == Counter(answers)
    printed = [request for request in why(sonde, watching) if request["pid"] in server.pids]
    assert printed and all(request["route"] == "/status" and request["status"] in map(int, STATUSES) for request in printed)
