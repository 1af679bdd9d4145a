"""Samples and waits carry the ids that their thread publishes by OTEP 4947, without attaching to the program: with each TLS model of compilers and
loaders, in a program without libsonde; and with libsonde in C and in Python."""
import os
import re
import subprocess
from collections import Counter

import pytest
from exporting import receiver, sets  # noqa: F401 (a fixture)
from harness.fired import FIRINGS, fire_all, fires, missed
from harness.gates import gated  # noqa: F401 (a fixture)
from harness.machine import need_command, need_root
from harness.paths import TOP
from harness.processes import Running, cpu_seconds, wait_for
from harness.recording import FIRED, Recording
from harness.workloads import Workload
from otlp_profiles import profcheck  # noqa: F401 (a fixture)
from profiles_receiver import write
from python_package import env_of, package  # noqa: F401 (a fixture)

pytestmark = pytest.mark.usefixtures("root")
WORKLOADS = TOP / "tests/workloads"
# gcc options for the library, and how the program loads it.
WAYS = {
    "descriptor": (["-mtls-dialect=gnu2"], "linked"),
    "descriptor, loaded later": (["-mtls-dialect=gnu2"], "loaded"),
    "descriptor, in a block of its own": (["-mtls-dialect=gnu2", "-DBIG"], "loaded"),
    "pair": (["-mtls-dialect=gnu"], "linked"),
    "pair, in a block of its own": (["-mtls-dialect=gnu", "-DBIG"], "loaded"),
    "initial exec": (["-ftls-model=initial-exec"], "linked"),
    "bound at once": (["-mtls-dialect=gnu2", "-Wl,-Bsymbolic"], "linked"),
    "of the program": ([], "within"),
    "of a program at a fixed place": (["-no-pie"], "within"),
}


def build(way, folder):
    """The command that runs the program built this way."""
    flags, how = WAYS[way]
    library, program = folder / "libcontexts.so", folder / "contexts"
    sources = WORKLOADS / "contexts.c", WORKLOADS / "contexts_library.c"
    common = [need_command("gcc"), "-O2", "-g", "-D_GNU_SOURCE", "-pthread", "-fno-omit-frame-pointer"]
    if how == "within":
        subprocess.run([*common, "-rdynamic", *flags, "-o", program, *sources], check=True)
        return [program]
    subprocess.run([*common, "-fPIC", "-shared", *flags, "-o", library, sources[1]], check=True)
    if how == "loaded":
        subprocess.run([*common, "-DLOADED", "-o", program, sources[0], "-ldl"], check=True)
        return [program, library]
    subprocess.run([*common, "-o", program, sources[0], library, f"-Wl,-rpath,{folder}"], check=True)
    return [program]


def ids_of(workload):
    """{"burn_outer-TID": (trace id, span id)}, of both its threads."""
    def printed():
        ids = {name: (trace, span) for name, trace, span in re.findall(r"^ids (\S+) (\w+) (\w+)$", workload.running.out, re.M)}
        return ids if len(ids) == 2 else None
    return wait_for(printed, 60, "both threads' ids")


def place(sample):
    return next((name for name in sample.frames if name.startswith(("burn_", "nap_"))), None)


def said(sample):
    return sample.labels.get("trace_id"), sample.labels.get("span_id")


def is_enough(samples):
    """Whether both threads have samples at work and waiting, and few from before the process was known."""
    seen, late = Counter(), 0
    for sample in samples:
        if place(sample) not in ("burn_outer", "nap_outer"):
            continue
        if said(sample) == (None, None):
            late += sample.count
        else:
            kind = "sleep" if sample.frames[-1].startswith("[sleep: ") else "queue" if sample.frames[-1] == "[run queue]" else "cpu"
            seen[sample.labels["tid"], kind] += sample.count
    tids = {tid for tid, _ in seen}
    return len(tids) == 2 and min(seen[tid, kind] for tid in tids for kind in ("cpu", "sleep")) > 5 and late <= 0.2 * seen.total()


