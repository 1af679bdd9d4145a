"""Code that is made at run time: named by the perf map or the jitdump that its runtime writes. Exact on a program that makes its own; and Node and
Java as they are."""
import json
import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import peers
import pytest

from harness.machine import need_command, skip
from harness.processes import wait_for
from harness.workloads import subject_path

HZ = 199


@pytest.fixture
def jitted(subject):
    """jitted(arguments...): the subject, whose map goes with it: that of a process which was killed stays, and one day is refused as another's of that number."""
    programs = []

    def start(*arguments, **options):
        programs.append(subject("jitted", *arguments, **options))
        return programs[-1]
    yield start
    for program in programs:
        Path(f"/tmp/perf-{program.pid}.map").unlink(missing_ok=True)


@pytest.mark.parametrize("how", ["map", "memfd", "dump"])
def test_every_frame(jitted, record, tmp_path, how):
    """Generated code among compiled code, told of among wrong lines, code that was there before, and code that moves."""
    program = jitted(60, how, cwd=tmp_path)
    profile = record("-p", program.pid, "-F", HZ, "-d", 2)
    assert profile.count >= 20
    assert profile.share(program.stack) >= 0.98 - profile.early, profile.top()
    wrong = {name for sample in profile.samples for name in sample.frames if re.search("once|everything|nothing|moved_away|overlapped|half|before_", name)}
    assert not wrong
    sources = {source for sample in profile.samples for name, source in zip(sample.frames, sample.sources) if name == "jit_inner"}
    # Of V8's functions the beginning is told; a jitdump tells of each instruction, and of that which is executed one is in the middle of the loop.
    assert sources and sources <= ({("loop.x", 22)} if how == "dump" else {("/srv/app.js", 12)}), sources


def test_in_a_container(record):
    """By the number that it has in its own PID namespace, in its own /tmp."""
    command = ["unshare", "--pid", "--fork", "--mount", "sh", "-c", f"mount -t tmpfs none /tmp && exec {subject_path('jitted')} 3 map"]
    if subprocess.run([*command[:4], "true"], capture_output=True).returncode != 0:
        skip("no namespaces can be made here")
    profile = record("-F", HZ, "--", *command)
    mine = profile.where(lambda s: s.labels.get("process") == "jitted")
    assert mine.count >= 20, profile.top()
    assert mine.share("main;jit_outer;native_middle;jit_inner") >= 0.9 - mine.early, mine.top()


def test_what_the_page_is_told(jitted, agent, tmp_path):
    """Kinds of frames; and a map that is written later counts from then on."""
    library = tmp_path / "libcoreclr.so"  # by which .NET is known
    shutil.copy(subject_path("libplugin.so"), library)
    started = agent("--rate", HZ)
    program = jitted(600, "none")
    code = int(program.facts()["code"], 16)
    dotnet = jitted(600, "memfd", env=dict(os.environ, LD_PRELOAD=library))

    def frames(of=program):
        return {f["name"]: f for f in json.loads(started.text(f"/api/v1/profile?format=json&pid={of.pid}"))["shared"]["frames"]}
    wait_for(lambda: any(name.startswith("[anon]+") for name in frames()), 60, "frames without a name")
    written = Path(f"/tmp/perf-{program.pid}.map")
    written.write_text(f"{code:x} 40 jit_outer\n{code + 1024:x} 40 JS:^spin /srv/app.js:3:1\n")
    found = wait_for(lambda: {"spin", "jit_outer"} <= (told := frames()).keys() and told, 90, "the names")
    assert found["spin"]["kind"] == "v8js" and found["spin"]["file"] == "/srv/app.js" and found["spin"]["mapping"] == "", found["spin"]
    assert found["jit_outer"]["kind"] == "native", found["jit_outer"]
    wait_for(lambda: "jit_outer" in frames(dotnet), 60, "the other program's names")
    assert frames(dotnet)["jit_outer"]["kind"] == "dotnet", frames(dotnet)["jit_outer"]
    assert started.metric("sonde_self_jit_bytes") > 0
    assert started.metric("sonde_self_jit_refused_total") == 0


def test_node(run, record, tmp_path):
    node = need_command("node", "nodejs")
    script = tmp_path / "busy.js"
    script.write_text(textwrap.dedent("""\
        function innermost(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i) % 7; return s; }
        function busyLoop(seconds) { const end = Date.now() + seconds * 1000; let s = 0; while (Date.now() < end) s += innermost(5000); return s; }
        console.log('ready');
        busyLoop(60);
        """))
    running = run(node, "--perf-basic-prof", "--interpreted-frames-native-stack", script, cwd=tmp_path)  # where V8 leaves a log
    wait_for(lambda: "ready" in running.out or not running.alive, 60, "node")
    written = Path(f"/tmp/perf-{running.pid}.map")
    if not running.alive or not written.exists():
        skip("this node writes no perf map: " + running.error.strip()[-200:])
    try:
        wait_for(lambda: re.search(r"(?:JS|LazyCompile):[*^+]'?busyLoop", written.read_text()), 60, "V8 to compile it")
        profile = record("-p", running.pid, "-F", HZ, "-d", 2)
        javascript = [(frame, source) for sample in profile.samples for frame, source in zip(sample.frames, sample.sources)]
        mine = profile.where(lambda s: {"busyLoop", "innermost"} & set(s.frames))
        assert mine.count >= 0.5 * profile.count > 0, profile.top()
        assert {source for frame, source in javascript if frame == "busyLoop"} <= {(str(script), 2)}, profile.top()
    finally:
        running.kill()
        written.unlink()


