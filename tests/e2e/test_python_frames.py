"""CPython frames: function, file and line compared with faulthandler, py-spy and gdb, for programs of tests/workloads/python/stacks.py that stay in
one stack; their position among native frames; and the report of frames that cannot be read.

Exact stacks come from system calls of the innermost function; sampled ones are in statistical tests."""
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import peers
import pprof
import python_3_14
from harness.fired import assert_all_fired
from harness.gates import gated, gated_programs
from harness.machine import need_command, skip
from harness.processes import wait_for
from harness.recording import EARLY
from packages import PY_SPY
from pypi import environment
from python_programs import (DEBIAN, FIRINGS, FOLDER, HZ, MINORS, STACKS, Frame, children_of, counted_interpreted, from_faulthandler, functions,
                             interpreted, interpreter_of, line_of, minor_of, of_process, of_version, same, shown, spinning, versions,
                             wait_until_ready)

__all__ = ["gated"]  # a fixture
PROGRAMS = ["recursion", "deep", "key", "regular_expression", "ctypes_callback", "generators", "methods", "comprehension", "class_body", "executed",
            "tasks", "threads"]
LEAF_LINE = line_of(STACKS, "os.getppid()")
EVALUATOR = "_PyEval_EvalFrameDefault"


def has_fired(running, count=1):
    return lambda: all(r.out.count("fired\n") >= (3 if name == "threads" else count) for name, r in running.items())


class Fired:
    """The stacks of FIRINGS system calls per thread of the programs of stacks.py, in one interpreter; the programs keep running."""

    def __init__(self, gated, path):
        self.minor = minor_of(path)
        missing = python_3_14.MISSING if path.parent.name == "python-3.14" else set()
        names = [name for name in [*PROGRAMS, "fork", *(["deeper"] if 11 <= self.minor <= 13 else [])] if name not in missing]
        self.running = {name: gated.run(path, STACKS, name, gated.path) for name in names}
        self.running["namespace"] = gated.run(need_command("unshare"), "--pid", "--fork", path, STACKS, "recursion", gated.path)
        for running in self.running.values():
            wait_until_ready(running)
        self.pids = {name: children_of(r.pid)[0] if name in ("fork", "namespace") else r.pid for name, r in self.running.items()}
        self.theirs = {name: from_faulthandler(self.running[name]) for name in names if name in PROGRAMS}
        self.profile = gated.record(self.pids.values(), has_fired(self.running))

    def of(self, name):
        return of_process(self.profile, self.pids[name])


@pytest.fixture(scope="module", params=versions(*MINORS))
def fired(request, sonde, tmp_path_factory):
    with gated_programs(sonde, tmp_path_factory.mktemp("fired")) as programs:
        yield Fired(programs, interpreter_of(request.param))


def only(*minors):
    """Parameters for tests of certain versions: the system's interpreter and these."""
    return pytest.mark.parametrize("fired", versions(*minors), indirect=True)


def assert_exact(profile, theirs):
    """Every sample has one of the stacks `theirs`, and each of them occurs."""
    unexpected = profile.where(lambda s: not any(same(interpreted(s), stack, LEAF_LINE) for stack in theirs))
    assert not unexpected.count, "theirs:\n" + "\n".join(map(shown, theirs)) + "\nours:\n" + "\n".join(f"{s.count} {shown(interpreted(s))}" for s in unexpected.samples[:4])
    for stack in theirs:
        assert profile.where(lambda s, t=stack: same(interpreted(s), t)).count, f"no sample of {shown(stack)}"


def test_stacks_match_faulthandler(fired):
    for name, theirs in fired.theirs.items():
        assert len(theirs) == (3 if name == "threads" else 1), fired.running[name].error
        assert_exact(fired.of(name), theirs)
    assert_all_fired(fired.profile, (len(fired.pids) + 2) * FIRINGS)  # "threads" has three


