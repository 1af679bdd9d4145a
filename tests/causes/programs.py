"""The programs of an evaluation: the agent, the servers, and the service that they call."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import catalogue
import scoring

TOP = Path(__file__).resolve().parent.parent.parent
sys.path[1:1] = [str(TOP / "tests"), str(TOP / "tools")]
import packages  # noqa: E402
from testing.runners import LANE  # noqa: E402

SERVERS = TOP / "tests/causes/servers"
MEMORY = "1GiB"  # by default, the details of a few hundred requests are kept: of five minutes, the slowest of each route


def wait_until(condition, timeout_s, what):
    ends = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > ends:
            raise RuntimeError(f"{what} after {timeout_s} s")
        time.sleep(0.02)


def listens(port):
    return f"0100007F:{port:04X} 00000000:0000 0A" in Path("/proc/net/tcp").read_text() or f"0100007F:{port:04X} 00000000000000000000000000000000:0000 0A" in Path("/proc/net/tcp6").read_text()


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Agent:
    """`sonde up`, with a lock of its own: another agent of this node goes on."""

    def __init__(self, sonde, folder, options=()):
        self.sonde, self.log = sonde, folder / "agent"
        ready, write = os.pipe()
        with open(self.log, "w") as log:
            command = [*LANE, sonde, "up", "--listen", "127.0.0.1:0", "--ready-fd", str(write), "--set", "budget.one_cpu=1000%", "--set", f"budget.memory={MEMORY}",
                       "--set", "interrupts.enabled=true", *options]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[write])
        os.close(write)
        with os.fdopen(ready) as reader:
            if reader.readline() != "ready\n":
                raise RuntimeError(f"sonde up ended: {self.log.read_text()[-2000:]}")
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", self.log.read_text())[1])

    def requests(self, seconds):
        """The requests of the last seconds, slowest first: the largest number that `sonde why` prints."""
        period = f"{min(300, int(seconds) + 1)}s"
        done = subprocess.run([self.sonde, "why", "--json", "--agent", f"127.0.0.1:{self.port}", "--last", period, "--slowest", "1000"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"sonde why: {done.stderr}")
        return json.loads(done.stdout)["requests"]

    def counts(self):
        """scoring.Counts of all requests since the agent started."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            return scoring.counts_of(connection.getresponse().read().decode())

    def stop(self):
        stop(self.process)


def command_of(name, options):
    """The command of a server, without PORT LOG FOLDER. Raises packages.Missing where it cannot run."""
    server = catalogue.SERVERS[name]
    program, script = server.command
    for needed in (program, *server.programs):
        if not shutil.which(needed):
            raise packages.Missing(f"there is no {needed}")
    if server.option and not getattr(options, server.option):
        raise packages.Missing(f"it needs --{server.option}")
    if server.packages:
        environment = f"causes-{server.packages[0].split('=')[0]}"
        program = packages.environment(environment, list(server.packages), [catalogue.PYTHON, sys.executable]) / "python"
    if program != "go":
        return [program, script]
    built = TOP / f"build/causes-go-{script}"
    subprocess.run(["go", "build", "-tags", script, "-o", built], cwd=SERVERS / "go", check=True, env={**os.environ, "CGO_ENABLED": "0"})
    return [built]


def make_certificate(file):
    """A certificate and its key, in one file."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-out", file, "-keyout", f"{file}.key"], check=True, capture_output=True)
    file.write_text(file.read_text() + Path(f"{file}.key").read_text())


class Server:
    """A running server of catalogue.SERVERS. `folder`: the slow disk; `memory`: a directory for its log (not on a disk: logging must not wait). `log()`: {id: line}
    of the lines written so far."""

    def __init__(self, name, folder, at, memory, cgroup, port, options):
        kind = catalogue.SERVERS[name]
        self.folder, self.cgroup, self.port, self.lines = folder, cgroup, port, memory / f"{name}.log"
        command = [*command_of(name, options), str(port), self.lines, folder, *kind.arguments, *([getattr(options, kind.option)] if kind.option else [])]
        self.said, environment = at / f"{name}.output", {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        if kind.tls:
            make_certificate(at / "certificate.pem")
            environment["CERTIFICATE"] = str(at / "certificate.pem")
        with open(self.said, "w") as said:
            self.process = subprocess.Popen(command, cwd=SERVERS, stdin=subprocess.DEVNULL, stdout=said, stderr=said, preexec_fn=cgroup.enter,
                                            env=environment)
        wait_until(lambda: listens(port) or self.process.poll() is not None, 60, f"{name} does not listen")
        if self.process.poll() is not None:
            raise RuntimeError(f"{name} ended: {self.said.read_text()[-2000:]}")
        if kind.model:
            wait_until(lambda: self.status(f"/v2/models/{kind.model}/ready") == 200, 60, f"{name} is not ready")
        time.sleep(0.5)  # the workers of a pre-forked server start after it listens

    def pids(self):
        pids = [self.process.pid]
        for pid in pids:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                pids += map(int, (thread / "children").read_text().split())
        return pids

    def log(self):
        lines = map(json.loads, self.lines.read_text().splitlines()) if self.lines.exists() else []
        return {line["id"]: line for line in lines}

    @contextlib.contextmanager
    def contended_lock(self):
        self.ask("/decoy_lock/on?on=1")
        try:
            yield
        finally:
            self.ask("/decoy_lock/off?on=0")

    def status(self, target):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", target, headers={"Connection": "close"})
            return connection.getresponse().status

    def ask(self, target):
        if self.status(target) != 200:
            raise RuntimeError(f"{target} failed")

    def stop(self):
        stop(self.process)


def start_service(address, port, *before):
    """The process of the slow service. `before`: a command that runs it, such as unshare."""
    return subprocess.Popen([*before, catalogue.PYTHON, SERVERS / "slow_service.py", address, str(port)], stdin=subprocess.DEVNULL)


class Service:
    """The slow service that requests call."""

    def __init__(self, port):
        self.port, self.process = port, start_service("127.0.0.1", port)
        wait_until(lambda: listens(port), 10, "the slow service does not listen")

    def stop(self):
        stop(self.process)
