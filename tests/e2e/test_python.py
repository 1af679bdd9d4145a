"""The Python package: its wheel in every CPython that is here, its probes read by bpftrace, pairs around functions, tasks and threads, and a
program that notices nothing when the native part is missing."""
import functools
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from conftest import Subject, need_command

pytestmark = pytest.mark.plain_build  # the wheel is built without sanitizers

TOP = Path(__file__).resolve().parents[2]
PYTHONS = sorted({path for name in ("python3.9", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14")
                  for path in [shutil.which(name, path="/usr/bin:/usr/local/bin"), *map(str, Path.home().glob(f".pyenv/versions/{name[6:]}.*/bin/{name}"))]
                  if path})


@functools.lru_cache
def unpacked(place):
    done = subprocess.run([TOP / "tools/make-wheel", place / "wheel"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel, = (place / "wheel").glob("*.whl")
    assert re.fullmatch(r"sonde-[\d.]+-cp39-abi3-linux_\w+\.whl", wheel.name)
    shutil.unpack_archive(wheel, place / "package", "zip")
    return place / "package"


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """The folder that a wheel of `make python` is unpacked in; of all modules that import this one."""
    return unpacked(tmp_path_factory.getbasetemp() / "python")


def python(package, program, interpreter="/usr/bin/python3", *flags):
    done = subprocess.run([interpreter, *flags, "-c", program], env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin"}, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_without_a_compiler(tmp_path):
    """There is a wheel nevertheless, without the native part."""
    done = subprocess.run([TOP / "tools/make-wheel", tmp_path], env={"PATH": "/usr/bin:/bin", "CC": "/nonexistent/cc"}, capture_output=True, text=True,
                          timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel, = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "sonde/trace.py" in names and not [name for name in names if ".so" in name]


@pytest.mark.parametrize("interpreter", PYTHONS)
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
provider.unload()
provider.load()
del provider, probe
gc.collect()
assert "memfd:check" not in open("/proc/self/maps").read()
""", interpreter, "-W", "ignore")
    assert out == ""


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
    return Subject(run("/usr/bin/python3", path, env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin"}, name="program"))


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
    import os
    number = next(entry for entry in os.listdir(f"/proc/{program.pid}/fd") if os.readlink(f"/proc/{program.pid}/fd/{entry}").startswith("/memfd:py "))
    lines = bpftrace(f'usdt:/proc/{program.pid}/fd/{number}:py:work_begin {{ printf("of %d %d\\n", pid, arg0 >> 32); @n++; if (@n == 100) {{ exit(); }} }}')
    seen = {(int(a), int(b)) for a, b in re.findall(r"^of (\d+) (\d+)$", "\n".join(lines), re.M)}
    assert len(seen) > 2 and all(process == upper for process, upper in seen)


def test_without_the_native_part(package, tmp_path):
    """The same program, in silence, after one warning."""
    shutil.copytree(package / "sonde", tmp_path / "sonde", ignore=shutil.ignore_patterns("*.so"))
    program = PROGRAM.partition('if __name__')[0].replace("assert provider.load()", "assert not provider.load()") + "once()\nonce()\n"
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
