"""The Python package: its wheel in every installed CPython, its probes read by `sonde probes watch` and bpftrace, pairs around functions, tasks and
threads, and programs that run unchanged without the native extension."""
import json
import os
import re
import shutil
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest
import python_3_14
from harness.machine import need_command
from harness.paths import TOP
from harness.processes import descriptors, wait_for
from harness.workloads import Workload
from probing import lines, watch  # noqa: F401 (a fixture)
from python_package import EVERY_PYTHON, PYTHONS, SYSTEM_PYTHON, env_of, package, python  # noqa: F401 (a fixture)

PROGRAMS = TOP / "tests/workloads/python"


@pytest.mark.peer
def test_package_works_in_cpython_3_14(package, tracefs):
    """Uses PyPI's 3.14 when none is installed; it lacks modules that sonde.trace needs."""
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


def test_wheel_builds_without_a_compiler(tmp_path):
    """The build still makes a wheel, without the native extension."""
    done = subprocess.run([TOP / "tools/make-wheel", tmp_path], env={"PATH": "/usr/bin:/bin", "CC": "/nonexistent/cc"}, capture_output=True, text=True,
                          timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel, = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "sonde/trace.py" in names and not [name for name in names if ".so" in name]


@pytest.mark.sanitized
@pytest.mark.parametrize("interpreter", EVERY_PYTHON)
def test_package_works_in_every_cpython(package, interpreter):
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


@pytest.mark.parametrize("interpreter", EVERY_PYTHON)
def test_multiprocessing_workers_have_the_provider(package, sonde, run, watch, root, interpreter):  # noqa: F811
    """Forked, spawned and forkserver workers have the provider; `sonde probes` lists it and receives its firings."""
    facts = Workload(run(interpreter, "-W", "ignore", PROGRAMS / "probe_workers.py", env=env_of(package), name="workers")).facts()
    version = facts["version"]
    wanted = {int(facts[kind]): (version, kind) for kind in ("main", "fork", "spawn", "forkserver")}

    def listed():
        done = subprocess.run([sonde, "probes", "everywhere", "--json"], capture_output=True, text=True, timeout=60)
        return sorted((p["pid"], p["probe"]) for p in json.loads(done.stdout)["probes"] if p["pid"] in wanted)
    wait_for(lambda: listed() == sorted((pid, "fired") for pid in wanted), 60, "all workers to have their provider")
    watching = watch("everywhere:fired")

    def received():
        found = [re.fullmatch(r'version="(.*)" kind="(.*)" worker=(\d+)', arguments).groups() for _, _, arguments in lines(watching)]
        return {int(pid): (version, kind) for version, kind, pid in found if int(pid) in wanted}
    wait_for(lambda: received() == wanted or not watching.alive, 60, "every worker to be heard")
    assert watching.stop(signal.SIGINT) == 0, watching.error


class Program:
    """A running tests/workloads/python/probes.py."""

    def __init__(self, run, package, *arguments):  # noqa: F811
        self.running = run(SYSTEM_PYTHON, PROGRAMS / "probes.py", *arguments, env=env_of(package), name="program")
        self.pid = Workload(self.running).pid

    def workers(self):
        """The pid of each forked worker, once it has ended."""
        return [int(pid) for pid in re.findall(r"^fired (\d+)$", self.running.out, re.M)]

    def fire(self):
        """Fires every probe once in the program and once in a worker."""
        count = len(self.workers())
        os.kill(self.pid, signal.SIGUSR1)
        wait_for(lambda: len(self.workers()) > count or not self.running.alive, 60, "the program to fire")
        assert self.running.alive, self.running.error


@pytest.fixture
def program(package, run):  # noqa: F811
    return Program(run, package)


@pytest.fixture
def looping(package, run):  # noqa: F811
    """A program that fires continuously."""
    return Program(run, package, "loop")


def values_of(watching):
    """[(pid, [values])] of the firings that `sonde probes watch --json` prints."""
    return [(firing["pid"], [argument["value"] for argument in firing["arguments"]]) for firing in map(json.loads, watching.out.splitlines()) if "arguments" in firing]


@pytest.mark.sanitized
def test_argument_values(program, watch, root):  # noqa: F811
    """64-bit values keep all bits; callables are called; a callable that raises gives 0 and is reported."""
    kinds, lazy = (watch(f"py:{name}", "-p", program.pid, "--json") for name in ("kinds", "lazy"))
    program.fire()
    assert kinds.stop() == lazy.stop() == 0
    assert values_of(kinds) == [(program.pid, ["caf\u00e9", 2**64 - 1, -2**63, 1, -2.5, None])]
    assert [values[:3] for _, values in values_of(lazy)] == [[42, "bytes", 0], [0, None, 0]]
    assert "a lazy argument that fails" in program.running.error


def test_begin_and_end_pairs_share_an_id(program, watch, root):  # noqa: F811
    """Every begin has an end with the same id and the outcome, in whichever thread it ends. Concurrent tasks have ids of their own; a cancelled task
    was not successful."""
    watches = {name: watch(f"py:{name}", "-p", program.pid, "--json") for name in ("work_begin", "work_end", "task_begin", "task_end")}
    program.fire()
    assert [watching.stop() for watching in watches.values()] == [0] * 4
    began, ended, tasks_began, tasks_ended = ({values[0]: values[1] for _, values in values_of(watching)} for watching in watches.values())
    assert [(what or "", ended[number]) for number, what in began.items()] == [("block", 1), ("call", 0), ("call", 1), ("", 1), ("thread", 1)]
    assert all(number >> 32 == program.pid for number in [*began, *tasks_began]) and began.keys() == ended.keys()
    assert tasks_began.keys() == tasks_ended.keys() and len(tasks_began) == 6
    assert {(n, tasks_ended[number]) for number, n in tasks_began.items()} == {(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (99, 0)}


def test_forked_worker_fires_with_its_own_ids(program, watch, root):  # noqa: F811
    """A tracer of all processes receives the firings of a forked worker, whose ids are its own."""
    watching = watch("py:work_begin", "--json")
    program.fire()
    assert watching.stop() == 0
    worker, = program.workers()
    assert [(pid, values[0] >> 32) for pid, values in values_of(watching) if pid in (program.pid, worker)] == [(program.pid, program.pid)] * 5 + [(worker, worker)] * 5


def bpftrace(script, *arguments):
    done = subprocess.run([need_command("bpftrace"), *map(str, arguments), "-e", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line and not line.startswith("Attaching")]


@pytest.mark.peer
def test_bpftrace_reads_values(looping, tracefs):
    line = bpftrace('usdt:*:py:kinds { printf("%s|%lx|%lx|%d|%lx|%lx\\n", str(arg0), arg1, arg2, arg3, arg4, arg5); exit(); }', "-p", looping.pid)[0]
    assert line == "caf\u00e9|ffffffffffffffff|8000000000000000|1|c004000000000000|0"
    line = bpftrace('usdt:*:py:lazy /arg0/ { printf("%d|%s|%d|%s\\n", arg0, str(arg1), arg2, str(arg3)); exit(); }', "-p", looping.pid)[0]
    assert line == "42|bytes|0|7"


@pytest.mark.peer
def test_bpftrace_receives_firings_of_workers(looping, tracefs):
    """bpftrace is attached to the file of their parent."""
    file = next(path for path, kind in descriptors(looping.pid).items() if kind.startswith("/memfd:py "))
    found = bpftrace(f'usdt:{file}:py:work_begin {{ printf("of %d %d\\n", pid, arg0 >> 32); @n++; if (@n == 100) {{ exit(); }} }}')
    seen = {(int(a), int(b)) for a, b in re.findall(r"^of (\d+) (\d+)$", "\n".join(found), re.M)}
    assert len(seen) > 2 and all(process == upper for process, upper in seen)


@pytest.fixture
def enabled(package, run):  # noqa: F811
    """The running tests/workloads/python/enabled.py, and says(line, count): waits until it has printed a line that many times."""
    workload = Workload(run(SYSTEM_PYTHON, PROGRAMS / "enabled.py", env=env_of(package), name="enabled"))

    def says(line, count):
        wait_for(lambda: workload.running.out.split("\n").count(line) == count or not workload.running.alive, 60, f"{count} of {line}", workload.running)
        assert workload.running.alive, workload.running.error
    return workload, says


def test_enabled_follows_attached_tracers(enabled, watch, root):  # noqa: F811
    """A group of probes is enabled while a tracer is attached to one of them, also after its provider was reloaded; in a child process it is not."""
    workload, says = enabled
    says("0 0 0 0", 1)
    watching = watch("tested:other", "-p", workload.pid)
    says("1 1 0 0", 1)
    watching.kill()
    says("0 0 0 0", 2)
    os.kill(workload.pid, signal.SIGUSR1)
    says("anew", 1)
    watch("tested:other", "-p", workload.pid)
    says("1 1 0 0", 2)


@pytest.mark.peer
def test_enabled_is_false_after_reload_without_reattach(enabled, run, tracefs):
    """bpftrace, unlike `sonde probes watch`, does not attach to the new object."""
    workload, says = enabled
    says("0 0 0 0", 1)
    listener = run(need_command("bpftrace"), "-p", workload.pid, "-e", "usdt:*:tested:other { @ = count(); }", name="bpftrace")
    says("1 1 0 0", 1)
    os.kill(workload.pid, signal.SIGUSR1)
    says("anew", 1)
    says("0 0 0 0", 2)
    listener.kill()


def test_program_runs_without_the_native_extension(package, tmp_path):
    """The same program runs without probes, after one warning."""
    shutil.copytree(package / "sonde", tmp_path / "sonde", ignore=shutil.ignore_patterns("*.so"))
    program = (PROGRAMS / "probes.py").read_text().partition("if __name__")[0].replace("assert provider.load()", "assert not provider.load()") + """once()
once()
anybody = sonde.Enabled(kinds, sonde.Enabled(lazy), work.enabled)
assert not anybody and bool(work.enabled) is False
"""
    out, error = python(tmp_path, program, SYSTEM_PYTHON, "-X", "dev", "-W", "ignore::ResourceWarning")
    assert error.count("RuntimeWarning") == 1 and "probes are inactive" in error


def test_load_failure_is_reported(package):
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


def test_wheel_declares_its_optional_dependency(package):
    metadata = next(package.glob("sonde-*.dist-info/METADATA")).read_text()
    assert "Provides-Extra: mlserver" in metadata and re.search(r"^Requires-Dist: mlserver\b.*extra == .mlserver", metadata, re.M)
