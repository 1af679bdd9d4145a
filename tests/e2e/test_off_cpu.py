"""`sonde record --off-cpu` and `--wall` on threads that wait for known reasons. The statistical cases compare times with the kernel's own accounting
of the same run, and with bpftrace on the same switches."""
import os
import re
import signal
import subprocess
import tempfile
import time
from collections import defaultdict

import pprof
import pytest
from harness.machine import need_command, need_root
from harness.processes import Running, wait_for
from harness.recording import Profile, Recording
from harness.workloads import Workload, workload_path
from off_cpu import LEAVES, OTHER_S, alive, cpu_ticks, queued, seconds, stolen_share, threads_of


def intended_waits(profile):
    """Excludes what any thread of a busy machine waits for: a CPU, a page, memory for a child."""
    return profile.where(lambda s: s.frames[-1] != "[run queue]" and not any(part in f for f in s.frames for part in ("page fault", "page_fault", "fork")))


class WaitsRecording:
    """A recording of `waits`, started before the recording and held back until it counts: the profile, its events, the threads' reports."""

    def __init__(self, sonde, folder, *arguments):
        held, release = os.pipe()
        ready, write = os.pipe()
        self.wire = folder / "wire"
        programs = []
        try:
            with tempfile.NamedTemporaryFile(dir="/var/tmp", prefix="sonde-waits-") as file:  # fsync needs a disk
                program = Workload(Running(["sh", "-c", f'exec "$@" </dev/fd/{held}', "sh", workload_path("waits"), 1, file.name], folder, "waits", pass_fds=[held]))
                programs.append(program.running)
                running = Running([sonde, "record", "--ready-fd", write, "-o", folder / "out.pb.gz", "--record-events", self.wire, "-p", program.pid, *arguments],
                                  folder, "record", pass_fds=[write])
                programs.append(running)
                os.close(write)
                recording = Recording(running, ready, folder / "out.pb.gz")
                os.write(release, b"\n")
                program.end()
            self.profile = recording.finish()
            self.threads = threads_of(program.running.out)
        finally:
            for one in programs:
                one.kill()
            for fd in (held, release, ready):
                os.close(fd)


@pytest.fixture(scope="module")
def waited(sonde, tmp_path_factory):
    need_root()
    return WaitsRecording(sonde, tmp_path_factory.mktemp("waits"), "--off-cpu")


def test_every_wait_has_a_reason_and_a_whole_stack(waited):
    for thread in waited.threads:
        own = alive(waited.profile.of(tid=thread.tid))
        placed = own.where(lambda s: "wait_in_" + thread.name in s.frames)
        leaves = {s.frames[-1] for s in intended_waits(placed).samples} | ({s.frames[-1] for s in queued(placed).samples} if thread.name == "queue" else set())
        assert leaves <= LEAVES[thread.name] and (leaves or thread.name == "disk"), f"{thread.name}: {placed.top(30)}"  # /var/tmp may not be on a disk
        assert all(s.frames[0].startswith(("clone", "__clone")) for s in placed.samples), f"{thread.name}: {placed.top()}"
        assert not [f for s in own.samples for f in s.frames if f.startswith(("bpf_", "__traceiter", "[truncated: unwind"))], own.top()


def test_waits_of_a_thread_fit_into_its_lifetime(waited):
    """Waits do not overlap, and an unfinished wait is counted once."""
    for thread in waited.threads:
        own = alive(waited.profile.of(tid=thread.tid))
        assert 0 < seconds(own) <= thread.most, f"{vars(thread)}: {own.top()}"


def sums(profile):
    found = defaultdict(int)
    for s in profile.samples:
        found[s.labels["tid"], s.frames[-1], tuple(f for f in s.frames if f.startswith("wait_in_"))] += s.ns
    return found


