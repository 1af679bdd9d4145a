"""A program on a file system that answers no more, as a dead NFS server's or a container's hung FUSE: its frames have no names,
which is counted; everything else goes on, the agent ends when it is told to, and names come when the file system does."""
import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.machine import skip
from harness.paths import TOP
from harness.processes import helper_of, wait_for
from harness.workloads import subject_path


class FileSystem:
    def __init__(self, run, folder):
        self.point = folder / "mounted"
        self.point.mkdir()
        self.run = run
        self.server = run(sys.executable, TOP / "tests/fuse.py", subject_path("deep"), self.point, name="fuse")
        wait_for(lambda: "ready" in self.server.out or not self.server.alive, 30, "the FUSE server")
        if not self.server.alive:
            skip("FUSE cannot be mounted: " + self.server.error.strip().splitlines()[-1])

    def start_program(self):
        """The program, once it runs: what it needs is in memory then."""
        program = self.run(self.point / "program", 20, 600, name="on-fuse")
        wait_for(lambda: Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[11] != "0", 60, "the program to run")
        return program

    def set_answering(self, answering):
        os.kill(self.server.pid, signal.SIGUSR2 if answering else signal.SIGUSR1)

    def close(self):
        self.server.kill()  # whoever waits gets an error now
        ctypes.CDLL(None).umount2(os.fsencode(self.point), 2)


@pytest.fixture
def file_system(run, root, tmp_path):
    if not Path("/dev/fuse").exists():
        skip("this kernel has no /dev/fuse")
    made = FileSystem(run, tmp_path)
    at_last = threading.Timer(150, made.server.kill)  # who waits for it in vain not even a signal ends
    at_last.start()
    yield made
    at_last.cancel()
    made.close()


def test_names_from_fuse(file_system, record):
    """All is well: what the helper reads is what the file holds."""
    program = file_system.start_program()
    profile = record("-F", 199, "-d", 2, "-p", program.pid)
    assert profile.share("recurse;deep_leaf") >= 0.95, profile.top()
    assert profile.truncated <= 0.05, profile.top()


def test_dead_file_system_costs_only_its_own_names(file_system, record, run):
    program = file_system.start_program()
    other = run(subject_path("deep"), 20, 600, name="other")
    file_system.set_answering(False)
    started = time.monotonic()
    profile = record("-F", 199, "-d", 5, "-p", program.pid, "-p", other.pid)
    assert time.monotonic() - started < 45, "recording five seconds took too long"
    assert profile.of(pid=other.pid).share("recurse;deep_leaf") >= 0.95, profile.top()
    dead = profile.of(pid=program.pid)
    assert dead.count > 0 and dead.share("recurse;deep_leaf") == 0, profile.top()
    assert "file_unanswered" in profile.said or "does not answer" in profile.said, profile.said


def test_agent_goes_on_and_ends(file_system, agent, run):
    program = file_system.start_program()
    file_system.set_answering(False)
    started = agent("--rate", 99)
    wait_for(lambda: started.metric("sonde_self_losses_total", reason="file_unanswered") > 0, 60, "frames without an answer")
    assert started.metric("sonde_self_files_resting") >= 1
    other = run(subject_path("deep"), 20, 600, name="other")
    wait_for(lambda: "deep_leaf" in started.text(f"/api/v1/profile?format=folded&pid={other.pid}"), 60, "the other program's names")
    assert "deep_leaf" not in started.text(f"/api/v1/profile?format=folded&pid={program.pid}")
    assert started.running.stop() == 0


def test_names_come_back(file_system, agent):
    program = file_system.start_program()
    file_system.set_answering(False)
    started = agent("--rate", 99)
    wait_for(lambda: started.metric("sonde_self_losses_total", reason="file_unanswered") > 0, 60, "frames without an answer")
    file_system.set_answering(True)
    wait_for(lambda: "deep_leaf" in started.text(f"/api/v1/profile?format=folded&pid={program.pid}"), 90, "names")


def test_killed_helper_is_replaced(file_system, agent):
    started = agent("--rate", 99)
    os.kill(helper_of(started.pid), signal.SIGKILL)
    program = file_system.start_program()
    wait_for(lambda: "deep_leaf" in started.text(f"/api/v1/profile?format=folded&pid={program.pid}"), 90, "names")
    assert started.running.stop() == 0


LYING = """
import ctypes, mmap, os, struct, sys
program = os.open(sys.argv[1], os.O_RDONLY)
dead = mmap.mmap(program, 8192, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
context = os.memfd_create("OTEL_CTX")
os.ftruncate(context, 4096)
header = mmap.mmap(context, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
header[:32] = struct.pack("=8sIIQQ", b"OTEL_CTX", 2, 4096, 1, ctypes.addressof(ctypes.c_char.from_buffer(dead)) + 4096)
print("ready", flush=True)
while True:
    sum(range(100000))
"""


def test_a_context_in_a_dead_file_system(file_system, agent, run):
    """What the process says of itself (OTEP 4719) it has in memory that nobody can read: it is known by what the node says, like any other."""
    liar = run("/usr/bin/python3", "-c", LYING, file_system.point / "program", name="liar")
    wait_for(lambda: "ready" in liar.out or not liar.alive, 30, "the program to run")
    file_system.set_answering(False)
    started = agent("--rate", 99)
    wait_for(lambda: started.metric("sonde_self_files_timed_out_total") > 0, 60, "a context without an answer")
    wait_for(lambda: "python3" in started.text(f"/api/v1/profile?format=folded&pid={liar.pid}"), 60, "its samples")
    refused = started.metric("sonde_process_contexts_refused_total")
    file_system.set_answering(True)
    wait_for(lambda: started.metric("sonde_process_contexts_refused_total") > refused, 90, "a context that makes no sense")
    assert started.running.stop() == 0
