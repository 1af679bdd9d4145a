"""`sonde record` and the profile that it writes."""
import functools
import json
import os
import re
import select
import signal
import subprocess
import time

import pytest

import pprof
from harness.paths import BUILD
from harness.processes import EPOLL_WAITS, cpu_seconds, descriptors, system_call, wait_for


@pytest.fixture(scope="session")
def sonde():
    """The path of the built binary."""
    path = BUILD / "sonde"
    if not path.exists():
        pytest.fail(f"{path} has not been built")
    return path


def is_recording(pid):
    """Whether a `sonde record` has opened all its events, of samples and of process lifecycle events, one per CPU each, and polls them: they are
    opened before they count."""
    return sum("perf_event" in kind for kind in descriptors(pid).values()) >= 2 * os.cpu_count() and system_call(pid) in EPOLL_WAITS


EARLY = ("[truncated: unwind table not ready]", "[truncated: mappings not known yet]")


class Profile:
    """What `sonde record` wrote, as pprof's samples (tests/pprof.py)."""

    def __init__(self, samples=(), period_ns=0, messages=""):
        self.samples, self.period_ns, self.messages = list(samples), period_ns, messages

    @property
    def ns(self):
        return sum(sample.ns for sample in self.samples)

    @property
    def count(self):
        return sum(sample.count for sample in self.samples)

    def where(self, condition):
        return Profile(filter(condition, self.samples), self.period_ns, self.messages)

    def of(self, **labels):
        """The samples with these labels; dots in their names are written __ here: of(pid=1, container__id=...)."""
        wanted = {key.replace("__", "."): value for key, value in labels.items()}
        return self.where(lambda s: all(s.labels.get(key) == value for key, value in wanted.items()))

    def share(self, pattern):
        """The fraction of the samples whose stack matches a workload's expected stack; see stack_matches."""
        return self.where(lambda s: stack_matches(s.frames, pattern)).count / max(self.count, 1)

    @property
    def cut(self):
        """The samples that are marked as truncated."""
        return self.where(lambda s: any(f.startswith("[truncated") for f in s.frames))

    @property
    def truncated(self):
        """Their fraction."""
        return self.cut.count / max(self.count, 1)

    @property
    def early(self):
        """The fraction of samples taken before the process's unwind table was loaded: on a busy machine that takes a while."""
        return self.where(lambda s: any(f in EARLY for f in s.frames)).count / max(self.count, 1)

    @property
    def overwritten(self):
        """The fraction of samples truncated in the last steps of a C++ throw, which overwrite the frame of the thrower with the handler
        (docs/decisions/0003): 2 to 3 % of a program that does nothing else, depending on the CPU."""
        return self.cut.where(lambda s: stack_matches(s.frames, "shop::throw_and_catch;_Unwind_RaiseException")).count / max(self.count, 1)

    def top(self, count=6):
        """For messages."""
        most = sorted(self.samples, key=lambda s: -s.count)[:count]
        return f"{self.count} samples, most of them:\n" + "\n".join(f"{s.count} {s.labels.get('process')};{';'.join(s.frames)}" for s in most)


def stack_matches(frames, pattern):
    """Whether `pattern` (root first, "..." for up to eight frames of any name) occurs in the stack as one run of frames. Frames before it are the
    C library's start; frames after it are below the leaf (the kernel, a libc call). Names have no parameters, as Sonde and perf print them;
    compiler suffixes ("[clone .constprop.0]") are ignored."""
    wanted = pattern.split(";")
    frames = [re.sub(r" \[clone [^]]*\]", "", frame) for frame in frames]
    wanted = wanted[1:] if wanted[0] == "..." else wanted

    def at(i, j):
        if j == len(wanted):
            return True
        if wanted[j] == "...":
            return any(at(i + gap, j + 1) for gap in range(9))
        return i < len(frames) and frames[i] == wanted[j] and at(i + 1, j + 1)
    return any(at(start, 0) for start in range(len(frames)))


