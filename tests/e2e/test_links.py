"""Samples and requests carry the ids of the traced request that their thread worked for, and no other's: compared with what the
program itself printed."""
import concurrent.futures
import http.client
import itertools
import json
import os
import re
import resource
import signal
import subprocess
from pathlib import Path

import pprof
import pytest
from harness.machine import free_port, need_command
from harness.paths import TOP
from harness.processes import command_name, wait_for
from harness.workloads import Subject, subject_path

pytestmark = pytest.mark.usefixtures("root")


def links_of(pid):
    """Uprobes that a process and its children (one of which attaches) are attached to by BPF links: what the kernel says of their descriptors."""
    found = 0
    for one in [pid, *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]:
        for info in Path(f"/proc/{one}/fdinfo").glob("*"):
            try:
                found += "link_type:\tperf" in info.read_text()
            except OSError:
                continue
    return found


def files_of_providers():
    """What is mapped of objects in memory named as the provider, by anybody, and by whom: {(device, inode): {pid}}"""
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


def wait_for_links(recording, pid=None, alone=False):
    """Until a recording is attached to both probes of a process, or of all that have them: others may be about."""
    def is_attached():
        files = files_of_providers()
        wanted = 1 if alone else len(files)
        return not recording.alive or (pid in set().union({None}, *files.values()) and links_of(recording.process.pid) >= 2 * wanted)
    wait_for(is_attached, 60, "the recording to be attached")
    assert recording.alive, recording.error


def printed(linked):
    """{"burn_outer-TID": (trace id, span id)}"""
    return {name: (trace, span) for name, trace, span in re.findall(r"^ids (\S+) (\w+) (\w+)$", linked.running.out, re.M)}


@pytest.fixture
def record(run, sonde, tmp_path):
    """record(arguments...) -> (the running `sonde record`, its file)"""
    def start(*arguments, links=True):
        path = tmp_path / "profile.pb.gz"
        return run(sonde, "record", "--rate", "499", "-o", path, *["--links"] * links, *arguments), path
    return start


def samples_of(path, pid):
    """[(function burnt in, tid, trace id or "", span id or "", count)]"""
    found = []
    for sample in pprof.read(path)[0]:
        if sample.labels.get("pid") != pid:
            continue
        burnt = [name for name in sample.frames if name.startswith("burn_")]
        found.append((burnt[0] if burnt else "", sample.labels["tid"], sample.labels.get("trace_id", ""), sample.labels.get("span_id", ""),
                      sample.count))
    return found


def check(samples, ids):
    """Every sample of a request's function has the request's ids, and no sample of nobody's has any."""
    seen = {}
    for function, tid, trace, span, count in samples:
        if function in ("burn_outer", "burn_inner"):
            assert (trace, span) == ids[f"{function}-{tid}"], (function, tid, trace, span)
        elif function == "burn_nobody":
            assert (trace, span) == ("", ""), (function, tid, trace, span)
        seen[function, tid] = seen.get((function, tid), 0) + count
    tids = {name.rpartition("-")[2] for name in ids}
    assert len(tids) == 2
    for tid in tids:
        for function in ("burn_outer", "burn_inner", "burn_nobody"):
            assert seen.get((function, int(tid)), 0) > 5, seen


def work(linked, enough):
    """Lets the subject do requests until `enough`."""
    linked.running.process.send_signal(signal.SIGUSR1)
    enough()
    linked.running.process.send_signal(signal.SIGUSR1)


def burn_cpu(linked, seconds):
    def used():
        return sum(map(int, Path(f"/proc/{linked.pid}/stat").read_text().rpartition(")")[2].split()[11:13])) / 100
    before = used()
    wait_for(lambda: used() - before > seconds, 120, f"{seconds} s of CPU time")


@pytest.mark.parametrize("whole_node", [False, True])
def test_samples_of_interleaved_threads(subject, record, whole_node):
    linked = subject("linked")
    recording, path = record(*([] if whole_node else ["-p", linked.pid]))
    wait_for_links(recording, linked.pid, alone=not whole_node)
    work(linked, lambda: burn_cpu(linked, 2))
    burn_cpu(linked, 0.3)
    assert recording.stop(signal.SIGINT) == 0
    check(samples_of(path, linked.pid), printed(linked))


def test_program_that_begins_later(subject, record):
    """It is found when it maps its object, whether a command of ours or anybody's."""
    recording, path = record()
    linked = subject("linked")
    wait_for_links(recording, linked.pid)
    work(linked, lambda: burn_cpu(linked, 2))
    assert recording.stop(signal.SIGINT) == 0
    check(samples_of(path, linked.pid), printed(linked))


