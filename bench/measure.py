"""Measures one observer: the CPU time of it and its BPF programs, its memory, the bytes it writes.

CPU time is what the kernel accounts to the process and its children when it ends (rusage). The run time of BPF programs is charged to whatever they
interrupt, so it is read from the descriptors that the process holds (fdinfo: run_time_ns, memlock) while it runs; it includes the two clock reads
of the statistics themselves, so it is an upper bound. perf's own work in the kernel (walking frame pointers, copying stacks) is charged to
the observed program too, and has no counter: the comparison favours perf."""
import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, fields
from statistics import median
from pathlib import Path

os.environ.pop("SUDO_UID", None)  # observed commands use root's temporary files
TICKS = os.sysconf("SC_CLK_TCK")
AGENT_LOCK = Path("/run/sonde.lock")


@dataclass
class Cost:
    cpu_s: float = 0          # user + system, children included
    bpf_s: float = 0          # run time of its BPF programs
    resident: int = 0         # highest resident set seen
    bpf_bytes: int = 0        # highest sum of its BPF maps and programs seen
    out_bytes: int = 0
    script_s: float = 0       # part of cpu_s: perf script, which resolves names afterwards
    samples: int = 0          # samples of the load
    whole: float = 0          # share of stacks that reach the thread's entry
    good: float = 0           # ... and have a name in every frame
    status: int = 0
    error: str = ""

    @property
    def total_s(self):
        return self.cpu_s + self.bpf_s


def median_cost(costs):
    """The median of each value on its own."""
    return Cost(**{field.name: median(getattr(cost, field.name) for cost in costs) for field in fields(Cost) if field.type in (int, float)})


def bpf_of(pid):
    """(run time in seconds, bytes) of the BPF objects that a process holds; each object counts once, however many descriptors refer to it."""
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


def clock_of(pid):
    """CPU nanoseconds of a process, including ended threads, by its CPU clock: /proc/PID/stat counts in hundredths of a second."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return 0


def cpu_of(pid):
    """CPU seconds of a running process, its running children and its ended ones."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended = sum(map(int, fields[13:15])) / TICKS
    return clock_of(pid) / 1e9 + ended + sum(map(cpu_of, children_of(pid)))


def children_of(pid):
    try:
        return [int(child) for thread in os.listdir(f"/proc/{pid}/task") for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()]
    except OSError:
        return []


def resident_of(pid):
    """Resident bytes, without mapped pages of BPF maps, which are counted with the maps."""
    size, is_map = 0, False
    try:
        for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
            if line.startswith("Rss:"):
                size += 0 if is_map else int(line.split()[1]) * 1024
            elif not line[0].isupper():
                is_map = "anon_inode:bpf-map" in line
    except OSError:
        pass
    return size


def agent_runs():
    """Whether an agent that is not ours runs on this node."""
    try:
        with open(AGENT_LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def with_own_lock(command, lock):
    """The command with a lock file of its own in place of the node's: another agent may run here (its cost is part of the measurement, which the head
    of the results notes), and the measured one must not refuse to start."""
    if not agent_runs():
        return command
    own = 'mount --bind "$0" "$1" && mkdir -p /run/sonde && mount -t tmpfs sonde /run/sonde && shift && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", own, lock, AGENT_LOCK, *command]


class Ended(RuntimeError):
    """An observer ended unexpectedly; the message is its output."""


class Observer:
    """A started observer, measured from outside until it ends."""

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
        cost.resident = max(cost.resident, resident_of(self.pid))

    def _watch(self):
        while not self.ended.wait(0.25):
            self.look()

    def send(self, number):
        os.kill(self.pid, number)  # the pid stays valid until wait() reaps it; Popen.send_signal() would reap it first

    def used_s(self):
        """CPU seconds so far, of the process and its BPF programs."""
        self.check()
        return cpu_of(self.pid) + bpf_of(self.pid)[0]

    def check(self):
        """Raises Ended with its output if it has exited."""
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            cost = self.wait()
            raise Ended(f"{Path(self.command[0]).name} ended with {cost.status}: {cost.error}")

    def until(self, condition, timeout_s):
        """Waits for the condition while the observer runs."""
        def holds():
            self.check()
            return condition()
        return wait_until(holds, timeout_s)

    def stop(self, signal_number=signal.SIGINT):
        self.check()
        self.look()
        self.send(signal_number)
        return self.wait()

    def wait(self, timeout_s=120):
        killer = threading.Timer(timeout_s, self.send, [signal.SIGKILL])
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

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Leaves nothing running when a row fails half-way."""
        if self.process.returncode is None:
            self.send(signal.SIGKILL)
            self.wait()


@contextmanager
def bpf_statistics(on=True):
    """Turns the kernel's BPF run time statistics on or off for the block; restores the setting afterwards."""
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text().strip()
    switch.write_text("1" if on else "0")
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
    """A load that runs during the block; with `ready`, waits until it has printed that text."""
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
        raise Ended(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr[-200:]}")
    return ended.children_user + ended.children_system - started.children_user - started.children_system, done.stdout


def which(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def compile_program(source, folder, *flags):
    """Compiles a C file of this directory."""
    program = folder / Path(source).stem
    subprocess.run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-o", program, Path(__file__).parent / source, *flags], check=True)
    return program


def get(port, path):
    """The response of a server on this machine; None if it does not respond or refuses."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.read().decode(errors="replace")
    except (urllib.error.URLError, OSError):
        return None


def wait_until(condition, timeout_s):
    ends = time.monotonic() + timeout_s
    while time.monotonic() < ends:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    return None