def record_ready(run, sonde, folder, name, *arguments):
    ready, write = os.pipe()
    try:
        running = run([sonde, "record", "--ready-fd", write, "-o", folder / f"{name}.pb.gz", *arguments], folder, name, pass_fds=[write])
        os.close(write)
        return Recording(running, ready, folder / f"{name}.pb.gz")
    finally:
        os.close(ready)


@pytest.fixture(scope="module")
def recorded(sonde, tmp_path_factory):
    """({way: its program, which has ended}, the profile of all their events, the profile of all their waits)."""
    need_root()
    folder, started = tmp_path_factory.mktemp("contexts"), []

    def run(*arguments, **options):
        started.append(Running(*arguments, **options))
        return started[-1]
    try:
        programs = {}
        for number, way in enumerate(WAYS):
            (folder / str(number)).mkdir()
            programs[way] = Workload(run(build(way, folder / str(number)), folder / str(number), "contexts", env=fires()))
            ids_of(programs[way])
        pids = [word for program in programs.values() for word in ("-p", program.pid)]
        events, waits = record_ready(run, sonde, folder, "events", "--event", FIRED, *pids), record_ready(run, sonde, folder, "waits", "--off-cpu", *pids)
        fire_all(*programs.values())
        yield programs, events.finish(), waits.finish()
    finally:
        for one in started:
            one.kill()


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS, ids=WAYS.keys())
def test_thread_variable_is_read_in_every_tls_model(recorded, way):
    """Every event and every wait of a request's function has the request's ids, and no other has any."""
    programs, events, waits = recorded
    pid, ids = programs[way].pid, ids_of(programs[way])
    expected, found, slept = Counter(), Counter(), set()
    for name, link in ids.items():
        tid = int(name.rpartition("-")[2])
        expected.update({(tid, "burn_outer", link): FIRINGS, (tid, "burn_torn", (None, None)): FIRINGS, (tid, "burn_unlinked", (None, None)): FIRINGS})
    for sample in events.of(pid=pid).samples:
        found[sample.labels["tid"], place(sample), said(sample)] += sample.count
    assert not found - expected and sum((expected - found).values()) <= missed(events.messages), (found, expected, events.messages)
    for sample in waits.of(pid=pid).samples:
        tid, where = sample.labels["tid"], place(sample)
        assert where is None or said(sample) == (ids[f"burn_outer-{tid}"] if where in ("burn_outer", "nap_outer") else (None, None)), sample
        slept |= {(tid, where)} if sample.frames[-1].startswith("[sleep: ") else set()
    assert slept >= {(tid, f"nap_{kind}") for tid, _, _ in expected for kind in ("outer", "torn", "unlinked")}, waits.of(pid=pid).top()


@pytest.fixture
def record(record_busy):
    """record(workload, is_enough) -> its samples and waits, without --links, for as long as needed: a busy machine takes longer to identify a process
    and schedules its threads unequally."""
    def start(workload, is_enough):
        for seconds in (0.8, 4, 20, 100):
            samples = record_busy(workload, seconds, "--wall")[0]
            if is_enough(samples):
                break
        return samples
    return start


@pytest.mark.statistical
def test_sampled_cpu_time_and_waits_have_their_ids(tmp_path, run, record):
    workload = Workload(run(*build("descriptor", tmp_path)))
    samples = record(workload, is_enough)
    ids = ids_of(workload)
    for sample in samples:
        if place(sample) not in ("burn_outer", "nap_outer"):
            assert place(sample) is None or said(sample) == (None, None), sample  # the variable is being set between two functions
        elif said(sample) != (None, None):
            assert said(sample) == ids[f"burn_outer-{sample.labels['tid']}"]
    assert is_enough(samples), Counter({(sample.labels["tid"], place(sample), said(sample)): sample.count for sample in samples})


