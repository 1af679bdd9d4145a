"""`sonde record --off-cpu` against threads that wait for known reasons, the kernel's own accounts of them, and bpftrace at the same
switches. What is compared was measured in the same run, so a busy machine changes the figures and not that they agree."""
import os
import re
import signal
import subprocess
import tempfile
from collections import defaultdict

import pytest

import pprof
from harness.machine import need_command
from harness.processes import wait_for
from harness.recording import Profile
from harness.workloads import subject_path

LEAVES = {  # of the function of that name
    "sleep": {"[sleep: nanosleep]", "[sleep: clock_nanosleep]"},
    "lock": {"[lock: futex]"},
    "pipe": {"[ipc: read]"},
    "unix": {"[ipc: read]"},
    "socket": {"[network: recvfrom]"},
    "poll": {"[events: poll]", "[events: ppoll]"},
    "child": {"[child: wait4]"},
    "disk": {"[disk: fsync]", "[disk: pwrite64]", "[lock: fsync]", "[lock: pwrite64]"},  # a journal has locks, too
    "queue": {"[run queue]"},
    "short": {"[sleep: nanosleep]", "[sleep: clock_nanosleep]"},
    "timer": {"[sleep: read]"},
    "event": {"[events: read]"},
    "fifo": {"[ipc: open]", "[ipc: openat]", "[sleep: nanosleep]", "[sleep: clock_nanosleep]"},  # it sleeps a tenth of the time
}
OTHER_S = 0.05  # beside its wait a thread is born, starts and ends with locks of the C library's, writes its figures


class Thread:
    """What the subject says of a thread: it lived so long, by its own clock, and no longer than `most`."""

    def __init__(self, line):
        self.name, *numbers = re.fullmatch(r"thread (\w+) (\d+) lived (\S+) at most (\S+) cpu (\S+) queued (\S+) rounds (\d+)", line).groups()
        self.tid = int(numbers[0])
        self.lived, self.most, self.cpu, self.queued, self.rounds = map(float, numbers[1:])
        self.unseen = self.most - self.lived  # what it did not see of itself: its birth, its end
        self.stolen = 0

    def lived_for(self, time):
        """What a hypervisor took from it is neither a wait nor, by the scheduler's accounts, CPU time."""
        return 0.98 * self.lived - OTHER_S <= time + 1.5 * self.stolen and time <= 1.02 * self.most + OTHER_S


def cpu_ticks():
    """(stolen, busy) of each CPU."""
    found = []
    with open("/proc/stat") as file:
        for user, nice, system, _, _, irq, softirq, steal, *_ in [map(int, line.split()[1:]) for line in file if re.match(r"cpu\d", line)]:
            found.append((steal, user + nice + system + irq + softirq))
    return found


def stolen_share(before):
    """Of what was used since, what a hypervisor took beside it, where it took most."""
    return max((steal - old_steal) / max(busy - old_busy, 1) for (steal, busy), (old_steal, old_busy) in zip(cpu_ticks(), before))


@pytest.fixture
def waits(record):
    """waits(arguments...) records the subject with them: the profile, and what its threads say of themselves."""
    def start(*arguments):
        with tempfile.NamedTemporaryFile(dir="/var/tmp", prefix="sonde-waits-") as file:  # fsync is to have a disk
            time, ticks = [] if "--wall" in arguments else ["--off-cpu"], cpu_ticks()
            profile = record(*time, *arguments, "--", subject_path("waits"), 3, file.name)
        threads = [Thread(line) for line in profile.said.splitlines() if line.startswith("thread ")]
        assert len(threads) == len(LEAVES) + 1, profile.said  # two are named "queue"
        share = stolen_share(ticks)
        for thread in threads:
            thread.stolen = thread.cpu * share
        return profile, threads
    return start


def seconds(profile):
    return profile.ns / 1e9


def alive(profile):
    """Without what a thread waited for after its last instruction: who joins it goes on before that is over."""
    return profile.where(lambda s: "do_exit" not in s.frames)


def queued(profile):
    return profile.where(lambda s: s.frames[-1] == "[run queue]")


