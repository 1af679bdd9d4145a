"""`sonde probes watch`: every kind of argument, counts that add up, in one process and in all; no tracer stays attached afterwards."""
import json
import re
import signal
import subprocess
import time

import pytest
from harness.machine import need_command, need_root
from harness.paths import TOP
from harness.processes import wait_for
from harness.workloads import Workload, workload_path
from probing import COUNT, attached, lines, new_prober, prober, watch  # noqa: F401 (fixtures)

EVERY = 'a=-8 b=8 c=-16 d=16 e=-32 f=32 g=-64 h=18446744073709551615 i=0x1234 j="text" k=2.5 l=-12'


def assert_detached(sonde, pid):
    """Waits, because another tracer on this machine may watch the probes of all processes for a while."""
    wait_for(lambda: attached(sonde, "-p", pid) == set(), 60, "no tracer to be attached")


def assert_only_reported_losses(watching, numbers):
    """The numbered firings that are missing are exactly those that the watch reports as lost."""
    lost = re.search(r"lost (\d+) firings", watching.error)
    missing = set(range(numbers[0], numbers[-1] + 1)) - set(numbers)
    assert numbers == sorted(set(numbers)) and len(missing) <= (int(lost[1]) if lost else 0), (sorted(missing)[:20], watching.error)


@pytest.mark.sanitized
def test_every_argument_is_printed_as_fired(watch, sonde, prober):  # noqa: F811
    watching = watch("workload:all", "-p", prober.pid)
    assert attached(sonde, "-p", prober.pid) == {"all"}
    prober.fire()
    assert watching.stop(signal.SIGINT) == 0
    assert lines(watching) == [(str(prober.pid), "prober-0", EVERY)] * COUNT
    assert "lost" not in watching.error, watching.error
    assert_detached(sonde, prober.pid)


def test_every_firing_in_order(watch, prober):  # noqa: F811
    watching = watch("workload:late", "-p", prober.pid)
    prober.fire()
    prober.fire()
    assert watching.stop() == 0
    found = [re.fullmatch(r'text="late text" x=-1234\.5678\d* n=(\d+)', arguments) for _, _, arguments in lines(watching)]
    assert [int(match[1]) for match in found] == list(range(2 * COUNT))


@pytest.mark.alone
def test_static_probe_is_watched_in_all_processes(watch, new_prober):  # noqa: F811
    """An undeclared argument is read as raw bits, as other tracers do; also in a process that starts later."""
    before = new_prober()
    watching = watch("workload:compiled")
    later = new_prober()
    wait_for(lambda: f"attached also in process {later.pid} " in watching.error, 60, "the later process to be watched")
    before.fire()
    later.fire()
    assert watching.stop() == 0
    found = [(int(pid), re.fullmatch(r"arg0=(\d+) arg1=\d+ arg2=200 arg3=-3", arguments)) for pid, _, arguments in lines(watching)]
    for one in (before, later):
        assert [int(match[1]) for pid, match in found if pid == one.pid] == list(range(COUNT))


@pytest.mark.sanitized
def test_counts_by_value_add_up(watch, prober):  # noqa: F811
    by_text = watch("workload:all", "-p", prober.pid, "--by", "j", "--hist", "e")
    by_number = watch("workload:late", "-p", prober.pid, "--hist", "arg2")
    prober.fire()
    assert by_text.stop() == by_number.stop() == 0
    head, by, histogram = by_text.out.splitlines()
    assert head.split() == ["COUNT", "j"] and by.split() == [str(COUNT), '"text"']
    assert re.fullmatch(rf" +-63 \.\. -32 +{COUNT} \|#{{40}}", histogram)
    rows = [re.fullmatch(r" +(\d+)(?: \.\. (\d+))? +(\d+) \|#*", line).groups() for line in by_number.out.splitlines()]
    assert [(int(low), int(high or low), int(count)) for low, high, count in rows] == [
        (0, 0, 1), (1, 1, 1), (2, 3, 2), (4, 7, 4), (8, 15, 8), (16, 31, 16), (32, 63, COUNT - 32)]


def test_ends_after_its_duration(watch, prober):  # noqa: F811
    assert watch("workload:all", "-p", prober.pid, "-d", "0.2").wait() == 0


