"""`sonde record --event` on a program that does a known amount of work and prints what the kernel accounts to it. Counts are exact: the only events
that may be missing are those that the last line reports as missed, which covers the whole node."""
import json
import os
import re
import signal
import subprocess

import pytest

from harness.fired import assert_all_fired, fire_all, fires, missed
from harness.machine import skip
from harness.processes import wait_for
from harness.recording import FIRED
from harness.workloads import go_pprof, workload_path

PAGES, CALLS = 3000, 500
SOFTWARE = ["page-faults", "minor-faults", "major-faults", "context-switches", "cpu-migrations"]
HARDWARE = ["cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses"]


@pytest.fixture
def events(record):
    """events(name, arguments...) records the workload; returns the profile and the workload's own counts."""
    def start(name, *arguments):
        profile = record("--event", name, *arguments, "--", workload_path("eventful"), PAGES, CALLS)
        said = {line.split()[0]: int(line.split()[1]) for line in profile.messages.splitlines() if re.fullmatch(r"\w+ \d+", line)}
        assert "heard" in said, profile.messages
        return profile, said
    return start


def of_function(profile, name):
    return profile.where(lambda s: name in s.frames)


def assert_all(profile, recorded_value, done, each=1, at_most=None):
    assert done - each * missed(profile.messages) <= recorded_value <= (at_most or done), f"{recorded_value} of {done}: {profile.messages}{profile.top()}"


@pytest.mark.parametrize("name", ["page-faults", "minor-faults"])
def test_each_page_fault_is_recorded_with_its_stack(events, name):
    profile, said = events(name)
    own = of_function(profile, "touch_pages")
    assert_all(profile, own.ns, said["faults"] + 1)
    assert own.count == own.ns and f"{sum(s.ns for s in profile.samples)} events of" in profile.messages
    assert {tuple(s.frames[-2:]) for s in own.samples} == {("main", "touch_pages")}, own.top()


def test_period_ten_weights_each_sample_by_ten(events, tmp_path):
    profile, said = events("page-faults", "--period", 10)
    own = of_function(profile, "touch_pages")
    assert profile.period_ns == 10 and all(s.ns == 10 * s.count for s in profile.samples)
    assert re.search(rf"{profile.count} samples for {profile.ns} events of", profile.messages), profile.messages
    # The kernel counts per CPU, whichever process faults: a process gains or loses a sample when another one faults in between. That happens at most
    # once per context switch, and there are few; if faults alternated, 300 samples would deviate by 16 (p < 1e-19 beyond 150).
    assert 0.5 * said["faults"] - 10 * missed(profile.messages) <= own.ns <= 1.5 * said["faults"], own.top()


def test_each_switch_is_recorded_with_its_stack(events):
    profile, said = events("context-switches")
    own = of_function(profile, "take_naps")
    assert_all(profile, own.ns, said["switches"], at_most=said["all_switches"])
    asleep = own.where(lambda s: any("nanosleep" in f for f in s.frames))
    assert said["naps"] > 0 and asleep.ns >= said["naps"] - missed(profile.messages) and all(s.frames[-1] in ("schedule", "__schedule") for s in own.samples), own.top()


def test_mmap_values_are_bytes(events):
    profile, said = events("mmap")
    assert_all(profile, of_function(profile, "map_memory").ns, said["mmap_bytes"], 5 * 4096)
    assert not of_function(profile, "map_in_vain").samples, "what failed gave no bytes"
    assert f"{profile.count} events of {profile.ns} bytes in all" in profile.messages


@pytest.mark.peer
def test_go_tool_pprof_prints_bytes(events, tmp_path):
    events("mmap")
    printed = go_pprof("-top", tmp_path / "record-1.pb.gz")
    assert "Type: mmap" in printed and re.search(r"Total samples = [\d.]+MB", printed), printed


def test_brk_values_are_bytes(events):
    profile, said = events("brk")
    assert_all(profile, of_function(profile, "grow_heap").ns, said["brk_bytes"], 3 * 4096)