def test_not_asked_for(subject, record, run):
    """Without --links, and in processes that are not recorded, nobody is attached to."""
    linked, other = subject("linked"), Subject(run(subject_path("linked"), name="other"))
    recording, path = record("-p", linked.pid, links=False)
    recording2, _ = record("-p", other.pid)
    wait_for_links(recording2, other.pid, alone=True)
    assert links_of(recording2.process.pid) == 2
    work(linked, lambda: burn_cpu(linked, 1))
    assert links_of(recording.process.pid) == 0
    assert recording2.stop(signal.SIGINT) == 0 and recording.stop(signal.SIGINT) == 0
    assert all(trace == "" for _, _, trace, _, _ in samples_of(path, linked.pid))


# --- the agent -----------------------------------------------------------------------------------------------------------------

@pytest.fixture
def linked_agent(agent):
    """An agent that is attached to all there is; attached(pids...) waits until it is, to these processes too."""
    started = agent("--set", "profile.rate=199", "--set", "links.enabled=true", "--set", "budget.cpu=100%")

    def attached(*pids):
        def is_attached():
            files = files_of_providers()
            return set(pids) <= set().union(*files.values()) and started.metric("sonde_native_attachments") == len(files)
        wait_for(is_attached, 60, "every file to be attached to, and no other")
    started.attached = attached
    attached()
    return started


def test_agent_follows_processes(linked_agent, subject, run, tmp_path):
    """One that comes, is linked, and goes: then nothing is attached any more. Two of the same program are two files."""
    linked = subject("linked")
    linked_agent.attached(linked.pid)
    assert linked_agent.metric("sonde_native_processes") >= 1 and linked_agent.metric("sonde_native_providers") >= 1
    assert linked_agent.metric("sonde_native_probes") >= 2
    second = Subject(run(subject_path("linked"), name="second"))
    linked_agent.attached(linked.pid, second.pid)
    assert len(files_of_providers()) >= 2
    second.running.kill()
    linked_agent.attached(linked.pid)
    work(linked, lambda: burn_cpu(linked, 3))
    path = tmp_path / "agent.pb.gz"
    path.write_bytes(linked_agent.get("/api/v1/profile?seconds=120&format=pprof")[2])
    check(samples_of(path, linked.pid), printed(linked))
    assert linked_agent.metric("sonde_self_bpf_runs_total", program="link") > 0
    linked.running.kill()
    linked_agent.attached()
    assert linked_agent.metric("sonde_native_attachments_refused_total") == linked_agent.metric("sonde_native_left_out_total") == 0


def test_agent_is_not_told_to(agent, subject):
    started, linked = agent(), subject("linked")
    assert not any(name.startswith("sonde_native") for name in started.metrics())
    assert links_of(started.pid) == links_of(linked.pid) == 0


def test_agent_killed_while_attached(linked_agent, subject, sonde):
    linked = subject("linked")
    linked_agent.attached(linked.pid)

    def attached():
        done = subprocess.run([sonde, "probes", "sonde_trace", "-p", str(linked.pid), "--json"], capture_output=True, text=True, timeout=60)
        return {p["attached"] for p in json.loads(done.stdout)["probes"]}
    assert attached() == {True}
    linked_agent.running.kill()
    wait_for(lambda: attached() == {False}, 30, "nobody to be attached")
    assert linked.running.alive


