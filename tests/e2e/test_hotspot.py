"""Java without a flag: frames that HotSpot compiled or interprets, by what it says of itself. Beside jstack, method by method; native code below and above."""
import os
import re
import signal
import subprocess
import textwrap
from pathlib import Path

import peers
import pytest

from harness.machine import need_command, skip
from harness.processes import cpu_seconds, wait_for
from harness.recording import is_recording

HZ = 997
PROGRAM = """\
    import java.util.zip.Deflater;
    public class Deep {
        static double innermost(int n) { double s = 0; for (int i = 0; i < n; i++) s += Math.sqrt(i) % 7; return s; }
        static double across(int depth, int n) { return depth == 0 ? innermost(n) : down(depth - 1, n) + 1; }
        static double down(int depth, int n) { return depth % 2 == 0 ? across(depth, n) + 1 : new Deep().virtually(depth, n) + 2; }
        double virtually(int depth, int n) { return down(depth - 1, n) + 3; }
        static class Hot implements Runnable {
            public void run() { double s = 0; while (s >= 0) s += down(9, 500); }
        }
        static class Native implements Runnable { // through JNI into a library of C
            public void run() { byte[] from = new byte[65536], to = new byte[65536]; while (deflate(from, to) >= 0) from[0]++; }
            static int deflate(byte[] from, byte[] to) { Deflater d = new Deflater(); d.setInput(from); d.finish(); int n = d.deflate(to); d.end(); return n; }
        }
        public static void main(String[] a) {
            new Thread(new Hot(), "hot").start();
            new Thread(new Native(), "native").start();
            System.out.println("ready");
            double s = 0;
            while (s >= 0) s += down(5, 500);
        }
    }
    """
ASIDE = {"Deep.<init>", "java.lang.Object.<init>", "java.lang.Math.sqrt"}  # what the methods call besides each other


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    need_command("java")
    folder = tmp_path_factory.mktemp("classes")
    (folder / "Deep.java").write_text(textwrap.dedent(PROGRAM))
    subprocess.run([need_command("javac"), "Deep.java"], cwd=folder, check=True, capture_output=True, timeout=120)
    return folder


def methods(frames):
    """Class and method of all that are of Java, the outermost first; parameters and what they return are left away, as jstack does."""
    found = (re.match(r"\S+ ([\w.$<>/]+)\(", name) for name in frames)
    return [match[1] for match in found if match]


def is_part(ours, theirs):
    """In their order; what was compiled into its caller is not told."""
    rest = iter(theirs)
    return all(name in rest for name in ours)


@pytest.mark.plain_build
@pytest.mark.parametrize("flags", [[], ["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Deep*.*", "-XX:CompileCommand=exclude,Deep.virtually"], ["-Xint"]],
                         ids=["no-flag", "mixed", "interpreted"])
def test_same_frames_as_jstack(run, record, classes, flags):
    """Compiled code, with some methods that stay interpreted, and interpreted alone: all of a stack is there, and nothing else. Without any flag too, but
    for what was compiled into its callers. A method may be about to call the next one: its stack is the beginning of theirs."""
    program = run(need_command("java"), *flags, "-cp", classes, "Deep")
    wait_for(lambda: "ready" in program.out or not program.alive, 60, "java")
    threads = peers.jstack(program.pid, {"hot", "main"}, "Deep.innermost")
    profile = record("-p", program.pid, "-F", HZ, "-d", 1.5)
    # Until the process's layout is known, at its first samples, code that was made is nobody's.
    known = profile.where(lambda s: not any(frame.startswith("[anon]") for frame in s.frames))
    for name, theirs in threads.items():
        def is_same(sample):
            ours = methods(sample.frames)
            while ours and ours[-1] in ASIDE:
                ours.pop()
            whole = bool(ours) and not any(frame.startswith("[truncated") for frame in sample.frames) and {"start_thread", "clone3"} & set(sample.frames)
            return whole and ours[0] == theirs[0] and (is_part(ours, theirs) if not flags else ours == theirs[:len(ours)])
        mine = known.of(thread="java" if name == "main" else name)
        other = mine.where(lambda s: not is_same(s))
        # One in a hundred, and four times what that may differ by chance.
        assert mine.count > 20 and other.count <= 0.01 * mine.count + 4 * (0.01 * mine.count) ** 0.5, f"{name}, {other.count} of {mine.count}; jstack: {theirs}\n{other.top()}"
    through = known.of(thread="native").where(lambda s: any("deflateBytesBytes" in frame and "(" not in frame for frame in s.frames))
    assert through.count > 5 and through.truncated <= 0.01, known.of(thread="native").top()
    uncut = through.where(lambda s: not any(frame.startswith("[truncated") for frame in s.frames))
    assert all("Deep$Native.deflate" in methods(s.frames) or not flags for s in uncut.samples), through.top()
    sources = {source for s in known.samples for frame, source in zip(s.frames, s.sources) if "Deep.down(" in frame}
    assert sources == {("Deep.java", 0)}, sources


