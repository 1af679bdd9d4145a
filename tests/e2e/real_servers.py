"""Servers that nobody wrote for Sonde, as test_causes.py and test_request_counts.py start them: Debian's nginx, and Python's own
http.server under workers that were forked beforehand, as gunicorn and its like do it. What a request waits for is said in its path;
the reply's header says how long the handler itself found that it took, and how long the scheduler says it stood in the run queue."""
import http.client
import json
import os
import re
import sys
import textwrap
from pathlib import Path

from harness.machine import free_port, need_command
from harness.processes import wait_for

PREFORK = textwrap.dedent("""
    import fcntl, http.client, http.server, mmap, multiprocessing, os, signal, socket, sys, time
    port, workers = int(sys.argv[1]), int(sys.argv[2])
    lock = multiprocessing.Lock()

    def queued_ns():
        return int(open("/proc/thread-self/schedstat").read().split()[1])

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

        def do_GET(self):
            what, _, argument = self.path.strip("/").partition("?")
            status, began, queued = 200, time.monotonic_ns(), queued_ns()
            if what == "sleep":
                time.sleep(float(argument))
            elif what == "cpu":
                ends = time.thread_time() + float(argument)
                while time.thread_time() < ends:
                    pass
            elif what == "mutex":
                with lock:
                    pass
            elif what == "flock":
                with open(argument) as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
            elif what == "downstream":
                connection = http.client.HTTPConnection("127.0.0.1", int(argument))
                connection.request("GET", "/")
                connection.getresponse().read()
                connection.close()
            elif what == "mapped":
                with open(argument) as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
                    sum(pages[0::4096])
            elif what == "synced":
                with open(argument, "wb") as file:
                    file.write(os.urandom(1 << 20))
                    file.flush()
                    os.fsync(file.fileno())
            elif what == "status":
                status = int(argument)
            queued, took = queued_ns() - queued, time.monotonic_ns() - began
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.send_header("X-Took-Ns", took)
            self.send_header("X-Queued-Ns", queued)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *arguments):
            pass

    server = http.server.HTTPServer(("127.0.0.1", port), Handler)
    signal.signal(signal.SIGUSR1, lambda *_: (lock.acquire(), print("locked", flush=True)))
    signal.signal(signal.SIGUSR2, lambda *_: lock.release())
    children = []
    for _ in range(workers):
        children.append(os.fork())
        if not children[-1]:
            server.serve_forever()
    print("workers", *children, flush=True)
    while True:
        signal.pause()
""")


def stolen_ns():
    """Time that the hypervisor has given to others while our CPUs wanted to run."""
    return int(Path("/proc/stat").read_text().split(None, 9)[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Reply:
    """`stolen_ns`: how much more than SLACK_NS the hypervisor may have taken meanwhile."""

    def __init__(self, response, stolen_before_ns):
        self.status, self.body = response.status, response.read()
        self.stolen_ns = stolen_ns() - stolen_before_ns
        self.took_ns, self.queued_ns = int(response.getheader("X-Took-Ns", 0)), int(response.getheader("X-Queued-Ns", 0))


def get(port, target, **headers):
    """One request on a connection of its own."""
    connection, stolen = http.client.HTTPConnection("127.0.0.1", port, timeout=60), stolen_ns()
    try:
        connection.request("GET", target, headers={"Connection": "close", **headers})
        return Reply(connection.getresponse(), stolen)
    finally:
        connection.close()


def listens(port):
    """By the kernel's table, so that nobody who counts connections or requests has one too many."""
    wanted = f"0100007F:{port:04X} 00000000:0000 0A"
    return any(wanted in line for line in Path("/proc/net/tcp").read_text().splitlines())


class Server:
    """`pid`: the parent, or the only process; `pids`: those that serve."""

    def __init__(self, running, port, pids):
        self.running, self.port, self.pid, self.pids = running, port, running.pid, pids

    def queued_ns(self):
        return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) for pid in self.pids)


def start_prefork(run, workers=1, before=(), **options):
    port = free_port()
    running = run(*before, sys.executable, "-c", PREFORK, port, workers, name="prefork", **options)
    said = wait_for(lambda: re.search(r"^workers((?: \d+)+)\n", running.out) or not running.alive, what="the workers")
    assert running.alive, running.error
    wait_for(lambda: listens(port), what="the server to listen")
    return Server(running, port, list(map(int, said[1].split())))


def start_nginx(run, folder, locations, http="", before=(), name="nginx", **options):
    """One process, so that its environment and its pid are what they were at the start."""
    path, port, at = need_command("nginx"), free_port(), folder / f"nginx-{free_port()}"
    at.mkdir()
    at.chmod(0o755)
    temporary = " ".join(f"{kind}_temp_path {at}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (at / "conf").write_text(f"daemon off; master_process off; user root; pid {at}/pid; error_log {at}/errors;\n"
                             "events { worker_connections 256; }\n"
                             f"http {{ {temporary} access_log off; keepalive_requests 100000000; {http}\n"
                             f"server {{ listen 127.0.0.1:{port}; {locations} }} }}\n")
    running = run(*before, path, "-c", at / "conf", "-e", at / "errors", name=f"{name}-{port}", **options)
    wait_for(lambda: listens(port) or not running.alive, what="nginx")
    assert running.alive, running.error + (at / "errors").read_text()
    return Server(running, port, [running.pid])


def why(sonde, agent, *arguments):
    """What `sonde why --json` says; the parts of each request sum to its duration."""
    import subprocess
    done = subprocess.run([str(sonde), "why", "--json", "--agent", f"127.0.0.1:{agent.port}", "--slowest", "1000", *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    requests = json.loads(done.stdout)
    for request in requests:
        assert sum(part["ns"] for part in request["parts"]) == request["duration_ns"], request
    return requests
