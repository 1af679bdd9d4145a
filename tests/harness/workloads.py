"""The programs of tests/workloads, which Sonde observes."""
import itertools
import os
import subprocess
import tempfile

import pytest

from harness.machine import need_command, skip
from harness.paths import WORKLOADS, TOP
from harness.processes import wait_for
from packages import exclusive

SOURCES = TOP / "tests/workloads"


def workload_path(name):
    """Builds a program of tests/workloads if necessary; skips when its compiler is missing."""
    compiler = {"rusty": "rustc", "gopher": "go", "labelled": "go", "growing": "go", "tls_server": "go", "cxx": "g++"}.get(name.partition("-")[0])
    if compiler:
        need_command(compiler)
    with exclusive(WORKLOADS):
        done = subprocess.run(["make", "-s", "-C", SOURCES, f"OUT={os.path.relpath(WORKLOADS, SOURCES)}", name], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{name} does not build:\n{done.stdout}{done.stderr}"
    return WORKLOADS / name


def go_pprof(*arguments):
    """What `go tool pprof` prints."""
    # Newer Go compiles its pprof on first use: kept with the workloads' own cache. On a busy machine this takes minutes.
    done = subprocess.run([need_command("go"), "tool", "pprof", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500,
                          errors="replace", env=dict(os.environ, GOCACHE=str(WORKLOADS / ".go"), GOTOOLCHAIN="local", PPROF_TMPDIR=tempfile.gettempdir()))
    if done.returncode != 0 and "no such tool" in done.stderr:
        skip("this Go comes without pprof")
    assert done.returncode == 0, done.stderr
    return done.stdout


class Workload:
    def __init__(self, running):
        self.running = running
        wait_for(lambda: "ready" in self.facts() or not running.alive, 30, "the workload to be ready")
        assert "ready" in self.facts(), f"{running.process.args}: {running.out}{running.error}"
        self.pid, self.stack = int(self.facts()["pid"]), self.facts().get("stack")

    def facts(self):
        return {line.partition(" ")[0]: line.partition(" ")[2] for line in self.running.out.splitlines()}

    def threads(self):
        """[(thread name, its stack)] of a workload that prints them."""
        lines = [line.split(" ", 1)[1].rpartition(" ") for line in self.running.out.splitlines() if line.startswith("thread ")]
        return [(name, stack) for name, _, stack in lines]

    def end(self):
        """Waits for its exit; returns the CPU time it used, in nanoseconds, if it prints it."""
        assert self.running.wait(60) == 0, self.running.error
        return int(self.facts().get("cpu_ns", 0))


@pytest.fixture
def workload(run):
    """workload(name, arguments...) builds a program of tests/workloads, starts it and waits until it is ready."""
    numbers = itertools.count()

    def start(name, *arguments, path=None, **options):
        number = next(numbers)
        return Workload(run(path or workload_path(name), *arguments, name=f"{name}-{number}", **options))
    return start
