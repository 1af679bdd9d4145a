"""Servers kept busy: the server on the first CPU and what sends it requests on the second, so that the scheduler's placement does not affect the
comparison."""
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from contextlib import ExitStack, contextmanager
from pathlib import Path

import measure
from measure import which

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tests/causes"))
import catalogue  # noqa: E402
import client  # noqa: E402
import injections  # noqa: E402
import programs  # noqa: E402

PORT = 18080
SLICE_MS = 200
OF_CAUSES = {"uvicorn": "asyncio", "node": "node", "go": "go", "java": "java", "mlserver": "mlserver", "triton": "triton"}  # tests/causes/catalogue.py
NAMES = ("nginx", "redis", *OF_CAUSES)


class Load:
    """`pids`: the server's processes; `command`: sends requests for about the given number of seconds, and prints how many."""

    def __init__(self, pids, command):
        self.pids, self.command = pids, command

    def run(self, seconds):
        """The number of requests, and how many that was a second. Raises if one failed."""
        said = subprocess.run(self.command(seconds), capture_output=True, text=True, check=True).stdout
        if re.search(r"Socket errors|Non-2xx|[1-9]\d* (failed|errored|timeout)", said):
            raise RuntimeError(f"requests failed: {said[-500:]}")
        requests, took_s = re.search(r"(\d+) (?:requests (?:in|completed)|succeeded)", said)[1], re.search(r"(?:requests|completed|finished) in ([\d.]+) ?s", said)[1]
        return int(requests), int(requests) / float(took_s)


def wrk(connections, url, *options):
    return lambda seconds: ["taskset", "-c", "1", which("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", *options, url]


def h2load(connections, url, *options):
    """Ten streams at a time on each connection."""
    return lambda seconds: ["taskset", "-c", "1", which("h2load"), f"-c{connections}", "-m10", f"-D{seconds}", *options, url]


def configure(folder, more=""):
    """`more`: directives of the server besides those of HTTP/1 at PORT."""
    (folder / "html").mkdir(parents=True)
    (folder / "html/index.html").write_text("hello\n")
    for path in (folder.parent, folder):
        path.chmod(0o755)
    temporary = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    path = folder / "nginx.conf"
    path.write_text(f"""
        daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors; events {{ worker_connections 256; }}
        http {{ access_log off; keepalive_requests 100000000; {temporary}
                server {{ listen 127.0.0.1:{PORT}; {more} location / {{ root {folder}/html; }} }} }}""")
    return path


@contextmanager
def running_nginx(folder, more=""):
    """An nginx with one worker; `more`: see configure."""
    configuration = configure(folder / "nginx", more)
    with measure.running("taskset", "-c", "0", which("nginx"), "-c", configuration, "-e", folder / "nginx/errors") as server:
        if not measure.wait_until(lambda: measure.get(PORT, "/"), 10):
            raise RuntimeError("nginx does not answer: " + (folder / "nginx/errors").read_text()[-300:])
        yield server


@contextmanager
def nginx(folder, connections):
    with running_nginx(folder) as server:
        yield Load([server.pid], wrk(connections, f"http://127.0.0.1:{PORT}/"))


def accepts(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def redis(folder, connections, port=PORT):
    """Does not speak HTTP: what its connections cost until that is known, and what the programs cost that see every socket."""
    load = ["taskset", "-c", "1", which("redis-benchmark"), "-p", str(port), "-c", str(connections), "-t", "get", "-n"]
    with measure.running("taskset", "-c", "0", which("redis-server"), "--port", port, "--save", "", "--dir", folder) as server:
        if not measure.wait_until(lambda: accepts(port), 10):
            raise RuntimeError("redis does not listen")
        yield Load([server.pid], lambda seconds: [*load, str(100_000 * seconds)])


@contextmanager
def of_causes(name, folder, connections, options, port=PORT):
    """A server of `make causes`, whose requests do nothing but write the line that it logs of each."""
    everywhere = os.sched_getaffinity(0)
    with ExitStack() as stack:
        cgroup = injections.Cgroup()
        stack.callback(cgroup.remove)
        disk, _ = stack.enter_context(injections.slow_disk(folder, cgroup))
        memory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sonde-bench-", dir="/dev/shm")))
        os.sched_setaffinity(0, {0})  # the server inherits it
        try:
            server = programs.Server(OF_CAUSES[name], folder=disk, at=folder, memory=memory, cgroup=cgroup, port=port, options=options)
        finally:
            os.sched_setaffinity(0, everywhere)
        stack.callback(server.stop)
        model = catalogue.SERVERS[OF_CAUSES[name]].model
        body = client.request_of("/clean?id=1", model).decode().partition("\r\n\r\n")[2]
        (folder / "post.lua").write_text(f'wrk.method = "POST"; wrk.headers["Content-Type"] = "application/json"; wrk.body = [[{body}]]')
        url = f"http://127.0.0.1:{port}/v2/models/{model}/infer" if model else f"http://127.0.0.1:{port}/clean?id=1"
        yield Load(server.pids(), wrk(connections, url, *(["-s", folder / "post.lua"] if model else [])))


@contextmanager
def saturated(name, folder, connections=16, tritonserver=None):
    """A Load of a server of NAMES, warmed up. `folder`: is made accessible to every user; `tritonserver`: the directory of a Triton."""
    made = {"nginx": nginx, "redis": redis}.get(name) or (lambda *where: of_causes(name, *where, Namespace(tritonserver=tritonserver)))
    with made(folder, connections) as load:
        with measure.running(*load.command(2)):
            time.sleep(2)
        yield load


def toggled(load, folder, rounds, build):
    """{way: ((median, lower quartile, upper quartile) of the change in requests per second, the same in CPU per request)}, in percent
    (request_toggle.c); requests are sent throughout."""
    program = measure.compile_program("request_toggle.c", folder, f"-I{build.parent}", f"-I{build}/probes", "-lbpf")
    with measure.running(*load.command(3600)):
        time.sleep(1)
        said = subprocess.run([program, ",".join(map(str, load.pids)), str(SLICE_MS), str(rounds)], check=True, stdout=subprocess.PIPE, text=True).stdout
    figures = {way: tuple(map(float, numbers.split())) for way, numbers in (line.split(":") for line in said.splitlines())}
    return {way: (numbers[:3], numbers[3:]) for way, numbers in figures.items()}


def format_change(change):
    return f"{change[0]:+.1f} % (half of the slices: {change[1]:+.1f} to {change[2]:+.1f})"