@functools.cache
def attached_probes(sonde):
    """{name: what `sonde doctor` says of this probe}, on this kernel. `sonde doctor` takes some seconds."""
    said = subprocess.run([sonde, "doctor", "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True).stdout
    return {probe["probe"]: probe for probe in json.loads(said)["probes"]}


@pytest.fixture(scope="session")
def reads_sleeping_stacks(sonde):
    """Whether stacks of threads that slept before the recording started are read (Linux 5.18 and later)."""
    return attached_probes(sonde).get("stacks of sleeping tasks", {}).get("method") == "iterator that may sleep"


@pytest.fixture
def record(sonde, tmp_path, root):
    """record(arguments...) runs `sonde record` to its end and returns its Profile."""
    count = 0

    def start(*arguments, timeout_s=90, status=0):
        nonlocal count
        count += 1
        path = tmp_path / f"record-{count}.pb.gz"
        before = [str(a) for a in arguments]
        split = before.index("--") if "--" in before else len(before)
        done = subprocess.run([str(sonde), "record", *before[:split], "-o", str(path), *before[split:]], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout_s, errors="replace", cwd=tmp_path)
        said = done.stdout + done.stderr
        assert done.returncode == status, f"sonde record: {done.returncode}\n{said[-4000:]}"
        return Profile(*(pprof.read(path) if path.exists() else ([], 0)), said)
    return start


@pytest.fixture
def record_busy(run, sonde, tmp_path):
    """record_busy(workload, seconds, options...) -> samples of that much of its CPU time, stderr"""
    def start(workload, seconds=1.5, *options):
        path = tmp_path / "profile.pb.gz"
        recording = run(sonde, "record", "-F", "499", *options, "-p", workload.pid, "-o", path)
        wait_for(lambda: is_recording(recording.pid) or not recording.alive, 60, "the recording")
        since = cpu_seconds(workload.pid)
        wait_for(lambda: cpu_seconds(workload.pid) > since + seconds, 120, "some CPU time")
        assert recording.stop(signal.SIGINT) == 0, recording.error
        return pprof.read(path)[0], recording.error
    return start


class Recording:
    """A running `sonde record` that has started counting: unwind tables of processes selected by -p are loaded."""

    def __init__(self, running, ready, path):
        self.running, self.pid, self.path = running, running.pid, path
        wait_for(lambda: select.select([ready], [], [], 0)[0] or not running.alive, 120, "the recording to be ready")
        assert os.read(ready, 64) == b"ready\n", running.error

    def finish(self, signal_number=signal.SIGINT):
        """Ends it as Ctrl-C does; its Profile."""
        assert self.running.stop(signal_number, 120) == 0, self.running.error[-4000:]
        return Profile(*pprof.read(self.path), self.running.out + self.running.error)


@pytest.fixture
def recording(run, sonde, tmp_path, root):
    """recording(arguments...) starts `sonde record` without a duration and returns the Recording once it counts."""
    def start(*arguments):
        path = tmp_path / f"recording-{time.monotonic_ns()}.pb.gz"
        ready, write = os.pipe()
        try:
            running = run(sonde, "record", "--ready-fd", write, "-o", path, *arguments, pass_fds=[write], cwd=tmp_path)
            os.close(write)
            return Recording(running, ready, path)
        finally:
            os.close(ready)
    return start


@pytest.fixture
def record_until(recording):
    """record_until(condition, arguments...) records until condition() is true; the Profile."""
    def start(condition, *arguments, what="the end of the recording"):
        running = recording(*arguments)
        wait_for(condition, 120, what)
        return running.finish()
    return start


FIRED = "tracepoint:syscalls:sys_enter_getppid"


@pytest.fixture
def fire(recording):
    """fire(workload, arguments...) records the stacks of a workload that was started with WORKLOAD_FIRE=N in its environment: at SIGUSR1 its leaf
    function calls getppid() N times, which is the recorded event, and the workload exits. Returns exactly N stacks, except for those that the
    profile counts as missed."""
    def start(workload, *arguments):
        running = recording("--event", FIRED, "-p", workload.pid, *arguments)
        os.kill(workload.pid, signal.SIGUSR1)
        workload.end()
        return running.finish()
    return start
