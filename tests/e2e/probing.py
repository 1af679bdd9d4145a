"""`prober` (tests/workloads/prober.c), a program with USDT probes of every kind, and `sonde probes watch` attached to such programs."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from harness.processes import wait_for
from harness.workloads import Workload, workload_path

COUNT = 50  # firings of each probe per request; the ring buffer holds them all


class Prober:
    """A running prober that fires on request only. It runs a copy of its own, so that a watcher of the file attaches to no other process."""

    def __init__(self, running, path):
        self.running, self.path = running, path
        self.pid = Workload(running).pid
        self.rounds = 0

    def fire(self):
        """Fires every probe COUNT times; returns when done."""
        self.rounds += 1
        os.kill(self.pid, signal.SIGUSR1)
        wait_for(lambda: self.running.out.count("fired\n") == self.rounds, 60, "the prober to fire", self.running)


@pytest.fixture
def new_prober(run, root, tmp_path):
    """new_prober() -> a Prober; new_prober(other.path) runs the same file as another one."""
    created = []

    def start(path=None):
        created.append(path or shutil.copy(workload_path("prober"), tmp_path / f"prober-{len(created)}"))
        return Prober(run(created[-1], "", COUNT, name=f"prober-{len(created)}"), created[-1])
    return start


@pytest.fixture
def prober(new_prober):
    return new_prober()


@pytest.fixture
def watch(run, sonde):
    """watch(arguments...) -> the running `sonde probes watch`, once it is attached."""
    def start(*arguments):
        running = run(sonde, "probes", "watch", *arguments)
        wait_for(lambda: "attached to" in running.error or not running.alive, 60, "the watch to be attached")
        assert running.alive, running.error
        return running
    return start


def lines(running):
    """The complete lines printed so far: (pid, process, arguments)."""
    return [re.fullmatch(r"\d\d:\d\d:\d\d\.\d{6} +(\d+) (\S+) (.*)", line).groups() for line in running.out.split("\n")[:-1]]


def attached(sonde, *arguments):
    """The names of the probes that a tracer is attached to."""
    done = subprocess.run([sonde, "probes", "--json", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return {p["probe"] for p in json.loads(done.stdout)["probes"] if p["attached"]}
