"""Waiting time in the running agent (`waits.enabled`): against threads that wait for known reasons and say themselves how long they lived,
through its API, its metrics, and `sonde diff`. What the single waits are is test_off_cpu.py's matter."""
import re
import subprocess
import tempfile
import time
from collections import defaultdict

import pytest

import pprof
from harness.processes import wait_for
from harness.recording import Profile
from harness.workloads import subject_path
from test_off_cpu import LEAVES, Thread, cpu_ticks, seconds, stolen_share

ROOM = ["--set", "budget.cpu=100%", "--set", "budget.memory=1GiB"]


def profile_of(started, time, **parameters):
    query = "".join(f"&{name}={value}" for name, value in parameters.items())
    status, _, body = started.get(f"/api/v1/profile?format=pprof&seconds=120&time={time}{query}", timeout_s=60)
    assert status == 200, body
    with tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        return Profile(pprof.read(file.name)[0])


def reason_of(sample):
    return re.match(r"\[(\w+ ?\w*)", sample.frames[-1])[1].replace(" ", "_")


def check_waits_told(started):
    """The status and the metrics count the same waits. Either is as of the last second, so what is told later is waited for."""
    def told():
        return started.metric("sonde_self_waits_total", result="told")

    def told_after(count):
        wait_for(lambda: told() > count, 60, "more waits")
        return told()
    before = told()
    told_after(before)
    status = int(re.search(r'"waits":(\d+)', started.text("/api/v1/status"))[1])
    assert 100 < before <= status <= told_after(told())


@pytest.mark.plain_build  # ten times slower it falls behind the waits of a whole busy node
def test_what_threads_wait_for(agent, run, sonde):
    started, ticks = agent("--waits", *ROOM), cpu_ticks()
    with tempfile.NamedTemporaryFile(dir="/var/tmp", prefix="sonde-waits-") as file:  # fsync is to have a disk
        begun = time.monotonic()
        program = run(subject_path("waits"), 6, file.name)
        assert program.wait(120) == 0, program.error
    threads = [Thread(line) for line in program.out.splitlines() if line.startswith("thread ")]
    assert len(threads) == len(LEAVES) + 1, program.out  # two are named "queue"
    stolen = 1.5 * stolen_share(ticks)  # by a hypervisor: neither a wait nor CPU time
    longest = max(thread.most for thread in threads)
    seen = {}

    def all_are_told():
        seen["waits"] = profile_of(started, "off_cpu", pid=program.pid)
        seen["late"] = [vars(t) for t in threads
                        if seconds(seen["waits"].of(tid=t.tid)) + 2 * t.unseen < 0.9 * (t.lived - t.cpu * (1 + stolen)) - 0.2]
        return not seen["late"]
    wait_for(all_are_told, 45, "all of the waits", seen)
    waits = seen["waits"]
    for thread in threads:
        own = waits.of(tid=thread.tid)
        assert seconds(own) <= thread.most + 0.2, f"{vars(thread)}: {own.top()}"
        right = own.where(lambda s: s.frames[-1] in LEAVES[thread.name] | {"[run queue]"})
        assert seconds(own) - seconds(right) <= 0.1 * seconds(own) + 0.2, f"{vars(thread)}: {own.top()}"
    # The profile, the counters and wall-clock time are of the same waits: nothing of them is twice, or missing.
    by_reason = defaultdict(float)
    for sample in waits.samples:
        by_reason[reason_of(sample)] += sample.ns / 1e9
    assert longest > 5 and {"sleep", "lock", "ipc", "network", "events", "child", "run_queue"} <= by_reason.keys()

    def same():
        service = profile_of(started, "off_cpu", service="waits")
        counted = {reason: started.metric("sonde_waiting_seconds_total", service_name="waits", reason=reason) for reason in by_reason}
        both = profile_of(started, "cpu", service="waits").ns + service.ns
        return all(abs(seconds(service.where(lambda s: reason_of(s) == reason)) - told) < 1e-3 for reason, told in counted.items()) and \
            both == profile_of(started, "wall", service="waits").ns
    wait_for(same, 30, "counters and profiles of the same")
    # What it waited for before its exec is another service's.
    assert seconds(profile_of(started, "off_cpu", service="waits")) >= 0.9 * seconds(waits)
    check_waits_told(started)
    ago = time.monotonic() - begun  # its first three seconds, and the others: of slots of five seconds the first is in the first window alone, or the last in the other
    diff = subprocess.run([sonde, "diff", "--agent", f"127.0.0.1:{started.port}", "--time", "off_cpu", "--pid", str(program.pid), "--window", f"{ago:.3f}s..{ago - 3:.3f}s",
                           "--window", f"{ago - 3:.3f}s..0s", "--all"], capture_output=True, text=True, timeout=120)
    assert diff.returncode == 0 and "[sleep: " in diff.stdout, diff.stdout + diff.stderr


def test_a_wait_that_goes_on_is_told_meanwhile(agent, subject, reads_sleepers):
    """Nobody has to be woken to be seen; and no second counts twice."""
    sleeper = subject("threads", 600)
    started = agent("--waits", *ROOM)

    def main():
        return profile_of(started, "off_cpu", pid=sleeper.pid).of(tid=sleeper.pid)
    wait_for(lambda: seconds(main()) > 9, 180, "two looks at who waits")
    told = main()
    assert {s.frames[-1] for s in told.samples} == {"[lock: futex]"}, told.top()
    if reads_sleepers:
        assert all("main" in s.frames for s in told.samples) and not told.cut.samples, told.top()
        assert started.metric("sonde_self_earlier_stacks_total", result="told") >= 1
    uptime = float(re.search(r'"uptime_seconds":([0-9.]+)', started.text("/api/v1/status"))[1])
    assert seconds(told) <= uptime, told.top()


def test_nobody_is_looked_at_unless_asked_for(agent):
    started = agent()
    for address in ("profile?", "compare?baseline_from=1&baseline_to=2&from=3&to=4&"):
        for time in ("off_cpu", "wall"):
            status, _, body = started.get(f"/api/v1/{address}time={time}")
            assert status == 400 and b"waits.enabled" in body, body
    assert started.get("/api/v1/profile?time=cpu")[0] == 200
    assert "sonde_waiting_seconds" not in started.text("/metrics")
    assert started.metric("sonde_self_probe_attached", probe="waits of threads") == 0
