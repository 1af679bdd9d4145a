"""Samples and requests carry the ids of the traced request that their thread worked for, and no other's: compared with the program's own output."""
import concurrent.futures
import http.client
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pprof
import pytest
from harness.fired import FIRINGS, fires, missed
from harness.processes import command_name, cpu_seconds, wait_for
from harness.recording import FIRED, Profile
from harness.workloads import Workload, workload_path

pytestmark = pytest.mark.usefixtures("root")


def links_of(pid):
    """The number of uprobes attached through BPF links held by a process and its children (a child attaches them), by the kernel's fdinfo."""
    found = 0
    for one in [pid, *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]:
        for info in Path(f"/proc/{one}/fdinfo").glob("*"):
            try:
                found += info.read_text().partition("link_type:\t")[2].startswith(("perf", "uprobe_multi"))
            except OSError:
                continue
    return found


def files_of_providers():
    """The USDT providers' objects in memory and the processes of the node that map them: {(device, inode): {pid}}"""
    found = {}
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if "/memfd:sonde_trace" in line:
                found.setdefault(tuple(line.split()[3:5]), set()).add(int(maps.parent.name))
    return found


def probes_of(recording):
    """The number of uprobes of a recording; without the link of the recorded event."""
    return links_of(recording.pid) - ("--event" in recording.running.process.args)


def wait_for_links(recording, pid, alone=False):
    """Waits until a recording is attached to both probes of a process, or of every process that has them: others may run on the node."""
    def is_attached():
        files = files_of_providers()
        wanted = 1 if alone else len(files)
        return not recording.running.alive or (pid in set().union(*files.values()) and probes_of(recording) >= 2 * wanted)
    wait_for(is_attached, 60, "the recording to be attached")
    assert recording.running.alive, recording.running.error


def printed(linked):
    """{"burn_outer-TID": (trace id, span id)}"""
    return {name: (trace, span) for name, trace, span in re.findall(r"^ids (\S+) (\w+) (\w+)$", linked.running.out, re.M)}


@pytest.fixture
def linked_to_fire(workload):
    """linked_to_fire() -> `linked`, whose two threads do one request each at SIGUSR1, with FIRINGS events in each function."""
    return lambda: workload("linked", env=fires())


def counts_by_function_and_ids(profile, pid):
    """{(function, tid, trace id or None, span id or None): samples} of a process."""
    found = Counter()
    for sample in profile.of(pid=pid).samples:
        function = next((name for name in sample.frames if name.startswith("burn_")), None)
        found[function, sample.labels["tid"], sample.labels.get("trace_id"), sample.labels.get("span_id")] += sample.count
    return found


def expected_of(linked):
    """Every sample of a request's function has the request's ids, and no other sample has any. The outer request continues after the inner one."""
    ids, expected = printed(linked), Counter()
    for name, (trace, span) in ids.items():
        function, _, tid = name.rpartition("-")
        expected[function, int(tid), trace, span] = FIRINGS * (2 if function == "burn_outer" else 1)
        expected["burn_unlinked", int(tid), None, None] = FIRINGS
    assert len(expected) == 6, ids
    return expected


def assert_exact(profile, linked, expected):
    """All samples match, except for events that the profile reports as missed."""
    found = counts_by_function_and_ids(profile, linked.pid)
    assert set(found) <= set(expected), found
    assert sum((expected - found).values()) <= missed(profile.messages) and not found - expected, (found, expected, profile.messages)


def fire(linked):
    os.kill(linked.pid, signal.SIGUSR1)
    linked.end()


@pytest.mark.parametrize("whole_node", [False, True])
def test_samples_of_interleaved_threads_have_their_own_ids(linked_to_fire, recording, whole_node):
    linked = linked_to_fire()
    running = recording("--links", "--event", FIRED, *([] if whole_node else ["-p", linked.pid]))
    wait_for_links(running, linked.pid, alone=not whole_node)
    fire(linked)
    assert_exact(running.finish(), linked, expected_of(linked))


def test_program_started_later_is_linked(linked_to_fire, recording):
    """The process is found when it maps its provider's object."""
    running = recording("--links", "--event", FIRED)
    linked = linked_to_fire()
    wait_for_links(running, linked.pid)
    fire(linked)
    assert_exact(running.finish(), linked, expected_of(linked))