@pytest.fixture
def program(run, tmp_path, root):
    """program(declaration, values) starts a program that fires own:some with `values` a hundred times per second. The ring buffer holds
    about ten seconds of them. Before it gets SIGUSR1, the program fires faster."""
    def start(declaration, values, pause_us=10000, provider="own"):
        subprocess.run([need_command("gcc"), "-D_GNU_SOURCE", f"-DPAUSE_US={pause_us}", f"-DPROVIDER={json.dumps(provider)}", f"-DDECLARATION={json.dumps(declaration)}",
                        f"-DVALUES={values}", "-o", tmp_path / "own", TOP / "tests/workloads/fired.c", f"-I{TOP}/include", *(TOP / "lib/probe").glob("*.c"), "-pthread"],
                       check=True)
        return Workload(run(tmp_path / "own"))
    return start


@pytest.mark.sanitized
def test_long_strings_are_cut_and_bad_pointers_marked(watch, program):  # noqa: F811
    """A string of 62 bytes is whole and one of 63 is cut; also a null pointer and an invalid address."""
    own = program("str a, str b, str c, str d, str e", 'whole, cut, (char *)NULL, (char *)16, "\\033[2J\\n"')
    watching = watch("own:some", "-p", own.pid)
    wait_for(lambda: lines(watching), 30, "a firing")
    watching.stop()
    assert {arguments for _, _, arguments in lines(watching)} == {f'a="{"w" * 62}" b="{"c" * 62}"... c=NULL d=?0x10 e="\\u001b[2J\\u000a"'}


@pytest.mark.thorough
def test_lost_firings_are_counted(watch, program):  # noqa: F811
    """While the watch is stopped, the ring buffer fills up; printed and lost firings together are all firings."""
    own = program("u64 n", "n", pause_us=200)
    watching, other = watch("own:some", "-p", own.pid), watch("own:some", "-p", own.pid)

    def last(running):
        return int(lines(running)[-1][2].partition("=")[2]) if lines(running) else 0
    wait_for(lambda: last(watching), 30, "a firing")
    watching.process.send_signal(signal.SIGSTOP)
    stopped = last(watching)
    wait_for(lambda: last(other) > stopped + 3000, 120, "more firings than the ring holds")
    own.running.process.send_signal(signal.SIGUSR1)  # slow down, so that nothing is lost after the last printed firing
    watching.process.send_signal(signal.SIGCONT)
    wait_for(lambda: last(watching) > stopped + 3000, 120, "the watcher to go on")
    assert watching.stop() == 0
    numbers = [int(arguments.partition("=")[2]) for _, _, arguments in lines(watching)]
    lost = int(re.search(r"lost (\d+) firings", watching.error)[1])
    assert len(numbers) + lost == numbers[-1] - numbers[0] + 1


def test_watch_ends_with_its_process(watch, prober):  # noqa: F811
    watching = watch("workload:all", "-p", prober.pid)
    prober.running.kill()
    assert watching.wait(30) == 0


def test_killed_watch_leaves_no_tracer_attached(watch, sonde, prober):  # noqa: F811
    watching = watch("workload:all", "-p", prober.pid)
    watching.kill()
    assert_detached(sonde, prober.pid)
    assert prober.running.alive


@pytest.fixture
def waiting(run, sonde):
    """waiting(arguments...) -> the running `sonde probes watch` of a probe that no process has yet."""
    def start(*arguments):
        running = run(sonde, "probes", "watch", *arguments)
        wait_for(lambda: "waiting for one" in running.error or not running.alive, 60, "the watch to wait")
        assert running.alive, running.error
        return running
    return start


def test_program_started_later_is_watched(waiting, sonde, program):
    """Its object in memory did not exist when the watch started; once the watch is attached, no firing is missing."""
    watching = waiting("later:some")
    own = program("u64 n", "n", provider="later")
    wait_for(lambda: len(lines(watching)) > 20, 60, "twenty firings")
    assert f"attached also in process {own.pid} (own)" in watching.error
    assert watching.stop() == 0
    assert_only_reported_losses(watching, [int(arguments.partition("=")[2]) for _, _, arguments in lines(watching)])
    assert_detached(sonde, own.pid)


@pytest.mark.alone
def test_equal_objects_of_two_processes_are_both_watched(watch, new_prober):  # noqa: F811
    """Each process has its own file in memory, with the same build id: each is watched, in either order."""
    probers = [new_prober(), new_prober()]
    watching = watch("workload:all")
    probers.append(new_prober())
    wait_for(lambda: f"attached also in process {probers[-1].pid} " in watching.error, 60, "the later process to be watched")
    for one in probers:
        one.fire()
    assert watching.stop() == 0
    found = [pid for pid, _, _ in lines(watching)]
    assert [found.count(str(one.pid)) for one in probers] == [COUNT] * 3


