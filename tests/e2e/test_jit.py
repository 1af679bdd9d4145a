"""JIT code named by the perf map or the jitdump that its runtime writes. Exact for a workload that generates code itself; also for unmodified Node
and Java. test_containers.py covers a program in a container."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import peers
import pytest

from harness.fired import assert_all_fired, assert_exact, fire_and_stay, fires
from harness.gates import gated
from harness.machine import need_command, skip
from harness.paths import TOP
from harness.processes import wait_for
from harness.workloads import workload_path

__all__ = ["gated"]  # a fixture
HZ = 199
BUSY = TOP / "tests/workloads/node/busy.js"
JAVA = TOP / "tests/workloads/java"
FIRINGS = 100  # per thread of busy.js and Busy.java


@pytest.fixture
def jitted(workload):
    """jitted(arguments...) starts the workload; its map is removed with it. A killed process leaves its map behind, which a later process with the
    same pid would have refused."""
    programs = []

    def start(*arguments, **options):
        programs.append(workload("jitted", *arguments, **options))
        return programs[-1]
    yield start
    for program in programs:
        Path(f"/tmp/perf-{program.pid}.map").unlink(missing_ok=True)


@pytest.mark.sanitized
@pytest.mark.parametrize("how", ["map", "memfd", "dump"])
def test_every_frame_of_jit_code_is_named(jitted, recording, tmp_path, how):
    """JIT code among compiled code, named despite malformed lines, code from before the recording, and code that moves."""
    program = jitted(600, how, cwd=tmp_path, env=fires(stay=True))
    profile = fire_and_stay(recording, program)
    assert_exact(profile, program.stack)
    wrong = {name for sample in profile.samples for name in sample.frames if re.search("once|everything|nothing|moved_away|overlapped|half|before_", name)}
    assert not wrong
    sources = {source for sample in profile.samples for name, source in zip(sample.frames, sample.sources) if name == "jit_inner"}
    # V8's map has the first line of a function; a jitdump has that of each instruction, and the executed one is in the middle of the loop.
    assert sources == ({("loop.x", 22)} if how == "dump" else {("/srv/app.js", 12)}), sources


def test_agent_shows_kinds_and_names_of_jit_code(jitted, agent, tmp_path):
    """A map that is written later is used from then on."""
    library = tmp_path / "libcoreclr.so"  # this file name identifies .NET
    shutil.copy(workload_path("libplugin.so"), library)
    started = agent("--rate", HZ)
    program = jitted(600, "none")
    code = int(program.facts()["code"], 16)
    dotnet = jitted(600, "memfd", env=dict(os.environ, LD_PRELOAD=library))

    def frames(of=program):
        return {f["name"]: f for f in json.loads(started.text(f"/api/v1/profile?format=json&pid={of.pid}"))["shared"]["frames"]}
    wait_for(lambda: any(name.startswith("[anon]+") for name in frames()), 60, "frames without a name")
    written = Path(f"/tmp/perf-{program.pid}.map")
    written.write_text(f"{code:x} 40 jit_outer\n{code + 1024:x} 40 JS:^spin /srv/app.js:3:1\n")
    found = wait_for(lambda: {"spin", "jit_outer"} <= (shown := frames()).keys() and shown, 90, "the names")
    assert found["spin"]["kind"] == "v8js" and found["spin"]["file"] == "/srv/app.js" and found["spin"]["mapping"] == "", found["spin"]
    assert found["jit_outer"]["kind"] == "native", found["jit_outer"]
    wait_for(lambda: "jit_outer" in frames(dotnet), 60, "the other program's names")
    assert frames(dotnet)["jit_outer"]["kind"] == "dotnet", frames(dotnet)["jit_outer"]
    assert started.metric("sonde_self_jit_bytes") > 0
    assert started.metric("sonde_self_jit_refused_total") == 0


def test_node_frames_from_perf_map_and_jitdump(gated, tmp_path):  # noqa: F811
    running = gated.run(need_command("node", "nodejs"), "--perf-basic-prof", "--interpreted-frames-native-stack", "--no-turbo-inlining", BUSY, gated.path,
                        cwd=tmp_path)  # V8 writes a log there
    wait_for(lambda: "ready" in running.out or not running.alive, 60, "node")
    written = Path(f"/tmp/perf-{running.pid}.map")
    if not running.alive or not written.exists():
        skip("this node writes no perf map: " + running.error.strip()[-200:])
    try:
        profile = gated.record([running.pid], lambda: "fired" in running.out)
    finally:
        running.kill()
        written.unlink()
    assert_all_fired(profile, FIRINGS)
    for sample in profile.samples:
        javascript = [(frame, source) for frame, source in zip(sample.frames, sample.sources) if frame in ("busyLoop", "innermost")]
        assert javascript == [("busyLoop", (str(BUSY), 4)), ("innermost", (str(BUSY), 3))], sample.frames


@pytest.fixture
def java(gated, tmp_path):  # noqa: F811
    """java(class, functions, options, arguments) starts it and waits until the JVM's perf map has these functions."""
    programs = []

    def start(name, functions, options, *arguments):
        program, compiler, jcmd = need_command("java"), need_command("javac"), need_command("jcmd")
        subprocess.run([compiler, "-d", tmp_path, JAVA / f"{name}.java"], check=True, capture_output=True, timeout=120)
        running = gated.run(program, "-XX:+PreserveFramePointer", *options, "-cp", tmp_path, name, *arguments)
        programs.append(running)
        wait_for(lambda: "ready" in running.out or not running.alive, 60, "java")
        written = Path(f"/tmp/perf-{running.pid}.map")

        def is_written():
            done = subprocess.run([jcmd, str(running.pid), "Compiler.perfmap"], capture_output=True, text=True, timeout=120)
            if "Unknown diagnostic command" in done.stdout + done.stderr:
                skip("this JDK writes no perf map when it is asked to")
            return written.exists() and all(f"{name}.{function}(" in written.read_text() for function in functions)
        wait_for(is_written, 200, "HotSpot to compile it")
        return running
    yield start
    for running in programs:
        running.kill()
        Path(f"/tmp/perf-{running.pid}.map").unlink(missing_ok=True)


