"""A program that hung before the recording started: `sonde record --off-cpu` shows where, as gdb does, without stopping it."""
import time
from pathlib import Path

import pytest

import peers
from harness.machine import need_command, skip
from harness.processes import system_call, wait_for

PYTHON = "import threading\nlock = threading.Lock()\nlock.acquire()\nprint('ready', flush=True)\nlock.acquire()"


@pytest.fixture(autouse=True)
def able(reads_sleeping_stacks):
    if not reads_sleeping_stacks:
        skip("this kernel does not let threads that sleep be read")


@pytest.fixture
def hung(workload):
    """hung(arguments...) starts the workload and waits until all of its threads sleep."""
    def start(*arguments, threads=1):
        started = workload("hung", *arguments)
        tasks = Path(f"/proc/{started.pid}/task")

        def sleeping():
            states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks.iterdir()]
            calls = [system_call(task.name) for task in tasks.iterdir()]
            return len(states) == threads and set(states) == {"S"} and not {"", "running"} & set(calls)
        wait_for(sleeping, 60, "all threads to sleep")
        return started.pid
    return start


def by_thread(profile):
    """The single wait of each thread."""
    found = {s.labels["tid"]: s for s in profile.samples}
    assert len(found) == len(profile.samples), profile.top()
    return found


@pytest.fixture
def record_sleeping(recording):
    """record_sleeping(arguments...) -> the profile of a short recording, and its length in seconds."""
    def start(*arguments):
        running, counts = recording(*arguments), time.monotonic()
        time.sleep(0.1)
        least = time.monotonic() - counts
        return running.finish(), least
    return start


def assert_deadlock(profile, least):
    assert len(by_thread(profile)) == 3 and not profile.cut.samples, profile.top()
    for function in ("take_upper_first", "take_lower_first"):
        waits = profile.where(lambda s, f=function: f in s.frames and "take_second" in s.frames and s.frames[-1] == "[lock: futex]")
        assert waits.count == 1 and least <= waits.ns / 1e9, profile.top()


@pytest.mark.sanitized
def test_deadlock_is_shown_at_its_lock_call(record_sleeping, hung):
    assert_deadlock(*record_sleeping("--off-cpu", "-p", hung("deadlock", threads=3)))


@pytest.mark.peer
def test_deadlock_stack_matches_gdb(record_sleeping, hung):
    pid = hung("deadlock", threads=3)
    profile, least = record_sleeping("--off-cpu", "-p", pid)
    assert_deadlock(profile, least)
    gdb = peers.gdb_stacks(pid)
    assert len(gdb) == 3
    for places in gdb:
        same = profile.where(lambda s, p=places: peers.same_frames(s, p) and s.addresses[len(p)] >= peers.KERNEL)
        assert same.count == 1, f"gdb: {';'.join(map(str, places))}\n{profile.top()}"


def test_every_sleeping_thread_has_one_wait(record_sleeping, hung):
    """In wall-clock time, which has nothing else here."""
    pid = hung("many", 300, threads=301)
    profile, _ = record_sleeping("--wall", "-F", 99, "-p", pid)
    found = by_thread(profile)
    assert len(found) == 301 and not profile.cut.samples, f"{profile.messages}\n{profile.top()}"
    depths = sorted(s.frames.count("descend") for tid, s in found.items() if tid != pid)
    assert depths == sorted(1 + i % 10 for i in range(300)), profile.top()
    assert all(s.frames[0].startswith(("clone", "__clone")) for tid, s in found.items() if tid != pid), profile.top()


def test_stack_that_cannot_be_read_whole_is_marked(record_sleeping, run, hung):
    """At most 32 KiB of a stack are read, from the leaf on; and Python functions are missing, its C functions are not."""
    whole, cut = hung("deep", 25), hung("deep", 100)
    python = run(need_command("/usr/bin/python3"), "-c", PYTHON)
    wait_for(lambda: "ready" in python.out, 60, "Python")
    wait_for(lambda: system_call(python.pid) not in ("", "running"), 60, "Python to wait")
    profile, _ = record_sleeping("--off-cpu", "-p", whole, "-p", cut, "-p", python.pid)
    (deep,), (deeper,), (evaluated,) = [profile.of(pid=pid).samples for pid in (whole, cut, python.pid)]
    assert deep.frames.count("descend") == 26 and "main" in deep.frames and deep.frames[0] == "_start", profile.top()
    assert deeper.frames[0] == "[truncated: stack too deep]" and "wait_for_ever" in deeper.frames, profile.top()
    assert 25 < deeper.frames.count("descend") < 40 and "main" not in deeper.frames, profile.top()
    assert "_PyEval_EvalFrameDefault" in evaluated.frames and not evaluated.frames[0].startswith("[truncated"), profile.top()
    assert "1 interpreted" in profile.messages, profile.messages