def test_native_frames_are_placed_between_python_frames(fired):
    """sorted() calls its key: the native frames in between belong to the interpreter, and none of them is its evaluator. Before 3.11 each Python
    function has an evaluator frame of its own, with native frames before it. Names are qualified from 3.11 on."""
    compare = "key.<locals>.compare" if fired.minor > 10 else "compare"
    profile = fired.of("key")
    assert profile.count
    for sample in profile.samples:
        assert EVALUATOR not in sample.frames, sample.frames
        places = [sample.frames.index(name) for name in ("<module>", "key", compare, "spin")]
        assert places == sorted(places), sample.frames
        between = [list(zip(sample.frames, sample.mappings))[low + 1:high] for low, high in zip(places, places[1:])]
        assert all("python" in file for part in between for _, file in part), sample.frames
        assert between[1] and bool(between[0]) == bool(between[2]) == (fired.minor < 11), sample.frames
        assert fired.minor > 10 or "list_sort" in [name for name, _ in between[1]], sample.frames


@only(8, 12)
def test_threads_are_matched_in_children_and_pid_namespaces(fired):
    """Threads are matched by their state inside the process, not by thread ids, which differ between namespaces."""
    for name, leaf in (("fork", ["<module>", "fork", "spin"]), ("namespace", ["recursion", "recursion", "spin"])):
        profile = fired.of(name)
        assert profile.count and all(functions(s)[-3:] == leaf for s in profile.samples), profile.top()


@only(12, 13)
def test_too_deep_stack_is_marked(fired):
    profile = fired.of("deeper")
    assert profile.count
    for sample in profile.samples:
        assert sample.frames[0] == "[truncated: interpreter's stack too deep]", sample.frames[:3]
        assert functions(sample)[-3:] == ["recursion", "recursion", "spin"]
        assert len(interpreted(sample)) > 900
    assert counted_interpreted(fired.profile) >= profile.count


@only(8, 10, 13)
def test_each_run_of_python_frames_replaces_one_evaluator_frame(fired):
    """gdb shows an evaluator frame where Sonde shows a run of Python frames, before 3.11 one per Python frame; all other frames are equal."""
    pid, profile = fired.pids["key"], fired.of("key")
    seen = wait_for(lambda: [p for p in (peers.up_to(s, EVALUATOR) for s in peers.gdb_stacks(pid)) if p], 60, "gdb's stack")
    jumped_from = {"PyRun_AnyFileExFlags"} if fired.minor < 11 else set()  # tail-calls its last function: gdb shows it although it is not on the stack
    seen = [[place for place in places if str(place) not in jumped_from] for places in seen]
    other = profile.where(lambda s: not any(peers.same_frames(peers.with_evaluators(s), places) for places in seen))
    assert profile.count and not other.count, "gdb: " + "\n".join(";".join(map(str, places)) for places in seen) + f"\n{other.top()}"


@pytest.fixture(scope="session")
def py_spy():
    return environment("py-spy", PY_SPY, [str(DEBIAN), sys.executable], "True") / "py-spy"