def test_sonde_and_perf_both_record_each_tracepoint_hit(sonde, perf, tmp_path):
    """perf attaches to the same tracepoint and must not miss hits because of Sonde."""
    output = tmp_path / "calls.folded"
    done = perf("stat", "-x", ",", "-e", "syscalls:sys_enter_getppid", sonde, "record", "--event", "tracepoint:syscalls:sys_enter_getppid", "-o", output,
                "--", workload_path("eventful"), PAGES, CALLS)
    assert done.returncode == 0, done.stderr
    recorded_value = sum(int(line.split()[-1]) for line in output.read_text().splitlines() if ";call_kernel;" in line)
    assert CALLS - missed(done.stderr) <= recorded_value <= CALLS, done.stderr
    counted = re.search(r"^(\d+),,syscalls:sys_enter_getppid", done.stderr, re.M)
    assert counted and int(counted[1]) >= CALLS, done.stderr


def test_each_firing_of_a_probe_is_recorded(events):
    profile, said = events("usdt:workload:counted")
    assert said["heard"] == said["calls"], "its semaphore was up"
    assert_all(profile, profile.ns, said["calls"])
    assert {tuple(s.frames[-2:]) for s in profile.samples} == {("main", "fire_probe")}, profile.top()


def attached(sonde, pid, name):
    done = subprocess.run([sonde, "probes", f"workload:{name}", "-p", str(pid), "--json"], capture_output=True, text=True, timeout=60)
    return [probe["attached"] for probe in json.loads(done.stdout)["probes"]] if done.returncode == 0 else done.stderr


def test_probe_of_one_process_is_detached_afterwards(recording, run, sonde, workload, tmp_path):
    count = 50
    ours, other = (workload("prober", "", count) for _ in range(2))
    running = [recording("--event", event, "-p", pid) for event, pid in (("usdt:workload:compiled", ours.pid), (f"usdt:{workload_path('prober')}:workload:compiled", other.pid))]
    for one in (ours, other):
        os.kill(one.pid, signal.SIGUSR1)
        wait_for(lambda one=one: "fired" in one.facts() or not one.running.alive, 60, "the probes to fire")
    for one, pid in zip(running, (ours.pid, other.pid)):
        profile = one.finish()
        assert_all_fired(profile, count)
        assert {s.labels["pid"] for s in profile.samples} == {pid}, profile.top() + profile.messages
    assert attached(sonde, ours.pid, "compiled") == [False]
    # A killed recording cannot clean up: the kernel detaches the probe.
    recorder = run(sonde, "record", "--event", "usdt:workload:late", "-p", ours.pid, "-o", tmp_path / "late.folded")
    wait_for(lambda: attached(sonde, ours.pid, "late") == [True], 60, "the probe to be attached to")
    recorder.process.send_signal(signal.SIGKILL)
    wait_for(lambda: attached(sonde, ours.pid, "late") == [False], 60, "the probe to be let go")


@pytest.mark.parametrize("arguments, function, unit", [(["page-faults"], "touch_pages", "count"), (["mmap"], "map_memory", "bytes"),
                                                       (["usdt:workload:counted", "--period", "10"], "fire_probe", "count")])
