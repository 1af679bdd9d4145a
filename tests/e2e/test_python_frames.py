"""Frames of CPython: function, file and line against faulthandler's and py-spy's, in programs of tests/subjects/python/stacks.py whose stacks
stay where they are; where they stand among the native ones; and what is said of what cannot be had."""
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections import namedtuple
from pathlib import Path

import pytest

import peers
import python_3_14
from harness.machine import need_command, skip
from harness.paths import TOP
from harness.processes import wait_for
from harness.recording import EARLY
from packages import PY_SPY
from pypi import environment

STACKS = TOP / "tests/subjects/python/stacks.py"
DEBIAN = Path("/usr/bin/python3")
HZ = 397
PROGRAMS = ["recursion", "deep", "key", "regular_expression", "ctypes_callback", "generators", "methods", "comprehension", "class_body", "executed",
            "tasks", "threads"]
OTHER_PROGRAMS = ["deep", "key", "regular_expression", "ctypes_callback", "generators", "executed", "tasks", "threads"]
Frame = namedtuple("Frame", "function file line")


def installed():
    """Interpreters at hand: {"3.11.2": path}."""
    places = [DEBIAN, *sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))]
    found = {}
    for path in filter(Path.exists, places):
        version = subprocess.run([path, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], capture_output=True, text=True).stdout.strip()
        found[version] = path
    return found


def of_version(minor):
    """The path of a CPython 3.MINOR; None."""
    return next((path for version, path in INSTALLED.items() if version.startswith(f"3.{minor}.")), None)


INSTALLED = installed()
INTERPRETERS = {version: path for version, path in INSTALLED.items() if version.startswith(("3.11.", "3.12.", "3.13."))} or {"none": None}
OTHERS = (8, 9, 10, 14)  # what all the other tests say of 3.11 to 3.13 is said of these by one or two each


@pytest.fixture(params=INTERPRETERS)
def interpreter(request):
    return INTERPRETERS[request.param] or skip("needs CPython 3.11, 3.12 or 3.13")


@pytest.fixture
def stacks(run):
    """stacks(NAME, interpreter) starts a program and waits until all its threads are where they stay."""
    def start(name, interpreter):
        running = run(interpreter, STACKS, name)
        wait_for(lambda: "ready" in running.out, 60, f"{name} to be ready; it said: {running.error}")
        return running
    return start


def interpreted(sample):
    """The Python frames of a sample, root first."""
    return [Frame(name, file, line) for name, mapping, (file, line) in zip(sample.frames, sample.mappings, sample.sources) if file and not mapping]


@pytest.fixture
def watch(record):
    """watch(PID..., stacks={PID: stacks}) records these processes for as long as it takes to have 60 samples with Python frames, 45 of each of those, and
    one of each of their stacks: a busy machine is only slower, and threads that wait for Python's lock take turns by chance."""
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


def of_process(profile, pid):
    return profile.where(lambda s: s.labels["pid"] == pid)


def spinning(stack):
    return bool(stack) and stack[-1].function == "spin"


def from_faulthandler(running):
    """The stacks of the threads that spin, root first, of up to 100 frames from the leaf on."""
    before = len(running.error)
    os.kill(running.pid, 10)
    wait_for(lambda: re.search(r'stacks\.py", line \d+ in <module>|(  File .*\n){100}', running.error[before:]), 30, "faulthandler")
    text = running.error[before:]
    found = []
    for block in re.split(r"(?m)^(?:Current t|T)hread .*:\n", text):
        frames = [Frame(m[3].encode().decode("unicode_escape"), m[1].encode().decode("unicode_escape"), int(m[2]))
                  for m in re.finditer(r'  File "(.*)", line (\d+) in (.*)', block)]
        found.append(frames[::-1])
    return [stack for stack in found if spinning(stack)]


