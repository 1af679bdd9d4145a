"""`sonde record --gpu` on programs that use a fake libcuda and a fake CUPTI (tests/gpu/cupti): each kernel and copy has the stack that launched it, and
counts and durations are those that the fake GPU was given."""
import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pprof
import pytest

from harness.paths import BUILD, TOP
from harness.processes import wait_for
from harness.workloads import Workload

sys.path.insert(0, str(TOP / "tests/gpu/cupti"))
import workload as program  # noqa: E402

FAKES, LIBRARY, PROGRAM = BUILD / "tests/gpu/cupti", BUILD / "lib/libsonde-cuda.so", TOP / "tests/gpu/cupti/workload.py"
ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": str(FAKES), "CUDA_INJECTION64_PATH": str(LIBRARY)}
ALL_COUNT, ALL_NS = (sum(values) for values in zip(*program.EXPECTED.values()))
PYTHON = ("main", "step", "load", "forward", "exchange", "replay", "save")


def by_stack(samples):
    """{(leaf, Python functions of the workload from the root): (executions, nanoseconds)}"""
    counts, times = Counter(), Counter()
    for sample in samples:
        key = sample.frames[-1], tuple(frame for frame in sample.frames if frame in PYTHON)
        counts[key] += sample.count
        times[key] += sample.ns
    return {key: (counts[key], times[key]) for key in counts}


@pytest.fixture
def attached(run):
    """The program, which waits for a recorder."""
    return Workload(run("/usr/bin/python3", PROGRAM, "attached", env=ENVIRONMENT))


def record_command(sonde, path, *arguments, **variables):
    """`sonde record --gpu` of the program, which names the library to it."""
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "CUDA_INJECTION64_PATH"}
    return subprocess.run([sonde, "record", "--gpu", "-o", path, *arguments, "--", "/usr/bin/python3", PROGRAM, "once"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, env={**environment, **variables})


def refused(sonde, path, *arguments, **variables):
    """What `sonde record --gpu` prints when it cannot begin."""
    done = subprocess.run([sonde, "record", "--gpu", "-o", path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          env={**ENVIRONMENT, **variables})
    assert done.returncode != 0
    return done.stderr


def test_work_has_the_stack_that_launched_it(recording, attached, sonde, tmp_path):
    recorded = recording("--gpu", "-p", attached.pid)
    wait_for(lambda: "launched" in attached.facts(), 60, "the launches", [attached.running.error])
    assert "another `sonde record --gpu` is running" in refused(sonde, tmp_path / "second.pb.gz", "-p", str(attached.pid), "-d", "1")
    profile = recorded.finish()
    assert by_stack(profile.samples) == program.EXPECTED
    assert {(s.frames[-1], s.labels["gpu.work"], s.labels["gpu.device"]) for s in profile.samples} == {
        ("gemm", "kernel", "0"), ("layer_norm", "kernel", "0"), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "nccl", "0"),
        ("[copy host to device]", "copy", "0"), ("[copy device to host]", "copy", "0"), ("[memset]", "memset", "0")}
    for sample in profile.samples:  # kernels of a graph are marked, and the libraries that observe the launch are not in the stack
        assert ("[CUDA graph]" == sample.frames[-2]) == ("replay" in sample.frames), sample.frames
        assert not any("libsonde-cuda" in mapping or "libcupti" in mapping for mapping in sample.mappings)
    assert f"56.2 ms on GPUs of 1 processes; {ALL_COUNT} kernels, copies and memsets" in profile.messages
    assert attached.running.alive


@pytest.mark.thorough
def test_a_killed_program_does_not_hold_up_the_recorder(recording, attached):
    recorded = recording("--gpu", "-p", attached.pid)
    wait_for(lambda: "launched" in attached.facts(), 60, "the launches", [attached.running.error])
    attached.running.process.send_signal(signal.SIGKILL)
    attached.running.wait()
    profile = recorded.finish()
    assert profile.count <= ALL_COUNT and profile.ns <= ALL_NS
    assert "1 processes that ended without their last report" in profile.messages


def test_a_command_is_recorded_from_its_first_launch(sonde, root, tmp_path):
    path, events = tmp_path / "live.pb.gz", tmp_path / "events"
    done = record_command(sonde, path, "--record-events", events)
    assert done.returncode == 0, done.stderr
    samples, _ = pprof.read(path)
    assert (sum(s.count for s in samples), sum(s.ns for s in samples)) == (ALL_COUNT, ALL_NS)
    replayed = tmp_path / "replayed.json"
    subprocess.run([sonde, "record", "--replay", events, "-o", replayed], check=True, timeout=60)
    about = json.loads(replayed.read_text())["sonde"]
    assert (about["type"], about["samples"], about["weight_ns"]) == ("gpu", ALL_COUNT, ALL_NS)


@pytest.mark.thorough
def test_steps_back_from_another_profiler(sonde, root, tmp_path):
    done = record_command(sonde, tmp_path / "none.pb.gz", SONDE_FAKE_CUPTI="subscribed")
    assert done.returncode == 0
    assert "1 processes not recorded (pid " in done.stderr and ": another profiler is subscribed to CUPTI, error 39)" in done.stderr, done.stderr


def test_says_what_is_missing(sonde, root, tmp_path):
    path, other = tmp_path / "none.pb.gz", FAKES / "libcuda.so.1"
    assert f"process {os.getpid()} does not have libsonde-cuda: start it with CUDA_INJECTION64_PATH={LIBRARY}" in refused(
        sonde, path, "-p", str(os.getpid()), "-d", "1")
    assert f"{other} is not libsonde-cuda: unset CUDA_INJECTION64_PATH" in refused(sonde, path, "--", "true", CUDA_INJECTION64_PATH=str(other))
    assert "/none.so cannot be read" in refused(sonde, path, "--", "true", CUDA_INJECTION64_PATH="/none.so")
    done = subprocess.run([sonde, "record", "--gpu", "-o", path, "--", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert done.returncode == 0
    assert "nothing ran on a GPU" in done.stderr
