"""Every cache between a sample and a packet holds so few entries that it forgets what it was just told, and what is sent is the same, byte by byte.
What is replayed runs through more files, functions and names than that, again and again; the caches of the kernel's names, which are those of now, are
in tests/unit/resolve/test_kernel.c. What a cache that is emptied does to the whole node is in test_replay.py.

Of Python the decoded lines are such a cache. The names are none: the kernel half tells each code object once, and a replay, which has no kernel half to
ask, is to keep what it was told, whatever is trimmed. That has a bound of its own, by memory (tests/unit/resolve/test_python.c)."""
import shutil
import subprocess
from pathlib import Path

import pytest
from harness.machine import need_command, skip
from harness.paths import BUILD
from harness.processes import wait_for
from harness.workloads import subject_path
from test_replay import without_kernel

FILES, FUNCTIONS = 24, 20
PROGRAM, PYTHON = "forgotten", "told-once"
PROGRAMS = PROGRAM, "deeper", PYTHON
PYTHON_FUNCTIONS = 60


def library(number):
    """Functions that call one another, each busy for a while; in each file other ones, with their own names in C++."""
    lines = ["static volatile unsigned long sink;", f"namespace file_{number} {{"]
    for i in range(FUNCTIONS):
        call = f"if (depth) function_{i - 1}(depth - 1, {i}L);" if i else ""
        lines.append(f"__attribute__((noinline)) void function_{i}(int depth, long) {{ for (int k = 0; k < 20000; k++) sink += k; {call} sink++; }}")
    return "\n".join(lines + ["}", f'extern "C" void enter_{number}(int depth) {{ file_{number}::function_{FUNCTIONS - 1}(depth, 1); sink++; }}'])


def program():
    """As much time of a CPU in each library, one after the other; a line when all have had it."""
    calls = ", ".join(f"enter_{i}" for i in range(FILES))
    return "\n".join(["#include <stdio.h>", "#include <time.h>", *(f'extern "C" void enter_{i}(int);' for i in range(FILES)), f"""
static double used() {{ timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }}
int main()
{{
    void (*const all[])(int) = {{{calls}}};
    for (;;) {{
        for (auto enter : all) {{
            const double begin = used();
            for (int n = 0; used() - begin < 0.03; n++)
                enter(n % {FUNCTIONS});
        }}
        puts("round");
        fflush(stdout);
    }}
}}"""])


@pytest.fixture(scope="module")
def many_files(tmp_path_factory):
    """A program that is busy in FILES libraries of FUNCTIONS functions each."""
    compiler, folder = need_command("g++"), tmp_path_factory.mktemp("files")
    for i in range(FILES):
        (folder / f"l{i}.cpp").write_text(library(i))
        subprocess.run([compiler, "-O1", "-g0", "-fPIC", "-shared", "-fno-optimize-sibling-calls", "-o", f"libl{i}.so", f"l{i}.cpp"], cwd=folder, check=True)
    (folder / "main.cpp").write_text(program())
    subprocess.run([compiler, "-O1", "-o", PROGRAM, "main.cpp", *(f"libl{i}.so" for i in range(FILES)), "-Wl,-rpath,$ORIGIN"], cwd=folder, check=True)
    return folder / PROGRAM


@pytest.fixture
def recorded(sonde, root, run, subject, tmp_path, many_files):
    wire = tmp_path / "node.wire"
    busy = run(many_files, name=PROGRAM)
    deep = subject("deep", "200", "20", path=shutil.copy(subject_path("deep"), tmp_path / "deeper"))
    recorder = run(sonde, "record", "-p", busy.pid, "-p", deep.pid, "-F", "499", "--record-wire", wire, "-o", tmp_path / "live.folded", name="record")

    def rounds():
        assert recorder.alive and busy.alive, recorder.error + busy.error
        return busy.out.count("round")
    wait_for(lambda: rounds() and wire.exists() and wire.stat().st_size, 60, "the first records")
    before = rounds()
    wait_for(lambda: rounds() >= before + 4, 300, "three whole rounds and what was begun")
    for running in (recorder, busy, deep.running):  # they are gone in every replay, or one could end between two
        running.stop()
    return wire


@pytest.fixture
def recorded_python(sonde, root, run, tmp_path):
    """A process of PYTHON_FUNCTIONS functions, each busy on several lines for a while."""
    path = Path("/usr/bin/python3")
    if not path.exists() or subprocess.run([path, "-c", "import sys; raise SystemExit(not (3, 11) <= sys.version_info < (3, 14))"]).returncode:
        skip("needs CPython 3.11, 3.12 or 3.13 as /usr/bin/python3")
    (tmp_path / PYTHON).symlink_to(path)
    lines = ["import time"]
    for i in range(PYTHON_FUNCTIONS):
        lines += [f"def told_{i}(end):", "    n = 0", "    while time.process_time() < end:", *["        n += 1"] * 5,
                  *([f"    told_{i - 1}(end + 0.004)"] if i % 4 else [])]
    lines += ["while True:", f"    for f in [{', '.join(f'told_{i}' for i in range(PYTHON_FUNCTIONS))}]:", "        f(time.process_time() + 0.004)",
              '    print("round", flush=True)']
    (tmp_path / "told.py").write_text("\n".join(lines))
    busy = run(tmp_path / PYTHON, tmp_path / "told.py", name="python")
    wait_for(lambda: "round" in busy.out, 60, "the first round")
    wire = tmp_path / "python.wire"
    recorder = run(sonde, "record", "-p", busy.pid, "-F", "999", "--record-wire", wire, "-o", tmp_path / "live.folded", name="record")
    wait_for(lambda: wire.exists() and wire.stat().st_size, 60, "the first records")
    before = busy.out.count("round")
    wait_for(lambda: busy.out.count("round") >= before + 3, 200, "two whole rounds and what was begun")
    for running in (recorder, busy):
        running.stop()
    return wire


def packets(wire, out, entries, memory_mib=0, every=0):
    done = subprocess.run([BUILD / "tests/replay-trimmed", wire, str(memory_mib << 20), str(every), str(entries), out, *PROGRAMS], capture_output=True,
                          text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    work = {name: int(value) for name, value in (line.split() for line in done.stderr.splitlines() if line.startswith("sonde_self_"))}
    return work, out.read_bytes(), {stack: n for stack, n in without_kernel(done.stdout.splitlines()).items() if stack.split(";")[0] in PROGRAMS}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("entries,memory_mib,every", [(16, 0, 0), (2, 0, 0), (16, 8, 20)])
def test_sixteen_entries_change_no_packet(recorded, tmp_path, entries, memory_mib, every):
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


@pytest.mark.timeout(600)
def test_sixteen_lines_of_python_and_trimming_change_no_packet(recorded_python, tmp_path):
    _, plain, stacks = packets(recorded_python, tmp_path / "plain.otlp", 0)
    named = {frame for stack in stacks for frame in stack.split(";") if frame.startswith("told_")}
    assert len(named) > 2 * 16, stacks
    for memory_mib, every in [(0, 0), (8, 200)]:
        _, few, again = packets(recorded_python, tmp_path / "few.otlp", 16, memory_mib, every)
        assert again == stacks, {stack: (stacks.get(stack), again.get(stack)) for stack in stacks | again if stacks.get(stack) != again.get(stack)}
        assert few == plain
