"""A task that stays in uninterruptible sleep is an event with its kernel stack, and the load average is explained by such tasks."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness.machine import need_command, skip
from harness.processes import wait_for

pytestmark = pytest.mark.usefixtures("root")
FUSE = Path(__file__).resolve().parent.parent / "fuse.py"
OPTIONS = ("--set", "blocked.threshold=5s", "--set", "budget.one_cpu=1000%")
MKDIR = """
import os, sys
open("/proc/self/comm", "w").write(sys.argv[1])
os.mkdir(sys.argv[2])
"""
WRITE = """
import os, sys
open("/proc/self/comm", "w").write("frozen-writer")
fd = os.open(sys.argv[1], os.O_WRONLY)
print("open", flush=True)
sys.stdin.readline()
os.write(fd, b"x")
"""


def events(started, name):
    return [e for e in json.loads(started.text("/api/v1/events?seconds=300&max=1000"))["events"] if e["name"] == name]


def event_of(started, thread_name):
    return wait_for(lambda: [e for e in events(started, "blocked.long") if e["attributes"]["thread.name"] == thread_name], 90, f"the event of {thread_name}")[0]


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def frozen_fuse(run, tmp_path):
    """A mounted FUSE file system whose server no longer responds."""
    point, behind = tmp_path / "fuse", tmp_path / "behind"
    point.mkdir()
    behind.write_bytes(b"x" * 4096)
    server = run(sys.executable, FUSE, behind, point)
    if not wait_for(lambda: server.out or not server.alive) or not server.out:
        skip("no FUSE here: " + server.error[-200:])
    os.kill(server.pid, signal.SIGUSR1)
    yield point
    os.kill(server.pid, signal.SIGUSR2)
    subprocess.run(["umount", "-l", point], check=True)


@pytest.mark.thorough
def test_a_task_behind_a_frozen_file_system_names_the_holder_of_the_lock(agent, run, sonde, frozen_fuse):
    started = agent(*OPTIONS)
    holder = run(sys.executable, "-c", MKDIR, "holder", frozen_fuse / "a")  # has the lock of the directory, and asks the server: in state S
    wait_for(lambda: state_of(holder.pid) == "S" and Path(f"/proc/{holder.pid}/comm").read_text() == "holder\n", what="the first mkdir")
    time.sleep(0.5)
    blocked = run(sys.executable, "-c", MKDIR, "blocked", frozen_fuse / "b")
    wait_for(lambda: state_of(blocked.pid) == "D", what="the second mkdir")
    event = event_of(started, "blocked")
    assert event["duration_ns"] >= 5e9 and event["attributes"]["process.pid"] == str(blocked.pid)
    assert event["attributes"]["stack"] and event["attributes"]["stack"] in event["text"] and "mkdir" in event["text"], event
    assert started.metric("sonde_blocked_tasks") >= 1 and started.metric("sonde_blocked_oldest_seconds") >= 5
    if b"\0blocker\0" in Path("/sys/kernel/btf/vmlinux").read_bytes():
        assert event["attributes"]["holder.thread.id"] == str(holder.pid) and f"; holder (thread {holder.pid}) holds the lock" in event["text"], event
    done = subprocess.run([sonde, "events", "--kind", "blocked", "--agent", f"127.0.0.1:{started.port}"], capture_output=True, text=True, timeout=60, check=True)
    assert event["text"] in done.stdout and "look at the holder" in done.stdout, done


@pytest.mark.thorough
def test_many_blocked_tasks_explain_the_load_by_their_stacks(agent, run, frozen_fuse):
    started, cpus = agent(*OPTIONS), os.cpu_count()
    run(sys.executable, "-c", MKDIR, "holder", frozen_fuse / "holder")
    time.sleep(0.5)
    blocked = [run(sys.executable, "-c", MKDIR, "blocked", frozen_fuse / str(i)) for i in range(cpus + 1)]
    wait_for(lambda: all(state_of(one.pid) == "D" for one in blocked), what="the others")
    event = wait_for(lambda: events(started, "blocked.load"), 90, "the event of the load")[0]
    assert int(event["attributes"]["tasks"]) >= cpus and "mkdir" in event["text"] and "(blocked, thread" in event["text"], event
    assert started.metric("sonde_blocked_load_tasks", state="uninterruptible") >= cpus


def test_a_writer_to_a_frozen_file_system_is_an_event(agent, tmp_path):
    for command in ("losetup", "mkfs.ext4", "fsfreeze"):
        need_command(command)
    image, point = tmp_path / "image", tmp_path / "point"
    point.mkdir()
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True, capture_output=True)
    done = subprocess.run(["mount", "-o", "loop", image, point], capture_output=True, text=True)
    if done.returncode:
        skip("mount -o loop: " + done.stderr.strip())
    started = agent(*OPTIONS)
    try:
        (point / "file").write_bytes(b"")
        with subprocess.Popen([sys.executable, "-c", WRITE, point / "file"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout.readline() == "open\n"
            subprocess.run(["fsfreeze", "-f", point], check=True)
            try:
                writer.stdin.write("\n")
                writer.stdin.flush()
                event = event_of(started, "frozen-writer")
            finally:
                subprocess.run(["fsfreeze", "-u", point], check=True)
        assert event["attributes"]["process.pid"] == str(writer.pid) and "write" in event["attributes"]["stack"], event
        wait_for(lambda: not started.metric("sonde_blocked_tasks", service_name=Path(sys.executable).name), what="no blocked task")
    finally:
        subprocess.run(["umount", "-l", point], check=True)


@pytest.mark.thorough
def test_tasks_that_run_or_sleep_are_no_events(agent, run, tmp_path):
    """A thread that computes, one that sleeps and one that waits for a disk again and again."""
    started = agent(*OPTIONS)
    run("sh", "-c", "while :; do :; done")
    run("sh", "-c", f"while :; do dd if=/dev/zero of={tmp_path}/file bs=1M count=4 conv=fsync status=none; done")
    run("sleep", "600")
    wait_for(lambda: started.metric("sonde_self_bpf_runs_total", program="blocked_tasks") >= 4, 60, "four walks")
    assert not events(started, "blocked.long") and not events(started, "blocked.load")
    assert started.metric("sonde_blocked_load_tasks", state="runnable") >= 1
