"""Off-CPU time in the running agent (`off_cpu.enabled`): threads that wait for known reasons and report their lifetimes, through its API, its metrics
and `sonde diff`. test_off_cpu.py tests single waits."""
import re
import subprocess
import tempfile
import time
from collections import defaultdict

import pytest

from harness.processes import wait_for
from harness.workloads import workload_path
from off_cpu import LEAVES, ROOM, cpu_ticks, profile_of, reason_of, seconds, stolen_share, threads_of

REASONS = {"sleep", "lock", "ipc", "network", "events", "child", "run_queue"}


def run_waits(run, seconds):
    """Runs the workload `waits` to its end; returns it and the reports of its threads."""
    with tempfile.NamedTemporaryFile(dir="/var/tmp", prefix="sonde-waits-") as file:  # fsync needs a disk
        program = run(workload_path("waits"), seconds, file.name)
        assert program.wait(120) == 0, program.error
    return program, threads_of(program.out)


def wait_for_same_sums(started, reasons):
    """Profile, counters and wall-clock time have the same waits: none is missing or counted twice."""
    def same():
        service = profile_of(started, "off_cpu", service="waits")
        counted = {reason: started.metric("sonde_off_cpu_seconds_total", service_name="waits", reason=reason) for reason in reasons}
        both = profile_of(started, "cpu", service="waits").ns + service.ns
        return all(abs(seconds(service.where(lambda s: reason_of(s) == reason)) - counted[reason]) < 1e-3 for reason in reasons) and \
            both == profile_of(started, "wall", service="waits").ns
    wait_for(same, 60, "counters and profiles of the same")


def test_wait_reasons_are_in_profile_and_counters(agent, run):
    started = agent("--off-cpu", *ROOM)
    program, _ = run_waits(run, 1)
    seen = {}

    def all_reasons():
        seen["waits"] = profile_of(started, "off_cpu", pid=program.pid)
        return REASONS <= {reason_of(sample) for sample in seen["waits"].samples}
    wait_for(all_reasons, 60, "waits for each reason", seen)
    wait_for_same_sums(started, {reason_of(sample) for sample in profile_of(started, "off_cpu", service="waits").samples})


def check_waits_counted(started):
    """The status and the metrics count the same waits. Both may be a second old, so the test waits for later ones."""
    def recorded_waits():
        return started.metric("sonde_self_off_cpu_waits_total", result="recorded")

    def recorded_waits_after(count):
        wait_for(lambda: recorded_waits() > count, 60, "more waits")
        return recorded_waits()
    before = recorded_waits()
    recorded_waits_after(before)
    status = int(re.search(r'"waits":(\d+)', started.text("/api/v1/status"))[1])
    assert 100 < before <= status <= recorded_waits_after(recorded_waits())


@pytest.mark.statistical
def test_wait_times_match_the_threads_own_reports(agent, run, sonde):
    started, ticks, begun = agent("--off-cpu", *ROOM), cpu_ticks(), time.monotonic()
    program, threads = run_waits(run, 6)
    stolen = 1.5 * stolen_share(ticks)  # stolen by a hypervisor: neither wait nor CPU time
    longest = max(thread.most for thread in threads)
    seen = {}

    def all_are_recorded():
        seen["waits"] = profile_of(started, "off_cpu", pid=program.pid)
        seen["late"] = [vars(t) for t in threads
                        if seconds(seen["waits"].of(tid=t.tid)) + 2 * t.unseen < 0.9 * (t.lived - t.cpu * (1 + stolen)) - 0.2]
        return not seen["late"]
    wait_for(all_are_recorded, 45, "all of the waits", seen)
    waits = seen["waits"]
    for thread in threads:
        own = waits.of(tid=thread.tid)
        assert seconds(own) <= thread.most + 0.2, f"{vars(thread)}: {own.top()}"
        right = own.where(lambda s: s.frames[-1] in LEAVES[thread.name] | {"[run queue]"})
        assert seconds(own) - seconds(right) <= 0.1 * seconds(own) + 0.2, f"{vars(thread)}: {own.top()}"
    by_reason = defaultdict(float)
    for sample in waits.samples:
        by_reason[reason_of(sample)] += sample.ns / 1e9
    assert longest > 5 and REASONS <= by_reason.keys()
    wait_for_same_sums(started, by_reason)
    # Waits from before its exec belong to another service.
    assert seconds(profile_of(started, "off_cpu", service="waits")) >= 0.9 * seconds(waits)
    check_waits_counted(started)
    ago = time.monotonic() - begun  # two windows that split its run: with slots of five seconds, the first is in the first window only, or the last in the second only
    diff = subprocess.run([sonde, "diff", "--agent", f"127.0.0.1:{started.port}", "--time", "off_cpu", "--pid", str(program.pid), "--window", f"{ago:.3f}s..{ago - 3:.3f}s",
                           "--window", f"{ago - 3:.3f}s..0s", "--all"], capture_output=True, text=True, timeout=120)
    assert diff.returncode == 0 and "[sleep: " in diff.stdout, diff.stdout + diff.stderr


def check_ongoing_wait(agent, workload, reads_sleeping_stacks, least_s):
    """A wait is recorded before its thread wakes up, and no second is counted twice."""
    sleeper = workload("threads", 600)
    started = agent("--off-cpu", *ROOM)

    def main():
        return profile_of(started, "off_cpu", pid=sleeper.pid).of(tid=sleeper.pid)
    wait_for(lambda: seconds(main()) > least_s, 180, "a look at sleeping tasks")
    found = main()
    assert {s.frames[-1] for s in found.samples} == {"[lock: futex]"}, found.top()
    if reads_sleeping_stacks:
        assert all("main" in s.frames for s in found.samples) and not found.cut.samples, found.top()
        assert started.metric("sonde_self_earlier_stacks_total", result="recorded") >= 1
    uptime = float(re.search(r'"uptime_seconds":([0-9.]+)', started.text("/api/v1/status"))[1])
    assert seconds(found) <= uptime, found.top()


@pytest.mark.statistical
def test_ongoing_wait_is_recorded(agent, workload, reads_sleeping_stacks):
    check_ongoing_wait(agent, workload, reads_sleeping_stacks, 0)


@pytest.mark.statistical
def test_ongoing_wait_is_recorded_repeatedly(agent, workload, reads_sleeping_stacks):
    """By two scans of sleeping tasks, five seconds apart."""
    check_ongoing_wait(agent, workload, reads_sleeping_stacks, 9)


@pytest.mark.thorough
def test_waits_are_not_monitored_unless_enabled(agent):
    started = agent()
    for address in ("profile?", "compare?baseline_from=1&baseline_to=2&from=3&to=4&"):
        for time in ("off_cpu", "wall"):
            status, _, body = started.get(f"/api/v1/{address}time={time}")
            assert status == 400 and b"off_cpu.enabled" in body, body
    assert started.get("/api/v1/profile?time=cpu")[0] == 200
    assert "sonde_off_cpu_seconds" not in started.text("/metrics")
    assert started.metric("sonde_self_probe_attached", probe="off-CPU time") == 0
