"""`sonde probes`: the listed probes, their arguments, and whether a tracer is attached."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness.machine import need_command, need_root
from harness.processes import wait_for
from harness.workloads import Workload, workload_path
from probing import new_prober, prober  # noqa: F401 (fixtures)
from python_package import SYSTEM_PYTHON, env_of, package  # noqa: F401 (a fixture)

ALL = "i8 a, u8 b, i16 c, u16 d, i32 e, u32 f, i64 g, u64 h, ptr i, str j, f64 k, i32 l"


@pytest.fixture
def probes(sonde):
    """probes(arguments...) -> the output of `sonde probes --json`."""
    def ask(*arguments, status=0):
        done = subprocess.run([str(sonde), "probes", "--json", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == status, done
        return json.loads(done.stdout)
    return ask


def by_name(answer):
    return {f"{p['provider']}:{p['probe']}": p for p in answer["probes"]}


def test_every_probe_of_a_process(probes, prober):  # noqa: F811
    answer = probes("-p", prober.pid)
    assert not any(answer["not_seen"].values()), answer["not_seen"]
    found = by_name(answer)
    assert len(found) == len(answer["probes"])
    assert {"workload:all", "workload:late", "workload:compiled"} <= set(found)
    every = found["workload:all"]
    assert [(a["type"], a["name"]) for a in every["arguments"]] == [tuple(part.split()) for part in ALL.split(", ")]
    assert every["process"] == "prober-0" and every["file"] == "/memfd:workload" and every["pid"] == prober.pid
    assert len(every["operands"].split()) == 12 and every["semaphore"] and every["sites"] == 1
    compiled = found["workload:compiled"]
    assert compiled["arguments"] is None and compiled["file"] == str(prober.path)
    assert [operand.partition("@")[0] for operand in compiled["operands"].split()] == ["-8", "8", "1", "-4"]
    assert all(p["attached"] is False for p in found.values() if p["provider"] == "workload")


def test_text_and_json_have_the_same_content(sonde, probes, prober):  # noqa: F811
    lines = subprocess.run([sonde, "probes", "workload", "-p", str(prober.pid)], capture_output=True, text=True, timeout=60).stdout.splitlines()
    assert lines[0].split() == ["PID", "PROCESS", "PROVIDER:PROBE", "ATTACHED", "ARGUMENTS"]
    listed = [(p["pid"], p["process"], f"{p['provider']}:{p['probe']}", "no") for p in probes("workload", "-p", prober.pid)["probes"]]
    assert [(int(pid), process, name, attached) for pid, process, name, attached in (line.split()[:4] for line in lines[1:])] == listed
    assert any(line.endswith(f" no       {ALL}") for line in lines)


def test_list_filters_by_process_and_name(probes, prober, new_prober):  # noqa: F811
    other = new_prober()
    assert {p["pid"] for p in probes("workload")["probes"]} >= {prober.pid, other.pid}
    assert {p["provider"] for p in probes("workload")["probes"]} == {"workload"}
    late = [p for p in probes("workload:late")["probes"] if p["pid"] in (prober.pid, other.pid)]
    assert {p["probe"] for p in late} == {"late"} and len(late) == 2
    assert probes("workload:lat", "-p", prober.pid, status=1)["probes"] == []


@pytest.fixture(params=["sonde", pytest.param("bpftrace", marks=pytest.mark.peer)])
def attach(request, run, sonde, tracefs):
    """attach(process, file, probe) -> a running tracer attached to a probe of a process. bpftrace reports it only when the probe fires."""
    def start(pid, file, probe):
        if request.param == "sonde":
            tracer = run(sonde, "probes", "watch", probe, "-p", pid)
            wait_for(lambda: "attached to" in tracer.error or not tracer.alive, 60, "the watch to be attached")
        else:
            program = f'interval:ms:50 {{ printf("first\\n"); }} usdt:{file}:{probe} {{ printf("hit\\n"); }} interval:ms:50 {{ printf("last\\n"); }}'
            tracer = run(need_command("bpftrace"), "-B", "line", "-p", pid, "-e", program)
            wait_for(lambda: {"first", "last"} <= set(tracer.out.split("\n")) or not tracer.alive, 60, "bpftrace to be attached")
        assert tracer.alive, tracer.error
        return tracer
    return start


def test_attached_tracers_are_shown(probes, new_prober, attach):  # noqa: F811
    """Detected by the semaphore, of an object in memory and of a static probe; in the traced process and in no other of the same program; and no
    longer after the tracer ends."""
    prober = new_prober()  # noqa: F811
    other = new_prober(prober.path)
    names = "workload:late", "workload:compiled"

    def attached(process):
        return {name for name, p in by_name(probes("workload", "-p", process.pid)).items() if p["attached"]}
    tracers = [attach(prober.pid, file, name) for file, name in zip(("*", prober.path), names)]
    assert attached(prober) == set(names) and attached(other) == set()
    for tracer in tracers:
        tracer.kill()
    wait_for(lambda: not attached(prober), 30, "no tracer to be attached")


def test_attached_tracer_is_shown_without_a_semaphore(probes, run, attach):
    """A probe of sys/sdt.h's plain kind, without a semaphore, shows an attached tracer only by its patched code."""
    plain = Workload(run(workload_path("plain")))

    def attached():
        probe, = probes("plain", "-p", plain.pid)["probes"]
        assert probe["probe"] == "tick" and not probe["semaphore"] and probe["operands"] == ""
        return probe["attached"]
    assert attached() is False
    tracer = attach(plain.pid, workload_path("plain"), "plain:tick")
    assert attached() is True, tracer.error
    tracer.kill()
    wait_for(lambda: attached() is False, 30, "no tracer to be attached")


