"""The inference provider without a model server: only the chosen probes exist, an abandoned stream ends, wrappers are applied only to functions with
a matching signature, and the scripts of docs/mlserver.md work."""
import json
import os
import re
import signal
import subprocess

import pytest
from harness.machine import need_command
from harness.paths import TOP
from harness.processes import wait_for
from harness.workloads import Workload
from python_package import SYSTEM_PYTHON, env_of, package, python  # noqa: F401 (a fixture)

PROGRAMS = TOP / "tests/workloads/python"


def test_only_chosen_probes_exist(package, run, sonde, root):  # noqa: F811
    running = run(SYSTEM_PYTHON, PROGRAMS / "inference_chosen.py", env=env_of(package), name="some")
    wait_for(lambda: "ready" in running.out or not running.alive, 60, "the program")
    assert running.alive, running.error
    listed = json.loads(subprocess.run([sonde, "probes", "some", "--json", "-p", str(running.pid)], capture_output=True, text=True, timeout=60).stdout)
    assert sorted(p["probe"] for p in listed["probes"]) == ["batch_enter", "batch_formed", "batch_leave", "cache_hit", "request_end"]


def test_unknown_probe_patterns_are_refused(package):  # noqa: F811
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


def test_worker_numbers_are_unique(package):  # noqa: F811
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


def test_abandoned_stream_ends_its_inner_generator(package):  # noqa: F811
    """The inner generator ends together with the outer one, not when the garbage collector finds it."""
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


def test_wrappers_apply_only_to_matching_functions(package):  # noqa: F811
    """All wrappers of a family or none; parameters and kind must match."""
    out, error = python(package, PROGRAMS / "mlserver_wrappers.py")
    assert out.splitlines() == ["Owner.other has other parameters", "Owner.awaited is of another kind", "there is no Owner.missing",
                                "('wrapped', 'plain', 5)"]


def test_import_without_mlserver_is_an_error(package):  # noqa: F811
    out, error = python(package, "import sonde.mlserver")
    assert error.count("RuntimeWarning: sonde.mlserver: no probes: No module named 'mlserver'") == 1


def guide_scripts():
    """{question: (the script, the output that the guide shows)}"""
    text = (TOP / "docs/mlserver.md").read_text()
    asked = re.findall(r"^### (.*)\n(?:(?!###|```).*\n)*```\nbpftrace -e '([^']*)'\n```\n(?:(?!###|```).*\n)*```\n((?:(?!```).*\n)*)```", text, re.M)
    assert len(asked) == text.count("bpftrace -e 'usdt:/run/") == text.count("\n### ") > 0
    return {question: (script, printed) for question, script, printed in asked}


@pytest.mark.peer
def test_bpftrace_scripts_of_the_guide_work(package, run, tmp_path, tracefs):  # noqa: F811
    """Every script of the guide attaches to the provider unchanged and prints what the guide shows."""
    (tmp_path / "probes").mkdir()
    server = Workload(run(SYSTEM_PYTHON, PROGRAMS / "inference_serving.py", tmp_path / "probes", env=env_of(package),
                         name="serving"))
    asking = {}
    for number, (question, (script, printed)) in enumerate(guide_scripts().items()):
        script = script.replace("/run/mlserver/", f"{tmp_path}/probes/")
        # bpftrace attaches its probes one after another, in either order.
        asking[question] = run(need_command("bpftrace"), "-e", 'interval:ms:50 { printf("first\\n"); } ' + script + ' interval:ms:50 { printf("last\\n"); }',
                               name=f"bpftrace{number}")
    for question, running in asking.items():
        wait_for(lambda: {"first", "last"} <= set(running.out.split("\n")) or not running.alive, 120, "bpftrace to be attached")
        assert running.alive, (question, running.error)
    done = len(server.running.out.splitlines())
    wait_for(lambda: len(server.running.out.splitlines()) > done + 20, 60, "twenty requests")
    for question, running in asking.items():
        assert running.stop(signal.SIGINT, 60) == 0, (question, running.error)
        for wanted in re.findall(r"^@\w+", guide_scripts()[question][1], re.M):
            if wanted.startswith("@disk_") and os.major(tmp_path.stat().st_dev) == 0:
                continue  # a virtual file system
            assert f"\n{wanted}[" in running.out, (question, wanted, running.out[-2000:], running.error)
        if "@" not in guide_scripts()[question][1]:
            assert re.search(rf"^slow pid {server.pid}: \d+ ms, good$", running.out, re.M), (question, running.out[-2000:])
    out = "".join(running.out for running in asking.values())
    assert "@ms[slow, failed]:" in out and "@ms[slow, good]:" in out and "@run_queue_us[slow]:" in out