def from_py_spy(py_spy, pid):
    done = subprocess.run([py_spy, "dump", "--json", "--pid", str(pid)], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        skip("py-spy cannot read the process: " + done.stderr.strip()[-200:])
    found = [[Frame(f["name"], f["filename"], f["line"]) for f in thread["frames"]][::-1] for thread in json.loads(done.stdout)]
    return [stack for stack in found if spinning(stack)]


@pytest.mark.peer
@pytest.mark.parametrize("fired", versions(*[minor for minor in MINORS if minor != 14]), indirect=True)  # py-spy does not support 3.14 yet
def test_stacks_match_py_spy(fired, py_spy):
    for name in ("recursion", "key", "tasks", "threads"):
        theirs = from_py_spy(py_spy, fired.pids[name])
        assert theirs
        assert_exact(fired.of(name), theirs)


@pytest.fixture
def stacks(run):
    """stacks(NAME, interpreter) starts a program and waits until all of its threads have reached their final stack."""
    def start(name, interpreter):
        running = run(interpreter, STACKS, name)
        wait_until_ready(running)
        return running
    return start


def samples_of(stack, profile):
    return profile.where(lambda s: same(interpreted(s), stack))


@pytest.fixture
def watch(record):
    """watch(PID..., stacks={PID: stacks}) records these processes until there are 60 samples with Python frames, 45 of each process and one of each
    of their stacks: a busy machine only takes longer, and threads that compete for the GIL run in random order."""
    def has_enough(known, stacks):
        return known.count >= 60 and all(
            of_process(known, pid).count >= 45 and all(samples_of(stack, of_process(known, pid)).count for stack in theirs) for pid, theirs in stacks.items())

    def start(*pids, stacks={}):
        for seconds in (1, 4, 16, 60):
            profile = record("-F", HZ, *(word for pid in pids for word in ("-p", pid)), "-d", seconds, timeout_s=200)
            if has_enough(profile.where(interpreted), stacks):
                break
        return profile
    return start


def assert_sampled(profile, theirs, least=0.99):
    """At least 99 % of the samples have one of the stacks `theirs`, and each of them occurs. At first the BPF programs do not know the process: those
    samples are counted."""
    not_read = profile.where(lambda s: not interpreted(s) and EVALUATOR in s.frames)
    assert not_read.count <= counted_interpreted(profile), f"{profile.messages}\n{profile.top()}"
    known = profile.where(lambda s: interpreted(s) or not {EVALUATOR, *EARLY}.intersection(s.frames))
    assert known.count > 40, f"{profile.messages}\n{profile.top()}"
    equal = known.where(lambda s: any(same(interpreted(s), stack) for stack in theirs))
    assert equal.count >= least * known.count - 1, "theirs:\n" + "\n".join(map(shown, theirs)) + "\nours:\n" + "\n".join(
        f"{s.count} {shown(interpreted(s))}" for s in sorted(known.samples, key=lambda s: -s.count)[:4])
    for stack in theirs:
        assert samples_of(stack, equal).count > 0, f"no sample of {shown(stack)}"


@pytest.mark.statistical
@pytest.mark.parametrize("version", versions(8, 10, 12, 14))
def test_sampled_stacks_match_faulthandler(watch, run, version):
    """Several programs at once, sampled at any of their instructions."""
    path = interpreter_of(version)
    missing = python_3_14.MISSING if path.parent.name == "python-3.14" else set()
    running = {program: run(path, STACKS, program) for program in PROGRAMS if program not in missing}
    for r in running.values():
        wait_until_ready(r)
    theirs = {r.pid: from_faulthandler(r) for r in running.values()}
    profile = watch(*theirs, stacks=theirs)
    for r in running.values():
        assert_sampled(of_process(profile, r.pid), theirs[r.pid])
    joined = of_process(profile, running["key"].pid).where(interpreted)
    assert joined.where(lambda s: EVALUATOR in s.frames[:-1]).count == 0, joined.top()


@pytest.mark.statistical
def test_kernel_threads_have_no_python_frames(record, stacks, run, tmp_path):
    """Kernel threads that run between two samples of Python on its CPU: their samples must not get its frames. Python is busy on every CPU; a writer
    gives the kernel's threads work."""
    for _ in range(os.cpu_count()):
        stacks("recursion", DEBIAN)
    run("sh", "-c", f"while :; do dd if=/dev/zero of={tmp_path}/file bs=1M count=64 conv=fsync 2>/dev/null; done", name="writer")
    profile = record("-a", "-F", 1999, "-d", 5)
    of_kernel = profile.where(lambda s: s.frames and not any(m and not m.startswith("[") for m in s.mappings) and s.labels.get("process", "").startswith(("kworker", "ksoftirqd", "jbd2", "rcu")))
    of_python = profile.where(interpreted)
    assert of_python.count > 100, profile.messages
    if of_kernel.count <= 5:
        skip("the kernel's threads had nothing to do")
    unexpected = of_kernel.where(lambda s: any(not m.startswith("[kernel") or "python" in m for m in s.mappings if m))
    assert not unexpected.where(lambda s: "[python]" in s.mappings or interpreted(s)).count, unexpected.top()
    foreign = of_python.where(lambda s: not s.labels.get("process", "").startswith("python") and not any("python" in Path(m).name for m in s.mappings))  # other processes of the node run Python too
    assert not foreign.count, foreign.top()


@pytest.mark.statistical
@pytest.mark.parametrize("version", versions(13))
def test_short_lived_programs_have_names(record, version, tmp_path):
    """Names come with the samples: no file of an ended process is read. The first process makes the interpreter known."""
    interpreter, program = interpreter_of(version), tmp_path / "moment.py"
    program.write_text("import time\nend = time.process_time() + 0.2\n\n\ndef busy():\n    while time.process_time() < end:\n        pass\n\n\nbusy()\n")
    turns = f"import subprocess, time\nsubprocess.run([{str(interpreter)!r}, {str(program)!r}])\ntime.sleep(2)\nfor _ in range(30):\n" \
            f"    subprocess.run([{str(interpreter)!r}, {str(program)!r}])\n"
    profile = record("-F", 997, "--", interpreter, "-c", turns)
    pids = sorted({s.labels["pid"] for s in profile.samples if any(f.function == "busy" for f in interpreted(s))})
    assert len(pids) >= 15, f"{pids}\n{profile.messages}\n{profile.top()}"
    ours = profile.where(lambda s: any(f.function == "busy" for f in interpreted(s)))
    assert all(shown(interpreted(s)).startswith("<module> (moment.py:10);busy (moment.py:") for s in ours.samples), ours.top()
    unnamed = profile.where(lambda s: any(name.startswith("[python]") for name in s.frames))
    assert unnamed.count <= 0.02 * profile.count, unnamed.top()


# Python statements, and the frame that the stack then contains (tests/workloads/python/liar.py).
CORRUPTIONS = {
    "a circle": ("word(caller + FRAME_PREVIOUS).value = frame", "[truncated: interpreter's stack too deep]"),
    "nothing there": ("word(caller + FRAME_PREVIOUS).value = 4096", "[truncated: interpreter's stack not readable]"),
    "the kernel's": ("word(caller + FRAME_PREVIOUS).value = 0xffffffff81000000", "[truncated: interpreter's stack not readable]"),
    "the end too early": ("word(caller + 68).value = word(caller + 68).value | 1", "[truncated: interpreter's stack changed while it was read]"),
    "no code": ("word(caller + FRAME_CODE).value = 4096", "[python]+0x1000"),
    "a name without an end": ("word(word(word(caller + FRAME_CODE).value + CODE_NAME).value + TEXT_LENGTH).value = 1 << 62", "caller_of_lie"),
}


@pytest.mark.sanitized
def test_corrupt_frames_leave_the_rest_of_the_stack_intact(gated):  # noqa: F811
    """All corruptions at once. The frames from the leaf to the corrupt one are correct, and missing ones are reported."""
    path = of_version(11) or skip("needs CPython 3.11")
    liars = {lie: gated.run(path, FOLDER / "liar.py", statement, gated.path) for lie, (statement, _) in CORRUPTIONS.items()}
    for running in liars.values():
        wait_until_ready(running)
    profile = gated.record([running.pid for running in liars.values()], has_fired(liars))
    cut = 0
    for lie, running in liars.items():
        ours, expected = of_process(profile, running.pid), CORRUPTIONS[lie][1]
        assert ours.count, f"{lie}: {profile.messages}"
        for sample in ours.samples:
            assert any(name.startswith(expected) for name in sample.frames), f"{lie}: {sample.frames[:20]}"
            assert functions(sample)[-2:] == ["lie", "spin"], f"{lie}: {sample.frames}"
        cut += ours.count if expected != "caller_of_lie" else 0
        assert running.alive, running.error
    assert_all_fired(profile, len(CORRUPTIONS) * FIRINGS)
    assert counted_interpreted(profile) == cut, profile.messages


@pytest.fixture(scope="module")
def outputs(sonde, tmp_path_factory):
    """{format: text}: the output of a recording, and of a replay after the process has ended."""
    folder = tmp_path_factory.mktemp("outputs")
    with gated_programs(sonde, folder) as gated:  # noqa: F811
        running = gated.run(DEBIAN, STACKS, "executed", gated.path)
        wait_until_ready(running)
        profile = gated.record([running.pid], has_fired({"executed": running}), "--record-events", folder / "wire")
    written = {"live": profile}
    for suffix in ("folded", "json", "pb.gz"):
        done = subprocess.run([sonde, "record", "--replay", folder / "wire", "-o", folder / f"out.{suffix}"], capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        written[suffix] = folder / f"out.{suffix}"
    return written


@pytest.mark.sanitized
def test_every_output_format_has_python_frames(outputs):
    assert re.search(r";<module> \(stacks\.py\).*;grüße_дом \(naïve ☃\.py\);spin \(stacks\.py\);.* \d+$", outputs["folded"].read_text(), re.M)
    ours = [f for f in json.loads(outputs["json"].read_text())["shared"]["frames"] if f["kind"] == "interpreted"]
    assert {"name": "grüße_дом", "file": "/nowhere/naïve ☃.py", "kind": "interpreted", "mapping": ""} in ours, ours
    assert len([f for f in ours if f["name"] == "spin"]) == 1, "a function is one frame, whatever its line"


@pytest.mark.sanitized
def test_replay_has_frames_after_the_process_has_ended(outputs):
    """The recording stores the event records of code next to the sample records."""
    stacks_of = lambda samples: sorted((s.count, tuple(interpreted(s))) for s in samples)  # noqa: E731
    live, replayed = stacks_of(outputs["live"].samples), stacks_of(pprof.read(outputs["pb.gz"])[0])
    assert live and live == replayed


def assert_counted_as_unreadable(gated, running):  # noqa: F811
    wait_until_ready(running)
    profile = gated.record([running.pid], has_fired({"key": running}))
    assert_all_fired(profile, FIRINGS)
    assert all(EVALUATOR in s.frames and not interpreted(s) for s in profile.samples), profile.top()
    assert counted_interpreted(profile) == profile.count, profile.messages
    assert "frames of Python cannot be read" in profile.messages


@pytest.mark.peer
def test_unsupported_python_is_counted(gated):  # noqa: F811
    assert_counted_as_unreadable(gated, gated.run(of_version(7) or of_version(6) or skip("needs CPython 3.7 or 3.6"), STACKS, "key", gated.path))


@pytest.mark.peer
def test_free_threaded_python_is_counted(gated, tmp_path):  # noqa: F811
    """A copy of an interpreter with a GIL, patched to identify itself as free-threaded."""
    path = (of_version(13) or skip("needs CPython 3.13")).resolve()
    library = subprocess.run([path, "-c", "import sysconfig as s; print(s.get_config_var('LIBDIR') + '/' + s.get_config_var('LDLIBRARY'))"], capture_output=True, text=True).stdout.strip()
    source = Path(library) if library.endswith(".so") and Path(library).exists() else path
    data = bytearray(source.resolve().read_bytes())
    places = [found.end() for found in re.finditer(rb"xdebugpy..\x0d\x03....", data, re.S)]
    assert len(places) == 1, "the runtime's table of offsets is in the file once"
    data[places[0]] = 1
    copy = tmp_path / ("libpython3.13.so.1.0" if source != path else "python3.13")
    copy.write_bytes(data)
    copy.chmod(0o755)
    environment = dict(os.environ, PYTHONHOME=str(path.parents[1]), **({"LD_PRELOAD": str(copy)} if source != path else {}))
    assert_counted_as_unreadable(gated, gated.run(path if source != path else copy, STACKS, "key", gated.path, env=environment))


def linker_flags(interpreter, way):
    """Linker flags for a program that embeds this interpreter: as a shared library, or linked statically and exported to extension modules; None if
    not available."""
    if way == "shared":
        config = shutil.which(f"{interpreter.resolve()}-config")
        said = subprocess.run([config, "--ldflags", "--embed"], capture_output=True, text=True).stdout.split() if config else None
        library = subprocess.run([interpreter, "-c", "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"], capture_output=True, text=True).stdout.strip()
        return said and [*said, f"-Wl,-rpath,{library}"]
    asked = "import sysconfig; v = sysconfig.get_config_var; print(f\"{v('LIBPL')}/{v('LIBRARY')}\", v('LIBS') or '', v('SYSLIBS') or '', '-lz -lexpat')"
    archive, *libraries = subprocess.run([interpreter, "-c", asked], capture_output=True, text=True).stdout.split()
    return [archive, *libraries, "-no-pie", "-Wl,-E"] if Path(archive).exists() else None


@pytest.mark.parametrize("way", ["shared", "static"])
@pytest.mark.parametrize("version", versions(13))
def test_embedded_interpreter_has_frames(gated, version, tmp_path, way):  # noqa: F811
    """An interpreter in a C program, which calls it from two of its functions."""
    interpreter = interpreter_of(version)
    compiler, flags = need_command("gcc", "cc"), linker_flags(interpreter, way)
    if not flags:
        skip(f"{interpreter.resolve()} is here without its {way} library")
    headers = subprocess.run([interpreter, "-c", "import sysconfig; print(sysconfig.get_path('include'))"], capture_output=True, text=True).stdout.strip()
    source, program = tmp_path / "host.c", tmp_path / "host"
    source.write_text(textwrap.dedent("""
        #include <Python.h>
        __attribute__((noinline)) static int host_inner(const char *text) { return PyRun_SimpleString(text) + 1; }
        int main(int argc, char **argv) { Py_Initialize(); return host_inner(argv[argc - 1]) + 1; }
    """))
    made = subprocess.run([compiler, "-O1", f"-I{headers}", source, "-o", program, *flags], capture_output=True, text=True)
    if made.returncode != 0:
        skip("the interpreter's library is not here: " + made.stderr.strip()[-200:])
    text = textwrap.dedent(f"""
        import os, time
        def inside():
            print("ready", flush=True)
            while not os.path.exists({str(gated.path)!r}):
                time.sleep(0.01)
            for _ in range({FIRINGS}):
                os.getppid()
            print("fired", flush=True)
            time.sleep(600)
        inside()
    """)
    running = gated.run(program, text)
    wait_until_ready(running)
    profile = gated.record([running.pid], has_fired({"host": running}))
    assert_all_fired(profile, FIRINGS)
    for sample in profile.samples:
        assert functions(sample) == ["<module>", "inside"], sample.frames
        assert "host_inner" in sample.frames[:sample.frames.index("<module>")], sample.frames


@pytest.mark.statistical
@pytest.mark.peer
@pytest.mark.parametrize("minor", [12, 13])
def test_perf_trampolines_are_unwound_and_hidden(record, run, minor):
    """-X perf inserts generated code without frame pointers between a function and its evaluator: stacks go through it, and each function is shown
    once. (Stacks unwound in user space, at first, end there.)"""
    running = run(of_version(minor) or skip(f"needs CPython 3.{minor}"), "-X", "perf", FOLDER / "trampolines.py")
    wait_until_ready(running)
    try:
        profile = record("-F", HZ, "-p", running.pid, "-d", 3)
    finally:
        running.kill()
        Path(f"/tmp/perf-{running.pid}.map").unlink(missing_ok=True)
    whole = profile.where(lambda s: [f for f in s.frames if f in ("<module>", "outer", "middle", "inner")][:3] == ["<module>", "outer", "middle"]
                          and {"_start", "Py_BytesMain"} & set(s.frames) and not any(f.startswith(("py::", "[truncated")) for f in s.frames))
    assert profile.count > 50 and whole.count >= 0.8 * profile.count, profile.top()