def test_forked_python_child_has_the_probes(probes, run, package):  # noqa: F811
    """A provider of the Python package, in the process and in its forked child."""
    program = """
import os, time, sonde
provider = sonde.Provider("snake")
provider.add("enqueued", "str model, u32 length")
assert provider.load()
child = os.fork()
if child:
    print("pid", os.getpid(), flush=True)
    print("child", child, flush=True)
    print("ready", flush=True)
time.sleep(600)
"""
    need_root()
    snake = Workload(run(SYSTEM_PYTHON, "-c", program, env=env_of(package)))
    found = probes("snake")["probes"]
    assert sorted(p["pid"] for p in found) == sorted((snake.pid, int(snake.facts()["child"])))
    for p in found:
        assert p["arguments"] == [{"name": "model", "type": "str"}, {"name": "length", "type": "u32"}] and p["attached"] is False


@pytest.mark.sanitized
def test_invalid_notes_are_counted_and_valid_ones_listed(sonde, probes, run, tmp_path, root):
    """A program with invalid notes: they are counted, control characters do not reach the terminal, and the valid ones are still listed."""
    source = tmp_path / "liar.c"
    note = '".4byte 8, 992f - 991f, 3\\n.asciz \\"stapsdt\\"\\n" "991: .8byte %s, 0, %s\\n%s\\n992: .balign 4\\n"'
    notes = [note % ("990b", "0xffffffffffffff00", '.asciz \\"liar\\", \\"far\\", \\"\\"'),  # a semaphore outside of the file
             note % ("0x7fffffffffffff00", "0", '.asciz \\"liar\\", \\"nowhere\\", \\"\\"'),
             note % ("990b", "0", '.asciz \\"liar\\", \\"\\\\033[2Jclear\\\\n\\\\377\\", \\"\\\\t\\"'),
             note % ("990b", "0", '.ascii \\"liar\\"')]
    source.write_text('#include <stdio.h>\n#include <unistd.h>\nint main(void)\n{\nprintf("pid %d\\nready\\n", getpid());\nfflush(stdout);\n'
                      '__asm__ volatile("990: nop\\n.pushsection .note.stapsdt, \\"\\", @note\\n"\n' + "\n".join(notes) +
                      '\n".4byte 8, 0x7fffffff, 3\\n.popsection\\n");\npause();\n}\n')
    subprocess.run([need_command("gcc"), "-no-pie", "-O1", "-o", tmp_path / "liar", source], check=True)
    liar = Workload(run(tmp_path / "liar"))
    answer = probes("-p", liar.pid)
    found = by_name(answer)
    assert set(found) == {"liar:far", "liar:\x1b[2Jclear\n\ufffd"}, found
    assert found["liar:far"]["attached"] is None
    assert answer["not_seen"]["damaged_notes"] == 3
    done = subprocess.run([sonde, "probes", "liar", "-p", str(liar.pid)], capture_output=True, timeout=60)
    assert done.returncode == 0 and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", done.stdout), done.stdout
    assert len(done.stdout.splitlines()) == 3 and b"3" in done.stderr


@pytest.mark.statistical
def test_exiting_processes_do_not_disturb_the_list(probes, prober, run):  # noqa: F811
    """While hundreds of processes exit, a remaining one is listed every time, and an exit is not an error."""
    storm = run("sh", "-c", "while :; do /bin/true; done")
    for _ in range(20):
        answer = probes()
        assert sum(p["pid"] == prober.pid and p["provider"] == "workload" for p in answer["probes"]) == 3
        assert answer["not_seen"]["damaged_notes"] == answer["not_seen"]["left_out"] == answer["not_seen"]["unreadable"] == 0
    assert storm.alive


def test_unreadable_processes_are_counted(sonde, prober):  # noqa: F811
    """Processes that may not be read are counted, and the message names the missing capability."""
    setpriv = need_command("setpriv")
    place = Path(shutil.copy(sonde, "/var/tmp/sonde-probes-test"))
    unprivileged = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", place, "probes"]
    try:
        os.chmod(place, 0o755)
        done = subprocess.run([*unprivileged, "--json"], capture_output=True, text=True, cwd="/", timeout=60)
        assert done.returncode == 0 and json.loads(done.stdout)["not_seen"]["refused"] >= 1, done
        assert "CAP_SYS_PTRACE" in done.stderr
        done = subprocess.run([*unprivileged, "-p", str(prober.pid)], capture_output=True, text=True, cwd="/", timeout=60)
        assert done.returncode == 1 and "CAP_SYS_PTRACE" in done.stderr and str(prober.pid) in done.stderr
    finally:
        place.unlink()


@pytest.mark.parametrize("arguments, status, expected", [
    (["-p", "4194304"], 1, "no process 4194304"),
    (["-p", "0"], 2, "whole number from 1"),
    (["nobody-has-this"], 1, "no process has a probe nobody-has-this"),
    ([":x"], 2, "is not PROVIDER or PROVIDER:PROBE"),
    (["x:"], 2, "'x:' is not PROVIDER or PROVIDER:PROBE"),
    (["a", "b"], 2, "unexpected argument 'b'"),
])
def test_invalid_arguments_are_explained(sonde, arguments, status, expected):
    done = subprocess.run([sonde, "probes", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == status and expected in done.stderr and done.stdout == "", done