def test_replay_reproduces_event_unit_and_weights(events, record, sonde, tmp_path, arguments, function, unit):
    """Event, unit, period and every weight, after the program has exited and without repeating --event."""
    wire, path = tmp_path / "recorded.events", tmp_path / "again.json"
    live, _ = events(*arguments, "--record-events", wire)
    again = record("--replay", wire)
    ours, theirs = of_function(live, function), of_function(again, function)
    assert (ours.ns, ours.count) == (theirs.ns, theirs.count) and ours.count, live.top() + again.top()
    assert (live.ns, live.count, live.period_ns) == (again.ns, again.count, again.period_ns)
    done = subprocess.run([sonde, "record", "--replay", wire, "-o", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    head = json.loads(path.read_text())["sonde"]
    assert (head["type"], head["unit"], head["weight"]) == (arguments[0].removeprefix("usdt:"), unit, live.ns)
    recorded_value = re.search(r"wrote [^:]*: (.*?) of \d+ processes", live.messages)
    assert recorded_value and f": {recorded_value[1]} of " in again.messages and f": {recorded_value[1]} of " in done.stderr, live.messages + again.messages


def test_filters_apply_to_events(recording, workload):
    """An empty result is reported; test_record.py has filters that match."""
    ours, other = workload("deep", 10, 600, env=fires()), workload("noreturn", 600, env=fires())
    by_name, by_pid = recording("--event", FIRED, "-C", "no-such-name"), recording("--event", FIRED, "-p", ours.pid)
    fire_all(ours, other)
    by_name, by_pid = by_name.finish(), by_pid.finish()
    assert not by_name.samples and "were recorded" in by_name.messages, by_name.messages
    assert {s.labels["pid"] for s in by_pid.samples} == {ours.pid}, by_pid.top()


def test_formats_name_the_event_and_unit(sonde, root, tmp_path):
    done = subprocess.run([sonde, "record", "--event", "page-faults", "-o", tmp_path / "faults.json", "--", workload_path("eventful"), str(PAGES), "1"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "faults.json").read_text())
    head = profile["sonde"]
    assert (head["type"], head["unit"], head["period"]) == ("page-faults", "count", 1)
    assert head["weight"] == head["samples"] == sum(sum(p["weights"]) for p in profile["profiles"]) >= PAGES - missed(done.stderr)
    assert {p["unit"] for p in profile["profiles"]} == {"none"}


@pytest.mark.sanitized
@pytest.mark.parametrize("arguments, words", [
    (["page-fault"], ["unknown event 'page-fault'", *SOFTWARE, *HARDWARE, "mmap", "brk", "tracepoint:SUBSYSTEM:NAME", "usdt:PROVIDER:PROBE"]),
    (["tracepoint:sched:no_such"], ["no tracepoint sched:no_such", "sched_switch"]),
    (["tracepoint:no_such:x"], ["no tracepoint no_such:x", "sched", "syscalls"]),
    (["usdt:nobody:has"], ["true itself has no probe nobody:has"]),
    (["usdt:/bin/true:nobody:has"], ["/bin/true has no probe nobody:has"]),
    (["usdt:/etc/passwd:nobody:has"], ["/etc/passwd has no probes"]),
    (["usdt:/no/such:nobody:has"], ["/no/such cannot be read", "No such file"]),
    (["page-faults", "--event", "mmap"], ["only one event per recording"]),
    (["page-faults,mmap"], ["only one event per recording"]),
    (["page-faults", "--off-cpu"], ["--event cannot be combined with --off-cpu"]),
    (["page-faults", "--wall"], ["--event cannot be combined with", "--wall"]),
    (["page-faults", "-F", "99"], ["--event cannot be combined with", "-F"]),
    (["page-faults", "--replay", "wire"], ["--replay can be combined with -o, --lines and --inlines only"]),
    (["mmap", "--period", "10"], ["--period cannot be combined with mmap"]),
    (["cycles", "--period", "1"], ["minimum for cycles is 1000"]),
])
def test_impossible_events_are_refused_with_a_reason(record, arguments, words):
    status = 1 if re.match("tracepoint|usdt", arguments[0]) else 2
    said = record("--event", *arguments, "--", "true", status=status).messages
    assert all(word in said for word in words), said


def test_period_requires_an_event(record):
    assert "--period needs --event" in record("--period", 10, "--", "true", status=2).messages


@pytest.mark.parametrize("name", HARDWARE)
@pytest.mark.statistical
def test_hardware_counters(sonde, record, root, tmp_path, name):
    done = subprocess.run([sonde, "record", "--event", name, "-o", tmp_path / "none.folded", "--", "true"], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        assert f"this machine has no counter of {name}" in done.stderr, done.stderr
        skip(f"this machine has no counter of {name}")
    profile = record("--event", name, "--period", 100000, "--", workload_path("deep"), 3, 2)
    assert profile.samples and all(s.ns == 100000 * s.count for s in profile.samples), profile.messages
    if name in ("cycles", "instructions", "branches"):
        assert profile.share("main;...;deep_leaf") >= 0.8, profile.top()
