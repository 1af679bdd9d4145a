"""A program that hung before anybody looked: `sonde record --off-cpu` shows where, as gdb does, without stopping it."""
from pathlib import Path

import pytest

import peers
from harness.machine import need_command, skip
from harness.processes import system_call, wait_for

PYTHON = "import threading\nlock = threading.Lock()\nlock.acquire()\nprint('ready', flush=True)\nlock.acquire()"

@pytest.fixture(autouse=True)
def able(reads_sleepers):
    if not reads_sleepers:
        skip("this kernel does not let threads that sleep be read")


@pytest.fixture
def hung(subject):
    """hung(arguments...) starts the subject and waits until all of its threads sleep."""
    def start(*arguments, threads=1):
        started = subject("hung", *arguments)
        tasks = Path(f"/proc/{started.pid}/task")

        def sleeping():
            states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks.iterdir()]
            calls = [system_call(task.name) for task in tasks.iterdir()]
            return len(states) == threads and set(states) == {"S"} and not {"", "running"} & set(calls)
        wait_for(sleeping, 60, "all threads to sleep")
        return started.pid
    return start


def by_thread(profile):
    """The one wait of each thread."""
    found = {s.labels["tid"]: s for s in profile.samples}
    assert len(found) == len(profile.samples), profile.top()
    return found


def test_a_deadlock_is_where_gdb_sees_it(record, hung):
    pid = hung("deadlock", threads=3)
    profile = record("--off-cpu", "-p", pid, "-d", 1)
    found = by_thread(profile)
    assert len(found) == 3 and not profile.cut.samples, profile.top()
    gdb = peers.gdb_stacks(pid)
    assert len(gdb) == 3
    for places in gdb:
        same = profile.where(lambda s, p=places: peers.same_frames(s, p) and s.addresses[len(p)] >= peers.KERNEL)
        assert same.count == 1, f"gdb: {';'.join(map(str, places))}\n{profile.top()}"
    for function in ("take_upper_first", "take_lower_first"):
        waits = profile.where(lambda s, f=function: f in s.frames and "take_second" in s.frames and s.frames[-1] == "[lock: futex]")
        assert waits.count == 1 and 1 <= waits.ns / 1e9, profile.top()


@pytest.mark.plain_build
def test_of_many_threads_each(record, hung):
    """In wall-clock time, of which this is all that there is."""
    pid = hung("many", 300, threads=301)
    profile = record("--wall", "-F", 99, "-p", pid, "-d", 1)
    found = by_thread(profile)
    assert len(found) == 301 and not profile.cut.samples, f"{profile.said}\n{profile.top()}"
    depths = sorted(s.frames.count("descend") for tid, s in found.items() if tid != pid)
    assert depths == sorted(1 + i % 10 for i in range(300)), profile.top()
    assert all(s.frames[0].startswith(("clone", "__clone")) for tid, s in found.items() if tid != pid), profile.top()


@pytest.mark.plain_build
def test_what_is_not_there_is_said(record, run, hung):
    """32 KiB of a stack are read, from the leaf on; and of Python its C functions."""
    whole, cut = hung("deep", 25), hung("deep", 100)
    python = run(need_command("/usr/bin/python3"), "-c", PYTHON)
    wait_for(lambda: "ready" in python.out, 60, "Python")
    wait_for(lambda: system_call(python.pid) not in ("", "running"), 60, "Python to wait")
    profile = record("--off-cpu", "-p", whole, "-p", cut, "-p", python.pid, "-d", 1)
    (deep,), (deeper,), (evaluated,) = [profile.of(pid=pid).samples for pid in (whole, cut, python.pid)]
    assert deep.frames.count("descend") == 26 and "main" in deep.frames and deep.frames[0] == "_start", profile.top()
    assert deeper.frames[0] == "[truncated: stack too deep]" and "wait_for_ever" in deeper.frames, profile.top()
    assert 25 < deeper.frames.count("descend") < 40 and "main" not in deeper.frames, profile.top()
    assert "_PyEval_EvalFrameDefault" in evaluated.frames and not evaluated.frames[0].startswith("[truncated"), profile.top()
    assert "1 interpreted" in profile.said, profile.said
