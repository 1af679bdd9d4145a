"""budget.one_cpu, enforced by shedding detail in the documented order, while the API reports the detail in effect, not the configured detail; and
budget.memory, which everything that is enabled fits. tests/unit/agent/test_budget.c has the thresholds."""
import itertools
import json
import os
import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from harness.agents import everything_enabled
from harness.processes import resident_bytes, wait_for
from harness.workloads import workload_path

MIB = 1 << 20
BUDGET_BYTES = 48 * MIB
PROGRAMS = 150


HZ = {"full": 19, "no_wait_stacks": 19, "half_rate": 9.5, "quarter_rate": 4.75, "no_off_cpu": 4.75, "slowest_paths": 4.75, "least": 4.75}


@pytest.mark.statistical
def test_shed_detail_is_reported(agent, sonde):
    """The budget is below the cost of this test's own requests: half of the samples are shed first, then off-CPU time."""
    started = agent("--off-cpu", "--set", "budget.one_cpu=0.02%", "--set", "budget.memory=1GiB")

    def detail():
        status = json.loads(started.text("/api/v1/status"))
        assert status["sample_hz"] == HZ[status["budget"]["detail"]], status
        return status["budget"]["detail"]
    check_time_before_the_start_is_reported(started)
    wait_for(lambda: detail() not in ("full", "no_wait_stacks"), 120, "half the rate")
    assert pytest.approx(started.metric("sonde_self_budget_one_cpu_allowed_ratio")) == 0.0002
    wait_for(lambda: detail() == "least", 180, "no off-CPU time")
    budget = json.loads(started.text("/api/v1/status"))["budget"]
    assert "no off-CPU time" in budget["reduced"] and budget["complete"] == ["counts, rates and latencies of requests"], budget
    log = started.running.error
    assert log.index("CPU samples at half the rate") < log.index("no off-CPU time") < log.index("no causes of slow requests"), log
    check_unmonitored_time_is_reported(started, sonde)


def off_cpu(started, **query):
    """The `sonde` object of an off-CPU profile."""
    return json.loads(started.text("/api/v1/profile?" + "&".join(f"{key}={value}" for key, value in {"time": "off_cpu", **query}.items())))["sonde"]


def check_time_before_the_start_is_reported(started):
    """In the agent's first two minutes: then its first second is no longer kept."""
    status, _, body = started.get("/api/v1/profile?from=1&to=2")
    assert status == 410 and b"the agent was not running" in body
    clock = json.loads(started.text("/api/v1/status"))
    begun_ms = int(clock["now_ms"] - clock["uptime_seconds"] * 1000)  # on a busy machine, samples begin more than a second later
    partly = json.loads(started.text(f"/api/v1/profile?from={begun_ms - 4000}&to={clock['now_ms']}"))["sonde"]
    assert partly["not_observed_ns"] >= 4e9 and partly["not_observed_ns"] + partly["duration_ns"] >= clock["now_ms"] - begun_ms + 4e9, partly