def test_java_frames_from_a_perf_map(java, gated):  # noqa: F811
    running = java("Busy", ["innermost"], ["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Busy.*"], gated.path)
    profile = gated.record([running.pid], lambda: "fired" in running.out, event="tracepoint:syscalls:sys_enter_sched_yield")
    of_java = profile.where(lambda s: "void java.lang.Thread.yield()" in s.frames)  # the JVM may yield in any of its threads
    assert of_java.count and of_java.count <= FIRINGS
    assert_all_fired(profile.where(lambda s: "double Busy.innermost(int)" in s.frames), FIRINGS)
    assert all("double Busy.innermost(int)" in s.frames for s in of_java.samples), of_java.top()


def java_frames(frames):
    """The Java frames of a stack up to its innermost method, as jstack names them: compiled ones by name, others as "Interpreter"."""
    methods = [re.match(r"\S+ ([\w.$<>/]+)\(", name) for name in frames]
    last = max(i for i, method in enumerate(methods) if method)
    return [method[1] if method else name for name, method in zip(frames[:last + 1], methods) if method or name == "Interpreter"]


@pytest.mark.statistical
def test_same_frames_as_jstack(java, record):
    """Method by method: methods that are not compiled appear as interpreter frames, and none is missing."""
    need_command("jstack")
    methods = ["innermost", "across", "down", "virtually"]
    running = java("Deep", methods, ["-XX:TieredStopAtLevel=1", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Deep.*",
                                     "-XX:CompileCommand=exclude,Deep$Hot::run", "-XX:CompileCommand=exclude,Deep::work"])  # code that is not recompiled
    theirs = peers.jstack(running.pid, {"hot"}, "Deep.innermost")["hot"]
    profile = record("-p", running.pid, "-F", HZ, "-d", 2)
    mine = profile.of(thread="hot").where(lambda s: "double Deep.innermost(int)" in s.frames)

    def is_same(sample):
        ours = java_frames(sample.frames)
        return len(ours) == len(theirs) and all(a in (b, "Interpreter") and (a == b or b.partition(".")[2] not in methods) for a, b in zip(ours, theirs))
    same = mine.where(is_same)
    # The first samples may precede the unwind tables.
    assert mine.count > 10 and same.count >= (0.97 - mine.early) * mine.count, f"jstack: {theirs}\n{mine.where(lambda s: not is_same(s)).top()}"
