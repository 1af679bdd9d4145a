"""The inference provider's own parts, without a model server: what is chosen exists, streams end when they are given up, wrappers only go onto
what they were written for, and what docs/mlserver.md says that one asks it is answered."""
import os
import re
import signal
import subprocess

import pytest
from harness.machine import need_command
from harness.paths import TOP
from harness.processes import wait_for
from harness.workloads import Subject
from test_python import env_of, package, python  # noqa: F401  (a fixture)


def test_chosen(package, run, tracefs):  # noqa: F811
    running = run("/usr/bin/python3", "-c", """
import sonde.inference, time
probes = sonde.inference.Inference("some", ["batch_*", "request_end", "cache_hit"])
assert probes.loaded and not probes.request.enabled
with probes.request("model", "1", False, None), probes.predict("model", "1", 0):
    probes.worker_start.fire(1)
print("ready", flush=True)
time.sleep(60)
""", env=env_of(package), name="some")
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


SERVING = """
import os, sys, time
import sonde.inference
from sonde.pair import next_id

probes = sonde.inference.Inference("mlserver", directory=sys.argv[1])
assert probes.loaded
file = open(sys.argv[1] + "/../data", "wb", buffering=0)
print(f"pid {os.getpid()}\\nready", flush=True)
for number in range(10**9):
    try:
        with probes.request("slow", "1", False, "some") as work:
            item, batch, dispatch = next_id(), next_id(), next_id()
            probes.cache_hit.fire(work.id, "slow")
            probes.cache_miss.fire(work.id, "slow")
            probes.batch_enter.fire(item, "slow", 0, work.id)
            probes.batch_formed.fire(batch, "slow", 1, 8)
            probes.batch_leave.fire(item, "slow", batch, 0)
            probes.worker_dispatch.fire(dispatch, "slow", os.getpid(), 0, batch, "predict")
            probes.worker_dequeue.fire(dispatch, "slow", "predict")
            with probes.predict("slow", "1", dispatch):
                time.sleep(0.003)
                file.seek(0)
                file.write(bytes(4096))
                os.fsync(file.fileno())
            probes.worker_reply.fire(dispatch, True)
            probes.worker_resolve.fire(dispatch, True)
            if number % 3 == 0:
                raise ValueError
    except ValueError:
        pass
    with probes.model_load("slow", "1"), probes.model_reload("slow", "2", "1"):
        pass
    print(number, flush=True)
"""


def questions():
    """{what operators ask: (the script, what it printed)} of the guide."""
    text = (TOP / "docs/mlserver.md").read_text()
    asked = re.findall(r"^### (.*)\n(?:(?!###|```).*\n)*```\nbpftrace -e '([^']*)'\n```\n(?:(?!###|```).*\n)*```\n((?:(?!```).*\n)*)```", text, re.M)
    assert len(asked) == text.count("bpftrace -e 'usdt:/run/") == text.count("\n### ") > 0
    return {question: (script, printed) for question, script, printed in asked}


def test_what_operators_ask(package, run, tmp_path, tracefs):  # noqa: F811
    """Every script of the guide attaches to the provider as it stands there, and prints what the guide shows."""
    (tmp_path / "serving.py").write_text(SERVING)
    (tmp_path / "probes").mkdir()
    server = Subject(run("/usr/bin/python3", tmp_path / "serving.py", tmp_path / "probes", env=env_of(package),
                         name="serving"))
    asking = {}
    for number, (question, (script, printed)) in enumerate(questions().items()):
        script = script.replace("/run/mlserver/", f"{tmp_path}/probes/")
        # They are attached one after another, in whichever direction.
        asking[question] = run(need_command("bpftrace"), "-e", 'interval:ms:50 { printf("first\\n"); } ' + script + ' interval:ms:50 { printf("last\\n"); }',
                               name=f"bpftrace{number}")
    for question, running in asking.items():
        wait_for(lambda: {"first", "last"} <= set(running.out.split("\n")) or not running.alive, 120, "bpftrace to be attached")
        assert running.alive, (question, running.error)
    done = len(server.running.out.splitlines())
    wait_for(lambda: len(server.running.out.splitlines()) > done + 20, 60, "twenty requests")
    for question, running in asking.items():
        assert running.stop(signal.SIGINT, 60) == 0, (question, running.error)
        for wanted in re.findall(r"^@\w+", questions()[question][1], re.M):
            if wanted.startswith("@disk_") and os.major(tmp_path.stat().st_dev) == 0:
                continue  # a file system without a device
            assert f"\n{wanted}[" in running.out, (question, wanted, running.out[-2000:], running.error)
        if "@" not in questions()[question][1]:
            assert re.search(rf"^slow pid {server.pid}: \d+ ms, good$", running.out, re.M), (question, running.out[-2000:])
    out = "".join(running.out for running in asking.values())
    assert "@ms[slow, failed]:" in out and "@ms[slow, good]:" in out and "@run_queue_us[slow]:" in out