def test_requests_carry_their_trace(linked_agent, subject, sonde):
    """Over one connection and over new ones: each route's own ids, none where the thread worked for nobody or for several."""
    port = free_port()
    linked = subject("linked", port)
    linked_agent.attached(linked.pid)
    routes = ["alpha", "nobody", "beta", "late", "several", "gamma", "nobody", "alpha"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for route in routes:
        connection.request("GET", f"/{route}")
        assert connection.getresponse().read() == b"ok"
    connection.close()
    for route in routes:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", f"/{route}")
        assert connection.getresponse().read() == b"ok"
        connection.close()

    def seen():
        answer = json.loads(linked_agent.text("/api/v1/requests?seconds=120&max=100"))
        found = {}
        for r in answer if isinstance(answer, list) else answer["requests"]:
            if r["pid"] == linked.pid:
                found.setdefault(r["route"], set()).add((r.get("trace_id"), r.get("span_id")))
        return found if set(found) == {f"/{route}" for route in routes} else None
    found = wait_for(seen, 60, "a request of every route")

    def ids(route):
        return (f"{0x1111:016x}{ord(route[0]) << 8 | ord(route[1]):016x}", f"{0xc1:016x}")
    assert found == {f"/{route}": {(None, None) if route in ("nobody", "several") else ids(route)} for route in routes}
    told = subprocess.run([sonde, "why", "-n", "100", "--last", "5m", "--agent", f"127.0.0.1:{linked_agent.port}"], capture_output=True, text=True, timeout=60)
    assert f"   Trace: {ids('gamma')[0]}, span {ids('gamma')[1]}\n" in told.stdout, told.stdout + told.stderr


def get(port, route):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/{route}")
    assert connection.getresponse().read() == b"ok"
    connection.close()


def test_no_request_carries_a_neighbours_trace(linked_agent, subject):
    """In event loops that switch between requests, in pools of threads, and where it forks in the middle: its own trace or none."""
    port = free_port()
    linked = subject("linked_loop", port)
    linked_agent.attached(linked.pid)
    kinds, found = ("loop", "pool", "fork"), {}
    names = itertools.cycle(a + b for a in "abcdefghijklmnopqrstuvwxyz" for b in "abcdefghijklmnopqrstuvwxyz")

    def seen():
        """After one more pair of each: of all requests on this machine the slowest are told, and not every one of a second is recorded."""
        pair = [next(names), next(names)]
        with concurrent.futures.ThreadPoolExecutor(2) as both:
            for kind in kinds:
                list(both.map(lambda name: get(port, f"{kind}-{name}"), pair))
        answer = json.loads(linked_agent.text("/api/v1/requests?seconds=120&max=100"))
        found.update({r["route"]: r.get("trace_id") for r in (answer if isinstance(answer, list) else answer["requests"]) if r["pid"] == linked.pid})
        return all(sum(route.startswith(f"/{kind}") for route in found) >= 3 for kind in kinds)
    wait_for(seen, 120, "some requests of each kind")
    for route, trace in found.items():
        kind, _, name = route.strip("/").partition("-")
        own = f"{0x1111:016x}{ord(name[0]) << 8 | ord(name[1]):016x}"
        assert trace in (own, None), (route, trace)
        assert kind != "loop" or trace is None, (route, trace)
    assert any(trace for route, trace in found.items() if route.startswith("/fork")), found


HEIRS = r"""
#include <sonde/probe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    static const char arguments[] = "u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id";
    struct sonde_provider *provider;
    struct sonde_probe *enter, *leave;
    if (sonde_provider_new("sonde_trace", &provider) < 0 || sonde_probe_add(provider, "thread_enter", arguments, &enter) < 0 ||
        sonde_probe_add(provider, "thread_leave", arguments, &leave) < 0 || sonde_provider_load(provider) < 0)
        return 1;
    const pid_t child = fork();
    if (child == 0) {
        for (;; usleep(1000)) {
            sonde_probe_fire(enter, 1, 2, 3, 4);
            sonde_probe_fire(leave, 0, 0, 0, 0);
        }
    }
    printf("pid %d\nchild %d\nready\n", getpid(), child);
    fflush(stdout);
    pause();
}
"""


LONG = HEIRS.replace("#include <sonde/probe.h>", """#include <sonde/probe.h>
static volatile unsigned long sink;
__attribute__((noinline)) static void burn_long(void)
{
    while (1)
        sink++;
}
static void nothing(int number)
{
    (void)number;
}""").replace("const pid_t child = fork();", "const pid_t child = 1; signal(SIGUSR1, nothing);").replace("pause();", """pause();
    sonde_probe_fire(enter, 1, 2, 3, 4);
    burn_long();""")
REPLACED = HEIRS.replace("const pid_t child = fork();", """sigset_t go;
    int number;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go, NULL);
    const pid_t child = fork();""").replace("pause();", 'sigwait(&go, &number); execl("/bin/sleep", "sleep", "600", NULL);')


def replace(program):
    os.kill(int(program.facts()["child"]), signal.SIGKILL)
    program.running.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: command_name(program.pid) == "sleep", 30, "the other program")


@pytest.fixture
def compiled(run, tmp_path):
    """compiled(source) -> a program of that text with libsonde's probes in it, which runs"""
    def start(source, name="heirs"):
        (tmp_path / f"{name}.c").write_text(source)
        subprocess.run([need_command("gcc"), "-D_GNU_SOURCE", "-o", tmp_path / name, tmp_path / f"{name}.c", f"-I{TOP}/include", *(TOP / "lib/probe").glob("*.c"),
                        "-pthread"], check=True)
        return Subject(run(tmp_path / name, name=name))
    return start


