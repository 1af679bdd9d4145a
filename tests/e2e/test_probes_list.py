"""`sonde probes`: whose probes it lists, with which arguments, and what it says of who is attached, beside what bpftrace really attaches."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness.machine import need_command, need_root
from harness.processes import wait_for
from harness.workloads import Subject, subject_path
from test_python import env_of, package  # noqa: F401

ALL = "i8 a, u8 b, i16 c, u16 d, i32 e, u32 f, i64 g, u64 h, ptr i, str j, f64 k, i32 l"


@pytest.fixture
def probes(sonde):
    """probes(arguments...) -> the answer of `sonde probes --json`."""
    def ask(*arguments, status=0):
        done = subprocess.run([str(sonde), "probes", "--json", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == status, done
        return json.loads(done.stdout)
    return ask


@pytest.fixture
def prober(subject, root):
    return subject("prober")


def by_name(answer):
    return {f"{p['provider']}:{p['probe']}": p for p in answer["probes"]}


def test_every_probe_of_a_process(probes, prober):
    answer = probes("-p", prober.pid)
    assert not any(answer["not_seen"].values()), answer["not_seen"]
    found = by_name(answer)
    assert len(found) == len(answer["probes"])
    assert {"subject:all", "subject:late", "subject:compiled"} <= set(found)
    every = found["subject:all"]
    assert [(a["type"], a["name"]) for a in every["arguments"]] == [tuple(part.split()) for part in ALL.split(", ")]
    assert every["process"] == "prober" and every["file"] == "/memfd:subject" and every["pid"] == prober.pid
    assert len(every["operands"].split()) == 12 and every["semaphore"] and every["sites"] == 1
    compiled = found["subject:compiled"]
    assert compiled["arguments"] is None and compiled["file"] == str(subject_path("prober"))
    assert [operand.partition("@")[0] for operand in compiled["operands"].split()] == ["-8", "8", "1", "-4"]
    assert all(p["attached"] is False for p in found.values() if p["provider"] == "subject")


def test_text_says_the_same(sonde, probes, prober):
    lines = subprocess.run([sonde, "probes", "subject", "-p", str(prober.pid)], capture_output=True, text=True, timeout=60).stdout.splitlines()
    assert lines[0].split() == ["PID", "PROCESS", "PROVIDER:PROBE", "ATTACHED", "ARGUMENTS"]
    told = [(p["pid"], p["process"], f"{p['provider']}:{p['probe']}", "no") for p in probes("subject", "-p", prober.pid)["probes"]]
    assert [(int(pid), process, name, attached) for pid, process, name, attached in (line.split()[:4] for line in lines[1:])] == told
    assert any(line.endswith(f" no       {ALL}") for line in lines)


def test_filters(probes, prober, subject):
    other = subject("prober")
    assert {p["pid"] for p in probes("subject")["probes"]} >= {prober.pid, other.pid}
    assert {p["provider"] for p in probes("subject")["probes"]} == {"subject"}
    late = [p for p in probes("subject:late")["probes"] if p["pid"] in (prober.pid, other.pid)]
    assert {p["probe"] for p in late} == {"late"} and len(late) == 2
    assert probes("subject:lat", "-p", prober.pid, status=1)["probes"] == []


def test_who_is_attached(probes, prober, subject, run, tracefs):
    """By the semaphore of an object in memory, of a static probe; in the process that is traced and in no other; and no more afterwards."""
    other = subject("prober")
    names = ("subject:late", "subject:compiled")
    program = f"""usdt:*:{names[0]} {{ printf("hit\\n"); }} usdt:{subject_path("prober")}:{names[1]} {{ printf("hot\\n"); }}"""
    consumer = run(need_command("bpftrace"), "-B", "line", "-p", prober.pid, "-e", program)
    wait_for(lambda: "hit" in consumer.out and "hot" in consumer.out or not consumer.alive, 60, "bpftrace to be attached")
    assert consumer.alive, consumer.error
    found = by_name(probes("-p", prober.pid))
    assert {name: p["attached"] for name, p in found.items() if name.startswith("subject:")} == {"subject:all": False, **dict.fromkeys(names, True)}
    assert not any(p["attached"] for p in probes("-p", other.pid)["probes"])
    consumer.kill()
    wait_for(lambda: not any(p["attached"] for p in probes("subject", "-p", prober.pid)["probes"]), 30, "nobody to be attached")


def test_attached_without_a_semaphore(probes, run, tracefs, tmp_path):
    """A probe of sys/sdt.h's plain kind shows by its code alone that somebody is there."""
    source = tmp_path / "plain.c"
    source.write_text("""
#include <stdio.h>
#include <unistd.h>
int main(void)
{
    printf("pid %d\\nready\\n", getpid());
    fflush(stdout);
    for (;; usleep(10000))
        __asm__ volatile("990: nop\\n"
            ".pushsection .note.stapsdt, \\"\\", @note\\n.balign 4\\n.4byte 8, 992f - 991f, 3\\n.asciz \\"stapsdt\\"\\n"
            "991: .8byte 990b, _base, 0\\n.asciz \\"plain\\", \\"tick\\", \\"\\"\\n992: .balign 4\\n.popsection\\n"
            ".pushsection .stapsdt.base, \\"a\\"\\n_base: .space 1\\n.popsection\\n");
}
""")
    subprocess.run([need_command("gcc"), "-O1", "-o", tmp_path / "plain", source], check=True)
    plain = Subject(run(tmp_path / "plain"))

    def attached():
        probe, = probes("plain", "-p", plain.pid)["probes"]
        assert probe["probe"] == "tick" and not probe["semaphore"] and probe["operands"] == ""
        return probe["attached"]
    assert attached() is False
    consumer = run(need_command("bpftrace"), "-B", "line", "-p", plain.pid, "-e", f'usdt:{tmp_path}/plain:plain:tick {{ printf("hit\\n"); }}')
    wait_for(lambda: "hit" in consumer.out or not consumer.alive, 60, "bpftrace to be attached")
    assert attached() is True, consumer.error
    consumer.kill()
    wait_for(lambda: attached() is False, 30, "nobody to be attached")


