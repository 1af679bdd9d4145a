"""A program on a file system that no longer responds, such as a dead NFS server's or a container's hung FUSE: its frames have no names, which is
counted; everything else works, the agent ends when asked to, and names appear when the file system recovers."""
import ctypes
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from harness.fired import assert_all_fired, assert_exact, fire_all, fires
from harness.machine import skip
from harness.paths import TOP
from harness.processes import helper_of, wait_for
from harness.recording import FIRED, Profile
from harness.workloads import Workload, workload_path


class FileSystem:
    def __init__(self, run, folder):
        self.point = folder / "mounted"
        self.point.mkdir()
        self.run = run
        self.server = run(sys.executable, TOP / "tests/fuse.py", workload_path("deep"), self.point, name="fuse")
        wait_for(lambda: "ready" in self.server.out or not self.server.alive, 30, "the FUSE server")
        if not self.server.alive:
            skip("FUSE cannot be mounted: " + self.server.error.strip().splitlines()[-1])

    def start_program(self, **options):
        """Starts the program and waits until all of its file is in memory."""
        (self.point / "program").read_bytes()
        return Workload(self.run(self.point / "program", 20, 600, name="on-fuse", **options))

    def set_answering(self, answering):
        os.kill(self.server.pid, signal.SIGUSR2 if answering else signal.SIGUSR1)

    def close(self):
        self.server.kill()  # pending requests fail
        ctypes.CDLL(None).umount2(os.fsencode(self.point), 2)


@pytest.fixture
def file_system(run, root, tmp_path):
    if not Path("/dev/fuse").exists():
        skip("this kernel has no /dev/fuse")
    created = FileSystem(run, tmp_path)
    at_last = threading.Timer(150, created.server.kill)  # no signal ends a process that waits for the file system
    at_last.start()
    yield created
    at_last.cancel()
    created.close()


@pytest.mark.sanitized
def test_program_on_fuse_has_names(file_system, fire):
    """With a working file system, the helper reads the file's contents."""
    program = file_system.start_program(env=fires())
    assert_exact(fire(program), program.stack)


@pytest.mark.sanitized
def test_dead_file_system_affects_only_its_own_names(file_system, recording, workload):
    """The leaf has a name in every other program, whether the dead program's unwind table exists or not: it is never read from the dead file system,
    and the recording becomes ready without it."""
    program, other = file_system.start_program(env=fires()), workload("deep", 20, 600, env=fires())
    file_system.set_answering(False)
    running = recording("--event", FIRED, "-p", program.pid, "-p", other.pid)
    fire_all(program, other)
    profile = running.finish()
    for pid, named in ((program.pid, False), (other.pid, True)):
        own = profile.of(pid=pid)
        assert_all_fired(Profile(own.samples, 0, profile.messages))
        assert own.where(lambda s: "deep_leaf" in s.frames).count == (own.count if named else 0), profile.top()  # noqa: B023
    assert "file_unanswered" in profile.messages or "does not answer" in profile.messages, profile.messages


@pytest.mark.thorough
@pytest.mark.sanitized
def test_names_return_when_the_file_system_recovers(file_system, agent, run):
    program = file_system.start_program()
    file_system.set_answering(False)
    started = agent("--rate", 99)
    wait_for(lambda: started.metric("sonde_self_losses_total", reason="file_unanswered") > 0, 60, "frames without an answer")
    wait_for(lambda: started.metric("sonde_self_files_resting") >= 1, 60, "the file to be left alone")
    other = run(workload_path("deep"), 20, 600, name="other")
    wait_for(lambda: "deep_leaf" in started.text(f"/api/v1/profile?format=folded&pid={other.pid}"), 60, "the other program's names")
    assert "deep_leaf" not in started.text(f"/api/v1/profile?format=folded&pid={program.pid}")
    file_system.set_answering(True)
    wait_for(lambda: "deep_leaf" in started.text(f"/api/v1/profile?format=folded&pid={program.pid}"), 90, "names")


def test_agent_ends_with_a_dead_file_system(file_system, agent):
    """While the file system does not respond."""
    file_system.start_program()
    file_system.set_answering(False)
    started = agent("--rate", 99)
    wait_for(lambda: started.metric("sonde_self_losses_total", reason="file_unanswered") > 0, 60, "frames without an answer")
    assert started.stop() == 0


@pytest.mark.thorough
def test_killed_helper_is_replaced(file_system, agent):
    started = agent("--rate", 99)
    os.kill(helper_of(started.pid), signal.SIGKILL)
    program = file_system.start_program()
    wait_for(lambda: "deep_leaf" in started.text(f"/api/v1/profile?format=folded&pid={program.pid}"), 90, "names")
    assert started.running.stop() == 0


@pytest.mark.thorough
def test_process_context_in_a_dead_file_system_is_skipped(file_system, agent, run):
    """When a process's context (OTEP 4719) is in unreadable memory, its resource has only what Sonde knows of any process."""
    liar = run("/usr/bin/python3", TOP / "tests/workloads/python/lying_context.py", file_system.point / "program", name="liar")
    wait_for(lambda: "ready" in liar.out or not liar.alive, 30, "the program to run")
    file_system.set_answering(False)
    started = agent("--rate", 99)
    wait_for(lambda: started.metric("sonde_self_files_timed_out_total") > 0, 60, "a context without an answer")
    wait_for(lambda: "python3" in started.text(f"/api/v1/profile?format=folded&pid={liar.pid}"), 60, "its samples")
    refused = started.metric("sonde_process_contexts_refused_total")
    file_system.set_answering(True)
    wait_for(lambda: started.metric("sonde_process_contexts_refused_total") > refused, 90, "a context that makes no sense")
    assert started.running.stop() == 0