@pytest.fixture
def java(run, tmp_path):
    """java(class, text, functions, options...) runs it, until the map that it was asked for has these functions."""
    programs = []

    def start(name, text, functions, *options):
        program, compiler, jcmd = need_command("java"), need_command("javac"), need_command("jcmd")
        (tmp_path / f"{name}.java").write_text(textwrap.dedent(text))
        subprocess.run([compiler, f"{name}.java"], cwd=tmp_path, check=True, capture_output=True, timeout=120)
        running = run(program, "-XX:+PreserveFramePointer", *options, "-cp", tmp_path, name)
        programs.append(running)
        wait_for(lambda: "ready" in running.out or not running.alive, 60, "java")
        written = Path(f"/tmp/perf-{running.pid}.map")

        def told():
            done = subprocess.run([jcmd, str(running.pid), "Compiler.perfmap"], capture_output=True, text=True, timeout=120)
            if "Unknown diagnostic command" in done.stdout + done.stderr:
                skip("this JDK writes no perf map when it is asked to")
            return written.exists() and all(f"{name}.{function}(" in written.read_text() for function in functions)
        wait_for(told, 200, "HotSpot to compile it")
        return running
    yield start
    for running in programs:
        running.kill()
        Path(f"/tmp/perf-{running.pid}.map").unlink(missing_ok=True)


def test_java(java, record):
    running = java("Busy", """\
        public class Busy {
            static double innermost(int n) { double s = 0; for (int i = 0; i < n; i++) s += Math.sqrt(i) % 7; return s; }
            public static void main(String[] a) { System.out.println("ready"); double s = 0; while (s >= 0) s += innermost(5000); }
        }
        """, ["innermost"])
    profile = record("-p", running.pid, "-F", HZ, "-d", 2)
    mine = profile.where(lambda s: "double Busy.innermost(int)" in s.frames)
    assert mine.count >= 0.5 * profile.count > 0, profile.top()


def java_frames(frames):
    """Of a stack up to its innermost method, as jstack names them: what is compiled; "Interpreter" where it is not."""
    methods = [re.match(r"\S+ ([\w.$<>/]+)\(", name) for name in frames]
    last = max(i for i, method in enumerate(methods) if method)
    return [method[1] if method else name for name, method in zip(frames[:last + 1], methods) if method or name == "Interpreter"]


def test_same_frames_as_jstack(java, record):
    """Method by method: those that are not compiled are somewhere in the interpreter, but none is missing."""
    need_command("jstack")
    methods = ["innermost", "across", "down", "virtually"]
    running = java("Deep", """\
        public class Deep {
            static double innermost(int n) { double s = 0; for (int i = 0; i < n; i++) s += Math.sqrt(i) % 7; return s; }
            static double across(int depth, int n) { return depth == 0 ? innermost(n) : down(depth - 1, n) + 1; }
            static double down(int depth, int n) { return depth % 2 == 0 ? across(depth, n) + 1 : new Deep().virtually(depth, n) + 2; }
            double virtually(int depth, int n) { return down(depth - 1, n) + 3; }
            public static void main(String[] a) {
                new Thread(() -> { double s = 0; while (s >= 0) s += down(9, 5000); }, "hot").start();
                System.out.println("ready");
            }
        }
        """, methods, "-XX:TieredStopAtLevel=1", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Deep.*", "-XX:CompileCommand=exclude,Deep::lambda*")  # code that stays where it is

    theirs = peers.jstack(running.pid, {"hot"}, "Deep.innermost")["hot"]
    profile = record("-p", running.pid, "-F", HZ, "-d", 2)
    mine = profile.where(lambda s: "double Deep.innermost(int)" in s.frames)

    def is_same(sample):
        ours = java_frames(sample.frames)
        return len(ours) == len(theirs) and all(a in (b, "Interpreter") and (a == b or b.partition(".")[2] not in methods) for a, b in zip(ours, theirs))
    same = mine.where(is_same)
    # The first samples came before what the kernel half walks it by.
    assert mine.count > 10 and same.count >= (0.97 - mine.early) * mine.count, f"jstack: {theirs}\n{mine.where(lambda s: not is_same(s)).top()}"