def check_unmonitored_time_is_reported(started, sonde):
    """The API reports unmonitored intervals as such, not as intervals without waits."""
    monitored_before_s = started.metric("sonde_off_cpu_monitored_seconds_total")
    for kind in ("off_cpu", "wall"):
        wait_for(lambda: off_cpu(started, seconds=1, time=kind)["not_observed_ns"] >= 1e9, 60, "a second without waits")  # noqa: B023
    assert json.loads(started.text("/api/v1/profile?seconds=1"))["sonde"]["not_observed_ns"] == 0
    whole = off_cpu(started, seconds=3600)
    assert whole["duration_ns"] > 0 and whole["not_observed_ns"] > 1e9, whole
    wait_for(lambda: off_cpu(started, seconds=2)["not_observed_ns"] >= 2e9, 60, "both windows to be without waits")
    done = subprocess.run([sonde, "diff", "--window", "2s..1s", "--window", "1s..0s", "--time", "wall", "--agent", f"127.0.0.1:{started.port}"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and ("not monitored" in done.stderr or "off-CPU time was not monitored" in done.stderr or "has no samples" in done.stderr), done
    assert monitored_before_s > 15 and started.metric("sonde_off_cpu_monitored_seconds_total") == monitored_before_s


def used_cpu_s(agent):
    """CPU time of the agent and its helpers by the kernel's accounting, plus the run time of their BPF programs by their own metrics."""
    pid = agent.pid
    pids = [pid, *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]  # the helpers are children of the main thread
    assert len(pids) > 1, pids
    ticks = sum(int(word) for p in pids for word in Path(f"/proc/{p}/stat").read_text().rpartition(")")[2].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK") + agent.metric("sonde_self_bpf_run_time_seconds_total")


def share_of(agent, seconds):
    """The share of one CPU."""
    before_s, start = used_cpu_s(agent), time.monotonic()
    time.sleep(seconds)
    return (used_cpu_s(agent) - before_s) / (time.monotonic() - start)


@pytest.mark.statistical
def test_cpu_stays_within_budget(agent, run):
    """At the configured rate the agent would exceed its budget: it lowers the rate and then stays within the budget."""
    run(workload_path("deep"), 300, 300)
    free = agent("--rate", 699, "--set", "budget.one_cpu=1000%")
    time.sleep(20)  # the processes of the node have been read
    allowed = 0.6 * share_of(free, 15)  # half the rate costs about half
    assert free.stop() == 0
    started, readings = agent("--rate", 699, "--set", f"budget.one_cpu={100 * allowed:.3f}%"), []

    def is_below():
        time.sleep(1)  # each response costs the agent CPU time too
        status = json.loads(started.text("/api/v1/status"))
        budget = status["budget"]
        assert status["sample_hz"] == HZ[budget["detail"]] / HZ["full"] * 699, status
        readings.append((budget["detail"], round(budget["one_cpu_share"], 4)))
        return budget["detail"] != "full" and budget["one_cpu_share"] <= budget["one_cpu_share_allowed"]

    wait_for(is_below, 120, "less detail", readings)
    time.sleep(10)  # length of the averaging window
    wait_for(is_below, 60, "less detail to last", readings)
    shares = [share_of(started, 15)]
    if shares[0] > allowed * 1.2:  # the machine got busier since: the agent adapts within the next window
        shares.append(share_of(started, 15))
    assert shares[-1] <= allowed * 1.2, (allowed, shares, readings)
    assert readings[0][0] == "full" and readings[-1][0] != "full", readings


@pytest.mark.thorough
def test_memory_of_all_signals_fits(agent, sonde, run, tmp_path):
    """With every signal and an export whose receiver does not answer, distinct programs and the rest of the node stay within the default budget.
    A program started later still has symbol names."""
    started, running = agent(*everything_enabled(sonde), "--set", "budget.one_cpu=1000%", "--set", "otlp.profiles_endpoint=http://127.0.0.1:9/"), []
    allowed = started.metric("sonde_self_budget_memory_allowed_bytes")
    parts = {part: started.metric("sonde_self_budget_memory_part_bytes", part=part) for part in ("recorder", "windows", "io_tables", "export_queue")}
    assert allowed == 64 * MIB and all(parts.values()) and sum(parts.values()) < allowed, parts
    for path in itertools.islice(different_programs(tmp_path), 8):
        running.append(run(path, 60, 60))
        wait_for(lambda: path.name in started.text("/api/v1/profile?format=folded"), 60, "its samples")  # noqa: B023
        if len(running) > 2:
            running.pop(0).kill()
        assert max(started.used_bytes(), started.metric("sonde_self_budget_memory_bytes")) < 1.1 * allowed
    deep = run(workload_path("deep"), 20, 120)
    wait_for(lambda: "main;recurse;recurse" in started.text(f"/api/v1/profile?format=folded&pid={deep.pid}"), 90, "the names of a program that came later")
    assert "the enabled signals need" not in started.running.error, started.running.error


def test_without_sampling_there_is_no_rate(agent):
    assert json.loads(agent("--set", "profile.enabled=false").text("/api/v1/status"))["sample_hz"] == 0


def different_programs(folder):
    """PROGRAMS programs that differ in their build IDs alone."""
    program = workload_path("wander").read_bytes()
    build_id = program.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16
    for number in range(PROGRAMS):
        path = folder / f"wander-{number}"
        path.write_bytes(program[:build_id] + random.Random(number).randbytes(20) + program[build_id + 20:])
        path.chmod(0o755)
        yield path


def wander_stacks(started):
    """[(stack from main on, count)] of the wander-* programs in the last minutes, without truncated stacks."""
    lines = [line.rpartition(" ") for line in started.text("/api/v1/profile?format=folded").splitlines() if line.startswith("wander-")]
    stacks = [(stack.split(";"), int(count)) for stack, _, count in lines if "[truncated" not in stack]
    return [(stack[stack.index("main") + 1:] if "main" in stack else stack, count) for stack, count in stacks if len(stack) > 8]


def is_consistent(stack):
    """Each function's number determines its callee's."""
    numbers = [int(frame[-4:], 8) for frame in stack if frame.startswith("wander_to_one_of_very_many_")]
    return stack[:1] == ["wander_to_one_of_very_many_" + f"{numbers[0]:04o}"] and all(n == (b * 5 + 1) % 1024 for b, n in zip(numbers, numbers[1:])) if numbers else False


@pytest.mark.statistical
def test_memory_stays_within_budget(agent, run, tmp_path):
    """Runs more distinct programs than fit the caches: memory use stays within the budget and stacks stay correct. It may exceed the budget for moments
    while the unwind table of a large program (another process of the node) is built."""
    workload_path("wander"), workload_path("deep")  # build these first: compilers are large programs too
    started = agent("--rate", 199, "--set", "budget.one_cpu=1000%", "--set", f"budget.memory={BUDGET_BYTES >> 20}MiB")
    running, used = [], []
    for number, path in enumerate(different_programs(tmp_path)):
        running.append(run(path, 0.5, 60))
        while len([r for r in running if r.alive]) > 2:
            time.sleep(0.02)
        if number % 2 == 0:
            used.append(started.used_bytes() / BUDGET_BYTES)
    used.sort()
    assert used[len(used) // 2] < 1 and used[-1] < 1.2, [f"{part:.2f}" for part in used]
    seen = wander_stacks(started)
    wrong = [stack for stack, _ in seen if not is_consistent(stack)]
    count = sum(count for _, count in seen)
    assert count > 100 and len(wrong) <= 0.02 * len(seen), f"{count} samples, {len(wrong)} of {len(seen)} stacks are wrong: {wrong[:2]}"

    for one in running:
        one.stop()
    readings = []

    def is_below():
        time.sleep(1)  # each response takes memory too
        readings.append(round(max(started.used_bytes(), started.metric("sonde_self_budget_memory_bytes")) / BUDGET_BYTES, 2))
        return readings[-1] < 1.05
    wait_for(is_below, 60, "memory to be given back", readings)

    def rollup():
        text = Path(f"/proc/{started.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Rss:\s+(\d+) kB", text, re.M)[1]) * 1024 - resident_bytes(started.pid)[1]
    for says in (rollup, lambda: started.metric("sonde_self_resident_bytes")):
        before, said, after = resident_bytes(started.pid)[0], says(), resident_bytes(started.pid)[0]  # it may still be releasing memory
        assert min(before, after) - 2 * MIB < said < max(before, after) + 2 * MIB, (before, said, after)
    deep = run(workload_path("deep"), 20, 200)
    wait_for(lambda: "main;recurse;recurse" in started.text(f"/api/v1/profile?format=folded&pid={deep.pid}"), 90, "the names of a program that came later")
