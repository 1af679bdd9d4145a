"""Processes: started programs, waiting for a condition, and what /proc says of a process."""
import os
import platform
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.machine import skip


def wait_for(condition, timeout_s=30, what="the condition", seen=None):
    """Polls until `condition()` is true and returns its value. The time-out is only a safety net. `seen`: what the condition observed, reported on
    failure."""
    ends = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > ends:
            raise AssertionError(f"waited {timeout_s} s in vain for {what}" + (f"; seen: {seen}" if seen is not None else ""))
        time.sleep(0.02)


def descriptors(pid):
    """{path under /proc: target} of each descriptor; without those closed meanwhile."""
    found = {}
    for entry in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        try:
            found[f"/proc/{pid}/fd/{entry}"] = os.readlink(f"/proc/{pid}/fd/{entry}")
        except FileNotFoundError:
            pass
    return found


def command_line(pid):
    """As bytes; empty if the process has exited."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def command_name(pid):
    """Empty if the process has exited."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def helper_of(pid):
    """The helper process that opens files for an agent or a recording."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        skip("this kernel does not list children")
    found = [int(child) for child in children.read_text().split() if command_name(child) == "sonde-files"]
    assert len(found) == 1, found
    return found[0]


EPOLL_WAITS = {"232", "281"} if platform.machine() == "x86_64" else {"22"}


def system_call(pid):
    """The number of the system call that the main thread sleeps in, as text; "running"; empty if the process has exited."""
    try:
        return Path(f"/proc/{pid}/syscall").read_text().split()[0]
    except OSError:
        return ""


def cpu_seconds(pid):
    """User and system time of a process, its threads included, from /proc/PID/stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid, field="VmRSS"):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M)[1]) * 1024


def resident_bytes(pid):
    """(without, of) the pages of BPF maps, which belong to the kernel: the rings are mapped twice."""
    size, maps, is_map = 0, 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if line.startswith("Rss:"):
            maps += int(line.split()[1]) * 1024 if is_map else 0
            size += 0 if is_map else int(line.split()[1]) * 1024
        elif not line[0].isupper():
            is_map = "anon_inode:bpf-map" in line
    return size, maps


def bpf_objects(pid):
    """{("map" or "prog", id): bytes} of the BPF maps and programs that a process has descriptors of."""
    found = {}
    for entry in os.scandir(f"/proc/{pid}/fdinfo"):
        try:
            fields = dict(re.findall(r"^(\w+):\s*(\S+)$", Path(entry.path).read_text(), re.M))
        except OSError:  # closed meanwhile
            continue
        found.update({(kind, int(fields[kind + "_id"])): int(fields.get("memlock", 0)) for kind in ("map", "prog") if kind + "_id" in fields})
    return found


class Running:
    """A started program, its output in files so that no pipe can fill up. Ends with the test."""

    def __init__(self, command, folder, name, **options):
        self.out_path, self.error_path = Path(folder) / f"{name}.out", Path(folder) / f"{name}.err"
        with open(self.out_path, "wb") as out, open(self.error_path, "wb") as error:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=error,
                                            start_new_session=True, **options)
        self.pid = self.process.pid

    @property
    def out(self):
        return self.out_path.read_text(errors="replace")

    @property
    def error(self):
        return self.error_path.read_text(errors="replace")

    @property
    def alive(self):
        return self.process.poll() is None

    def wait(self, timeout_s=60):
        """The exit status; negative: the signal. Kills and fails after `timeout_s`."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.process.args[0]} still ran after {timeout_s} s; it said: {self.error[-2000:]}") from None

    def stop(self, signal_number=signal.SIGTERM, timeout_s=30):
        if self.alive:
            self.process.send_signal(signal_number)
        return self.wait(timeout_s)

    def kill(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


@contextmanager
def programs(folder):
    """A function start(command...) -> Running; the started processes end with the context, children included."""
    started = []

    def start(*command, name=None, **options):
        running = Running(command, folder, name or f"{Path(str(command[0])).name}-{len(started)}", **options)
        started.append(running)
        return running
    yield start
    for running in started:
        running.kill()


@pytest.fixture
def run(tmp_path):
    """run(command...) -> Running, ended with the test, children included."""
    with programs(tmp_path) as start:
        yield start
