"""Events of operations that take long: while they go on, with the kernel's stack, and when they end."""
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.agents import NO_REQUESTS
from harness.machine import skip
from harness.processes import wait_for
from harness.recording import attached_probes

pytestmark = pytest.mark.usefixtures("root")
READ = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
print("open", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
os.pread(fd, 100, 8192)
"""


@pytest.fixture
def server(run, tmp_path):
    """A FUSE file system that stops responding at SIGUSR1."""
    point, behind = tmp_path / "fuse", tmp_path / "behind"
    point.mkdir()
    behind.write_bytes(b"x" * 65536)
    started = run(sys.executable, Path(__file__).resolve().parent.parent / "fuse.py", behind, point)
    if not wait_for(lambda: started.out or not started.alive) or not started.out:
        skip("no FUSE here: " + started.error[-200:])
    yield started, point
    if started.alive:
        os.kill(started.pid, signal.SIGUSR2)
    subprocess.run(["umount", "-l", point], check=True)


def events(started, name, pid):
    found = json.loads(started.text("/api/v1/events?seconds=300"))["events"]
    return [event for event in found if event["name"] == name and event["attributes"]["process.pid"] == str(pid)]


@pytest.mark.thorough
def test_read_that_does_not_end(agent, run, sonde, server, tmp_path):
    fuse, point = server
    walks = attached_probes(sonde)["I/O that does not end"]["attached"]
    started = agent(*NO_REQUESTS, "--set", "io.enabled=true", "--set", "io.hung=2s", "--set", "budget.one_cpu=1000%")
    reader = run(sys.executable, "-c", READ, point / "program", tmp_path / "stopped")
    wait_for(lambda: "open" in reader.out)
    os.kill(fuse.pid, signal.SIGUSR1)
    (tmp_path / "stopped").touch()
    if walks:
        hung, = wait_for(lambda: events(started, "io.hung", reader.pid), what="an event of the hung operation")
        about = hung["attributes"]
        assert about["file.path"] == f"{point}/program" and about["io.file_system"] == "fuse.test" and about["io.operation"] == "read"
        assert about["io.offset"] == "8192" and "fuse" in about["io.stack"], about
        assert hung["duration_ns"] >= 2e9 and f"(thread {reader.pid}) has been waiting for" in hung["text"]
        assert reader.alive
    os.kill(fuse.pid, signal.SIGUSR2)
    slow, = wait_for(lambda: events(started, "io.slow", reader.pid), what="an event of the finished operation")
    assert slow["attributes"]["file.path"] == f"{point}/program" and slow["duration_ns"] >= (2e9 if walks else 0)
    assert not walks or slow["attributes"]["io.stack"] == about["io.stack"]
    assert len(events(started, "io.hung", reader.pid)) == bool(walks)  # once


def test_fast_operations_are_no_events(agent, tmp_path):
    started = agent(*NO_REQUESTS, "--set", "io.enabled=true", "--set", "budget.one_cpu=1000%")
    for i in range(100):
        (tmp_path / str(i)).write_bytes(b"x")
    wait_for(lambda: started.metric("sonde_io_operations_total", operation="create") >= 100)
    assert not events(started, "io.slow", os.getpid())
