"""The Python package: its wheel in every CPython that is here, its probes read by bpftrace, pairs around functions, tasks and threads, and a
program that notices nothing when the native part is missing."""
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import zipfile
from pathlib import Path

import pytest
import python_3_14
from harness.machine import need_command, sanitizers
from harness.paths import BUILD
from harness.processes import descriptors, wait_for
from harness.workloads import Subject

TOP = Path(__file__).resolve().parents[2]
PYTHONS = sorted({path for name in ("python3.9", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14")
                  for path in [shutil.which(name, path="/usr/bin:/usr/local/bin"), *map(str, Path.home().glob(f".pyenv/versions/{name[6:]}.*/bin/{name}"))]
                  if path})
# With sanitizers, the system's alone.
EVERY_PYTHON = [pytest.param(path, marks=() if path.startswith("/usr/bin/") else pytest.mark.plain_build) for path in PYTHONS]


@functools.lru_cache
def unpacked(place):
    done = subprocess.run([TOP / "tools/make-wheel", place / "wheel"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel, = (place / "wheel").glob("*.whl")
    assert re.fullmatch(r"sonde-[\d.]+-cp39-abi3-linux_\w+\.whl", wheel.name)
    shutil.unpack_archive(wheel, place / "package", "zip")
    return place / "package"


@functools.lru_cache
def sanitized(place, kinds):
    """The package around the libsonde of this build, its extension compiled as that is."""
    shutil.copytree(TOP / "bindings/python/sonde", place / "package/sonde", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(BUILD / "lib/libsonde-otlp.so.1", place / "package/sonde")
    done = subprocess.run([need_command("gcc"), "-std=gnu17", "-O1", "-g", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-sanitize-recover=undefined",
                           *(f"-fsanitize={kind}" for kind in kinds), "-D_GNU_SOURCE", f"-I{TOP}/include", f"-I{sysconfig.get_path('include')}",
                           "-o", place / "package/sonde/_native.abi3.so", *(TOP / "bindings/python").glob("_*.c"), BUILD / "lib/libsonde.a", "-pthread"],
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return place / "package"


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """The folder that a wheel of `make python` is unpacked in; of all modules that import this one. With sanitizers, one that looks the same."""
    place, kinds = tmp_path_factory.getbasetemp() / "python", tuple(sanitizers())
    return sanitized(place, kinds) if kinds else unpacked(place)


@functools.lru_cache
def env_of(package):
    """What a program in Python is given. What the interpreter leaves behind at its end is its own affair."""
    place = {"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin"}
    libraries = [subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, timeout=60).stdout.strip()
                 for kind, name in (("address", "libasan.so"), ("undefined", "libubsan.so")) if kind in sanitizers()]
    return {**place, "LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1"} if libraries else place


def python(package, program, interpreter="/usr/bin/python3", *flags):
    done = subprocess.run([interpreter, *flags, "-c", program], env=env_of(package), capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


@pytest.mark.plain_build
def test_cpython_3_14(package, tracefs):
    """Where no 3.14 is installed, PyPI's, which lacks what sonde.trace needs."""
    installed = [path for path in PYTHONS if path.endswith("3.14")]
    interpreter = installed[0] if installed else python_3_14.get(next((Path(path) for path in PYTHONS if path.endswith("3.13")), None))
    out, error = python(package, f"import sys; sys.path.insert(0, {str(package)!r})" + """
import sonde
provider = sonde.Provider("of_3_14")
probe = provider.add("one", "u64 number, str text")
assert provider.load() and not probe.enabled
probe.fire(2**64 - 1, "x")
with open("/proc/self/maps") as maps:
    print(sys.version_info[:2], sonde.native, any("memfd:of_3_14" in line for line in maps))
""", str(interpreter))
    assert (out, error) == ("(3, 14) True True\n", "")


@pytest.mark.plain_build
def test_without_a_compiler(tmp_path):
    """There is a wheel nevertheless, without the native part."""
    done = subprocess.run([TOP / "tools/make-wheel", tmp_path], env={"PATH": "/usr/bin:/bin", "CC": "/nonexistent/cc"}, capture_output=True, text=True,
                          timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel, = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "sonde/trace.py" in names and not [name for name in names if ".so" in name]


@pytest.mark.parametrize("interpreter", EVERY_PYTHON)
def test_every_cpython(package, interpreter):
    out, error = python(package, """
import gc, sys, sonde
assert sonde.native
provider = sonde.Provider("check")
probe = provider.add("one", "str model, u64 n, f64 x")
assert provider.load() is True and not probe.enabled
called = []
before = sys.getrefcount(None)
for _ in range(1000):
    assert probe.fire("model", lambda: called.append(1), 1.5) is None
assert not called and abs(sys.getrefcount(None) - before) < 100 or sys.version_info >= (3, 12)
for name, arguments in [("a-b", ""), ("two", "str"), ("one", ""), ("two", "u8 " * 13)]:
    try:
        provider.add(name, arguments)
        print("taken:", name, arguments)
    except ValueError:
        pass
for make, error in [(lambda: sonde.Provider("a b"), ValueError), (sonde.Probe, TypeError)]:
    try:
        make()
        print("made")
    except error:
        pass
both = sonde.Enabled(probe, sonde.Enabled(), sonde.Pair(provider, "work").enabled)
assert not both and not sonde.Enabled() and bool(sonde.Enabled(both, probe)) is False
for arguments, keywords in [((probe, "one"), {}), ((None,), {}), ((provider,), {}), ((), {"probe": probe})]:
    try:
        sonde.Enabled(*arguments, **keywords)
        print("taken:", arguments)
    except TypeError:
        pass
before = sys.getrefcount(probe)
for _ in range(1000):
    sonde.Enabled(both, probe, both)
assert sys.getrefcount(probe) == before
provider.unload()
provider.load()
del provider, probe, arguments, keywords
gc.collect()
assert not both and "memfd:check" in open("/proc/self/maps").read()  # it holds its probes, and they their provider
del both
gc.collect()
assert "memfd:check" not in open("/proc/self/maps").read()
""", interpreter, "-W", "ignore")
    assert out == ""


WORKERS = """
import multiprocessing, os, sys, time
import sonde

provider = sonde.Provider("everywhere")
fired = provider.add("fired", "str version, str kind, i64 worker")
assert sonde.native and provider.load()

def work(kind):
    while True:
        fired.fire("%d.%d" % sys.version_info[:2], lambda: kind, os.getpid())
        time.sleep(0.02)

if __name__ == "__main__":
    for kind in ("fork", "spawn", "forkserver"):
        worker = multiprocessing.get_context(kind).Process(target=work, args=(kind,), daemon=True)
        worker.start()
        print(f"{kind} {worker.pid}")
    print(f"main {os.getpid()}\\npid {os.getpid()}\\nready", flush=True)
    work("main")
"""


@pytest.mark.plain_build  # the sanitized extension is for one interpreter
def test_workers_of_every_kind_in_every_cpython(package, sonde, run, root, tmp_path):
    """However a worker was made, it has the provider, which `sonde probes` lists and hears."""
    (tmp_path / "workers.py").write_text(WORKERS)
    programs = {interpreter: run(interpreter, "-W", "ignore", tmp_path / "workers.py", env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin"},
                                 name=f"workers{number}") for number, interpreter in enumerate(PYTHONS)}
    wanted = {}
    for interpreter, program in programs.items():
        facts = Subject(program).facts()
        version = ".".join(re.search(r"python(3)\.(\d+)$", interpreter).groups())
        wanted |= {int(facts[kind]): (version, kind) for kind in ("main", "fork", "spawn", "forkserver")}
    assert len(wanted) == 4 * len(PYTHONS) > 0

    def listed():
        done = subprocess.run([sonde, "probes", "everywhere", "--json"], capture_output=True, text=True, timeout=60)
        return [p for p in json.loads(done.stdout)["probes"] if p["pid"] in wanted]
    wait_for(lambda: len(listed()) >= len(wanted), 60, "all workers to have their provider")
    assert {p["pid"]: p["probe"] for p in listed()} == dict.fromkeys(wanted, "fired") and len(listed()) == len(wanted)
    watching = run(sonde, "probes", "watch", "everywhere:fired", name="watch")

    def heard():
        found = re.findall(r'^\S+ +(\d+) \S+ version="(.*)" kind="(.*)" worker=(\d+)$', watching.out, re.M)
        return {int(pid): (version, kind) for pid, version, kind, worker in found if pid == worker}
    wait_for(lambda: heard() == wanted or not watching.alive, 60, "every worker to be heard")
    assert watching.stop(signal.SIGINT) == 0, watching.error


PROGRAM = """
import asyncio, multiprocessing, os, sys, threading, time
import sonde

provider = sonde.Provider("py")
kinds = provider.add("kinds", "str text, u64 most, i64 least, i32 flag, f64 x, str nothing")
lazy = provider.add("lazy", "i64 a, str b, i64 failing, str number")
work = sonde.Pair(provider, "work", "str what")
tasks = sonde.Pair(provider, "task", "u64 n")
assert provider.load()
print(f"pid {os.getpid()}\\nready", flush=True)

def fail():
    raise ValueError("a lazy argument that fails")

@work.around(lambda good: "call")
def call(good):
    if not good:
        raise KeyError

@work.around()
def count(n):
    yield from range(n)

@tasks.around(lambda n, seconds: n)
async def task(n, seconds):
    await asyncio.sleep(seconds)
    return n

async def many():
    assert await asyncio.gather(*(task(n, 0.003 * (5 - n)) for n in range(5))) == list(range(5))
    cancelled = asyncio.ensure_future(task(99, 10))
    await asyncio.sleep(0.001)
    cancelled.cancel()
    try:
        await cancelled
    except asyncio.CancelledError:
        pass

def once():
    kinds.fire("caf\\u00e9", 2**64 - 1, -2**63, True, -2.5, None)
    lazy.fire(lambda: 41 + 1, lambda: b"bytes", fail, 7)
    lazy.fire()
    with work("block"):
        pass
    try:
        call(False)
    except KeyError:
        pass
    call(True)
    assert list(count(3)) == [0, 1, 2]
    run = work("thread")
    thread = threading.Thread(target=run.end)
    thread.start()
    thread.join()
    asyncio.run(many())

if __name__ == "__main__":
    while True:
        once()
        worker = multiprocessing.get_context("fork").Process(target=once)
        worker.start()
        worker.join()
        assert worker.exitcode == 0, worker.exitcode
        time.sleep(0.01)
"""


@pytest.fixture
def program(package, run, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return Subject(run("/usr/bin/python3", path, env=env_of(package), name="program"))


def bpftrace(script, *arguments):
    done = subprocess.run([need_command("bpftrace"), *map(str, arguments), "-e", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line and not line.startswith("Attaching")]


def test_values(program, tracefs):
    """64 bits stay 64 bits; callables are called; what fails is 0 and stops nobody."""
    line = bpftrace('usdt:*:py:kinds { printf("%s|%lx|%lx|%d|%lx|%lx\\n", str(arg0), arg1, arg2, arg3, arg4, arg5); exit(); }', "-p", program.pid)[0]
    assert line == "caf\u00e9|ffffffffffffffff|8000000000000000|1|c004000000000000|0"
    line = bpftrace('usdt:*:py:lazy /arg0/ { printf("%d|%s|%d|%s\\n", arg0, str(arg1), arg2, str(arg3)); exit(); }', "-p", program.pid)[0]
    assert line == "42|bytes|0|7"
    assert program.running.alive and "a lazy argument that fails" in program.running.error


def test_pairs(program, tracefs):
    """Every begin has its end with the same id, in whichever thread or task, and knows whether it went well."""
    lines = bpftrace("""
usdt:*:py:work_begin { printf("begin %lu %s\\n", arg0, str(arg1)); }
usdt:*:py:work_end { printf("end %lu %d\\n", arg0, arg1); @ends++; if (@ends == 60) { exit(); } }
""", "-p", program.pid)
    began, ended = {}, {}
    for line in lines:
        found = re.match(r"(begin|end) (\d+) ?(.*)", line)
        if found:
            (began if found[1] == "begin" else ended)[int(found[2])] = found[3]
    both = [(began[id], ended[id]) for id in began if id in ended]
    assert len(both) > 40
    assert set(both) == {("block", "1"), ("call", "0"), ("call", "1"), ("", "1"), ("thread", "1")}
    assert all(id >> 32 == program.pid for id in began)


def test_tasks(program, tracefs):
    """Tasks that run at once are told apart; a cancelled one has not succeeded."""
    lines = bpftrace("""
usdt:*:py:task_begin { @n[arg0] = arg1 + 1; }
usdt:*:py:task_end /@n[arg0]/ { printf("task %d %d\\n", @n[arg0] - 1, arg1); @ends++; if (@ends == 60) { exit(); } }
END { clear(@n); }
""", "-p", program.pid)
    seen = {tuple(map(int, found)) for found in re.findall(r"^task (\d+) (\d+)$", "\n".join(lines), re.M)}
    assert seen == {(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (99, 0)}


def test_workers(program, tracefs):
    """Forked workers are heard by who attaches to the file of their parent, with ids of their own."""
    file = next(path for path, kind in descriptors(program.pid).items() if kind.startswith("/memfd:py "))
    lines = bpftrace(f'usdt:{file}:py:work_begin {{ printf("of %d %d\\n", pid, arg0 >> 32); @n++; if (@n == 100) {{ exit(); }} }}')
    seen = {(int(a), int(b)) for a, b in re.findall(r"^of (\d+) (\d+)$", "\n".join(lines), re.M)}
    assert len(seen) > 2 and all(process == upper for process, upper in seen)


TESTED = """
import os, signal, sys, threading, time
import sonde

provider = sonde.Provider("tested")
asked, other, third = (provider.add(name) for name in ("asked", "other", "third"))
anybody, nobody = sonde.Enabled(asked, other), sonde.Enabled(third)
everybody = sonde.Enabled(nobody, anybody)
assert provider.load()

def anew(*_):
    provider.unload()
    assert not anybody and not everybody
    assert provider.load()
    print("anew", flush=True)

signal.signal(signal.SIGUSR1, anew)
print(f"pid {os.getpid()}\\nready", flush=True)
before = None
while True:
    said = bool(anybody), bool(everybody), bool(nobody)
    if said != before:
        child = os.fork()
        if child == 0:  # who attaches to a process does not hear its children, as they know when they would first fire
            other.fire()
            os._exit(bool(anybody))
        print(*map(int, said), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        before = said
    time.sleep(0.001)
"""


def test_enabled(package, run, tmp_path, tracefs):
    """Of a few probes, by a truth test: true while somebody is attached to one of them, whatever became of the provider in between."""
    (tmp_path / "tested.py").write_text(TESTED)
    subject = Subject(run("/usr/bin/python3", tmp_path / "tested.py", env=env_of(package), name="tested"))

    def says(line, count):
        wait_for(lambda: subject.running.out.split("\n").count(line) == count or not subject.running.alive, 60, f"{count} of {line}")
        assert subject.running.alive, subject.running.error

    def listen(name):
        return run(need_command("bpftrace"), "-p", subject.pid, "-e", "usdt:*:tested:other { @ = count(); }", name=name)

    says("0 0 0 0", 1)
    listener = listen("first")
    says("1 1 0 0", 1)
    listener.kill()
    says("0 0 0 0", 2)
    listener = listen("second")
    says("1 1 0 0", 2)
    os.kill(subject.pid, signal.SIGUSR1)
    says("anew", 1)
    says("0 0 0 0", 3)  # what was listened to is no more
    listener.kill()
    listen("third")
    says("1 1 0 0", 3)


def test_without_the_native_part(package, tmp_path):
    """The same program, in silence, after one warning."""
    shutil.copytree(package / "sonde", tmp_path / "sonde", ignore=shutil.ignore_patterns("*.so"))
    program = PROGRAM.partition('if __name__')[0].replace("assert provider.load()", "assert not provider.load()") + """once()
once()
anybody = sonde.Enabled(kinds, sonde.Enabled(lazy), work.enabled)
assert not anybody and bool(work.enabled) is False
"""
    out, error = python(tmp_path, program, "/usr/bin/python3", "-X", "dev", "-W", "ignore::ResourceWarning")
    assert error.count("RuntimeWarning") == 1 and "all probes stay silent" in error


def test_where_loading_is_refused(package):
    out, error = python(package, """
import resource, sonde
provider = sonde.Provider("refused")
probe = provider.add("probe", "i32 n")
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, limit[1]))
assert provider.load() is False and provider.load() is False
probe.fire(1)
assert not probe.enabled
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
""")
    assert error.count("RuntimeWarning: sonde: probes of refused: cannot be loaded") == 1