@pytest.mark.plain_build
def test_one_that_begins_where_none_was(run, sonde, classes, tmp_path):
    """What walks it is not loaded for a process that has none; that it is missing is said."""
    gate, out = tmp_path / "gate", tmp_path / "late.folded"
    os.mkfifo(gate)
    program = run("/usr/bin/python3", "-c", f"import os; open({str(gate)!r}).read(); os.execv({need_command('java')!r}, ['java', '-cp', {str(classes)!r}, 'Deep'])")
    recording = run(sonde, "record", "-F", HZ, "-p", program.pid, "-o", out)
    wait_for(lambda: is_recording(recording.pid) or not recording.alive, 60, "the recording")
    gate.write_text("go on")
    wait_for(lambda: "ready" in program.out or not program.alive, 60, "java")
    cpu_before = cpu_seconds(program.pid)
    wait_for(lambda: cpu_seconds(program.pid) > cpu_before + 1 or not program.alive, 60, "java to work")
    recording.process.send_signal(signal.SIGINT)
    assert recording.wait(60) == 0 and "a Node or a Java began meanwhile" in recording.error, recording.error
    assert "Deep.down(" not in out.read_text()


LATE = """\
    #include <jni.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <time.h>
    static double work(double seconds) { /* the processor's, so that it is sampled */
        double s = 0;
        while ((double)clock() / CLOCKS_PER_SEC < seconds) s += 1;
        return s;
    }
    int main(int argc, char **argv) {
        JavaVMOption path = {.optionString = argv[1]};
        JavaVMInitArgs args = {.version = JNI_VERSION_1_8, .nOptions = 1, .options = &path};
        JavaVM *machine;
        JNIEnv *env;
        puts("alone"); fflush(stdout);
        if (work(atof(argv[2])) < 0 || JNI_CreateJavaVM(&machine, (void **)&env, &args)) return 1;
        jclass deep = (*env)->FindClass(env, "Deep");
        if (!deep) return 2;
        (*env)->CallStaticVoidMethod(env, deep, (*env)->GetStaticMethodID(env, deep, "main", "([Ljava/lang/String;)V"), NULL);
        return 3;
    }
    """


def java_home():
    home = Path(os.path.realpath(need_command("javac"))).parent.parent
    if not (home / "include/jni.h").exists() or not (home / "lib/server/libjvm.so").exists():
        skip(f"{home} has no jni.h or no server's libjvm.so")
    return home


def test_a_machine_that_begins_long_after_its_library_was_seen(run, sonde, classes, tmp_path):
    """As in programs that are linked to it and call Java when they need it."""
    home, program, out = java_home(), tmp_path / "late", tmp_path / "late.folded"
    (tmp_path / "late.c").write_text(textwrap.dedent(LATE))
    library = home / "lib/server"
    subprocess.run([need_command("cc"), "-o", program, tmp_path / "late.c", f"-I{home}/include", f"-I{home}/include/linux", f"-L{library}", "-ljvm", f"-Wl,-rpath,{library}"],
                   check=True, capture_output=True, timeout=120)
    program = run(program, f"-Djava.class.path={classes}", 3)  # seconds
    wait_for(lambda: "alone" in program.out or not program.alive, 60, "the program")
    recording = run(sonde, "record", "-F", 99, "-p", program.pid, "-o", out)
    wait_for(lambda: "ready" in program.out or not program.alive, 200, "java")
    assert program.alive, program.error
    before = cpu_seconds(program.pid)
    wait_for(lambda: cpu_seconds(program.pid) > before + 2 or not program.alive, 200, "java to work")
    recording.process.send_signal(signal.SIGINT)
    assert recording.wait(60) == 0, recording.error
    assert "Deep.down(" in out.read_text(), recording.error  # innermost may be compiled into it


def test_who_wakes_may_be_a_java(run, sonde, tmp_path):
    """What walks it is there though nobody who is recorded is one."""
    (tmp_path / "Talk.java").write_text("public class Talk { public static void main(String[] a) throws Exception {"
                                        " for (;;) { tell(); Thread.sleep(5); } } static void tell() { System.out.println(\"x\"); System.out.flush(); } }")
    subprocess.run([need_command("javac"), "Talk.java"], cwd=tmp_path, check=True, capture_output=True, timeout=120)
    pipe, out = tmp_path / "pipe", tmp_path / "woken.folded"
    os.mkfifo(pipe)
    reader = run("sh", "-c", f"exec cat {pipe} >/dev/null")
    with open(pipe, "wb") as to:
        talk = subprocess.Popen([need_command("java"), "-Xint", "-cp", tmp_path, "Talk"], stdout=to)
    try:
        for seconds in (2, 8, 30):
            done = subprocess.run([sonde, "record", "--off-cpu", "--wakers", "-p", str(reader.pid), "-d", str(seconds), "-o", out], capture_output=True, text=True, timeout=100)
            assert done.returncode == 0 and "began meanwhile" not in done.stderr, done.stderr
            if "Talk.tell(" in out.read_text():
                break
        assert "Talk.tell(" in out.read_text(), out.read_text()[-3000:] + done.stderr
    finally:
        talk.kill()
        talk.wait()