def test_no_links_without_the_option_or_in_other_processes(linked_to_fire, recording, run):
    linked, other = linked_to_fire(), Workload(run(workload_path("linked"), name="other"))
    without, with_other = recording("--event", FIRED, "-p", linked.pid), recording("--links", "--event", FIRED, "-p", other.pid)
    wait_for_links(with_other, other.pid, alone=True)
    assert probes_of(with_other) == 2 and probes_of(without) == 0
    fire(linked)
    with_other.finish()
    expected = Counter()
    for (function, tid, _, _), count in expected_of(linked).items():
        expected[function, tid, None, None] += count
    assert_exact(without.finish(), linked, expected)


def samples_of(profile, pid):
    """[(function of the burn_ family, tid, trace id or "", span id or "", count)]"""
    return [(function or "", tid, trace or "", span or "", count) for (function, tid, trace, span), count in counts_by_function_and_ids(profile, pid).items()]


def check(samples, ids):
    """Every sample of a request's function has the request's ids, and no other sample has any."""
    seen = {}
    for function, tid, trace, span, count in samples:
        if function in ("burn_outer", "burn_inner"):
            assert (trace, span) == ids[f"{function}-{tid}"], (function, tid, trace, span)
        elif function == "burn_unlinked":
            assert (trace, span) == ("", ""), (function, tid, trace, span)
        seen[function, tid] = seen.get((function, tid), 0) + count
    tids = {name.rpartition("-")[2] for name in ids}
    assert len(tids) == 2
    for tid in tids:
        for function in ("burn_outer", "burn_inner", "burn_unlinked"):
            assert seen.get((function, int(tid)), 0) > 5, seen


def work(linked, enough):
    """Lets the workload process requests until `enough`."""
    linked.running.process.send_signal(signal.SIGUSR1)
    enough()
    linked.running.process.send_signal(signal.SIGUSR1)


def burn_cpu(linked, seconds):
    before = cpu_seconds(linked.pid)
    wait_for(lambda: cpu_seconds(linked.pid) - before > seconds, 120, f"{seconds} s of CPU time")


@pytest.mark.statistical
def test_sampled_cpu_time_of_interleaved_threads_has_their_own_ids(workload, recording):
    linked = workload("linked")
    running = recording("--links", "-F", "499")
    wait_for_links(running, linked.pid)
    work(linked, lambda: burn_cpu(linked, 2))
    burn_cpu(linked, 0.3)
    check(samples_of(running.finish(), linked.pid), printed(linked))


# --- the agent -----------------------------------------------------------------------------------------------------------------

@pytest.fixture
def linked_agent(agent):
    """An agent attached to every provider on the node; attached(pids...) waits until it is attached, also to the processes `pids`."""
    started = agent("--set", "profile.rate=199", "--set", "links.enabled=true", "--set", "budget.one_cpu=1000%")

    def attached(*pids):
        def is_attached():
            files = files_of_providers()
            return set(pids) <= set().union(*files.values()) and started.metric("sonde_usdt_attachments") == len(files)
        wait_for(is_attached, 60, "every file to be attached to, and no other")
    started.attached = attached
    attached()
    return started


@pytest.fixture
def owners(run):
    """owners(mode) starts `probe_owners` in that mode."""
    return lambda mode: Workload(run(workload_path("probe_owners"), mode, name=mode))


def follow_forked_child(linked_agent, owners, meanwhile=lambda: None):
    """A child forked before the provider was found still holds its parent's file when the parent has exited."""
    owner = owners("forked")
    child = int(owner.facts()["child"])
    linked_agent.attached(owner.pid, child)
    os.kill(owner.pid, signal.SIGKILL)
    owner.running.wait(30)
    meanwhile()
    before = linked_agent.metric("sonde_self_bpf_runs_total", program="link")
    wait_for(lambda: linked_agent.metric("sonde_self_bpf_runs_total", program="link") > before + 100, 60, "firings of the child")
    linked_agent.attached(child)
    return child