def test_forked_child_of_python(probes, run, package):  # noqa: F811
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
    snake = Subject(run("/usr/bin/python3", "-c", program, env=env_of(package)))
    found = probes("snake")["probes"]
    assert sorted(p["pid"] for p in found) == sorted((snake.pid, int(snake.facts()["child"])))
    for p in found:
        assert p["arguments"] == [{"name": "model", "type": "str"}, {"name": "length", "type": "u32"}] and p["attached"] is False


def test_hostile_files(sonde, probes, run, tmp_path, root):
    """A program whose notes lie: what makes no sense is counted, control characters do not reach the terminal, and all others are still listed."""
    source = tmp_path / "liar.c"
    note = '".4byte 8, 992f - 991f, 3\\n.asciz \\"stapsdt\\"\\n" "991: .8byte %s, 0, %s\\n%s\\n992: .balign 4\\n"'
    notes = [note % ("990b", "0xffffffffffffff00", '.asciz \\"liar\\", \\"far\\", \\"\\"'),  # a semaphore that is nowhere
             note % ("0x7fffffffffffff00", "0", '.asciz \\"liar\\", \\"nowhere\\", \\"\\"'),
             note % ("990b", "0", '.asciz \\"liar\\", \\"\\\\033[2Jclear\\\\n\\\\377\\", \\"\\\\t\\"'),
             note % ("990b", "0", '.ascii \\"liar\\"')]
    source.write_text('#include <stdio.h>\n#include <unistd.h>\nint main(void)\n{\nprintf("pid %d\\nready\\n", getpid());\nfflush(stdout);\n'
                      '__asm__ volatile("990: nop\\n.pushsection .note.stapsdt, \\"\\", @note\\n"\n' + "\n".join(notes) +
                      '\n".4byte 8, 0x7fffffff, 3\\n.popsection\\n");\npause();\n}\n')
    subprocess.run([need_command("gcc"), "-no-pie", "-O1", "-o", tmp_path / "liar", source], check=True)
    liar = Subject(run(tmp_path / "liar"))
    answer = probes("-p", liar.pid)
    found = by_name(answer)
    assert set(found) == {"liar:far", "liar:\x1b[2Jclear\n\ufffd"}, found
    assert found["liar:far"]["attached"] is None
    assert answer["not_seen"]["damaged_notes"] == 3
    done = subprocess.run([sonde, "probes", "liar", "-p", str(liar.pid)], capture_output=True, timeout=60)
    assert done.returncode == 0 and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", done.stdout), done.stdout
    assert len(done.stdout.splitlines()) == 3 and b"3" in done.stderr


def test_processes_come_and_go(probes, prober, run):
    """While hundreds of processes die, the one that stays is listed each time, and dying is no loss."""
    storm = run("sh", "-c", "while :; do /bin/true; done")
    for _ in range(20):
        answer = probes()
        assert sum(p["pid"] == prober.pid and p["provider"] == "subject" for p in answer["probes"]) == 3
        assert answer["not_seen"]["damaged_notes"] == answer["not_seen"]["left_out"] == answer["not_seen"]["unreadable"] == 0
    assert storm.alive


def test_without_rights(sonde, prober):
    """What cannot be looked at is counted and named, and says how it could be."""
    setpriv = need_command("setpriv")
    place = Path(shutil.copy(sonde, "/var/tmp/sonde-probes-test"))
    nobody = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", place, "probes"]
    try:
        os.chmod(place, 0o755)
        done = subprocess.run([*nobody, "--json"], capture_output=True, text=True, cwd="/", timeout=60)
        assert done.returncode == 0 and json.loads(done.stdout)["not_seen"]["refused"] >= 1, done
        assert "CAP_SYS_PTRACE" in done.stderr
        done = subprocess.run([*nobody, "-p", str(prober.pid)], capture_output=True, text=True, cwd="/", timeout=60)
        assert done.returncode == 1 and "CAP_SYS_PTRACE" in done.stderr and str(prober.pid) in done.stderr
    finally:
        place.unlink()


@pytest.mark.parametrize("arguments, status, expected", [
    (["-p", "4194304"], 1, "there is no process 4194304"),
    (["-p", "0"], 2, "whole number from 1"),
    (["nobody-has-this"], 1, "nobody has a probe nobody-has-this"),
    ([":x"], 2, "is not PROVIDER or PROVIDER:PROBE"),
    (["x:"], 2, "'x:' is not PROVIDER or PROVIDER:PROBE"),
    (["a", "b"], 2, "what is 'b'?"),
])
def test_wrongly_asked(sonde, arguments, status, expected):
    done = subprocess.run([sonde, "probes", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == status and expected in done.stderr and done.stdout == "", done