def from_py_spy(py_spy, pid):
    done = subprocess.run([py_spy, "dump", "--json", "--pid", str(pid)], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        skip("py-spy cannot read the process: " + done.stderr.strip()[-200:])
    found = [[Frame(f["name"], f["filename"], f["line"]) for f in thread["frames"]][::-1] for thread in json.loads(done.stdout)]
    return [stack for stack in found if spinning(stack)]


@pytest.fixture(scope="session")
def py_spy():
    return environment("py-spy", PY_SPY, [str(DEBIAN), sys.executable], "True") / "py-spy"


def same(ours, theirs):
    """Function, file and line of every frame; of the leaf, whose line goes round, only function and file. faulthandler knows no qualified
    names, and of deep stacks only the last 100 frames."""
    ours = ours[-len(theirs):] if len(theirs) == 100 else ours
    return len(ours) == len(theirs) and all(
        a.function.rsplit(".", 1)[-1] == b.function.rsplit(".", 1)[-1] and a.file == b.file and (a.line == b.line or i == len(ours) - 1 and a.line > 0)
        for i, (a, b) in enumerate(zip(ours, theirs)))


def samples_of(stack, profile):
    return profile.where(lambda s: same(interpreted(s), stack))


def shown(stack):
    return ";".join(f"{f.function} ({Path(f.file).name}:{f.line})" for f in stack)


def counted(profile):
    """Of how many samples it was said that the interpreter's part is not all there."""
    found = re.search(r"(\d+) interpreted", profile.said)
    return int(found[1]) if found else 0


def assert_stacks(profile, theirs, least=0.99):
    """All but one in a hundred samples have one of these stacks, and every one of these is among them. In the first moments the process is not known
    to the kernel half yet: those samples are counted."""
    not_read = profile.where(lambda s: not interpreted(s) and "_PyEval_EvalFrameDefault" in s.frames)
    assert not_read.count <= counted(profile), f"{profile.said}\n{profile.top()}"
    known = profile.where(lambda s: interpreted(s) or not {"_PyEval_EvalFrameDefault", *EARLY}.intersection(s.frames))
    assert known.count > 40, f"{profile.said}\n{profile.top()}"
    equal = known.where(lambda s: any(same(interpreted(s), stack) for stack in theirs))
    assert equal.count >= least * known.count - 1, "theirs:\n" + "\n".join(map(shown, theirs)) + "\nours:\n" + "\n".join(
        f"{s.count} {shown(interpreted(s))}" for s in sorted(known.samples, key=lambda s: -s.count)[:4])
    for stack in theirs:
        assert samples_of(stack, equal).count > 0, f"no sample of {shown(stack)}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_same_stacks_as_faulthandler(watch, stacks, interpreter, program):
    running = stacks(program, interpreter)
    theirs = from_faulthandler(running)
    assert len(theirs) == (3 if program == "threads" else 1), running.error
    assert_stacks(watch(running.pid, stacks={running.pid: theirs}), theirs)


@pytest.mark.parametrize("program", ["recursion", "key", "tasks", "threads"])
def test_same_stacks_as_py_spy(watch, stacks, interpreter, py_spy, program):
    running = stacks(program, interpreter)
    theirs = from_py_spy(py_spy, running.pid)
    assert theirs
    assert_stacks(watch(running.pid, stacks={running.pid: theirs}), theirs)


def test_c_functions_stand_between_their_callers_and_what_they_call(watch, stacks, interpreter):
    """sorted() calls its key: the native frames between the two are the interpreter's own, and none of them is its evaluator."""
    running = stacks("key", interpreter)
    profile = watch(running.pid).where(interpreted)
    for sample in profile.samples:
        caller, called = sample.frames.index("key"), sample.frames.index("key.<locals>.compare")
        between = list(zip(sample.frames, sample.mappings))[caller + 1:called]
        assert between and all("python" in file for _, file in between), sample.frames
        assert "_PyEval_EvalFrameDefault" not in sample.frames[:-1], sample.frames
        assert sample.frames[called + 1] == "spin", sample.frames


def test_each_run_of_frames_stands_for_one_evaluator(watch, stacks, interpreter):
    """gdb sees an evaluator where we see a run of Python frames, and the same frames as we do everywhere else."""
    assert_evaluators(watch, stacks("key", interpreter))


def assert_evaluators(watch, running, jumped_from=()):
    """Functions that called their last one by a jump are on no stack; gdb tells of them nevertheless."""
    seen = wait_for(lambda: [p for p in (peers.up_to(s, "_PyEval_EvalFrameDefault") for s in peers.gdb_stacks(running.pid)) if p], 60, "gdb's stack")
    seen = [[place for place in places if str(place) not in jumped_from] for places in seen]
    profile = watch(running.pid).where(interpreted)
    equal = profile.where(lambda s: any(peers.same_frames(peers.with_evaluators(s), places) for places in seen))
    assert equal.count >= 0.97 * profile.count - 3, "gdb: " + "\n".join(";".join(map(str, places)) for places in seen) + f"\n{profile.top()}"


@pytest.mark.parametrize("minor", OTHERS)
def test_stacks_of_other_versions(watch, run, py_spy, minor):
    """Several programs at once. Before 3.11 each Python function has an evaluator of its own; 3.8 and 3.9 do not say which, 3.14 calls what marks them by
    another name. Names are qualified from 3.11 on."""
    path = of_version(minor) or (python_3_14.get(of_version(13)) if minor == 14 else skip(f"needs CPython 3.{minor}"))
    missing = python_3_14.MISSING if path.parent.name == "python-3.14" else set()
    running = {program: run(path, STACKS, program) for program in OTHER_PROGRAMS if program not in missing}
    for program, r in running.items():
        wait_for(lambda r=r: "ready" in r.out, 60, f"{program} to be ready; it said: {r.error}")
    theirs = {r.pid: from_faulthandler(r) for r in running.values()}
    profile = watch(*theirs, stacks=theirs)
    for program, r in running.items():
        assert len(theirs[r.pid]) == (3 if program == "threads" else 1), r.error
        assert_stacks(of_process(profile, r.pid), theirs[r.pid])
    for program in ("key", "threads") if minor < 14 else ():  # which it does not know yet
        assert_stacks(of_process(profile, running[program].pid), from_py_spy(py_spy, running[program].pid))
    joined = of_process(profile, running["key"].pid).where(interpreted)
    assert joined.where(lambda s: "_PyEval_EvalFrameDefault" in s.frames[:-1]).count == 0, joined.top()
    compare = "key.<locals>.compare" if minor > 10 else "compare"
    for sample in joined.samples:
        places = [sample.frames.index(name) for name in ("<module>", "key", compare, "spin")]
        assert places == sorted(places), sample.frames
        between = [list(zip(sample.frames, sample.mappings))[low + 1:high] for low, high in zip(places, places[1:])]
        assert all("python" in file for part in between for _, file in part), sample.frames
        assert between[1] and (minor > 10 or between[0] and between[2]), sample.frames  # what calls an evaluator
        assert minor > 10 or "list_sort" in [name for name, _ in between[1]], sample.frames


@pytest.mark.parametrize("minor", [8, 10])
def test_each_frame_stands_for_an_evaluator_of_its_own(watch, stacks, minor):
    """Before 3.11 gdb sees an evaluator where we see a Python frame, also where C code is in between."""
    running = stacks("key", of_version(minor) or skip(f"needs CPython 3.{minor}"))
    assert_evaluators(watch, running, ["PyRun_AnyFileExFlags"])


def test_no_other_task_gets_them(record, stacks, run, tmp_path):
    """Kernel threads that run between two samples of Python on its CPU: what they are sampled for is theirs. Python is busy on every CPU; files are
    written, so that the kernel's threads have work."""
    for _ in range(os.cpu_count()):
        stacks("recursion", DEBIAN)
    run("sh", "-c", f"while :; do dd if=/dev/zero of={tmp_path}/file bs=1M count=64 conv=fsync 2>/dev/null; done", name="writer")
    profile = record("-a", "-F", 1999, "-d", 5)
    of_kernel = profile.where(lambda s: s.frames and not any(m and not m.startswith("[") for m in s.mappings) and s.labels.get("process", "").startswith(("kworker", "ksoftirqd", "jbd2", "rcu")))
    of_python = profile.where(lambda s: interpreted(s))
    assert of_python.count > 100, profile.said
    if of_kernel.count <= 5:
        skip("the kernel's threads had nothing to do")
    strange = of_kernel.where(lambda s: any(not m.startswith("[kernel") or "python" in m for m in s.mappings if m))
    assert not strange.where(lambda s: "[python]" in s.mappings or interpreted(s)).count, strange.top()
    foreign = of_python.where(lambda s: not s.labels.get("process", "").startswith("python") and not any("python" in Path(m).name for m in s.mappings))  # others on the node are Python too
    assert not foreign.count, foreign.top()


def test_a_child_and_another_pid_namespace(watch, stacks, run, interpreter):
    """Threads are known by what they are in the process, and not by numbers that namespaces change."""
    parent = stacks("fork", interpreter)
    profile = watch(parent.pid, children_of(parent.pid)[0]).where(interpreted)
    assert profile.where(lambda s: [f.function for f in interpreted(s)][-2:] == ["fork", "spin"]).count > 0.95 * profile.count > 40, profile.top()
    unshare = run(need_command("unshare"), "--pid", "--fork", interpreter, STACKS, "recursion")
    wait_for(lambda: "ready" in unshare.out, 60, "the program in another namespace")
    profile = watch(children_of(unshare.pid)[0]).where(interpreted)
    assert profile.where(lambda s: [f.function for f in interpreted(s)][-2:] == ["recursion", "spin"]).count > 0.95 * profile.count > 40, profile.top()


def children_of(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_programs_that_live_for_a_moment(record, interpreter, tmp_path):
    """Names come with the samples: nobody has to look into a process that is gone. The first one is how the interpreter becomes known."""
    program = tmp_path / "moment.py"
    program.write_text("import time\nend = time.process_time() + 0.2\n\n\ndef busy():\n    while time.process_time() < end:\n        pass\n\n\nbusy()\n")
    turns = f"import subprocess, time\nsubprocess.run([{str(interpreter)!r}, {str(program)!r}])\ntime.sleep(2)\nfor _ in range(30):\n" \
            f"    subprocess.run([{str(interpreter)!r}, {str(program)!r}])\n"
    profile = record("-F", 997, "--", interpreter, "-c", turns)
    pids = sorted({s.labels["pid"] for s in profile.samples if any(f.function == "busy" for f in interpreted(s))})
    assert len(pids) >= 15, f"{pids}\n{profile.said}\n{profile.top()}"
    ours = profile.where(lambda s: any(f.function == "busy" for f in interpreted(s)))
    assert all(shown(interpreted(s)).startswith("<module> (moment.py:10);busy (moment.py:") for s in ours.samples), ours.top()
    unnamed = profile.where(lambda s: any(name.startswith("[python]") for name in s.frames))
    assert unnamed.count <= 0.02 * profile.count, unnamed.top()


def test_a_stack_too_deep_says_so(watch, stacks, interpreter):
    running = stacks("deeper", interpreter)
    profile = watch(running.pid).where(interpreted)
    assert profile.count > 20, profile.top()
    for sample in profile.samples:
        assert sample.frames[0] == "[truncated: interpreter's stack too deep]", sample.frames[:3]
        assert [f.function for f in interpreted(sample)][-3:] == ["recursion", "recursion", "spin"]
        assert len(interpreted(sample)) > 900
    assert counted(profile) >= profile.count


# Of CPython 3.11: what a frame and a code object have where (probes/python.h).
LIAR = textwrap.dedent("""
    import ctypes, sys
    FRAME_CODE, FRAME_PREVIOUS, CODE_NAME, TEXT_LENGTH = 32, 48, 128, 16
    word = lambda address: ctypes.c_uint64.from_address(address)

    def spin():
        print("ready", flush=True)
        while True:
            pass

    def lie():
        thread = ctypes.pythonapi.PyThreadState_Get
        thread.restype = ctypes.c_void_p
        frame = word(word(thread() + 56).value + 8).value
        caller = word(frame + FRAME_PREVIOUS).value
        {lie}
        spin()

    def caller_of_lie():
        lie()

    caller_of_lie()
""")
LIES = {
    "a circle": ("word(caller + FRAME_PREVIOUS).value = frame", "[truncated: interpreter's stack too deep]"),
    "nothing there": ("word(caller + FRAME_PREVIOUS).value = 4096", "[truncated: interpreter's stack not readable]"),
    "the kernel's": ("word(caller + FRAME_PREVIOUS).value = 0xffffffff81000000", "[truncated: interpreter's stack not readable]"),
    "the end too early": ("word(caller + 68).value = word(caller + 68).value | 1", "[truncated: interpreter's stack changed while it was read]"),
    "no code": ("word(caller + FRAME_CODE).value = 4096", "[python]+0x1000"),
    "a name without an end": ("word(word(word(caller + FRAME_CODE).value + CODE_NAME).value + TEXT_LENGTH).value = 1 << 62", "caller_of_lie"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_process_that_lies_about_itself(watch, run, tmp_path, lie):
    path = of_version(11) or skip("needs CPython 3.11")
    statement, said = LIES[lie]
    program = tmp_path / "liar.py"
    program.write_text(LIAR.replace("{lie}", statement))
    running = run(path, program)
    wait_for(lambda: "ready" in running.out, 60, f"the liar; it said: {running.error}")
    profile = watch(running.pid)
    known = profile.where(interpreted)
    assert known.count > 40, f"{profile.said}\n{profile.top()}"
    for sample in known.samples:
        assert any(name.startswith(said) for name in sample.frames), sample.frames[:20]
        assert [f.function for f in interpreted(sample)][-2:] == ["lie", "spin"]
    if said != "caller_of_lie":
        assert counted(profile) >= known.count
    assert running.alive


def test_in_every_output(sonde, root, stacks, interpreter, tmp_path):
    running = stacks("executed", interpreter)
    written = {}
    for suffix in ("folded", "json"):
        path = tmp_path / f"out.{suffix}"
        done = subprocess.run([sonde, "record", "-F", str(HZ), "-p", str(running.pid), "-d", "4", "-o", path], capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        written[suffix] = path.read_text()
    assert re.search(r";<module> \(stacks\.py\).*;grüße_дом \(naïve ☃\.py\);spin \(stacks\.py\) \d+$", written["folded"], re.M), written["folded"]
    frames = json.loads(written["json"])["shared"]["frames"]
    ours = [f for f in frames if f["kind"] == "interpreted"]
    assert {"name": "grüße_дом", "file": "/nowhere/naïve ☃.py", "kind": "interpreted", "mapping": ""} in ours, ours
    assert len([f for f in ours if f["name"] == "spin"]) == 1, "a function is one frame, whatever its line"


def test_a_replay_needs_no_process(sonde, root, stacks, interpreter, tmp_path):
    """What the kernel half told of code is on the wire."""
    running, said = stacks("tasks", interpreter), {}
    wire = tmp_path / "wire"
    for name, arguments in (("live", ["-F", str(HZ), "-p", str(running.pid), "-d", "3", "--record-wire", wire]), ("replay", ["--replay", wire])):
        if name == "replay":
            running.kill()
        done = subprocess.run([sonde, "record", *arguments, "-o", tmp_path / f"{name}.folded"], capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        said[name] = sorted(line for line in (tmp_path / f"{name}.folded").read_text().splitlines() if ";spin (stacks.py)" in line and "_[k]" not in line)
    assert len(said["live"]) > 0 and said["live"] == said["replay"]


def assert_unread(record, running):
    wait_for(lambda: "ready" in running.out, 60, f"the program; it said: {running.error}")
    profile = record("-F", HZ, "-p", running.pid, "-d", 4)
    evaluated = profile.where(lambda s: "_PyEval_EvalFrameDefault" in s.frames)
    assert evaluated.count > 10 and not any(map(interpreted, profile.samples)), profile.top()
    assert counted(profile) >= evaluated.count
    assert "frames of a Python cannot be read" in profile.said


def test_a_python_that_cannot_be_read_is_counted(record, run):
    assert_unread(record, run(of_version(7) or of_version(6) or skip("needs CPython 3.7 or 3.6"), STACKS, "key"))


def test_a_python_without_the_global_lock_is_counted(record, run, tmp_path):
    """What such a one says of itself, put into a copy of one that has the lock."""
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
    running = run(path if source != path else copy, STACKS, "key", env=dict(os.environ, PYTHONHOME=str(path.parents[1]), **({"LD_PRELOAD": str(copy)} if source != path else {})))
    assert_unread(record, running)


def linker_flags(interpreter, way):
    """Of a program that has this interpreter inside: by its library, or linked in and exported to extension modules; None: that is not here."""
    if way == "shared":
        config = shutil.which(f"{interpreter.resolve()}-config")
        said = subprocess.run([config, "--ldflags", "--embed"], capture_output=True, text=True).stdout.split() if config else None
        library = subprocess.run([interpreter, "-c", "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"], capture_output=True, text=True).stdout.strip()
        return said and [*said, f"-Wl,-rpath,{library}"]
    asked = "import sysconfig; v = sysconfig.get_config_var; print(f\"{v('LIBPL')}/{v('LIBRARY')}\", v('LIBS') or '', v('SYSLIBS') or '', '-lz -lexpat')"
    archive, *libraries = subprocess.run([interpreter, "-c", asked], capture_output=True, text=True).stdout.split()
    return [archive, *libraries, "-no-pie", "-Wl,-E"] if Path(archive).exists() else None


@pytest.mark.parametrize("way", ["shared", "static"])
def test_inside_another_program(watch, run, interpreter, tmp_path, way):
    """An interpreter in a C program, which calls it from two of its functions."""
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
    running = run(program, "def inside():\n    print('ready', flush=True)\n    while True: pass\ninside()")
    wait_for(lambda: "ready" in running.out, 60, f"the host; it said: {running.error}")
    profile = watch(running.pid).where(interpreted)
    assert profile.count > 50, profile.top()
    for sample in profile.samples:
        assert [f.function for f in interpreted(sample)] == ["<module>", "inside"], sample.frames
        assert "host_inner" in sample.frames[:sample.frames.index("<module>")], sample.frames


@pytest.mark.plain_build
@pytest.mark.parametrize("minor", [12, 13])
def test_beside_trampolines_for_perf(record, run, minor):
    """-X perf puts code that it makes between a function and its evaluator, which keeps no frame pointer: stacks go through it, and each function is told
    once. (Those that are finished in user space, at first, end there.)"""
    program = """if True:
        def inner(n):
            return sum(i * i % 7 for i in range(n)) if n == 0 else [i * i % 7 for i in range(n)]
        def middle():
            return inner(3000)
        def outer():
            while True:
                middle()
        print("ready", flush=True)
        outer()"""
    running = run(of_version(minor) or skip(f"needs CPython 3.{minor}"), "-X", "perf", "-c", program)
    wait_for(lambda: "ready" in running.out or not running.alive, 60, "the program")
    try:
        profile = record("-F", HZ, "-p", running.pid, "-d", 3)
    finally:
        running.kill()
        Path(f"/tmp/perf-{running.pid}.map").unlink(missing_ok=True)
    whole = profile.where(lambda s: [f for f in s.frames if f in ("<module>", "outer", "middle", "inner")][:3] == ["<module>", "outer", "middle"]
                          and {"_start", "Py_BytesMain"} & set(s.frames) and not any(f.startswith(("py::", "[truncated")) for f in s.frames))
    assert profile.count > 50 and whole.count >= 0.8 * profile.count, profile.top()