@pytest.mark.sanitized
def test_agent_attaches_to_new_processes_and_detaches_from_ended_ones(linked_agent, workload, owners, run):
    """Also a forked child. Two processes of the same program have two files; when all have exited, nothing is attached any more."""
    linked = workload("linked")
    linked_agent.attached(linked.pid)
    assert linked_agent.metric("sonde_usdt_processes") >= 1 and linked_agent.metric("sonde_usdt_providers") >= 1
    assert linked_agent.metric("sonde_usdt_probes") >= 2
    second = Workload(run(workload_path("linked"), name="second"))
    linked_agent.attached(linked.pid, second.pid)
    assert len(files_of_providers()) >= 2
    child = follow_forked_child(linked_agent, owners)
    for pid in (child, second.pid, linked.pid):
        os.kill(pid, signal.SIGKILL)
    linked_agent.attached()
    assert linked_agent.metric("sonde_usdt_left_out_total") == 0


def profile_of_agent(started):
    with tempfile.NamedTemporaryFile() as file:
        file.write(started.get("/api/v1/profile?seconds=120&format=pprof")[2])
        file.flush()
        return Profile(pprof.read(file.name)[0])


@pytest.mark.statistical
def test_agents_samples_have_their_own_ids(linked_agent, workload):
    linked = workload("linked")
    linked_agent.attached(linked.pid)
    work(linked, lambda: burn_cpu(linked, 3))
    check(samples_of(profile_of_agent(linked_agent), linked.pid), printed(linked))
    linked.running.kill()
    linked_agent.attached()
    assert linked_agent.metric("sonde_usdt_attachments_refused_total") == linked_agent.metric("sonde_usdt_left_out_total") == 0


def test_agent_attaches_only_where_links_are_enabled(agent, workload):
    started, linked = agent("--set", "requests.tls=false"), workload("linked")  # other tests' programs may use TLS meanwhile
    assert not any(name.startswith("sonde_usdt") for name in started.metrics())
    assert links_of(started.pid) == links_of(linked.pid) == 0


@pytest.mark.thorough
def test_killed_agent_leaves_nothing_attached(linked_agent, workload, sonde):
    linked = workload("linked")
    linked_agent.attached(linked.pid)

    def attached():
        done = subprocess.run([sonde, "probes", "sonde_trace", "-p", str(linked.pid), "--json"], capture_output=True, text=True, timeout=60)
        return {p["attached"] for p in json.loads(done.stdout)["probes"]}
    assert attached() == {True}
    linked_agent.running.kill()
    wait_for(lambda: attached() == {False}, 30, "no tracer to be attached")
    assert linked.running.alive


