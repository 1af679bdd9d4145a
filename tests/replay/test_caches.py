"""Every cache between a sample and a packet has so few entries that it evicts the entry it has just read, and the exported packets are identical, byte
by byte. The replayed programs repeatedly use more files, functions and names than fit; the caches of kernel names, which have their present
names, are tested in tests/unit/resolve/kernel/test_kernel.c. Emptied caches with several programs at once are tested in test_replay.py. Decoded
Python lines are such a cache. Names are not: the BPF programs report each code object once, and a replay, which cannot request them again, must
keep the reported names, whatever is trimmed. They have a memory bound of their own (tests/unit/resolve/interpreter/test_python.c)."""
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from folded_stacks import without_kernel
from harness.fired import fire_all, fires
from harness.machine import need_command, need_root, skip
from harness.module_recording import Stage
from harness.paths import BUILD, TOP
from harness.recording import FIRED
from harness.workloads import workload_path

FILES, ROUNDS = 24, 2  # as many libraries as tests/workloads/many_files/main.cpp enters
PROGRAM, PYTHON = "evicted", "emitted-once"
PROGRAMS = PROGRAM, "deeper", PYTHON
PYTHON_FUNCTIONS = 60
SOURCES = TOP / "tests/workloads/many_files"


@pytest.fixture(scope="module")
def many_files(tmp_path_factory):
    """A program with FILES libraries of many functions each."""
    compiler, folder = need_command("g++"), tmp_path_factory.mktemp("files")
    for i in range(FILES):
        subprocess.run([compiler, "-O1", "-g0", "-fPIC", "-shared", "-fno-optimize-sibling-calls", f"-DFILE_NUMBER={i}", "-o", f"libl{i}.so", SOURCES / "library.cpp"],
                       cwd=folder, check=True)
    subprocess.run([compiler, "-O1", "-o", PROGRAM, SOURCES / "main.cpp", *(f"libl{i}.so" for i in range(FILES)), "-Wl,-rpath,$ORIGIN"], cwd=folder, check=True)
    return folder / PROGRAM


@pytest.fixture(scope="module")
def recorded(sonde, tmp_path_factory, many_files):
    """The recorder is stopped while the programs run, so none of their unwind tables is loaded into the kernel: all their stacks are walked in the
    replay."""
    need_root()
    folder = tmp_path_factory.mktemp("recorded")
    deeper = shutil.copy(workload_path("deep"), folder / "deeper")
    with Stage(sonde, folder) as stage:
        recording = stage.record("--event", FIRED, "-a", "--record-events", folder / "wire")
        os.kill(recording.pid, signal.SIGSTOP)
        fire_all(stage.workload(many_files, ROUNDS, env=fires()), stage.workload(deeper, 200, 600, env=fires(20)))
        os.kill(recording.pid, signal.SIGCONT)
        stage.end(recording)
    return folder / "wire"


@pytest.fixture(scope="module")
def recorded_python(sonde, tmp_path_factory):
    """A process of PYTHON_FUNCTIONS functions, each with an event in several lines."""
    need_root()
    path, folder = Path("/usr/bin/python3"), tmp_path_factory.mktemp("python")
    if not path.exists() or subprocess.run([path, "-c", "import sys; raise SystemExit(not (3, 11) <= sys.version_info < (3, 14))"]).returncode:
        skip("needs CPython 3.11, 3.12 or 3.13 as /usr/bin/python3")
    (folder / PYTHON).symlink_to(path)
    lines = ["import os, signal", "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})"]
    for i in range(PYTHON_FUNCTIONS):
        lines += [f"def told_{i}():", *["    os.getppid()"] * 5, *([f"    told_{i - 1}()"] if i % 4 else [])]
    lines += ["print(f'pid {os.getpid()}\\nready', flush=True)", "signal.sigwait({signal.SIGUSR1})", "for _ in range(3):",
              f"    for f in [{', '.join(f'told_{i}' for i in range(PYTHON_FUNCTIONS))}]:", "        f()"]
    (folder / "emitted.py").write_text("\n".join(lines))
    with Stage(sonde, folder) as stage:
        python = stage.workload(folder / PYTHON, folder / "emitted.py")
        recording = stage.record("--event", FIRED, "--record-events", folder / "wire", "-p", python.pid)
        fire_all(python)
        stage.end(recording)
    return folder / "wire"


def packets(wire, out, entries, memory_mib=0, every=0):
    done = subprocess.run([BUILD / "tests/replay-trimmed", wire, str(memory_mib << 20), str(every), str(entries), out, *PROGRAMS], capture_output=True,
                          text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    work = {name: int(value) for name, value in (line.split() for line in done.stderr.splitlines() if line.startswith("sonde_self_"))}
    return work, out.read_bytes(), {stack: n for stack, n in without_kernel(done.stdout.splitlines()).items() if stack.split(";")[0] in PROGRAMS}


@pytest.mark.thorough
@pytest.mark.sanitized
@pytest.mark.parametrize("entries,memory_mib,every", [(16, 0, 0), (4, 0, 0), (16, 8, 20)])
def test_small_caches_do_not_change_packets(recorded, tmp_path, entries, memory_mib, every):
    ease, plain, stacks = packets(recorded, tmp_path / "plain.otlp", 0)
    work, few, again = packets(recorded, tmp_path / "few.otlp", entries, memory_mib, every)
    assert again == stacks, {stack: (stacks.get(stack), again.get(stack)) for stack in stacks | again if stacks.get(stack) != again.get(stack)}
    assert few == plain
    for name in ("sonde_self_symbol_file_openings", "sonde_self_symbol_index_builds"):
        assert work[name] > ease[name] > 16, (name, work, ease)
    assert work["sonde_self_unwind_cache_builds"] >= ease["sonde_self_unwind_cache_builds"] > 16, (work, ease)
    assert work["sonde_self_objects_open"] <= entries < ease["sonde_self_objects_open"]
    named = {frame for stack in stacks for frame in stack.split(";") if frame.startswith("file_")}
    assert len(named) > 4 * 16 and len({name.partition("::")[0] for name in named}) > 16, "it was not more than the caches hold"
    assert len(plain) > 10000


def test_small_line_cache_and_trimming_do_not_change_packets(recorded_python, tmp_path):
    _, plain, stacks = packets(recorded_python, tmp_path / "plain.otlp", 0)
    named = {frame for stack in stacks for frame in stack.split(";") if frame.startswith("told_")}
    assert len(named) > 2 * 16, stacks
    for memory_mib, every in [(0, 0), (8, 200)]:
        _, few, again = packets(recorded_python, tmp_path / "few.otlp", 16, memory_mib, every)
        assert again == stacks, {stack: (stacks.get(stack), again.get(stack)) for stack in stacks | again if stacks.get(stack) != again.get(stack)}
        assert few == plain
