"""Real servers: Debian's nginx, and Python's http.server with pre-forked workers or a thread per connection. The request path selects what a
request waits for. Also the C server of the BPF tests, and what `sonde why` reports about all of them."""
import functools
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from harness.machine import free_port, need_command
from harness.paths import TOP
from harness.processes import wait_for
from harness.workloads import workload_path

PREFORK = TOP / "tests/workloads/python/prefork.py"
THREADING = TOP / "tests/workloads/python/threading_server.py"


def stolen_ns():
    """CPU time that the hypervisor gave to others while our CPUs were runnable."""
    return int(Path("/proc/stat").read_text().split(None, 9)[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Reply:
    """`stolen_ns`: steal time during the request, added to SLACK_NS."""

    def __init__(self, response, stolen_before_ns):
        self.status, self.body = response.status, response.read()
        self.stolen_ns = stolen_ns() - stolen_before_ns
        self.took_ns, self.queued_ns = int(response.getheader("X-Took-Ns", 0)), int(response.getheader("X-Queued-Ns", 0))


def get(port, target, tls=None, **headers):
    """One request on a connection of its own. `tls`: over TLS, with this context."""
    kind = functools.partial(http.client.HTTPSConnection, context=tls) if tls else http.client.HTTPConnection
    connection, stolen = kind("127.0.0.1", port, timeout=60), stolen_ns()
    try:
        connection.request("GET", target, headers={"Connection": "close", **headers})
        return Reply(connection.getresponse(), stolen)
    finally:
        connection.close()


def listens(port):
    """Reads the kernel's socket table: a test connection would be counted as a request."""
    wanted = f"0100007F:{port:04X} 00000000:0000 0A"
    return any(wanted in line for line in Path("/proc/net/tcp").read_text().splitlines())


class Server:
    """`pid`: the parent, or the only process; `pids`: the processes that serve requests."""

    def __init__(self, running, port, pids):
        self.running, self.port, self.pid, self.pids = running, port, running.pid, pids

    def queued_ns(self):
        return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) for pid in self.pids)


def start_prefork(run, workers=1, before=(), **options):
    running = run(*before, sys.executable, PREFORK, workers, name="prefork", **options)
    said = wait_for(lambda: re.search(r"^port (\d+)\nworkers((?: \d+)+)\n", running.out) or not running.alive, what="the workers")
    assert running.alive, running.error
    return Server(running, int(said[1]), list(map(int, said[2].split())))


def start_threading(run):
    """One thread per connection."""
    running = run(sys.executable, THREADING, name="threading")
    said = wait_for(lambda: re.search(r"^port (\d+)\n", running.out) or not running.alive, what="the server")
    assert running.alive, running.error
    return Server(running, int(said[1]), [running.pid])


def start_c_server(run, way, folder):
    """tests/workloads/servers/server.c, compiled as Debian compiles: without frame pointers."""
    running = run(workload_path("server"), way, 0, folder, name=f"server-{way}")
    wait_for(lambda: "ready" in running.out or not running.alive, what="the server")
    assert running.alive, running.error
    return Server(running, int(re.search(r"^port (\d+)$", running.out, re.M)[1]), [running.pid])


def start_nginx(run, folder, locations, http="", before=(), name="nginx", options="", **run_options):
    """Runs nginx as a single process, so that its environment and its pid do not change."""
    path, port, at = need_command("nginx"), free_port(), folder / f"nginx-{free_port()}"
    at.mkdir()
    at.chmod(0o755)
    temporary = " ".join(f"{kind}_temp_path {at}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (at / "conf").write_text(f"daemon off; master_process off; user root; pid {at}/pid; error_log {at}/errors; worker_rlimit_nofile 4096;\n"
                             "events { worker_connections 2048; }\n"
                             f"http {{ {temporary} access_log off; keepalive_requests 100000000; {http}\n"
                             f"server {{ listen 127.0.0.1:{port} {options}; {locations} }} }}\n")
    running = run(*before, path, "-c", at / "conf", "-e", at / "errors", name=f"{name}-{port}", **run_options)
    wait_for(lambda: listens(port) or not running.alive, what="nginx")
    assert running.alive, running.error + (at / "errors").read_text()
    return Server(running, port, [running.pid])


def requests_of(text):
    """The requests of `sonde why --json`; asserts that each one's components sum to its duration."""
    requests = json.loads(text)["requests"]
    for request in requests:
        assert sum(part["ns"] for part in request["parts"]) == request["duration_ns"], request
    return requests


def why(sonde, agent, *arguments):
    """The requests that `sonde why --json` reports for an agent."""
    done = subprocess.run([str(sonde), "why", "--json", "--agent", f"127.0.0.1:{agent.port}", "--slowest", "1000", *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return requests_of(done.stdout)


def why_without_agent(sonde, run, drive):
    """The requests that `sonde why` observes without an agent while drive() runs."""
    running = run(sonde, "why", "--json", "--last", "5m", "--slowest", "1000", name="why")
    wait_for(lambda: "observing requests for" in running.error or not running.alive, 60, "sonde why to watch")
    drive()
    assert running.stop(signal.SIGINT) == 0, running.error
    return requests_of(running.out)


def parts_of(request, kind):
    return [part for part in request["parts"] if part["kind"] == kind]


def names_sleep_of_c_server(detail):
    """Whether the detail of a wait names the function that slept: with its line, once that was looked up; before that, with its callers."""
    return "sleep_ms < nap_long" in detail or re.search(r"in sleep_ms\(\) server\.c:\d+", detail) is not None


def total(request, *kinds):
    return sum(part["ns"] for part in request["parts"] if part["kind"] in kinds)
