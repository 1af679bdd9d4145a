"""`sonde record --off-cpu --wakers`: above each wait its waker, for a workload whose waits end in known ways. Which wakeups are seen depends on the
machine (some kernels do not trace all of them), so the assertions are about waits with a waker."""
import os
import re
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import pprof
from harness.machine import need_root
from harness.processes import Running, wait_for
from harness.recording import Profile, Recording
from harness.workloads import Workload, workload_path

NOT_SEEN = "[waker not seen]"
INTERRUPT = "[woken by an interrupt]"
WAKERS = {  # per waiting function: the leaf, the waker, and where the waker was (None: not in a thread)
    "wait_here": ("[lock: futex]", "[woken by wakers]", "let_go"),
    "receive_here": ("[network: recvfrom]", "[woken by wakers]", "send_here"),
    "read_here": ("[ipc: read]", "[woken by feeder]", "feed_here"),
    "sleep_here": ("[sleep: clock_nanosleep]", INTERRUPT, None),
}


def split(sample):
    """(frames of the waiter, root first, with the reason; the separator or None; frames of the waker, leaf first)."""
    for i, frame in enumerate(sample.frames):
        if frame == NOT_SEEN or frame.startswith("[woken by "):
            return sample.frames[:i], frame, sample.frames[i + 1:]
    return sample.frames, None, []


def check(profile):
    """The number of waits per place whose waker was seen."""
    seen = Counter()
    for sample in profile.samples:
        waiter, separator, waker = split(sample)
        place = next((f for f in waiter if f in WAKERS and "live" in waiter), None)
        if waiter[-1] == "[run queue]":
            assert separator is None, sample
        if place is None or waiter[-1] != WAKERS[place][0] or separator in (None, NOT_SEEN):
            continue
        _, by, where = WAKERS[place]
        if place == "receive_here" and separator == INTERRUPT:
            continue  # a kernel thread or an interrupt delivered it before the sender did
        if where is None:
            assert separator == by and not any(f in waker for f in (*WAKERS, "main", "live")), sample
            assert waker and {m for m in sample.mappings[-len(waker):]} == {"[kernel.kallsyms]"}, sample
        elif not any(f.startswith("[truncated") for f in waker):
            assert separator == by and where in waker and "main" in waker[waker.index(where):], sample
            assert waker.index(where) < waker.index("main"), sample
        else:
            continue  # before the unwind tables were loaded
        seen[place] += sample.count
    return seen


class WakersRecording:
    """A recording of `wakers` that starts with the unwind tables loaded and covers many waits of its reader; and the recording's events."""

    def __init__(self, sonde, folder):
        self.wire, path = folder / "wire", folder / "out.pb.gz"
        ready, write = os.pipe()
        programs = []
        try:
            program = Workload(Running([workload_path("wakers"), 600], folder, "wakers"))
            programs.append(program.running)
            running = Running([sonde, "record", "--ready-fd", write, "--off-cpu", "--wakers", "--record-events", self.wire, "-o", path, "-p", program.pid],
                              folder, "record", pass_fds=[write])
            programs.append(running)
            os.close(write)
            recording = Recording(running, ready, path)
            wait_for_waits(program, "reader")
            self.profile = recording.finish()
        finally:
            for one in programs:
                one.kill()
            os.close(ready)


def wait_for_waits(program, name, count=100):
    """Waits until a thread of that name has done so many more waits."""
    task, = [task for task in Path(f"/proc/{program.pid}/task").iterdir() if (task / "comm").read_text().strip() == name]

    def waits():
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M)[1])
    before = waits()
    wait_for(lambda: waits() >= before + count, 120, f"{count} waits of {name}")


@pytest.fixture(scope="module")
def woken(sonde, tmp_path_factory):
    need_root()
    return WakersRecording(sonde, tmp_path_factory.mktemp("wakers"))


def test_each_wait_has_its_waker(woken):
    """Wakeups by kernel threads, such as packet delivery, are attributed to these; all other waits have a known waker."""
    seen = check(woken.profile)
    assert set(seen) >= set(WAKERS) - {"receive_here"}, f"{seen} {woken.profile.top()}"
    not_seen = woken.profile.where(lambda s: NOT_SEEN in s.frames).count
    counted = re.search(r"; (\d+) without a known waker", woken.profile.messages)
    assert (int(counted[1]) if counted else 0) == not_seen, woken.profile.messages


@pytest.mark.statistical
def test_most_waits_have_their_waker(record):
    """Records a command from its start on."""
    profile = record("--off-cpu", "--wakers", "--", workload_path("wakers"), "2")
    seen = check(profile)
    assert set(seen) == set(WAKERS), f"{seen} {profile.top()}"
    for place, count in seen.items():
        waits = profile.where(lambda s: {place, "live", WAKERS[place][0]} <= set(s.frames))
        assert count >= 0.5 * waits.count, f"{place}: {seen} {waits.top()}"


def replay(sonde, wire, out):
    done = subprocess.run([sonde, "record", "--replay", wire, "-o", out], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return Profile(*pprof.read(out), done.stderr)


def sums(profile):
    found = Counter()
    for sample in profile.samples:
        waiter, separator, waker = split(sample)
        found[sample.labels["tid"], waiter[-1], separator, tuple(f for f in waker if f.endswith("_here") or f == "let_go")] += sample.ns
    return found


def test_replay_has_the_same_wakers(sonde, woken, tmp_path):
    assert sums(replay(sonde, woken.wire, tmp_path / "again.pb.gz")) == sums(woken.profile)


@pytest.mark.sanitized
def test_lost_waker_is_counted(sonde, woken, tmp_path):
    """In a replay without the event records of wakers, each wait that a waker ended is marked as such."""
    profile, data = woken.profile, woken.wire.read_bytes()
    at, kept = 16, bytearray(data[:16])
    while at < len(data):
        size, kind = struct.unpack_from("<IH", data, at)
        kept += b"" if kind == 5 else data[at:at + size]
        at += size
    assert len(kept) < len(data)
    (tmp_path / "wire").write_bytes(kept)
    without = replay(sonde, tmp_path / "wire", tmp_path / "out.pb.gz")
    ended = profile.where(lambda s: split(s)[1]).count
    assert ended and without.where(lambda s: split(s)[1] == NOT_SEEN).count == without.where(lambda s: split(s)[1]).count == ended
    assert f"; {ended} without a known waker" in without.messages
    assert without.ns == profile.ns and without.count == profile.count


def test_filter_applies_to_the_waiter_not_its_waker(recording, workload):
    """The waker is in a process that is not recorded, and is named all the same."""
    workload = workload("wakers", 600)
    running = recording("--wall", "--wakers", "-p", workload.pid, "-C", "reader")
    wait_for_waits(workload, "reader")
    profile = running.finish()
    assert {s.labels["thread"] for s in profile.samples} == {"reader"}, profile.top()
    assert set(check(profile)) == {"read_here"}, profile.top()


def test_wakers_option_requires_off_cpu(sonde):
    for arguments in (["--wakers"], ["--wakers", "-F", "99"], ["--wakers", "--replay", "/dev/null"]):
        done = subprocess.run([sonde, "record", *arguments, "-d", "1"], capture_output=True, text=True, timeout=30)
        assert done.returncode != 0 and "--wakers needs --off-cpu or --wall" in done.stderr, done
