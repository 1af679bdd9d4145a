"""The inference provider's own parts, without a model server: what is chosen exists, streams end when they are given up, and wrappers only go onto
what they were written for."""
import re
import subprocess

import pytest
from conftest import need_command, wait_for
from test_python import package, python  # noqa: F401  (a fixture)

pytestmark = pytest.mark.plain_build  # the wheel is built without sanitizers


def test_chosen(package, run, tracefs):  # noqa: F811
    running = run("/usr/bin/python3", "-c", """
import sonde.inference, time
probes = sonde.inference.Inference("some", ["batch_*", "request_end", "cache_hit"])
assert probes.loaded and not probes.request.enabled
with probes.request("model", "1", False, None), probes.predict("model", "1", 0):
    probes.worker_start.fire(1)
print("ready", flush=True)
time.sleep(60)
""", env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin"}, name="some")
    wait_for(lambda: "ready" in running.out, 30, "the program")
    listed = subprocess.run([need_command("bpftrace"), "-p", str(running.pid), "-l", "usdt:*:some:*"], capture_output=True, text=True, timeout=60)
    assert sorted(set(re.findall(r":some:(\w+)", listed.stdout))) == ["batch_enter", "batch_formed", "batch_leave", "cache_hit", "request_end"]


def test_unknown_patterns(package):  # noqa: F811
    out, _ = python(package, """
import sonde.inference
for patterns in ["request_*", ["*"], [], ["batch_*", "nonsense", "more_*"]]:
    try:
        sonde.inference.Inference("some", patterns)
        print("taken")
    except ValueError as error:
        print(error)
""")
    assert out.splitlines() == ["taken"] * 3 + ["no such probes: more_*, nonsense"]


def test_numbers_of_processes(package):  # noqa: F811
    out, _ = python(package, """
import os
from sonde.pair import next_id
first = [next_id(), next_id()]
child = os.fork()
if not child:
    assert next_id() >> 32 == os.getpid()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert first[0] >> 32 == os.getpid() and len({*first, next_id()}) == 3
""")
    assert out == ""


def test_a_stream_that_is_given_up(package):  # noqa: F811
    """The generator inside ends with the one around it, not when the collector finds it."""
    out, _ = python(package, """
import asyncio, sonde
pair = sonde.Pair(sonde.Provider("streams"), "stream")
ended = []
@pair.around()
async def stream():
    try:
        for number in range(9):
            yield number
    finally:
        ended.append(number)
async def main():
    parts = stream()
    async for number in parts:
        if number == 2:
            break
    await parts.aclose()
    assert ended == [2], ended
asyncio.run(main())
""")
    assert out == ""


def test_what_fits(package):  # noqa: F811
    """All wrappers of a family or none; parameters and kind have to be the same."""
    out, error = python(package, """
import warnings
warnings.simplefilter("ignore")  # there is no MLServer
from sonde import mlserver

class Owner:
    def plain(self, a): return "plain", a
    async def awaited(self, a): pass
    def other(self, b): pass
kept = dict(vars(Owner))

def good(probes, put):
    def plain(self, a): return "wrapped", *original(self, a)
    original = put(Owner, plain)

def bad(name):
    def family(probes, put):
        def plain(self, a): pass
        def other(self, a): pass
        async def awaited(self, a): yield
        def missing(self): pass
        put(Owner, plain)
        put(Owner, locals()[name])
    return family

for name in ("other", "awaited", "missing"):
    try:
        mlserver._put_on(bad(name), None)
        print("put on")
    except mlserver._Different as error:
        print(error)
    assert dict(vars(Owner)) == kept
mlserver._put_on(good, None)
print(Owner().plain(5))
""")
    assert out.splitlines() == ["Owner.other has other parameters", "Owner.awaited is of another kind", "there is no Owner.missing",
                                "('wrapped', 'plain', 5)"]


def test_without_an_mlserver(package):  # noqa: F811
    out, error = python(package, "import sonde.mlserver")
    assert error.count("RuntimeWarning: sonde.mlserver: no probes: No module named 'mlserver'") == 1
