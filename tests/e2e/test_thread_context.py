"""Samples carry the ids that their thread publishes as OTEP 4947 has it, with nothing attached to the program: each way that a compiler
and a loader have to a thread's variable, in a program of nobody's; libsonde in C and in Python."""
import re
import subprocess

import pytest
from conftest import Subject, cpu_seconds, need_command, wait_for
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
        context_set(&torn);
        burn_torn();
        context_set(NULL);
        burn_nobody();
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
    """record(subject) -> its samples, of some CPU time, made without --links"""
    return lambda subject, seconds=0.8: record_busy(subject, seconds)[0]


def ids_of(subject):
    """{"burn_outer-TID": (trace id, span id)}, of both its threads."""
    def told():
        ids = {name: (trace, span) for name, trace, span in re.findall(r"^ids (\S+) (\w+) (\w+)$", subject.running.out, re.M)}
        return ids if len(ids) == 2 else None
    return wait_for(told, 60, "both threads' ids")


@pytest.mark.parametrize("way", WAYS, ids=WAYS.keys())
def test_ways_to_a_variable(way, built, run, record):
    subject = Subject(run(*built(way)))
    samples = record(subject)
    ids = ids_of(subject)
    seen, late = {}, 0
    for sample in samples:
        burnt = next((name for name in sample.frames if name.startswith("burn_")), None)
        said = sample.labels.get("trace_id"), sample.labels.get("span_id")
        if burnt != "burn_outer":
            assert burnt is None or said == (None, None), (burnt, said)  # between two burns the variable is being set
            continue
        tid = sample.labels["tid"]
        if said == (None, None):
            late += sample.count  # before the process was known
            continue
        assert said == ids[f"burn_outer-{tid}"]
        seen[tid] = seen.get(tid, 0) + sample.count
    assert len(seen) == 2 and min(seen.values()) > 5 and late <= 0.2 * sum(seen.values()), (seen, late)


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
    seen = {}
    for sample in record(subject, 1.5):
        function = next((name for name in sample.frames if name in ("traced", "nobody")), None)
        said = sample.labels.get("trace_id"), bool(sample.labels.get("span_id"))
        seen[function, said] = seen.get((function, said), 0) + sample.count
    none, one, other = (None, False), (f"{1:032x}", True), (f"{2:032x}", True)
    assert {said for function, said in seen if function == "nobody"} == {none}, seen
    assert {said for function, said in seen if function == "traced"} <= {none, one, other}, seen
    late = seen.get(("traced", none), 0)
    assert min(seen.get(("traced", one), 0), seen.get(("traced", other), 0)) > 10 and late <= 0.2 * sum(seen.values()), seen


def test_the_agent_tells_how_many(agent, built, run):
    started = agent("--set", "profile.rate=199", "--set", "budget.cpu=100%")
    before = started.metric("sonde_thread_context_processes")
    subject = Subject(run(*built("descriptor")))
    wait_for(lambda: started.metric("sonde_thread_context_processes") > before, 60, "the process to be known")
    subject.running.kill()
    wait_for(lambda: started.metric("sonde_thread_context_processes") <= before, 60, "it to be forgotten")
    assert started.metric("sonde_thread_context_refused_total") == 0


def test_packets_of_the_agent_have_links(agent, built, run, receiver, profcheck, tmp_path):  # noqa: F811
    """The same of what an agent sends, decoded by OpenTelemetry's messages: of each thread its own request and no other, and none where it worked for
    nobody."""
    to = receiver()
    started = agent("--rate", "199", "--set", "budget.cpu=100%", "--set", "budget.memory=1GiB", *sets(profiles_endpoint=to.url, interval=1))
    before = started.metric("sonde_thread_context_processes")
    subject = Subject(run(*built("descriptor")))
    ids = ids_of(subject)
    wait_for(lambda: started.metric("sonde_thread_context_processes") > before, 60, "the process to be known")
    since = cpu_seconds(subject.pid)
    wait_for(lambda: cpu_seconds(subject.pid) > since + 2, 120, "some CPU time")
    assert started.stop() == 0
    path = str(tmp_path / "contexts").encode()
    packets = profcheck(*write(tmp_path, [body for body in to.bodies() if path in body]))
    samples = [s for profiles in packets for p in profiles if p["resource"]["process.pid"] == subject.pid for s in p["samples"]]
    linked = {}
    for s in samples:
        names, link = {frame["name"] for frame in s["frames"]}, (s["trace_id"], s["span_id"])
        if "burn_outer" not in names:
            assert not names & {"burn_torn", "burn_nobody"} or link == ("", ""), (names, link)
        elif link != ("", ""):  # before the process was known there is none
            assert link == ids[f"burn_outer-{s['attributes']['thread.id']}"], (ids, s)
            linked[link] = linked.get(link, 0) + len(s["times"])
    assert set(linked) == set(ids.values()) and min(linked.values()) > 5, (linked, len(samples))
