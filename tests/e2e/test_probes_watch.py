"""`sonde probes watch`: every kind of argument as it was fired, counts that add up, in one process and in all, and nobody attached afterwards."""
import json
import re
import signal
import subprocess
import time

import pytest
from harness.machine import need_command, need_root
from harness.paths import TOP
from harness.processes import wait_for
from harness.workloads import Subject

EVERY = 'a=-8 b=8 c=-16 d=16 e=-32 f=32 g=-64 h=18446744073709551615 i=0x1234 j="text" k=2.5 l=-12'


@pytest.fixture
def prober(subject, root):
    return subject("prober")


@pytest.fixture
def watch(run, sonde):
    """watch(arguments...) -> the running `sonde probes watch`, once it is attached."""
    def start(*arguments):
        running = run(sonde, "probes", "watch", *arguments)
        wait_for(lambda: "attached to" in running.error or not running.alive, 60, "the watch to be attached")
        assert running.alive, running.error
        return running
    return start


def attached(sonde, *arguments):
    done = subprocess.run([sonde, "probes", "--json", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return {p["probe"] for p in json.loads(done.stdout)["probes"] if p["attached"]}


def nobody_listens(sonde, pid):
    """Any more; someone else on the node may watch the probes of all processes for a while."""
    wait_for(lambda: attached(sonde, "-p", pid) == set(), 60, "nobody to be attached")


def lines(running):
    """Whole lines: (pid, process, arguments)."""
    return [re.fullmatch(r"\d\d:\d\d:\d\d\.\d{6} +(\d+) (\S+) (.*)", line).groups() for line in running.out.split("\n")[:-1]]


def assert_whole(watching, numbers):
    """What is missing of numbered firings is what it says it lost, of a busy machine: nothing, as a rule, for these fire slowly."""
    lost = re.search(r"lost (\d+) firings", watching.error)
    missing = set(range(numbers[0], numbers[-1] + 1)) - set(numbers)
    assert numbers == sorted(set(numbers)) and len(missing) <= (int(lost[1]) if lost else 0), (sorted(missing)[:20], watching.error)


def test_every_argument(watch, sonde, prober):
    watching = watch("subject:all", "-p", prober.pid)
    wait_for(lambda: len(lines(watching)) >= 5, 30, "five firings")
    assert attached(sonde, "-p", prober.pid) == {"all"}
    assert watching.stop(signal.SIGINT) == 0
    assert set(lines(watching)) == {(str(prober.pid), "prober", EVERY)}
    assert "lost" not in watching.error, watching.error
    nobody_listens(sonde, prober.pid)


def test_none_is_missing_between(watch, prober):
    """The prober counts its firings: so do we."""
    watching = watch("subject:late", "-p", prober.pid)
    wait_for(lambda: len(lines(watching)) >= 50, 30, "fifty firings")
    assert watching.stop() == 0
    told = [re.fullmatch(r'text="late text" x=-1234\.5678\d* n=(\d+)', arguments) for _, _, arguments in lines(watching)]
    assert_whole(watching, [int(match[1]) for match in told])


def test_static_probe_in_all_processes(watch, subject, prober):
    """What was not declared is read as tracers do; also of a process that begins later."""
    watching = watch("subject:compiled")
    later = subject("prober")
    wait_for(lambda: {pid for pid, _, _ in lines(watching)} >= {str(prober.pid), str(later.pid)}, 30, "both processes")
    watching.stop()
    assert all(re.fullmatch(r"arg0=\d+ arg1=\d+ arg2=200 arg3=-3", arguments) for _, _, arguments in lines(watching))


def test_counts_by_value(watch, prober):
    watching = watch("subject:all", "-p", prober.pid, "--by", "j", "--hist", "e")
    watching2 = watch("subject:late", "-p", prober.pid, "--hist", "arg2", "-d", "1")
    assert watching2.wait() == 0
    assert watching.stop() == 0
    head, by, histogram = watching.out.splitlines()
    assert head.split() == ["COUNT", "j"]
    count, value = by.split()
    assert value == '"text"' and int(count) > 0
    assert re.fullmatch(rf" +-63 \.\. -32 +{count} \|#{{40}}", histogram)
    rows = [re.fullmatch(r" +(\d+)(?: \.\. (\d+))? +(\d+) \|#*", line) for line in watching2.out.splitlines()]
    assert rows and sum(int(row[3]) for row in rows) > 0
    for before, row in zip(rows, rows[1:]):
        assert int(row[1]) == int(before[2] or before[1]) + 1


PROGRAM = r"""
#include <sonde/probe.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static volatile sig_atomic_t pause_us = PAUSE_US;
static void slow_down(int number)
{
    pause_us = 10000 + 0 * number;
}
int main(void)
{
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    char whole[80] = "", cut[80] = "";
    memset(whole, 'w', 62);
    memset(cut, 'c', 63);
    if (sonde_provider_new("own", &provider) < 0 || sonde_probe_add(provider, "some", DECLARATION, &probe) < 0 ||
        sonde_provider_load(provider) < 0)
        return 1;
    signal(SIGUSR1, slow_down);
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
    for (long n = 0;; n++, usleep(pause_us))
        sonde_probe_fire(probe, VALUES);
}
"""


RELOADS = r"""
#include <sonde/probe.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile sig_atomic_t is_asked;
static void ask(int number)
{
    is_asked = number;
}
int main(void)
{
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    if (sonde_provider_new("own", &provider) < 0 || sonde_probe_add(provider, "some", "i32 load", &probe) < 0)
        return 1;
    signal(SIGUSR1, ask);
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
    for (int load = 0;; usleep(1000)) {
        if (is_asked) {
            is_asked = 0;
            sonde_provider_unload(provider);
            if (sonde_provider_load(provider) < 0)
                return 1;
            load++;
        }
        sonde_probe_fire(probe, load);
    }
}
"""

SHORT = r"""
#include <sonde/probe.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    if (argc < 2 || sonde_provider_new("own", &provider) < 0 || sonde_probe_add(provider, "some", "i32 n", &probe) < 0 ||
        sonde_provider_load(provider) < 0)
        return 1;
    for (;; usleep(1000))
        sonde_probe_fire(probe, atoi(argv[1]));
}
"""


@pytest.fixture
def program(run, tmp_path, root):
    """program(declaration, values) is a running program that fires own:some with them: a hundred times a second, of which the ring has room
    for some ten seconds; faster until it gets SIGUSR1."""
    def start(declaration, values, pause_us=10000):
        (tmp_path / "own.c").write_text(PROGRAM.replace("DECLARATION", json.dumps(declaration)).replace("VALUES", values))
        subprocess.run([need_command("gcc"), "-D_GNU_SOURCE", f"-DPAUSE_US={pause_us}", "-o", tmp_path / "own", tmp_path / "own.c", f"-I{TOP}/include",
                        *(TOP / "lib/probe").glob("*.c"), "-pthread"], check=True)
        return Subject(run(tmp_path / "own"))
    return start


def test_long_and_broken_texts(watch, program):
    """A text of 62 bytes is whole and one of 63 is cut; no text, and an address that is none."""
    own = program("str a, str b, str c, str d, str e", 'whole, cut, (char *)NULL, (char *)16, "\\033[2J\\n"')
    watching = watch("own:some", "-p", own.pid)
    wait_for(lambda: lines(watching), 30, "a firing")
    watching.stop()
    assert {arguments for _, _, arguments in lines(watching)} == {f'a="{"w" * 62}" b="{"c" * 62}"... c=NULL d=?0x10 e="\\u001b[2J\\u000a"'}


def test_losses_are_counted(watch, program):
    """While the watcher stands still the ring fills up; told and lost are all that fired."""
    own = program("u64 n", "n", pause_us=200)
    watching, other = watch("own:some", "-p", own.pid), watch("own:some", "-p", own.pid)

    def last(running):
        return int(lines(running)[-1][2].partition("=")[2]) if lines(running) else 0
    wait_for(lambda: last(watching), 30, "a firing")
    watching.process.send_signal(signal.SIGSTOP)
    stopped = last(watching)
    wait_for(lambda: last(other) > stopped + 3000, 120, "more firings than the ring holds")
    own.running.process.send_signal(signal.SIGUSR1)  # nothing is lost after the last that is told
    watching.process.send_signal(signal.SIGCONT)
    wait_for(lambda: last(watching) > stopped + 3000, 120, "the watcher to go on")
    assert watching.stop() == 0
    numbers = [int(arguments.partition("=")[2]) for _, _, arguments in lines(watching)]
    lost = int(re.search(r"lost (\d+) firings", watching.error)[1])
    assert len(numbers) + lost == numbers[-1] - numbers[0] + 1


def test_ends_with_its_process(watch, prober):
    watching = watch("subject:all", "-p", prober.pid)
    prober.running.kill()
    assert watching.wait(30) == 0


def test_killed_while_attached(watch, sonde, prober):
    watching = watch("subject:all", "-p", prober.pid)
    watching.kill()
    nobody_listens(sonde, prober.pid)
    assert prober.running.alive


@pytest.fixture
def waiting(run, sonde):
    """waiting(arguments...) -> the running `sonde probes watch` of what nobody has yet."""
    def start(*arguments):
        running = run(sonde, "probes", "watch", *arguments)
        wait_for(lambda: "waiting for one" in running.error or not running.alive, 60, "the watch to wait")
        assert running.alive, running.error
        return running
    return start


def test_program_that_begins_later(waiting, sonde, program):
    """Its object in memory did not exist when the watch began; once it is attached, no firing is missing."""
    watching = waiting("own:some")
    own = program("u64 n", "n")
    wait_for(lambda: len(lines(watching)) > 50, 30, "fifty firings")
    assert f"attached also in process {own.pid} (own)" in watching.error
    assert watching.stop() == 0
    assert_whole(watching, [int(arguments.partition("=")[2]) for _, _, arguments in lines(watching)])
    nobody_listens(sonde, own.pid)


def test_two_objects_of_the_same_content(watch, prober, subject):
    """Each process has its own file in memory, with the same build id: each is heard, whichever came first."""
    before = subject("prober")
    watching = watch("subject:all")
    later = subject("prober")
    wait_for(lambda: {pid for pid, _, _ in lines(watching)} >= {str(p.pid) for p in (prober, before, later)}, 30, "three processes")
    assert watching.stop() == 0


def test_object_loaded_later_in_the_same_process(waiting, run, tmp_path, root):
    """A provider that a running process loads, takes back and loads again is heard each time, and no other process is."""
    (tmp_path / "own.c").write_text(RELOADS)
    subprocess.run([need_command("gcc"), "-D_GNU_SOURCE", "-o", tmp_path / "own", tmp_path / "own.c", f"-I{TOP}/include", *(TOP / "lib/probe").glob("*.c"),
                    "-pthread"], check=True)
    own = Subject(run(tmp_path / "own"))
    watching = waiting("own:some", "-p", own.pid)
    for load in (1, 2):
        own.running.process.send_signal(signal.SIGUSR1)
        wait_for(lambda: any(arguments == f"load={load}" for _, _, arguments in lines(watching)), 30, f"load {load} to be heard")
    assert watching.stop() == 0
    assert {pid for pid, _, _ in lines(watching)} == {str(own.pid)}


def test_more_objects_than_find_room(waiting, sonde, run, tmp_path, root):
    """Those of processes that have ended make room for those that come."""
    (tmp_path / "own.c").write_text(SHORT)
    subprocess.run([need_command("gcc"), "-D_GNU_SOURCE", "-o", tmp_path / "own", tmp_path / "own.c", f"-I{TOP}/include", *(TOP / "lib/probe").glob("*.c"),
                    "-pthread"], check=True)
    watching = waiting("own:some")
    for first in range(0, 304, 16):  # there is room for 16 times 16
        numbers = range(first, first + 16)
        started = [subprocess.Popen([tmp_path / "own", str(n)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for n in numbers]
        try:
            wait_for(lambda numbers=numbers: all(f" n={n}\n" in watching.out for n in numbers), 60, f"the numbers from {first} to be heard")
        finally:
            for own in started:
                own.kill()
                own.wait()
    assert watching.stop() == 0
    assert {arguments for _, _, arguments in lines(watching)} == {f"n={n}" for n in range(304)}
    assert "could not be attached" not in watching.error, watching.error


def test_json(watch, prober):
    watching, counting = watch("subject:all", "-p", prober.pid, "--json"), watch("subject:all", "--json", "--by", "j", "--hist", "e", "-d", "1")
    wait_for(lambda: watching.out.count("\n") >= 3, 30, "three firings")
    assert counting.wait() == 0 and watching.stop() == 0
    *firings, end = map(json.loads, watching.out.splitlines())
    assert end == {"fired": len(firings), "lost": 0}
    for firing in firings:
        assert firing["pid"] == prober.pid and firing["tid"] == prober.pid and firing["process"] == "prober"
        assert abs(firing["time_unix_ns"] / 1e9 - time.time()) < 600
        assert {a["name"]: a["value"] for a in firing["arguments"]} == {
            "a": -8, "b": 8, "c": -16, "d": 16, "e": -32, "f": 32, "g": -64, "h": 2**64 - 1, "i": "0x1234", "j": "text", "k": 2.5, "l": -12}
    counts = json.loads(counting.out)
    assert counts["fired"] > 0 and counts["lost"] == counts["not_counted"] == counts["unread"] == 0
    assert counts["counts"] == [{"value": "text", "count": counts["fired"], "histogram": [{"low": -63, "high": -32, "count": counts["fired"]}]}]


def test_json_of_what_is_no_number_and_no_text(watch, program):
    own = program("str a, str b, str c, str d, f64 x, f64 y", "whole, cut, (char *)NULL, (char *)16, 1 / 0., 1e300")
    watching = watch("own:some", "-p", own.pid, "--json")
    wait_for(lambda: watching.out.count("\n") >= 1, 30, "a firing")
    watching.stop()
    values = [a["value"] for a in json.loads(watching.out.splitlines()[0])["arguments"]]
    assert values == ["w" * 62, {"cut": "c" * 62}, None, {"unread": True}, "inf", 1e300]


@pytest.mark.parametrize("arguments, status, expected", [
    (["watch"], 2, "watch what?"),
    (["watch", "subject"], 2, "watch what?"),
    (["watch", "subject:all", "--by", "zz"], 2, "subject:all has no argument 'zz'; it has: i8 a"),
    (["watch", "subject:all", "--hist", "j"], 2, "'j' is a text"),
    (["watch", "subject:all", "--hist", "k"], 2, "'k' is a double"),
    (["watch", "nobody:has", "-d", "0.2"], 1, "nobody has a probe nobody:has"),
    (["watch", "subject:all", "-p", "4194304"], 1, "there is no process 4194304"),
    (["subject", "--by", "a"], 2, "are of `sonde probes watch`"),
])
def test_wrongly_asked(sonde, prober, arguments, status, expected):
    need_root()
    done = subprocess.run([sonde, "probes", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == status and expected in done.stderr and done.stdout == "", done
