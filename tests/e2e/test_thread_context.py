"""Samples and waits carry the ids that their thread publishes as OTEP 4947 has it, with nothing attached to the program: each way that a compiler
and a loader have to a thread's variable, in a program of nobody's; libsonde in C and in Python."""
import re
import subprocess
from collections import Counter

import pytest
from harness.machine import need_command
from harness.processes import cpu_seconds, wait_for
from harness.workloads import Subject
from profiles_receiver import write
from test_otlp_profiles import profcheck  # noqa: F401
from test_profiles_export import receiver, sets  # noqa: F401
from test_python import env_of, package  # noqa: F401

pytestmark = pytest.mark.usefixtures("root")

LIBRARY = """
#include <stdint.h>
#ifdef BIG /* more than the loader has room for beside the program's own */
__thread char big[1 << 20];
char *touch(void) { big[5]++; return big; }
#endif
__thread int before;
__attribute__((visibility("default"))) __thread const void *volatile otel_thread_ctx_v1;
void context_set(const void *record) { before++; otel_thread_ctx_v1 = record; }
"""
PROGRAM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct record { uint8_t trace_id[16], span_id[8], valid, flags; uint16_t size; };
#ifdef LOADED
static void (*context_set)(const void *);
#else
void context_set(const void *record);
#endif
static volatile uint64_t sink;

#define BURNS(name, factor) __attribute__((noinline)) static void name(void) { for (uint64_t i = 0; i < 2000000; i++) sink += i * factor; }
BURNS(burn_outer, 3)
BURNS(burn_torn, 5)
BURNS(burn_nobody, 7)
#define NAPS(name, microseconds) __attribute__((noinline)) static void name(void) { usleep(microseconds); sink++; }
NAPS(nap_outer, 201)
NAPS(nap_torn, 202)
NAPS(nap_nobody, 203)