def test_python_request_of_libsonde_has_its_ids(gated, tmp_path, package):  # noqa: F811
    """The extension, and its variable with it, is loaded late. Nothing is attached."""
    program = gated.run("/usr/bin/python3", WORKLOADS / "python/traced_works.py", gated.path, FIRINGS, tmp_path / "trace.json", env=env_of(package))
    wait_for(lambda: "ready" in program.out or not program.alive, 60, "the program")
    profile, found = gated.record([program.pid], lambda: "fired" in program.out), Counter()
    for sample in profile.samples:
        found[next((name for name in sample.frames if name in ("traced", "unlinked")), None), said(sample)[0], bool(said(sample)[1])] += sample.count
    expected = Counter({("traced", f"{1:032x}", True): FIRINGS // 2, ("traced", f"{2:032x}", True): FIRINGS // 2, ("unlinked", None, False): FIRINGS})
    assert not found - expected and sum((expected - found).values()) <= missed(profile.messages), (found, profile.messages)


@pytest.mark.thorough
@pytest.mark.alone
def test_agent_counts_processes_with_a_context(agent, run, tmp_path):
    started = agent("--set", "profile.rate=199", "--set", "budget.one_cpu=1000%")
    wait_for(lambda: started.metric("sonde_self_samples_total") > 0, 60, "the agent to sample")  # until then it does not know the process
    before = started.metric("sonde_thread_context_processes")
    workload = Workload(run(*build("descriptor", tmp_path)))
    wait_for(lambda: started.metric("sonde_thread_context_processes") > before, 60, "the process to be known")
    workload.running.kill()
    wait_for(lambda: started.metric("sonde_thread_context_processes") <= before, 60, "it to be forgotten")
    assert started.metric("sonde_thread_context_refused_total") == 0


@pytest.mark.statistical
def test_exported_packets_have_links(agent, run, receiver, profcheck, tmp_path):  # noqa: F811
    """The same in an agent's packets, decoded by OpenTelemetry's messages, for CPU time and waits: each thread has its own request's ids and no
    others, and none where it worked for no request."""
    to = receiver()
    started = agent("--rate", "199", "--off-cpu", "--set", "budget.one_cpu=1000%", "--set", "budget.memory=1GiB", *sets(profiles_endpoint=to.url, interval=1))
    wait_for(lambda: started.metric("sonde_self_samples_total") > 0, 60, "the agent to sample")  # until then it does not know the process
    before = started.metric("sonde_thread_context_processes")
    workload = Workload(run(*build("descriptor", tmp_path)))
    ids = ids_of(workload)
    wait_for(lambda: started.metric("sonde_thread_context_processes") > before, 60, "the process to be known")
    since = cpu_seconds(workload.pid)
    wait_for(lambda: cpu_seconds(workload.pid) > since + 2, 120, "some CPU time")
    assert started.stop() == 0
    path = str(tmp_path / "contexts").encode()
    packets = profcheck(*write(tmp_path, [body for body in to.bodies() if path in body]))
    samples = [(p["type"], s) for profiles in packets for p in profiles if p["resource"]["process.pid"] == workload.pid for s in p["samples"]]
    linked = {}
    for time, s in samples:
        names, link = {frame["name"] for frame in s["frames"]}, (s["trace_id"], s["span_id"])
        if not names & {"burn_outer", "nap_outer"}:
            assert not names & {"burn_torn", "burn_unlinked", "nap_torn", "nap_unlinked"} or link == ("", ""), (names, link)
        elif link != ("", ""):  # samples from before the process was known have no link
            assert link == ids[f"burn_outer-{s['attributes']['thread.id']}"], (ids, s)
            linked[time, link] = linked.get((time, link), 0) + len(s["times"])
    assert set(linked) == {(time, link) for time in ("cpu", "off_cpu") for link in ids.values()} and min(linked.values()) > 5, (linked, len(samples))
