"""`sonde bpf`: run counts and source lines of BPF programs, compared with a known number of runs."""
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from harness.machine import need_command, skip
from harness.processes import cpu_seconds, system_call, wait_for
from harness.workloads import workload_path

TOP = Path(__file__).resolve().parents[2]


@pytest.fixture
def spin(run, tmp_path, root):
    """spin(repeat) runs the loaded program tests/workloads/spin.bpf.c `repeat` times, by bpftool."""
    bpftool, place = need_command("bpftool"), tmp_path / "bpf"
    need_command("clang-16")
    place.mkdir()
    (tmp_path / "packet").write_bytes(bytes(64))
    held = run("unshare", "-m", "sh", "-c", f"mount -t bpf bpf {place} && {bpftool} prog load '{workload_path('spin.bpf.o')}' {place}/spin && echo ready && exec sleep 600")
    wait_for(lambda: "ready" in held.out or not held.alive, 30, "the program to be loaded")
    if not held.alive and "unshare:" in held.error:
        skip("unshare -m: " + held.error.strip())
    assert held.alive, held.error

    def start(repeat):
        return run("nsenter", "-m", "-r", "-t", str(held.pid), bpftool, "prog", "run", "pinned", f"{place}/spin", "data_in", f"{tmp_path}/packet", "repeat", str(repeat))
    start.unload = held.kill
    return start


@pytest.fixture
def count(run, sonde, root):
    """count(arguments...) -> a running `sonde bpf --json` that has started to count."""
    def start(*arguments):
        running = run(sonde, "bpf", "--json", "-d", "600", *arguments)
        wait_for(lambda: system_call(running.pid) == "128" or not running.alive, 60, "sonde bpf to count")  # rt_sigtimedwait
        assert running.alive, running.error
        return running
    return start


def answer(running):
    assert running.stop(signal.SIGINT, 60) == 0, running.error
    return json.loads(running.out)


def test_every_run_is_counted(count, spin):
    counting = count("spin")
    assert spin(321).wait(60) == 0
    assert spin(1000).wait(60) == 0
    said = answer(counting)
    program, = said["programs"]
    assert program["name"] == "spin" and program["type"] == "socket_filter" and program["runs"] == 1321 and program["missed"] == 0
    assert 0 < program["run_time_ns"] < said["duration_ns"] and said["not_seen"]["programs"] == 0


def test_unloaded_program_keeps_its_counts(count, spin):
    counting = count("spin")
    assert spin(50).wait(60) == 0
    spin.unload()
    program, = answer(counting)["programs"]
    assert program["runs"] == 50


def test_text_names_the_process_that_holds_the_program(sonde, recording):
    """For a program with a link, prints the attach target and the process that holds the link."""
    holder = recording("-a")

    def mine():
        done = subprocess.run([sonde, "bpf", "-d", "300ms"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[:4] == ["ID", "RUNS/S", "TIME/RUN", "CPU"] and "% of one CPU" in done.stdout
        return [line.split() for line in done.stdout.splitlines() if f" sonde ({holder.pid})" in line]
    wait_for(lambda: any(line[6:8] == ["cpu_sample", "perf_event"] and float(line[1]) > 0 for line in mine()), 60, "its program")


def lines_of_spin(count, spin, cpu_s):
    """(the lines with samples, the numbers of the program's busy lines)"""
    source = TOP / "tests/workloads/spin.bpf.c"
    busy = [number for number, line in enumerate(source.read_text().splitlines(), 1) if "/* busy */" in line]
    counting = count("spin", "--lines")
    spinning = spin(100000000)
    wait_for(lambda: cpu_seconds(spinning.pid) > cpu_s or not spinning.alive, 120, "the program to run")
    spinning.kill()
    said = answer(counting)
    assert all(Path(line["file"]).name == source.name for line in said["lines"]), said
    assert all(line["function"].endswith("_spin") and line["time_ns"] // line["samples"] == 1000000000 // 997 for line in said["lines"])
    return said["lines"], busy


def test_busy_program_has_samples_in_its_own_lines(count, spin):
    """Samples of a busy program are attributed to its own lines."""
    lines, busy = lines_of_spin(count, spin, cpu_s=1)
    assert set(busy) & {line["line"] for line in lines}, lines


@pytest.mark.statistical
def test_samples_are_in_the_busy_lines(count, spin):
    lines, busy = lines_of_spin(count, spin, cpu_s=0.5)
    assert sum(line["samples"] for line in lines if line["line"] in busy) >= 0.9 * sum(line["samples"] for line in lines) > 18, lines


@pytest.mark.peer
@pytest.mark.statistical
def test_samples_inside_a_tracepoint_program(count, run, root, tracefs):
    """A BPF-based sampler cannot see these: the kernel does not run it inside a tracepoint's program."""
    tracer = run(need_command("bpftrace"), "-B", "line", "-e", 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); } interval:ms:100 { printf("on\\n"); }')
    wait_for(lambda: "on" in tracer.out or not tracer.alive, 60, "bpftrace to be attached")
    assert tracer.alive, tracer.error
    counting = count("sys_enter", "--lines")
    calls = run("dd", "if=/dev/zero", "of=/dev/null", "bs=1")
    wait_for(lambda: cpu_seconds(calls.pid) > 2 or not calls.alive, 60, "many system calls")
    calls.kill()
    lines = answer(counting)["lines"]
    assert sum(line["samples"] for line in lines) > 20 and any(line["called_ns"] for line in lines), lines


def test_program_is_selected_by_id(sonde, spin, root):
    assert spin(1).wait(60) == 0
    programs = json.loads(subprocess.run([sonde, "bpf", "-d", "10ms", "--json", "spin"], capture_output=True, text=True, timeout=60).stdout)["programs"]
    number = str(programs[-1]["id"])
    done = subprocess.run([sonde, "bpf", "-d", "10ms", number], capture_output=True, text=True, timeout=60)
    assert [line.split()[0] for line in done.stdout.splitlines() if " spin " in line] == [number]
    ran, all_there = re.search(r"^(\d+) of (\d+) programs ran", done.stdout, re.M).groups()
    assert 0 <= int(ran) < int(all_there)  # nothing runs this program


@pytest.mark.parametrize("options, name", [([], "4294967295"), (["--json"], "nosuch"), (["--lines"], "nosuch")])
def test_unknown_program_is_an_error(sonde, root, options, name):
    done = subprocess.run([sonde, "bpf", "-d", "10ms", *options, name], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and f"'{name}'" in done.stderr and not done.stdout


def test_idle_program_has_no_lines(sonde, spin, root):
    assert spin(1).wait(60) == 0
    done = subprocess.run([sonde, "bpf", "-d", "10ms", "--lines", "spin"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and re.search(r"^no lines: none of \d+ samples fell in these programs$", done.stdout, re.M), done.stdout


def test_missing_capability_is_named(sonde, root):
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sonde, "bpf", "-d", "10ms"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    if done.returncode == 127 or not os.access(sonde, os.X_OK):
        skip("another user may not run it from here")
    assert done.returncode == 1 and "CAP_SYS_ADMIN" in done.stderr and not done.stdout


def test_surplus_argument_is_refused(sonde):
    done = subprocess.run([sonde, "bpf", "a", "b"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "'b'" in done.stderr