static void *work(void *number)
{
    struct record mine = {.valid = 1}, torn = {.valid = 0};
    memset(mine.trace_id, 0x10 + (int)(intptr_t)number, 16);
    memset(mine.span_id, 0xa0 + (int)(intptr_t)number, 8);
    mine.trace_id[0] = 1;
    mine.span_id[7] = 9;
    memcpy(torn.trace_id, mine.trace_id, 24);
    char text[256];
    int at = snprintf(text, sizeof(text), "ids burn_outer-%d ", gettid());
    for (int i = 0; i < 24; i++)
        at += snprintf(text + at, sizeof(text) - at, i == 16 ? " %02x" : "%02x", ((uint8_t *)&mine)[i]);
    puts(text);
    fflush(stdout);
    for (;;) {
        context_set(&mine);
        burn_outer();
        nap_outer();
        context_set(&torn);
        burn_torn();
        nap_torn();
        context_set(NULL);
        burn_nobody();
        nap_nobody();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
#ifdef LOADED
    void *library = dlopen(argv[1], RTLD_NOW);
    context_set = library ? dlsym(library, "context_set") : NULL;
    if (!context_set)
        return fprintf(stderr, "%s\\n", dlerror()), 1;
#endif
    pthread_t one, other;
    pthread_create(&one, NULL, work, (void *)1);
    pthread_create(&other, NULL, work, (void *)2);
    printf("pid %d\\nready\\n", getpid());
    fflush(stdout);
    pause();
}
"""
# What gcc is told for the library, and how the program comes by it.
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


@pytest.fixture
def built(tmp_path):
    """built(way) -> the command that runs it"""
    def build(way):
        flags, how = WAYS[way]
        gcc, library, program = need_command("gcc"), tmp_path / "libcontexts.so", tmp_path / "contexts"
        (tmp_path / "library.c").write_text(LIBRARY)
        (tmp_path / "program.c").write_text(PROGRAM)
        common = [gcc, "-O2", "-g", "-pthread", "-fno-omit-frame-pointer"]
        if how == "within":
            subprocess.run([*common, "-rdynamic", *flags, "-o", program, tmp_path / "program.c", tmp_path / "library.c"], check=True)
            return [program]
        subprocess.run([*common, "-fPIC", "-shared", *flags, "-o", library, tmp_path / "library.c"], check=True)
        if how == "loaded":
            subprocess.run([*common, "-DLOADED", "-o", program, tmp_path / "program.c", "-ldl"], check=True)
            return [program, library]
        subprocess.run([*common, "-o", program, tmp_path / "program.c", library, f"-Wl,-rpath,{tmp_path}"], check=True)
        return [program]
    return build


@pytest.fixture
def record(record_busy):
    """record(subject, is_enough) -> its samples and waits, made without --links, of as much CPU time as it takes: a busy machine is late to know a process, and
    gives its threads unequal shares."""
    def start(subject, is_enough):
        for seconds in (0.8, 4, 20, 100):
            samples = record_busy(subject, seconds, "--wall")[0]
            if is_enough(samples):
                break
        return samples
    return start


def ids_of(subject):
    """{"burn_outer-TID": (trace id, span id)}, of both its threads."""
    def told():
        ids = {name: (trace, span) for name, trace, span in re.findall(r"^ids (\S+) (\w+) (\w+)$", subject.running.out, re.M)}
        return ids if len(ids) == 2 else None
    return wait_for(told, 60, "both threads' ids")


def place(sample):
    return next((name for name in sample.frames if name.startswith(("burn_", "nap_"))), None)


def said(sample):
    return sample.labels.get("trace_id"), sample.labels.get("span_id")


def is_enough(samples):
    """Of both threads some that were seen at work, and asleep, and few from before the process was known."""
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


@pytest.mark.parametrize("way", WAYS, ids=WAYS.keys())
def test_ways_to_a_variable(way, built, run, record):
    subject = Subject(run(*built(way)))
    samples = record(subject, is_enough)
    ids = ids_of(subject)
    for sample in samples:
        if place(sample) not in ("burn_outer", "nap_outer"):
            assert place(sample) is None or said(sample) == (None, None), sample  # between two places the variable is being set
        elif said(sample) != (None, None):
            assert said(sample) == ids[f"burn_outer-{sample.labels['tid']}"]
    assert is_enough(samples), Counter({(sample.labels["tid"], place(sample), said(sample)): sample.count for sample in samples})


def test_a_request_that_libsonde_traces_in_python(run, record, tmp_path, package):  # noqa: F811
    """The extension is loaded late, and its variable with it. Nobody is attached to anything."""
    program = """
import os, sys
from sonde import trace
manager = trace.Manager(["rate=1", "level=TIMESTAMPS", "triton,file=" + sys.argv[1]])
model = manager.model("m", 1)
print("pid", os.getpid(), flush=True)
print("ready", flush=True)

def traced():
    return sum(i * i for i in range(100000))

def nobody():
    return sum(i * i for i in range(100000))

number = 0
while True:
    number += 1
    with model.start("r", traceparent=f"00-{number % 2 + 1:032x}-00000000000000aa-01") as t:
        with t.working():
            traced()
        nobody()
"""
    subject = Subject(run("/usr/bin/python3", "-c", program, tmp_path / "trace.json", env=env_of(package)))
    none, one, other = (None, False), (f"{1:032x}", True), (f"{2:032x}", True)

    def seen_in(samples):
        seen = Counter()
        for sample in samples:
            function = next((name for name in sample.frames if name in ("traced", "nobody")), None)
            seen[function, (said(sample)[0], bool(said(sample)[1]))] += sample.count
        return seen

    def is_enough_of_both(samples):
        seen = seen_in(samples)
        return min(seen["traced", one], seen["traced", other]) > 10 and seen["traced", none] <= 0.2 * seen.total()
    samples = record(subject, is_enough_of_both)
    seen = seen_in(samples)
    assert {ids for function, ids in seen if function == "nobody"} == {none}, seen
    assert {ids for function, ids in seen if function == "traced"} <= {none, one, other}, seen
    assert is_enough_of_both(samples), seen


def test_the_agent_tells_how_many(agent, built, run):
    started = agent("--set", "profile.rate=199", "--set", "budget.cpu=100%")
    wait_for(lambda: started.metric("sonde_self_samples_total") > 0, 60, "the agent to sample")  # until then it tells of nobody
    before = started.metric("sonde_thread_context_processes")
    subject = Subject(run(*built("descriptor")))
    wait_for(lambda: started.metric("sonde_thread_context_processes") > before, 60, "the process to be known")
    subject.running.kill()
    wait_for(lambda: started.metric("sonde_thread_context_processes") <= before, 60, "it to be forgotten")
    assert started.metric("sonde_thread_context_refused_total") == 0


def test_packets_of_the_agent_have_links(agent, built, run, receiver, profcheck, tmp_path):  # noqa: F811
    """The same of what an agent sends, decoded by OpenTelemetry's messages, CPU time and waits: of each thread its own request and no other, and none
    where it worked for nobody."""
    to = receiver()
    started = agent("--rate", "199", "--waits", "--set", "budget.cpu=100%", "--set", "budget.memory=1GiB", *sets(profiles_endpoint=to.url, interval=1))
    wait_for(lambda: started.metric("sonde_self_samples_total") > 0, 60, "the agent to sample")  # until then it tells of nobody
    before = started.metric("sonde_thread_context_processes")
    subject = Subject(run(*built("descriptor")))
    ids = ids_of(subject)
    wait_for(lambda: started.metric("sonde_thread_context_processes") > before, 60, "the process to be known")
    since = cpu_seconds(subject.pid)
    wait_for(lambda: cpu_seconds(subject.pid) > since + 2, 120, "some CPU time")
    assert started.stop() == 0
    path = str(tmp_path / "contexts").encode()
    packets = profcheck(*write(tmp_path, [body for body in to.bodies() if path in body]))
    samples = [(p["type"], s) for profiles in packets for p in profiles if p["resource"]["process.pid"] == subject.pid for s in p["samples"]]
    linked = {}
    for time, s in samples:
        names, link = {frame["name"] for frame in s["frames"]}, (s["trace_id"], s["span_id"])
        if not names & {"burn_outer", "nap_outer"}:
            assert not names & {"burn_torn", "burn_nobody", "nap_torn", "nap_nobody"} or link == ("", ""), (names, link)
        elif link != ("", ""):  # before the process was known there is none
            assert link == ids[f"burn_outer-{s['attributes']['thread.id']}"], (ids, s)
            linked[time, link] = linked.get((time, link), 0) + len(s["times"])
    assert set(linked) == {(time, link) for time in ("cpu", "off_cpu") for link in ids.values()} and min(linked.values()) > 5, (linked, len(samples))