def test_requests_carry_their_trace(linked_agent, workload, sonde):
    """Over one connection and over new ones: each route has its own ids, and none where the thread worked for no request or for several."""
    linked = workload("linked", 0)
    port = int(linked.facts()["port"])
    linked_agent.attached(linked.pid)
    routes, found = ["alpha", "unlinked", "beta", "late", "several", "gamma", "unlinked", "alpha"], {}

    def seen():
        """Requests each route again, over one connection and over new ones: per second, not every request is recorded in detail."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for route in routes:
            connection.request("GET", f"/{route}")
            assert connection.getresponse().read() == b"ok"
        connection.close()
        for route in routes:
            get(port, route)
        for r in json.loads(linked_agent.text("/api/v1/requests?seconds=120&max=100"))["requests"]:
            if r["pid"] == linked.pid:
                found.setdefault(r["route"], set()).add((r.get("trace_id"), r.get("span_id")))
        return set(found) == {f"/{route}" for route in routes}
    wait_for(seen, 60, "a request of every route", found)

    def ids(route):
        return (f"{0x1111:016x}{ord(route[0]) << 8 | ord(route[1]):016x}", f"{0xc1:016x}")
    assert found == {f"/{route}": {(None, None) if route in ("unlinked", "several") else ids(route)} for route in routes}
    printed = subprocess.run([sonde, "why", "-n", "1000", "--last", "5m", "--agent", f"127.0.0.1:{linked_agent.port}"], capture_output=True, text=True, timeout=60)
    assert f"   Trace: {ids('gamma')[0]}, span {ids('gamma')[1]}\n" in printed.stdout, printed.stdout + printed.stderr


def get(port, route):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/{route}")
    assert connection.getresponse().read() == b"ok"
    connection.close()


@pytest.mark.statistical
def test_no_request_carries_another_requests_trace(linked_agent, workload):
    """In event loops that switch between requests, in thread pools, and with a fork during a request: its own trace or none."""
    linked = workload("linked_loop", 0)
    port = int(linked.facts()["port"])
    linked_agent.attached(linked.pid)
    kinds, found = ("loop", "pool", "fork"), {}
    names = itertools.cycle(a + b for a in "abcdefghijklmnopqrstuvwxyz" for b in "abcdefghijklmnopqrstuvwxyz")

    def seen():
        """Sends one more pair of each kind: only the slowest requests of the machine are kept, so not every one is recorded."""
        pair = [next(names), next(names)]
        with concurrent.futures.ThreadPoolExecutor(2) as both:
            for kind in kinds:
                list(both.map(lambda name: get(port, f"{kind}-{name}"), pair))
        answer = json.loads(linked_agent.text("/api/v1/requests?seconds=120&max=100"))["requests"]
        found.update({r["route"]: r.get("trace_id") for r in answer if r["pid"] == linked.pid})
        return all(sum(route.startswith(f"/{kind}") for route in found) >= 3 for kind in kinds) and any(found[route] for route in found if route.startswith("/fork"))
    wait_for(seen, 120, "some requests of each kind", found)
    for route, trace in found.items():
        kind, _, name = route.strip("/").partition("-")
        own = f"{0x1111:016x}{ord(name[0]) << 8 | ord(name[1]):016x}"
        assert trace in (own, None), (route, trace)
        assert kind != "loop" or trace is None, (route, trace)


def exec_other_program(program):
    os.kill(int(program.facts()["child"]), signal.SIGKILL)
    program.running.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: command_name(program.pid) == "sleep", 30, "the other program")


@pytest.mark.statistical
def test_forked_child_is_found_among_many_processes(linked_agent, owners, run):
    """Many short-lived processes do not prevent its discovery."""
    crowd = run("/bin/sh", "-c", "i=0; while [ $i -lt 1500 ]; do /bin/true; i=$((i + 1)); done", name="crowd")
    child = follow_forked_child(linked_agent, owners, lambda: crowd.wait(120))
    os.kill(child, signal.SIGKILL)
    linked_agent.attached()


def links_of_long(linked_agent, long):
    """{ids: samples} of the request that does not end."""
    counts = Counter()
    for function, _, trace, span, count in samples_of(profile_of_agent(linked_agent), long.pid):
        if function == "burn_long":
            counts[trace, span] += count
    return counts


@pytest.mark.statistical
def test_exec_in_another_process_keeps_a_long_requests_link(linked_agent, owners):
    """An exec() in another process, which continues without its probes, does not end a request's link."""
    long = owners("long")
    linked_agent.attached(long.pid)
    long.running.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: links_of_long(linked_agent, long), 60, "samples of the request")
    owner = owners("forked")
    linked_agent.attached(long.pid, owner.pid, int(owner.facts()["child"]))
    exec_other_program(owner)
    linked_agent.attached(long.pid)
    assert owner.running.alive
    before = links_of_long(linked_agent, long).total()
    wait_for(lambda: links_of_long(linked_agent, long).total() > before, 60, "later samples of the request")
    assert set(links_of_long(linked_agent, long)) == {(f"{1:016x}{2:016x}", f"{3:016x}")}
    assert linked_agent.metric("sonde_self_losses_total", reason="link_forgotten") == 0


@pytest.fixture
def few_descriptors():
    """Limits new processes to 512 descriptors, which leaves room for 64 provider files, 32 per owner."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.statistical  # the delay depends on the load; bpf/test_link_attachments.c tests the sharing between owners
def test_provider_over_the_limit_is_attached_later(few_descriptors, linked_agent, owners):
    """An owner with more files than its share: the rest are attached when some of its processes have exited."""
    many = owners("many")
    children = [int(pid) for pid in many.facts()["children"].split()]
    wait_for(lambda: linked_agent.metric("sonde_usdt_files_without_room") >= 8 and linked_agent.metric("sonde_usdt_scans_waiting") == 0, 60,
             "some to find no room")
    assert linked_agent.metric("sonde_usdt_attachments_without_room_total") >= 8
    for pid in children[:-10]:
        os.kill(pid, signal.SIGKILL)
    os.kill(many.pid, signal.SIGKILL)  # it does not wait for its children
    linked_agent.attached(*children[-10:])
    wait_for(lambda: linked_agent.metric("sonde_usdt_files_without_room") == 0, 60, "all to have room")