def test_every_wait_has_reason_call_and_stack(waits):
    profile, threads = waits()
    for thread in threads:
        own = alive(profile.of(tid=thread.tid))
        waited = own if thread.name == "queue" else own.where(lambda s: s.frames[-1] != "[run queue]")
        right = waited.where(lambda s: s.frames[-1] in LEAVES[thread.name] and "wait_in_" + thread.name in s.frames)
        assert seconds(waited) - seconds(right) <= 0.02 * seconds(waited) + OTHER_S + thread.unseen, f"{thread.name}: {waited.top()}"
        whole = right.where(lambda s: s.frames[0].startswith(("clone", "__clone")))
        assert seconds(right) - seconds(whole) <= 0.02 * seconds(right) + OTHER_S, f"{thread.name}: {whole.top()}"
        assert not [f for s in own.samples for f in s.frames if f.startswith(("bpf_", "__traceiter"))], own.top()


def test_what_was_waited_and_used_is_all_the_time(waits):
    """Of each thread the waits, and the CPU time that the kernel accounts to it, are as long as it lived; and what it waited for a CPU
    is what the kernel accounts as that."""
    profile, threads = waits()
    assert "lost" not in profile.said and "ring_full" not in profile.said, profile.said
    for thread in threads:
        own = alive(profile.of(tid=thread.tid))
        assert thread.lived_for(seconds(own) + thread.cpu), f"{vars(thread)}: {seconds(own)} {own.top()}"
        in_queue = seconds(queued(own))
        slack = OTHER_S + thread.unseen + 0.05 * thread.lived  # switches that are not traced are known by the accounts of CPU time alone
        assert 0.9 * thread.queued - OTHER_S <= in_queue <= 1.1 * thread.queued + slack, f"{vars(thread)}: {in_queue} {own.top()}"


