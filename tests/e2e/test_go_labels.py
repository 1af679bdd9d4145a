"""Samples carry the profiler labels of the sampled goroutine, as Go's own profiler reports them: on CPU and in system calls, with
and without symbols, linked by Go and by the system linker, with either layout of labels; and of a program that imitates Go and has invalid data."""
import re
import signal
import subprocess
from collections import Counter

import pprof
import pytest
from go_programs import go_build, go_version, strip
from harness.fired import fire_all, fires, missed
from harness.machine import need_command, skip
from harness.paths import BUILD, TOP
from harness.processes import wait_for
from harness.workloads import Workload, workload_path
from otlp_profiles import profcheck  # noqa: F401
from profiles_receiver import ProfilesReceiver, write

pytestmark = pytest.mark.usefixtures("root")

WAIT = {"route": "/wait", "tenant": "three"}
A, B, INNER = {"route": "/a", "tenant": "one"}, {"route": "/b", "tenant": "two"}, {"route": "/inner", "tenant": "one"}
LONG = {"short": "y", "long": "ä" * 64 + "…", "k" * 56 + "…": "x"}
FIRST = {f"key{i:02}": str(i) for i in range(8)}
PLACES = {"main.tooLong": "long", "main.tooMany": "many", "main.bare": "bare", "main.turn": "turn"}


def many_of(program):
    """Up to Go 1.23 labels are in a map; maps larger than one bucket are not read."""
    return FIRST if go_version(program) >= (1, 24) else {}


def own_labels(labels):
    return {key: value for key, value in labels.items() if key in ("route", "tenant", "short", "long") or re.match("k(ey|k)", key)}


def by_place(samples):
    """{(place, labels as sorted pairs): samples} of samples whose stack shows the place."""
    seen = Counter()
    for sample in samples:
        place = next((PLACES[name] for name in PLACES if name in sample.frames), None)
        if any(name.startswith("main.nested.") for name in sample.frames):
            place = "nested"
        if place and "main.burn" in sample.frames:
            seen[place, tuple(sorted(own_labels(sample.labels).items()))] += sample.count
    return seen


def check_labels_by_place(seen, many):
    """Each place has exactly its own labels; samples without labels come only from before the process was known."""
    expected = {"nested": [INNER], "long": [LONG], "many": [many], "bare": [{}], "turn": [A, B, {}]}
    late = 0
    for (place, labels), count in seen.items():
        if dict(labels) not in expected[place]:
            assert not labels, (place, labels)
            late += count
    for place, sets in expected.items():
        for labels in sets:
            assert seen[place, tuple(sorted(labels.items()))] > 3, (place, labels, seen)
    assert late <= 0.3 * sum(seen.values()), seen


def waits_by_labels(samples):
    """{(whether the stack implies labels, labels as sorted pairs): waits}."""
    seen = Counter()
    for sample in samples:
        if re.match(r"\[sleep: ", sample.frames[-1]) and "main.wait" in sample.frames:
            seen["main.wait.func1" in sample.frames, tuple(sorted(own_labels(sample.labels).items()))] += sample.count
    return seen


def check_waits(samples):
    """In a system call a goroutine keeps its thread, and the wait has its labels."""
    seen = waits_by_labels(samples)
    labels = tuple(sorted(WAIT.items()))
    assert set(seen) <= {(True, labels), (True, ()), (False, ())}, seen
    assert seen[True, labels] > 3 and seen[False, ()] > 3 and seen[True, ()] <= 0.3 * seen[True, labels], seen


def share_of_a(seen):
    a, b, inner = (seen[place, tuple(sorted(labels.items()))] for place, labels in (("turn", A), ("turn", B), ("nested", INNER)))
    return a / (a + b + inner)


