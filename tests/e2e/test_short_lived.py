"""Processes that live for 5 ms, sampled by Sonde and at the same time by a system-wide perf: as many samples as perf has and as their CPU time in the
kernel's accounting implies, each with its process and with a whole, named stack. And each event of such processes."""
import os
import re
import shutil
import subprocess

import pytest

import perf_data
import pprof
from harness.fired import assert_exact, fires
from harness.machine import need_command
from harness.recording import FIRED, Profile
from harness.workloads import workload_path
from native_stacks import BEGINNINGS

MILLISECONDS = 5
NO_NAME = re.compile(r"\+0x[0-9a-f]+$|^\[|^0x[0-9a-f]+$|^$")


class StormRecording:
    """A run of the workload `storm` under both samplers, and what each recorded."""

    def __init__(self, sonde, folder, processes, hz):
        self.path, data, ours = folder / f"storm-{os.getpid()}", folder / "perf.data", folder / "ours.pb.gz"
        shutil.copy(workload_path("storm"), self.path)
        # Nested commands, so that both samplers start before the storm and end after it.
        theirs = [need_command("perf"), "record", "-B", "-N", "--no-bpf-event", "-q", "-a", "-e", "cpu-clock", "-F", hz, "-o", data, "--"]
        command = [sonde, "record", "-F", hz, "-o", ours, "--", *theirs, self.path, processes, MILLISECONDS]
        done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, errors="replace")
        facts = {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", done.stdout, re.M)}
        assert done.returncode == 0 and facts.get("processes") == processes, done
        self.messages, self.processes, self.cpu_ns = done.stderr[-1500:], processes, facts["cpu_ns"] + facts["own_cpu_ns"]
        self.profile = Profile(*pprof.read(ours), done.stderr).of(process=self.path.name)
        self.perf_count = perf_data.samples_by_name(data).get(self.path.name, 0)
        # A sampler's clock has a random phase when a thread gets the CPU: each stretch of running is worth a sample more or less, with a variance of
        # at most a quarter. The starting process has at most one stretch for each of its children's.
        self.deviation = (2 * (processes + facts["switches"]) / 4) ** 0.5


def test_each_event_is_whole_and_has_its_process(sonde, record, monkeypatch, tmp_path):
    """100 processes one after the other: each exits right after it has fired 20 times."""
    count, firings, path = 100, 20, shutil.copy(workload_path("storm"), tmp_path / "storm-fired")
    for name, value in fires(firings).items():
        monkeypatch.setenv(name, value)
    profile = record("--event", FIRED, "--", path, count, 0)
    own = profile.where(lambda s: "storm_leaf" in s.frames)
    assert_exact(own, "main;storm_work;storm_leaf", count * firings)
    assert all(is_whole(s) and has_pid_and_path(s, path) and s.labels["process"] == path.name for s in own.samples), own.top()
    assert len({s.labels["pid"] for s in own.samples}) > (own.count - 1) // firings, "all of them in a few processes"


@pytest.mark.statistical
def test_sample_count_matches_perf(sonde, root, tmp_path):
    """The rate is so high that 1 % is significant: four deviations of both samplers, of 21000 samples. Only on a machine with constant steal time are
    the deviations larger, and then as much is allowed."""
    hz = 4999
    storm = StormRecording(sonde, tmp_path, 800, hz)
    count, said = storm.profile.count, f"perf {storm.perf_count}, ours {storm.profile.count}, deviation {storm.deviation:.0f}\n{storm.messages}"
    assert storm.perf_count > 0.5 * storm.cpu_ns * hz / 1e9, said  # perf saw the storm; late ticks are missing
    assert count >= storm.perf_count - max(0.01 * storm.perf_count, 4 * storm.deviation * 2**0.5), said
    # Samples are taken in interrupts, and the kernel does not account interrupts to the process: there are more samples than accounted time. Where a host
    # takes the CPU away unnoticed, there are fewer, for perf too: late ticks belong to no process.
    asked_ns = min(storm.cpu_ns, storm.perf_count * 1e9 / hz)
    assert storm.profile.ns >= asked_ns - max(0.01 * asked_ns, 4 * storm.deviation * 1e9 / hz), f"{storm.cpu_ns} ns used, {storm.profile.ns} ns seen\n{said}"


def is_whole(sample):
    return BEGINNINGS.match(sample.frames[0]) and not any(NO_NAME.search(frame) for frame in sample.frames)


def has_pid_and_path(sample, path):
    """The sample has a pid and the path of the file that it runs."""
    return sample.labels.get("pid") and sample.labels.get("process.executable.path") == str(path)


@pytest.mark.statistical
def test_each_sample_is_whole_and_has_its_process(sonde, root, tmp_path):
    storm = StormRecording(sonde, tmp_path, 400, 499)
    profile = storm.profile
    assert profile.count > storm.processes, storm.messages
    whole = profile.where(is_whole)
    assert whole.count >= 0.99 * profile.count - 2, profile.where(lambda s: not is_whole(s)).top()
    # During exec the new file becomes known a moment later, possibly after the next sample; this happens at random.
    elsewhere = profile.where(lambda s: not has_pid_and_path(s, storm.path))
    in_exec = elsewhere.where(lambda s: any("execve" in frame for frame in s.frames))
    assert in_exec.count <= 0.01 * profile.count, in_exec.top()
    assert elsewhere.count - in_exec.count <= 2, f"{elsewhere.top()}\n{[s.labels for s in elsewhere.samples]}"
    busy = profile.where(lambda s: "storm_leaf" in s.frames)
    assert busy.count >= 0.6 * profile.count, profile.top()
    assert busy.share("main;storm_work;storm_leaf") == 1, busy.top()
    assert len({s.labels["pid"] for s in profile.samples}) > 0.5 * storm.processes, "all of them in a few processes"
