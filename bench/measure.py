"""Measuring one observer: the CPU that it and its BPF programs take, the memory it holds, the bytes it writes.

CPU is what the kernel accounts to the process and its children when it ends (rusage). The run time of BPF programs is charged to
whatever they interrupted, so it is read from the descriptors that the process holds (fdinfo: run_time_ns, memlock) while it lives.
perf's own work inside the kernel (walking frame pointers, copying stacks) is charged to the observed program too, and there is no
counter for it: the comparison favours perf."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    cpu_s: float = 0          # user + system, children included
    bpf_s: float = 0          # run time of its BPF programs
    resident: int = 0         # highest resident set seen
    bpf_bytes: int = 0        # highest sum of its BPF maps and programs seen
    out_bytes: int = 0
    status: int = 0
    error: str = ""

    @property
    def total_s(self):
        return self.cpu_s + self.bpf_s


def bpf_of(pid):
    """(run time in seconds, bytes) of the BPF objects that a process holds; each object once, whatever descriptors name it."""
    runs, sizes = {}, {}
    try:
        for entry in os.scandir(f"/proc/{pid}/fdinfo"):
            text = Path(entry.path).read_text()
            fields = dict(re.findall(r"^(\w+):\s*(\S+)$", text, re.M))
            identity = ("program", fields["prog_id"]) if "prog_id" in fields and "run_time_ns" in fields else ("map", fields["map_id"]) if "map_id" in fields else None
            if identity:
                runs[identity] = int(fields.get("run_time_ns", 0))
                sizes[identity] = int(fields.get("memlock", 0))
    except (OSError, ValueError):
        pass
    return sum(runs.values()) / 1e9, sum(sizes.values())


def cpu_of(pid):
    """CPU seconds of a living process and of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


class Observer:
    """A started observer, watched from the side until it ends."""

    def __init__(self, command, out=None, environment=None):
        self.command, self.out, self.cost = list(map(str, command)), out, Cost()
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors,
                                        env=environment, start_new_session=True)
        self.pid, self.ended = self.process.pid, threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()

    def look(self):
        cost = self.cost
        run_s, held = bpf_of(self.pid)
        cost.bpf_s, cost.bpf_bytes = max(cost.bpf_s, run_s), max(cost.bpf_bytes, held)
        try:
            resident = re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text(), re.M)
            cost.resident = max(cost.resident, int(resident[1]) * 1024 if resident else 0)
        except OSError:
            pass

    def _watch(self):
        while not self.ended.wait(0.2):
            self.look()

    def stop(self, signal_number=signal.SIGINT):
        self.look()
        try:
            self.process.send_signal(signal_number)
        except ProcessLookupError:
            pass
        return self.wait()

    def wait(self, timeout_s=120):
        killer = threading.Timer(timeout_s, self.process.kill)
        killer.start()
        _, status, usage = os.wait4(self.pid, 0)
        killer.cancel()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.ended.set()
        self.watcher.join()
        self.cost.cpu_s = usage.ru_utime + usage.ru_stime
        self.cost.status = self.process.returncode
        self.errors.seek(0)
        self.cost.error = self.errors.read()[-600:]
        if self.out and Path(self.out).exists():
            self.cost.out_bytes = Path(self.out).stat().st_size
        return self.cost


@contextmanager
def bpf_statistics():
    """The kernel counts BPF run time while this is on; left as it was found."""
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text().strip()
    switch.write_text("1")
    try:
        yield
    finally:
        switch.write_text(before)


@contextmanager
def tracefs():
    mounted = False
    if not Path("/sys/kernel/tracing/events").is_dir():
        mounted = subprocess.run(["mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing"], capture_output=True).returncode == 0
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "-l", "/sys/kernel/tracing"], check=False)


@contextmanager
def running(*command, ready=None, environment=None):
    """A load that runs while the block does; with `ready`, once that text has come out."""
    process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if ready else subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=environment, start_new_session=True, text=True)
    try:
        if ready:
            for line in process.stdout:
                if line.startswith(ready):
                    break
        yield process
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def quiet(command, timeout_s=120):
    """CPU seconds of a command run to its end, and its output."""
    started = os.times()
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout_s)
    ended = os.times()
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-400:]}")
    return ended.children_user + ended.children_system - started.children_user - started.children_system, done.stdout


def which(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def wait_until(condition, timeout_s):
    ends = time.monotonic() + timeout_s
    while time.monotonic() < ends:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    return None
