"""profile.sampling_rules: the sampling rate per process. For programs at several rates the statistics match the kernel's accounting, and processes
with rate 0 are not sampled."""
import json
import math
import os
import shutil
import signal
import subprocess
import sys

import pprof
import pytest
from harness.processes import wait_for
from harness.workloads import workload_path

HZ = {"often": 500, "seldom": 100, "never": 0, "later": 500}
OTHERS_HZ = 19
SECONDS = 5


def run_together(folder, *names, seconds=SECONDS):
    """{name: (pid, CPU time in ns)} of busy programs that have ended."""
    started, ended = {}, {}
    for name in names:
        shutil.copy(workload_path("deep"), folder / name)
        started[name] = subprocess.Popen([folder / name, "20", str(seconds)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for name, process in started.items():
        _, process.returncode, usage = os.wait4(process.pid, 0)
        assert process.returncode == 0
        ended[name] = process.pid, (usage.ru_utime + usage.ru_stime) * 1e9
    return ended


@pytest.mark.statistical
def test_each_rule_samples_at_its_rate(agent, tmp_path):
    (tmp_path / "sonde.yaml").write_text("profile:\n  rate: 19\n  sampling_rules: command=often:500, command=never:0,\n    user=nobody-has-this-name:1, command=seldom:100, command=later:500\n"
                                         "budget:\n  cpu: 100%\n  memory: 1GiB\n")
    started = agent("--config", tmp_path / "sonde.yaml")
    assert "not on this machine now: user=nobody-has-this-name" in started.running.error
    ended = run_together(tmp_path, "often", "seldom", "never")

    def taken(name, what="samples"):
        return int(started.metric(f"sonde_self_sampling_rule_{what}_total", rule=f"command={name}"))

    def folded():
        return [line.rpartition(" ") for line in started.text("/api/v1/profile?seconds=110&format=folded").splitlines()]
    run_together(tmp_path, "later", seconds=2)  # once it is in the profile, all earlier samples are too
    wait_for(lambda: taken("later") and any(stack.startswith("later;") for stack, _, _ in folded()), 60, "the last program")

    for name in ("often", "seldom"):
        pid, cpu_ns = ended[name]
        profile_stats, samples = json.loads(started.text(f"/api/v1/profile?seconds=110&pid={pid}"))["sonde"], taken(name)
        # Samples from before the exec of the program with that name may be included.
        assert samples <= profile_stats["samples"] <= samples + 10, (name, profile_stats["samples"], samples)
        assert abs(profile_stats["weight_ns"] - samples * 1e9 / HZ[name]) <= 10 * 1e9 / OTHERS_HZ + samples, (name, profile_stats, samples)
        ticks, share = taken(name, "ticks"), HZ[name] / 500
        assert abs(samples - ticks * share) <= 6 * math.sqrt(ticks * share * (1 - share)), (name, samples, ticks)
        # The clock may lag where a hypervisor takes time away.
        assert abs(profile_stats["weight_ns"] / cpu_ns - 1) <= 0.4 + 6 * math.sqrt((1 - share) / max(samples, 1)), (name, profile_stats["weight_ns"], cpu_ns)
        # The other output formats have the same totals.
        (tmp_path / "of.pb.gz").write_bytes(started.get(f"/api/v1/profile?seconds=110&pid={pid}&format=pprof")[2])
        read, period_ns = pprof.read(tmp_path / "of.pb.gz")
        assert sum(sample.ns for sample in read) == profile_stats["weight_ns"] and sum(sample.count for sample in read) == profile_stats["samples"]
        assert period_ns == profile_stats["period_ns"] == 1e9 / 500
        lines = started.text(f"/api/v1/profile?seconds=110&pid={pid}&format=folded").splitlines()
        assert abs(sum(int(line.rpartition(" ")[2]) for line in lines) * period_ns - profile_stats["weight_ns"]) <= len(lines) * period_ns
        windows = json.loads(started.text(f"/api/v1/hotspots?seconds=110&pid={pid}"))["windows"]
        assert sum(window["weight_ns"] for window in windows) == profile_stats["weight_ns"]
    assert taken("never") == 0 < taken("never", "ticks")
    assert not [stack for stack, _, _ in folded() if stack.startswith("never;")]

    status = json.loads(started.text("/api/v1/status"))
    assert [(rule["rule"], rule["sample_hz"], rule["found"]) for rule in status["sampling_rules"]] == [
        ("command=often", 500, True), ("command=never", 0, True), ("user=nobody-has-this-name", 1, False), ("command=seldom", 100, True),
        ("command=later", 500, True), ("others", OTHERS_HZ, True)]
    assert status["sampling_rules"][0]["samples"] == taken("often") and status["sample_hz"] == OTHERS_HZ


@pytest.mark.thorough
def test_rate_zero_samples_processes_with_a_rule_only(agent, tmp_path):
    """With a rate of 0 for other processes, only those with a rule are sampled and have their waits recorded."""
    started = agent("--off-cpu", "--set", "profile.rate=0", "--set", "profile.sampling_rules=command=often:100", "--set", "budget.one_cpu=1000%", "--set", "budget.memory=1GiB")
    ended = run_together(tmp_path, "often", "other", seconds=2)
    shutil.copy(workload_path("threads"), tmp_path / "often")  # a program that waits
    waiting = subprocess.Popen([tmp_path / "often", "3"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def commands(time_of):
        profile_stats = json.loads(started.text(f"/api/v1/profile?seconds=110&time={time_of}"))
        return {process["sonde"]["resource"]["process.command"] for process in profile_stats["profiles"]}
    wait_for(lambda: commands("cpu") and commands("off_cpu"), 90, "processes with a rule to be in both profiles")
    waiting.wait()
    assert commands("cpu") == commands("off_cpu") == commands("wall") == {"often"}
    assert started.metric("sonde_self_sampling_rule_samples_total", rule="others") == 0 < started.metric("sonde_self_sampling_rule_ticks_total", rule="others")
    assert json.loads(started.text(f"/api/v1/profile?seconds=110&pid={ended['other'][0]}"))["profiles"] == []
    assert json.loads(started.text("/api/v1/status"))["sample_hz"] == 0


def test_hangup_replaces_the_rules(agent, tmp_path):
    """As far as the loaded programs can apply them; docs/operate.md says which they cannot."""
    config = tmp_path / "sonde.yaml"

    def write(rules):
        config.write_text(f"profile:\n  rate: 19\n  sampling_rules: {rules}\n")

    def in_force():
        return [(rule["rule"], rule["sample_hz"]) for rule in json.loads(started.text("/api/v1/status"))["sampling_rules"]]
    write("command=often:100, command=never:0")
    started = agent("--config", config, "--set", "budget.one_cpu=1000%")
    assert in_force() == [("command=often", 100), ("command=never", 0), ("others", 19)]
    write("command=never:50, command=seldom:1, command=often:0")
    os.kill(started.pid, signal.SIGHUP)
    wait_for(lambda: "configuration reloaded; changed: profile.sampling_rules" in started.running.error, 30, "the reload")
    assert in_force() == [("command=never", 50), ("command=seldom", 1), ("command=often", 0), ("others", 19)]
    shutil.copy(workload_path("deep"), tmp_path / "never")
    busy = subprocess.Popen([tmp_path / "never", "20", "100"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: started.metric("sonde_self_sampling_rule_samples_total", rule="command=never") > 0, 60, "samples by the new rule")
    finally:
        busy.kill()
        busy.wait()
    for refused in ("user=0:9", "command=often:101"):
        write(refused)
        before = started.running.error.count("a restart is needed for: profile.sampling_rules")
        os.kill(started.pid, signal.SIGHUP)
        wait_for(lambda: started.running.error.count("a restart is needed for: profile.sampling_rules") > before, 30, "the refusal")
        assert in_force()[0] == ("command=never", 50)


@pytest.mark.thorough
def test_all_rates_zero_records_no_cpu_profile(agent, sonde):
    started = agent("--set", "profile.rate=0")
    assert "no CPU profile is recorded" in started.running.error
    said = json.loads(started.text("/api/v1/profile?seconds=1"))["sonde"]
    assert said["samples"] == said["duration_ns"] == 0 and said["not_observed_ns"] > 0
    done = subprocess.run([sonde, "up", "--set", "profile.rate=0", "--set", "profile.sampling_rules=command=often:0"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "all sampling rates are 0" in done.stderr, done


# Takes the name "seldom", naps for 3 ms at a time for five seconds; prints how long it napped, its lifetime, and its CPU time.
NAPS = """import ctypes, time
ctypes.CDLL(None).prctl(15, b"seldom")
named = time.monotonic_ns()
while time.monotonic_ns() - named < 5e9:
    time.sleep(0.003)
started = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
print("napped", time.monotonic_ns() - named, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started * 10**7, time.process_time_ns(), flush=True)"""
SAMPLE_WAIT_NS = 1e6  # the agent's: shorter waits are recorded by random sampling


@pytest.mark.parametrize("profile", ["true", "false"], ids=["with CPU samples", "without"])
@pytest.mark.statistical
def test_waits_follow_the_sampling_rules(agent, run, tmp_path, profile):
    """Processes with rate 0 have no waits, neither those that already waited when the agent started nor new ones. At a lower rate fewer waits are
    recorded, with larger weights."""
    for name in ("never", "other"):
        shutil.copy(workload_path("threads"), tmp_path / name)

    def start_both():
        return {name: run(tmp_path / name, 600) for name in ("never", "other")}
    before = start_both()
    wait_for(lambda: all("ready" in program.out for program in before.values()), 60, "the earlier programs to wait")
    started = agent("--off-cpu", "--set", f"profile.enabled={profile}", "--set", f"profile.sampling_rules=command=never:0, command=seldom:1",
                    "--set", f"profile.rate={OTHERS_HZ}", "--set", "budget.one_cpu=1000%", "--set", "budget.memory=1GiB")
    after = start_both()
    seldom = run(sys.executable, "-c", NAPS)

    def waited(program, what="weight_ns"):
        return json.loads(started.text(f"/api/v1/profile?seconds=110&time=off_cpu&pid={program.pid}"))["sonde"][what]
    wait_for(lambda: all(waited(programs["other"]) > 6e9 for programs in (before, after)), 90, "waits of the others")
    assert waited(before["never"]) == 0
    assert waited(after["never"]) < 0.5 * waited(after["other"])  # only from before it had that name
    assert started.metric("sonde_self_sampling_rule_found", rule="command=seldom") == 1

    wait_for(lambda: "napped" in seldom.out, 60, "the naps")
    named_ns, lived_ns, cpu_ns = map(int, seldom.out.split()[1:])
    chance_ns = 6.5 * math.sqrt(SAMPLE_WAIT_NS * OTHERS_HZ * lived_ns)  # a wait is recorded with probability length / period and weight period: bound for the sum's deviation
    wait_for(lambda: waited(seldom) >= named_ns - cpu_ns - chance_ns, 30, "its waiting time")  # once a second
    assert waited(seldom) <= lived_ns + 1e7 + chance_ns, (waited(seldom), named_ns, lived_ns, cpu_ns)
    assert waited(seldom, "samples") > 100  # recorded waits represent all of them