def test_forked_child_and_many_others(linked_agent, run, compiled):
    """A child that was forked off at once holds its parent's file when that has gone; a crowd of short-lived processes hides nobody."""
    crowd = run("/bin/sh", "-c", "i=0; while [ $i -lt 1500 ]; do /bin/true; i=$((i + 1)); done", name="crowd")
    heirs = compiled(HEIRS)
    child = int(heirs.facts()["child"])
    linked_agent.attached(heirs.pid, child)
    os.kill(heirs.pid, signal.SIGKILL)
    heirs.running.wait(30)
    crowd.wait(120)
    before = linked_agent.metric("sonde_self_bpf_runs_total", program="link")
    wait_for(lambda: linked_agent.metric("sonde_self_bpf_runs_total", program="link") > before + 2000, 60, "firings of the child")
    linked_agent.attached(child)
    os.kill(child, signal.SIGKILL)
    linked_agent.attached()


def test_another_program_in_its_place(linked_agent, compiled):
    """After exec() the process has the probes no more, though it lives on."""
    heirs = compiled(REPLACED)
    linked_agent.attached(heirs.pid, int(heirs.facts()["child"]))
    replace(heirs)
    linked_agent.attached()
    assert heirs.running.alive


def test_long_request_outlives_what_others_do(linked_agent, compiled, tmp_path):
    """That a program has the probes no more, though it lives on, takes the link of no other's request."""
    long = compiled(LONG, "long")
    linked_agent.attached(long.pid)
    long.running.process.send_signal(signal.SIGUSR1)
    burn_cpu(long, 0.5)
    replaced = compiled(REPLACED, "replaced")
    linked_agent.attached(long.pid, replaced.pid, int(replaced.facts()["child"]))
    replace(replaced)
    linked_agent.attached(long.pid)
    burn_cpu(long, 1)
    path = tmp_path / "agent.pb.gz"
    path.write_bytes(linked_agent.get("/api/v1/profile?seconds=120&format=pprof")[2])
    counts = {}
    for function, _, trace, span, count in samples_of(path, long.pid):
        if function == "burn_long":
            counts[trace, span] = counts.get((trace, span), 0) + count
    assert set(counts) == {(f"{1:016x}{2:016x}", f"{3:016x}")} and sum(counts.values()) > 50, counts
    assert linked_agent.metric("sonde_self_losses_total", reason="link_forgotten") == 0


MANY = r"""
#include <sonde/probe.h>
#include <stdio.h>
#include <unistd.h>
int main(void)
{
    static const char arguments[] = "u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id";
    int loaded[2];
    char byte;
    if (pipe(loaded) < 0)
        return 1;
    printf("pid %d\nchildren", getpid());
    for (int i = 0; i < 40; i++) {
        const pid_t child = fork();
        if (child == 0) {
            struct sonde_provider *provider;
            struct sonde_probe *enter, *leave;
            if (sonde_provider_new("sonde_trace", &provider) < 0 || sonde_probe_add(provider, "thread_enter", arguments, &enter) < 0 ||
                sonde_probe_add(provider, "thread_leave", arguments, &leave) < 0 || sonde_provider_load(provider) < 0 || write(loaded[1], "", 1) != 1)
                _exit(1);
            while (1)
                pause();
        }
        if (child < 0 || read(loaded[0], &byte, 1) != 1)
            return 1;
        printf(" %d", child);
    }
    printf("\nready\n");
    fflush(stdout);
    pause();
}
"""


@pytest.fixture
def few_descriptors():
    """512 for what is started: then there is room for 64 files, and for 32 of one owner."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_who_found_no_room_has_it_later(few_descriptors, linked_agent, compiled):
    """More files of one owner than its share: the others are attached to when some have gone, though nothing changes in their programs."""
    many = compiled(MANY, "many")
    children = [int(pid) for pid in many.facts()["children"].split()]
    wait_for(lambda: linked_agent.metric("sonde_native_files_without_room") >= 8 and linked_agent.metric("sonde_native_looks_waiting") == 0, 60,
             "some to find no room")
    assert linked_agent.metric("sonde_native_attachments_without_room_total") >= 8
    for pid in children[:-10]:
        os.kill(pid, signal.SIGKILL)
    os.kill(many.pid, signal.SIGKILL)  # who waits for none of them
    linked_agent.attached(*children[-10:])
    wait_for(lambda: linked_agent.metric("sonde_native_files_without_room") == 0, 60, "all to have room")
