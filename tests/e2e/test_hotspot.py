"""Java without any flag: compiled and interpreted frames, from HotSpot's own data structures. Compared method by method with the threads' own stack
traces and with jstack; native frames below and above."""
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

import peers
from harness.fired import assert_all_fired, missed
from harness.gates import gated
from harness.machine import need_command, skip
from harness.paths import TOP
from harness.processes import wait_for

__all__ = ["gated"]  # a fixture
HZ = 997
SOURCES = TOP / "tests/workloads/java"
YIELDED = "tracepoint:syscalls:sys_enter_sched_yield"
FIRINGS = 100  # per thread; Deep.java has two
OTHER_METHODS = {"Deep.<init>", "java.lang.Object.<init>", "java.lang.Math.sqrt"}  # methods called in addition
HIDDEN_METHODS = {"java.lang.Thread.runWith"}  # methods that Java leaves out of its stack traces, since 21
QUIET = ["-XX:CompileCommand=quiet"]
FLAGS = {"no-flag": [], "mixed": [*QUIET, "-XX:CompileCommand=dontinline,Deep*.*", "-XX:CompileCommand=exclude,Deep.virtually"], "interpreted": ["-Xint"]}


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    need_command("java")
    folder = tmp_path_factory.mktemp("classes")
    subprocess.run([need_command("javac"), "-d", folder, SOURCES / "Deep.java", SOURCES / "Talk.java"], check=True, capture_output=True, timeout=120)
    return folder


def methods(frames):
    """Class and method of all Java frames, outermost first, without parameters and return types, as jstack prints them."""
    found = (re.match(r"\S+ ([\w.$<>/]+)\(", name) for name in frames)
    return [match[1] for match in found if match]


def is_whole(sample):
    return not any(frame.startswith("[truncated") for frame in sample.frames) and bool({"start_thread", "clone3"} & set(sample.frames))


def sources_of(method, profile):
    return {source for s in profile.samples for frame, source in zip(s.frames, s.sources) if f"Deep.{method}(" in frame}


def line_of(text):
    """The line of Deep.java that begins like this."""
    return next(number for number, line in enumerate((SOURCES / "Deep.java").read_text().splitlines(), 1) if line.strip().startswith(text))


def both_fired(program):
    return lambda: program.out.count("fired\n") == 2


def wait_until_ready(program):
    wait_for(lambda: "ready" in program.out or not program.alive, 120, "java")
    assert "ready" in program.out, program.out + program.error


@pytest.mark.parametrize("flags", FLAGS)
def test_exact_stacks_match_the_threads_own(gated, classes, flags):  # noqa: F811
    """Without flags, with methods inlined into their callers; compiled code with some interpreted methods; and interpreted code only: the stack has all of
    its methods and no others, each with the line that it executes."""
    program = gated.run(need_command("java"), *FLAGS[flags], "-cp", classes, "Deep", gated.path)
    wait_until_ready(program)
    theirs = {name: stack.split(";") for name, stack in re.findall(r"^account (\w+) (.*)$", program.out, re.M)}
    profile = gated.record([program.pid], both_fired(program), event=YIELDED)
    # The JVM may yield in any of its threads: those stacks have no Thread.yield().
    of_java = profile.where(lambda s: any(name.startswith("java.lang.Thread.yield") for name in methods(s.frames)))
    assert_all_fired(of_java, 2 * FIRINGS)
    for name, stack in theirs.items():
        mine = of_java.of(thread="java" if name == "main" else name)
        assert mine.count, f"{name}: {of_java.top()}"
        for sample in mine.samples:
            ours = [method for method in methods(sample.frames) if not method.startswith("java.lang.Thread.yield") and method not in HIDDEN_METHODS]
            assert is_whole(sample) and ours[0] == stack[0] and ours == stack, f"{sample.frames}\n{stack}"
    for method, text in {"innermost": "if (gate != null)", "down": "static double down(", "virtually": "double virtually(", "work": "for (int i = 0; i < FIRINGS"}.items():
        assert sources_of(method, of_java) == {("Deep.java", line_of(text))}, f"{method}: {sources_of(method, of_java)}"