def test_provider_loaded_later_is_watched(waiting, run, root):
    """The watch attaches each time a running process loads a provider, and to no other process."""
    own = Workload(run(workload_path("reloaded")))
    watching = waiting("reloaded:some", "-p", own.pid)
    for load in (1, 2):
        own.running.process.send_signal(signal.SIGUSR1)
        wait_for(lambda load=load: any(arguments == f"load={load}" for _, _, arguments in lines(watching)), 60, f"load {load} to be heard")
    assert watching.stop() == 0
    assert {pid for pid, _, _ in lines(watching)} == {str(own.pid)}


@pytest.mark.statistical
def test_objects_of_ended_processes_make_room_for_new_ones(waiting, root):
    """Slots of ended processes are reused for new objects."""
    program, watching = workload_path("numbered"), waiting("numbered:some")
    for first in range(0, 272, 16):  # a watch has 256 slots
        numbers = range(first, first + 16)
        started = [subprocess.Popen([program, str(n)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for n in numbers]
        try:
            wait_for(lambda numbers=numbers: all(f" n={n}\n" in watching.out for n in numbers), 60, f"the numbers from {first} to be heard")
        finally:
            for own in started:
                own.kill()
                own.wait()
    assert watching.stop() == 0
    assert {arguments for _, _, arguments in lines(watching)} == {f"n={n}" for n in range(272)}
    assert "could not be attached" not in watching.error, watching.error


@pytest.mark.sanitized
def test_json_has_all_firings(watch, prober):  # noqa: F811
    watching = watch("workload:all", "-p", prober.pid, "--json")
    counting = watch("workload:all", "-p", prober.pid, "--json", "--by", "j", "--hist", "e")
    prober.fire()
    assert watching.stop() == counting.stop() == 0
    *firings, end = map(json.loads, watching.out.splitlines())
    assert end == {"fired": COUNT, "lost": 0} and len(firings) == COUNT
    for firing in firings:
        assert firing["pid"] == prober.pid and firing["tid"] == prober.pid and firing["process"] == "prober-0"
        assert abs(firing["time_unix_ns"] / 1e9 - time.time()) < 600
        assert {a["name"]: a["value"] for a in firing["arguments"]} == {
            "a": -8, "b": 8, "c": -16, "d": 16, "e": -32, "f": 32, "g": -64, "h": 2**64 - 1, "i": "0x1234", "j": "text", "k": 2.5, "l": -12}
    counts = json.loads(counting.out)
    assert (counts["fired"], counts["lost"], counts["not_counted"], counts["unread"]) == (COUNT, 0, 0, 0)
    assert counts["counts"] == [{"value": "text", "count": COUNT, "histogram": [{"low": -63, "high": -32, "count": COUNT}]}]


def test_json_is_valid_for_special_values(watch, program):  # noqa: F811
    own = program("str a, str b, str c, str d, f64 x, f64 y", "whole, cut, (char *)NULL, (char *)16, 1 / 0., 1e300")
    watching = watch("own:some", "-p", own.pid, "--json")
    wait_for(lambda: watching.out.count("\n") >= 1, 30, "a firing")
    watching.stop()
    values = [a["value"] for a in json.loads(watching.out.splitlines()[0])["arguments"]]
    assert values == ["w" * 62, {"cut": "c" * 62}, None, {"unread": True}, "inf", 1e300]


@pytest.mark.parametrize("arguments, status, expected", [
    (["watch"], 2, "watch needs a PROVIDER:PROBE"),
    (["watch", "workload"], 2, "watch needs a PROVIDER:PROBE"),
    (["watch", "workload:all", "--by", "zz"], 2, "workload:all has no argument 'zz'; it has: i8 a"),
    (["watch", "workload:all", "--hist", "j"], 2, "'j' is a text"),
    (["watch", "workload:all", "--hist", "k"], 2, "'k' is a double"),
    (["watch", "nobody:has", "-d", "0.2"], 1, "no process has a probe nobody:has"),
    (["watch", "workload:all", "-p", "4194304"], 1, "no process 4194304"),
    (["workload", "--by", "a"], 2, "apply to `sonde probes watch` only"),
])
def test_invalid_arguments_are_explained(sonde, prober, arguments, status, expected):  # noqa: F811
    need_root()
    done = subprocess.run([sonde, "probes", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == status and expected in done.stderr and done.stdout == "", done