def test_short_waits_are_counted_with_their_time(waits):
    profile, threads = waits("--min-wait", "5ms")
    found = re.search(r"not told: (\d+) of (\S+) (\w+) in all, shorter than --min-wait", profile.said)
    assert found and int(found[1]) > 100, profile.said
    untold = float(found[2]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[found[3]]
    told, own = seconds(profile), seconds(profile.where(lambda s: s.labels["tid"] in [t.tid for t in threads]))
    lived, cpu = sum(t.lived for t in threads), sum(t.cpu for t in threads)
    others = 2 * max(t.most for t in threads) + 1  # the main thread, and the children of one
    slack = len(threads) * OTHER_S + sum(t.unseen for t in threads)
    assert lived - cpu - slack < told + untold < lived - cpu + others + slack, f"{lived} {cpu} {told} {untold}"
    assert own < lived - cpu + slack, f"{lived} {cpu} {own}"  # the two in the queue alone wait a slice at a time
    for thread in threads:
        told = profile.of(tid=thread.tid)
        assert seconds(told) >= 0.005 * max(queued(told).count, told.count - queued(told).count), f"{vars(thread)}: {told.top()}"


def test_a_wait_that_does_not_end_counts_to_the_end(record, subject, reads_sleepers):
    """Of a thread that waited before the recording and still does, all the time of it is told."""
    sleeper = subject("threads", 60)
    profile = record("--off-cpu", "-p", sleeper.pid, "-d", 2)
    main = profile.of(tid=sleeper.pid)
    assert [s.frames[-1] for s in main.samples] == ["[lock: futex]"], main.top()
    assert main.count == 1 and ("main" if reads_sleepers else "[truncated: waiting since before the recording]") in main.samples[0].frames, main.top()
    assert 2 <= seconds(main) < 60, main.top()


BPFTRACE = """
BEGIN { printf("attached\\n"); }
tracepoint:sched:sched_switch {
    if (@on[cpu] && @on[cpu] != args->prev_pid) { @unseen[args->prev_pid] = 1; } // some kernels do not trace every switch
    @on[cpu] = args->next_pid;
    if (args->prev_pid) { @since[args->prev_pid] = nsecs; }
    if (@since[args->next_pid]) {
        @ns[args->next_pid] = sum(nsecs - @since[args->next_pid]);
        delete(@since[args->next_pid]);
    }
}
END { clear(@since); clear(@on); }
"""


def test_wall_is_both(waits):
    """Of a thread that computes and of those that wait all the time is there: sampled what was computed, exactly what was waited."""
    profile, threads = waits("--wall", "-F", "499")
    for thread in threads:
        own = alive(profile.of(tid=thread.tid))
        cpu = own.where(lambda s: not s.frames[-1].startswith("["))
        waited = seconds(own) - seconds(cpu)
        assert thread.lived_for(waited + thread.cpu), f"{vars(thread)}: {waited} waited {own.top()}"
        if thread.name == "queue":
            assert 0.75 * thread.cpu - 0.1 <= seconds(cpu) <= 1.25 * (thread.cpu + thread.stolen) + 0.1, f"{vars(thread)}: {cpu.top()}"


def test_what_is_left_to_chance_leaves_the_sums_true(waits):
    """Of ten thousand short waits a few are told, and stand for the others."""
    profile, threads = waits("--sample-waits", "1ms")
    left_out = re.search(r"left out by chance: (\d+) of ", profile.said)
    thread = next(t for t in threads if t.name == "short")
    own = profile.of(tid=thread.tid)
    assert left_out and int(left_out[1]) > own.count / 2, profile.said
    waited = thread.lived - thread.cpu
    # A wait of L ms is told with the probability L, and stands for 1 / L: a millisecond. The variance of the sum is L - L^2 for each, so at most that of as
    # many as there are milliseconds, some 2,800; that of their number is 1 / L - 1. None is shorter than SHORT_NS, and a thread may be told to sleep and not.
    assert seconds(own) == pytest.approx(waited, rel=6 * (0.001 / waited) ** 0.5), f"{vars(thread)}: {seconds(own)} {own.top()}"
    slept = own.where(lambda s: s.frames[-1] in LEAVES["short"]).count
    assert slept == pytest.approx(thread.rounds, abs=6 * (5.7 * thread.rounds) ** 0.5 + 0.01 * thread.rounds), f"{vars(thread)}: {slept} {own.top()}"


def test_a_replay_says_the_same(waits, sonde, tmp_path):
    profile, _ = waits("--record-wire", tmp_path / "wire")
    done = subprocess.run([sonde, "record", "--replay", tmp_path / "wire", "-o", tmp_path / "again.pb.gz"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    again = Profile(*pprof.read(tmp_path / "again.pb.gz"), done.stderr)

    def sums(of):
        found = defaultdict(int)
        for s in of.samples:
            found[s.labels["tid"], s.frames[-1], tuple(f for f in s.frames if f.startswith("wait_in_"))] += s.ns
        return found
    assert sums(again) == sums(profile)
    assert " waits of " in done.stderr


def test_bpftrace_finds_as_much(waits, tracefs, tmp_path):
    path = need_command("bpftrace")
    with open(tmp_path / "bpftrace", "w+") as out:
        peer = subprocess.Popen([path, "-e", BPFTRACE], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, text=True,
                                env={**os.environ, "BPFTRACE_MAP_KEYS_MAX": "65536", "BPFTRACE_MAX_MAP_KEYS": "65536"})
        try:
            wait_for(lambda: "attached" in (tmp_path / "bpftrace").read_text(), 60, "bpftrace to attach")
            profile, threads = waits()
            peer.send_signal(signal.SIGINT)
            assert peer.wait(60) == 0
        finally:
            peer.kill()
            peer.wait()
    said = (tmp_path / "bpftrace").read_text()
    theirs = {int(tid): int(ns) / 1e9 for tid, ns in re.findall(r"@ns\[(\d+)\]: (\d+)", said)}
    unseen = {int(tid) for tid in re.findall(r"@unseen\[(\d+)\]: 1", said)}
    for thread in threads:
        own = profile.of(tid=thread.tid)
        ours = seconds(own) - seconds(own.where(lambda s: len(s.frames) == 1))  # without the time until it first had a CPU
        assert ours >= 0.99 * theirs[thread.tid] - 0.01, f"{vars(thread)}: {own.top()}"
        if thread.tid not in unseen:  # else bpftrace does not know when a wait ended, and takes none of it
            assert ours <= 1.01 * theirs[thread.tid] + 0.01, f"{vars(thread)}: {own.top()}"
    assert len(unseen & {t.tid for t in threads}) < len(threads), said