@pytest.mark.statistical
@pytest.mark.parametrize("flags", FLAGS)
def test_same_frames_as_jstack(run, record, classes, flags):
    """At any instruction. A method may be about to call the next one: then its stack is a prefix of jstack's."""
    program = run(need_command("java"), *FLAGS[flags], "-cp", classes, "Deep")
    wait_until_ready(program)
    threads = peers.jstack(program.pid, {"hot", "main"}, "Deep.innermost")
    profile = record("-p", program.pid, "-F", HZ, "-d", 1.5)
    # Until the process's layout is known, at its first samples, JIT code has no name.
    known = profile.where(lambda s: not any(frame.startswith("[anon]") for frame in s.frames))
    for name, theirs in threads.items():
        def is_same(sample):
            ours = methods(sample.frames)
            while ours and ours[-1] in OTHER_METHODS:
                ours.pop()
            return bool(ours) and is_whole(sample) and ours[0] == theirs[0] and ours == theirs[:len(ours)]
        mine = known.of(thread="java" if name == "main" else name)
        other = mine.where(lambda s: not is_same(s))
        # One percent, and four times the random deviation.
        assert mine.count > 20 and other.count <= 0.01 * mine.count + 4 * (0.01 * mine.count) ** 0.5, f"{name}, {other.count} of {mine.count}; jstack: {theirs}\n{other.top()}"
    through = known.of(thread="native").where(lambda s: any("deflateBytesBytes" in frame and "(" not in frame for frame in s.frames))
    assert through.count > 5 and through.truncated <= 0.01, known.of(thread="native").top()
    uncut = through.where(lambda s: not any(frame.startswith("[truncated") for frame in s.frames))
    assert all("Deep$Native.deflate" in methods(s.frames) or flags == "no-flag" for s in uncut.samples), through.top()
    assert sources_of("down", known) == {("Deep.java", line_of("static double down("))}, sources_of("down", known)


def test_java_started_during_a_recording_is_reported(recording, run, classes, tmp_path):
    """The HotSpot unwinder is loaded only when a process needs it; that it was not loaded is reported."""
    begin, gate = tmp_path / "begin", tmp_path / "gate"
    os.mkfifo(begin)
    java = [need_command("java"), "-cp", str(classes), "Deep", str(gate)]
    program = run("/usr/bin/python3", "-c", f"import os; open({str(begin)!r}).read(); os.execv({java[0]!r}, {java!r})")
    running = recording("--event", YIELDED, "-p", program.pid)
    begin.write_text("go on")
    wait_until_ready(program)
    gate.touch()
    wait_for(both_fired(program), 120, "both threads")
    profile = running.finish(signal.SIGINT)
    assert "a Node.js or Java process started during the recording" in profile.messages, profile.messages
    assert profile.of(thread="hot").count >= FIRINGS - missed(profile.messages), profile.messages
    assert not any("Deep.down(" in frame for sample in profile.samples for frame in sample.frames), profile.top()


def java_home():
    home = Path(os.path.realpath(need_command("javac"))).parent.parent
    if not (home / "include/jni.h").exists() or not (home / "lib/server/libjvm.so").exists():
        skip(f"{home} has no jni.h or no server's libjvm.so")
    return home


@pytest.mark.thorough
def test_jvm_started_long_after_its_library_was_mapped(run, agent, classes, tmp_path):
    """As in programs that are linked to libjvm and start Java only when needed."""
    home, program = java_home(), tmp_path / "late"
    library = home / "lib/server"
    subprocess.run([need_command("cc"), "-o", program, SOURCES / "late.c", f"-I{home}/include", f"-I{home}/include/linux", f"-L{library}", "-ljvm", f"-Wl,-rpath,{library}"],
                   check=True, capture_output=True, timeout=120)
    started = agent("--rate", 99, "--set", "budget.one_cpu=1000%")
    program = run(program, f"-Djava.class.path={classes}", 1)  # run time in seconds

    def is_shown(name):
        """innermost() may be inlined into down()."""
        assert program.alive, program.error
        frames = json.loads(started.text(f"/api/v1/profile?format=json&pid={program.pid}"))["shared"]["frames"]
        return any(name in frame["name"] for frame in frames)
    wait_for(lambda: is_shown("main"), 120, "the program before it is one of Java")
    assert "ready" not in program.out
    wait_for(lambda: is_shown("Deep.down("), 200, "Java's methods")


@pytest.mark.statistical
def test_waker_can_be_a_java_process(run, sonde, root, classes, tmp_path):
    """The HotSpot unwinder is loaded although no recorded process is a JVM. The waker becomes known some time after its first sample."""
    pipe, out = tmp_path / "pipe", tmp_path / "woken.folded"
    os.mkfifo(pipe)
    reader = run("sh", "-c", f"exec cat {pipe} >/dev/null")
    with open(pipe, "wb") as to:
        talk = subprocess.Popen([need_command("java"), "-Xint", "-cp", classes, "Talk"], stdout=to)
    try:
        for seconds in (2, 8, 30):
            done = subprocess.run([sonde, "record", "--off-cpu", "--wakers", "-p", str(reader.pid), "-d", str(seconds), "-o", out], capture_output=True, text=True, timeout=100)
            assert done.returncode == 0 and "started during the recording" not in done.stderr, done.stderr
            if "Talk.writeLine(" in out.read_text():
                break
        assert "Talk.writeLine(" in out.read_text(), out.read_text()[-3000:] + done.stderr
    finally:
        talk.kill()
        talk.wait()