@pytest.mark.sanitized
def test_replay_has_the_same_waits(waited, sonde, tmp_path):
    done = subprocess.run([sonde, "record", "--replay", waited.wire, "-o", tmp_path / "again.pb.gz"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert sums(Profile(*pprof.read(tmp_path / "again.pb.gz"), done.stderr)) == sums(waited.profile)
    assert " waits of " in done.stderr


def test_wall_has_cpu_time_beside_waits_that_are_shorter_than_the_minimum(sonde, root, tmp_path):
    """Waits below --min-wait are counted and not recorded; among them is the main thread's wait for the end."""
    waited = WaitsRecording(sonde, tmp_path, "--wall", "-F", "499", "--min-wait", "1h")
    assert not waited.profile.where(lambda s: s.frames[-1].startswith("[")).samples, waited.profile.top()
    found = re.search(r"not recorded: (\d+) of (\S+) (\w+) in all, shorter than --min-wait", waited.profile.messages)
    assert found and int(found[1]) > 0, waited.profile.messages
    assert waited.profile.where(lambda s: "wait_in_queue" in s.frames).samples, waited.profile.top()


@pytest.mark.statistical
def test_unfinished_wait_counts_until_the_end(recording, workload, reads_sleeping_stacks):
    """For a thread that waits during the whole recording, the wait has the length of the recording."""
    sleeper, before = workload("threads", 60), time.monotonic()
    running = recording("--off-cpu", "-p", sleeper.pid)
    counts = time.monotonic()
    time.sleep(0.3)
    least = time.monotonic() - counts
    profile = running.finish()
    most = time.monotonic() - before
    main = profile.of(tid=sleeper.pid)
    assert [s.frames[-1] for s in main.samples] == ["[lock: futex]"], main.top()
    assert main.count == 1 and ("main" if reads_sleeping_stacks else "[truncated: waiting since before the recording]") in main.samples[0].frames, main.top()
    assert least <= seconds(main) <= most, main.top()


# --- times, compared with the kernel's accounts ---------------------------------------------------------------------------------

@pytest.fixture
def waits(record):
    """waits(arguments...) records the workload with them: the profile, and what its threads report."""
    def start(*arguments):
        with tempfile.NamedTemporaryFile(dir="/var/tmp", prefix="sonde-waits-") as file:
            time, ticks = [] if "--wall" in arguments else ["--off-cpu"], cpu_ticks()
            profile = record(*time, *arguments, "--", workload_path("waits"), 3, file.name)
        threads = threads_of(profile.messages)
        share = stolen_share(ticks)
        for thread in threads:
            thread.stolen = thread.cpu * share
        return profile, threads
    return start


@pytest.mark.statistical
def test_waits_have_reason_call_and_stack(waits):
    """Compares times, for a command from its start: waits plus the CPU time that the kernel accounts to a thread equal its lifetime; its run queue
    time is what the kernel accounts as such."""
    profile, threads = waits()
    assert "lost" not in profile.messages and "ring_full" not in profile.messages, profile.messages
    for thread in threads:
        own = alive(profile.of(tid=thread.tid))
        waited = own if thread.name == "queue" else own.where(lambda s: s.frames[-1] != "[run queue]")
        right = waited.where(lambda s: s.frames[-1] in LEAVES[thread.name] and "wait_in_" + thread.name in s.frames)
        assert seconds(waited) - seconds(right) <= 0.02 * seconds(waited) + OTHER_S + thread.unseen, f"{thread.name}: {waited.top()}"
        whole = right.where(lambda s: s.frames[0].startswith(("clone", "__clone")))
        assert seconds(right) - seconds(whole) <= 0.02 * seconds(right) + OTHER_S, f"{thread.name}: {whole.top()}"
        assert not [f for s in own.samples for f in s.frames if f.startswith(("bpf_", "__traceiter"))], own.top()
        assert thread.lived_for(seconds(own) + thread.cpu), f"{vars(thread)}: {seconds(own)} {own.top()}"
        in_queue = seconds(queued(own))
        slack = OTHER_S + thread.unseen + 0.05 * thread.lived  # untraced switches show only in the CPU time accounting
        assert 0.9 * thread.queued - OTHER_S <= in_queue <= 1.1 * thread.queued + slack, f"{vars(thread)}: {in_queue} {own.top()}"


@pytest.mark.statistical
def test_short_waits_are_counted_with_their_time(waits):
    profile, threads = waits("--min-wait", "5ms")
    found = re.search(r"not recorded: (\d+) of (\S+) (\w+) in all, shorter than --min-wait", profile.messages)
    assert found and int(found[1]) > 100, profile.messages
    untold = float(found[2]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[found[3]]
    recorded, own = seconds(profile), seconds(profile.where(lambda s: s.labels["tid"] in [t.tid for t in threads]))
    lived, cpu = sum(t.lived for t in threads), sum(t.cpu for t in threads)
    others = 2 * max(t.most for t in threads) + 1  # the main thread, and one thread's children
    slack = len(threads) * OTHER_S + sum(t.unseen for t in threads)
    assert lived - cpu - slack < recorded + untold < lived - cpu + others + slack, f"{lived} {cpu} {recorded} {untold}"
    assert own < lived - cpu + slack, f"{lived} {cpu} {own}"  # the two "queue" threads alone wait one time slice at a time
    for thread in threads:
        own = profile.of(tid=thread.tid)
        assert seconds(own) >= 0.005 * max(queued(own).count, own.count - queued(own).count), f"{vars(thread)}: {own.top()}"


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


@pytest.mark.statistical
def test_wall_clock_is_cpu_time_plus_waits(waits):
    """For a thread that computes and for those that wait, the whole lifetime is covered: CPU time sampled, waits exact."""
    profile, threads = waits("--wall", "-F", "499")
    for thread in threads:
        own = alive(profile.of(tid=thread.tid))
        cpu = own.where(lambda s: not s.frames[-1].startswith("["))
        waited = seconds(own) - seconds(cpu)
        assert thread.lived_for(waited + thread.cpu), f"{vars(thread)}: {waited} waited {own.top()}"
        if thread.name == "queue":
            assert 0.75 * thread.cpu - 0.1 <= seconds(cpu) <= 1.25 * (thread.cpu + thread.stolen) + 0.1, f"{vars(thread)}: {cpu.top()}"


@pytest.mark.statistical
def test_sampled_waits_keep_the_sums(waits):
    """Of ten thousand short waits a few are recorded, and their weights stand for the rest."""
    profile, threads = waits("--sample-waits", "1ms")
    left_out = re.search(r"skipped by sampling: (\d+) of ", profile.messages)
    thread = next(t for t in threads if t.name == "short")
    own = profile.of(tid=thread.tid)
    assert left_out and int(left_out[1]) > own.count / 2, profile.messages
    waited = thread.lived - thread.cpu
    # A wait of L ms is recorded with probability L and has weight 1 / L: a millisecond. The variance of the sum is L - L^2 per wait, so at most that
    # of as many waits as milliseconds, some 2,800; that of their number is 1 / L - 1. None is shorter than SHORT_NS; a sleep may return at once.
    assert seconds(own) == pytest.approx(waited, rel=6 * (0.001 / waited) ** 0.5), f"{vars(thread)}: {seconds(own)} {own.top()}"
    slept = own.where(lambda s: s.frames[-1] in LEAVES["short"]).count
    assert slept == pytest.approx(thread.rounds, abs=6 * (5.7 * thread.rounds) ** 0.5 + 0.01 * thread.rounds), f"{vars(thread)}: {slept} {own.top()}"


@pytest.mark.peer
@pytest.mark.statistical
def test_wait_times_match_bpftrace(waits, tracefs, tmp_path):
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
        ours = seconds(own) - seconds(own.where(lambda s: len(s.frames) == 1))  # without the time until it first got a CPU
        assert ours >= 0.99 * theirs[thread.tid] - 0.01, f"{vars(thread)}: {own.top()}"
        if thread.tid not in unseen:  # otherwise bpftrace misses the end of a wait and drops it
            assert ours <= 1.01 * theirs[thread.tid] + 0.01, f"{vars(thread)}: {own.top()}"
    assert len(unseen & {t.tid for t in threads}) < len(threads), said