def check_offsets(program):
    """Sonde's offsets for that version of Go equal those in the runtime's debug information."""
    checker = BUILD / "tests/unit/resolve/test-resolve-go_labels"
    if not checker.exists():
        skip(f"{checker} has not been built")
    fields = {"runtime.g.m": "runtime.g", "runtime.g.labels": "runtime.g", "runtime.m.curg": "runtime.m", "runtime.g.sched": "runtime.g", "runtime.gobuf.bp": "runtime.gobuf"}
    asked = [text for name, of in fields.items() for text in ("-ex", f"print (long) &(('{of}' *) 0)->{name.rpartition('.')[2]}")]
    said = subprocess.run([need_command("gdb"), "-nx", "-batch", "-ex", "set language c", *asked, program], capture_output=True, text=True, timeout=120).stdout
    known_offsets = subprocess.run([checker, program], capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.findall(r"^\$\d+ = (\d+)$", said, re.M) == [re.search(rf"^{re.escape(name)} (\d+)$", known_offsets, re.M)[1] for name in fields], said + known_offsets


@pytest.mark.statistical
def test_labels_match_gos_own_profiler(record_busy, run, tmp_path):
    program = workload_path("labelled")
    workload = Workload(run(program, tmp_path / "own.pb.gz"))
    samples, said = record_busy(workload, 3)
    assert workload.running.stop(signal.SIGINT) == 0
    seen, own = by_place(samples), by_place(pprof.read(tmp_path / "own.pb.gz")[0])
    check_labels_by_place(seen, many_of(program))
    assert {dict(labels).get("route") for place, labels in own if place == "turn"} == {"/a", "/b", None}
    assert abs(share_of_a(seen) - share_of_a(own)) < 0.25, (seen, own)
    cut = sum(count for (place, labels), count in seen.items() if labels and place in ("long", "many"))
    assert cut <= int(re.search(r"(\d+) unlabelled", said)[1]) <= sum(s.count for s in samples), said


def assert_fired_labels(fire, workload, many, calls):
    """Each place in the program has exactly its own labels, in each of its `calls` events."""
    profile = fire(workload)
    expected = {(place, tuple(sorted(labels.items()))): calls for place, labels in (
        ("nested", INNER), ("long", LONG), ("many", many), ("bare", {}), ("turn", A), ("turn", B), ("turn", {}))}
    seen = by_place(profile.samples)
    assert set(seen) == set(expected), seen
    lost = sum(expected.values()) - sum(seen.values())
    assert 0 <= lost <= missed(profile.messages) and all(seen[place] <= expected[place] for place in expected), seen


def start_labelled(workload, program, calls=20):
    return workload("labelled", path=program, env=fires(calls))


@pytest.mark.sanitized
@pytest.mark.parametrize("stripped", [False, True], ids=["whole", "stripped"])
def test_samples_have_the_labels_of_their_goroutine(fire, workload, tmp_path, stripped):
    program = workload_path("labelled")
    program = strip(program, tmp_path / "labelled") if stripped else program
    assert_fired_labels(fire, start_labelled(workload, program), many_of(program), 20)


@pytest.mark.peer
def test_labels_in_a_pie_with_cgo(fire, workload, tmp_path):
    program = go_build(tmp_path, "local", "-buildmode=pie", "-ldflags=-linkmode=external", CGO_ENABLED="1")
    check_offsets(program)
    assert_fired_labels(fire, start_labelled(workload, program), many_of(program), 20)


def test_waits_in_system_calls_have_labels(recording, workload):
    """In a system call a goroutine keeps its thread, and the wait has its labels."""
    workload = start_labelled(workload, workload_path("labelled"), 50)
    running = recording("--off-cpu", "-p", workload.pid)
    fire_all(workload)
    seen = waits_by_labels(running.finish().samples)
    assert {key for key in seen} == {(True, tuple(sorted(WAIT.items()))), (False, ())}, seen


@pytest.mark.statistical
def test_labels_of_wall_clock_samples_of_a_stripped_program(record_busy, run, tmp_path):
    program = workload_path("labelled")
    samples, _ = record_busy(Workload(run(strip(program, tmp_path / "labelled"))), 1.5, "--wall")
    check_labels_by_place(by_place(samples), many_of(program))
    check_waits(samples)


@pytest.mark.statistical
@pytest.mark.peer
def test_labels_in_maps_up_to_one_bucket(record_busy, run, tmp_path):
    """Up to Go 1.23; a map larger than one bucket is not read, which is counted."""
    program = go_build(tmp_path, "go1.23.4", CGO_ENABLED="0")
    check_offsets(program)
    samples, said = record_busy(Workload(run(program)), 1.5, "--wall")
    seen = by_place(samples)
    check_labels_by_place(seen, {})
    check_waits(samples)
    assert int(re.search(r"(\d+) unlabelled", said)[1]) >= seen["many", ()] * 0.5, said


def build_fake_go_program(folder, version, is_list, labels, curg):
    defined = [f"-D{name}={value}" for name, value in (("LIST", is_list), ("LABELS", labels), ("CURG", curg))]
    subprocess.run([need_command("gcc"), "-O0", "-g", "-no-pie", "-D_GNU_SOURCE", *defined, f'-DVERSION="\\{len(version):o}" "{version}"', "-o", folder / "liar",
                    TOP / "tests/workloads/liar.c"], check=True)
    return folder / "liar"


@pytest.mark.sanitized
@pytest.mark.parametrize("version,layout", [("go1.26.1", (1, 0x160, 0xb8)), ("go1.20.14", (0, 0x168, 0xc0))], ids=["list", "map"])
def test_invalid_label_memory_is_counted_as_unlabelled(version, layout, fire, workload, tmp_path):
    """Inconsistent labels are not recorded and counted as unlabelled; consistent ones are recorded."""
    workload = workload("liar", path=build_fake_go_program(tmp_path, version, *layout), env=fires())
    profile = fire(workload)
    seen = Counter()
    for sample in profile.samples:
        for name in ("burn_true", "burn_lies"):
            if name in sample.frames:
                seen[name, sample.labels.get("key")] += sample.count
    facts = {name: int(workload.facts()[name]) for name in ("true", "lies")}
    assert set(seen) == {("burn_true", "value"), ("burn_lies", None)}, seen
    assert sum(facts.values()) - missed(profile.messages) <= sum(seen.values()) and seen["burn_true", "value"] <= facts["true"] and seen["burn_lies", None] <= facts["lies"], seen
    assert int(re.search(r"(\d+) unlabelled", profile.messages)[1]) > 0, profile.messages


def test_unknown_go_version_has_no_labels(fire, workload, tmp_path):
    workload = workload("liar", path=build_fake_go_program(tmp_path, "go1.99.1", 1, 0x160, 0xb8), env=fires())
    profile = fire(workload)
    assert profile.samples and {sample.labels.get("key") for sample in profile.samples} == {None}
    assert f"process {workload.pid} is a Go program (go1.99.1) with" in profile.messages, profile.messages


def wanted_labels():
    return {tuple(sorted(labels.items())) for labels in (A, B, INNER, LONG, many_of(workload_path("labelled")))}


def test_agent_shows_and_exports_labels(agent, run, profcheck, tmp_path):  # noqa: F811
    receiver = ProfilesReceiver()
    started = agent("--set", "profile.rate=199", "--set", "budget.one_cpu=1000%", "--set", f"otlp.profiles_endpoint={receiver.url}", "--set", "otlp.interval=1")
    workload = Workload(run(workload_path("labelled")))
    prefix, shown, sent, read = "process.context.label.", set(), set(), 0

    def all_are_shown():
        path = tmp_path / "profile.pb.gz"
        path.write_bytes(started.get("/api/v1/profile?seconds=120&format=pprof")[2])
        shown.update(tuple(sorted(own_labels(s.labels).items())) for s in pprof.read(path)[0] if "main.burn" in s.frames)
        return wanted_labels() <= shown

    def all_are_sent():
        nonlocal read
        bodies = receiver.bodies()
        profiles = [profile for packet in profcheck(*write(tmp_path, bodies[read:])) for profile in packet if profile["resource"]["process.pid"] == workload.pid]
        sent.update(tuple(sorted((key.removeprefix(prefix), value) for key, value in s["attributes"].items() if key.startswith(prefix)))
                    for profile in profiles for s in profile["samples"])
        read = len(bodies)
        return wanted_labels() <= sent
    wait_for(all_are_shown, 120, "all labels on the page", shown)
    wait_for(all_are_sent, 120, "all labels to be sent", sent)
    assert shown <= wanted_labels() | {()}
    wait_for(lambda: started.metric("sonde_go_labels_processes") > 0, 30, "the process to be counted")
    assert started.metric("sonde_go_labels_refused_total") == 0
    assert started.stop() == 0
    receiver.close()
