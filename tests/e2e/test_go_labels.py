"""Samples carry the labels of the goroutine that they were taken in, of programs that nobody changed, as Go's own profiler has them: at work and in system calls, whole and
stripped, linked by Go and by the system, of Go with either form of labels; and of a program that looks like Go's and lies."""
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pprof
import pytest
from harness.machine import need_command, skip
from harness.paths import BUILD, SUBJECTS
from harness.processes import cpu_seconds, wait_for
from harness.workloads import Subject, subject_path
from profiles_receiver import ProfilesReceiver, write
from test_go import go_version, strip
from test_otlp_profiles import profcheck  # noqa: F401

pytestmark = pytest.mark.usefixtures("root")

WAIT = {"route": "/wait", "tenant": "three"}
A, B, INNER = {"route": "/a", "tenant": "one"}, {"route": "/b", "tenant": "two"}, {"route": "/inner", "tenant": "one"}
LONG = {"short": "y", "long": "ä" * 64 + "…", "k" * 56 + "…": "x"}
FIRST = {f"key{i:02}": str(i) for i in range(8)}
PLACES = {"main.tooLong": "long", "main.tooMany": "many", "main.bare": "bare", "main.turn": "turn"}


def many_of(program):
    """Up to Go 1.23 they are in a map, of which more than a bucket is not read."""
    return FIRST if go_version(program) >= (1, 24) else {}


def own_labels(labels):
    return {key: value for key, value in labels.items() if key in ("route", "tenant", "short", "long") or re.match("k(ey|k)", key)}


def by_place(samples):
    """{(place, labels as sorted pairs): samples} of those that work, where the stack says what for."""
    seen = Counter()
    for sample in samples:
        place = next((PLACES[name] for name in PLACES if name in sample.frames), None)
        if any(name.startswith("main.nested.") for name in sample.frames):
            place = "nested"
        if place and "main.burn" in sample.frames:
            seen[place, tuple(sorted(own_labels(sample.labels).items()))] += sample.count
    return seen


def check_sets(seen, many):
    """Each place has its own labels and none else; none at all only before the process is known."""
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


def check_waits(samples):
    """In a system call the goroutine keeps its thread, and the wait has its labels."""
    seen = Counter()
    for sample in samples:
        if re.match(r"\[sleep: ", sample.frames[-1]) and "main.wait" in sample.frames:
            seen["main.wait.func1" in sample.frames, tuple(sorted(own_labels(sample.labels).items()))] += sample.count
    labels = tuple(sorted(WAIT.items()))
    assert set(seen) <= {(True, labels), (True, ()), (False, ())}, seen
    assert seen[True, labels] > 3 and seen[False, ()] > 3 and seen[True, ()] <= 0.3 * seen[True, labels], seen


def share_of_a(seen):
    a, b, inner = (seen[place, tuple(sorted(labels.items()))] for place, labels in (("turn", A), ("turn", B), ("nested", INNER)))
    return a / (a + b + inner)


def go_build(folder, version, *arguments, **environment):
    """labelled.go built by that version of Go; with CGO_ENABLED=1 with code of C in it."""
    source = shutil.copy(Path(__file__).resolve().parent.parent / "subjects" / "labelled.go", folder / "labelled.go")
    go = dict(os.environ, GOCACHE=str(SUBJECTS / ".go"), GOTOOLCHAIN=version, GOFLAGS="-mod=mod", GO111MODULE="on", **environment)
    try:
        said = subprocess.run([need_command("go"), "version"], env=go, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100).stdout
    except subprocess.TimeoutExpired:
        said = ""
    if version != "local" and version not in said:
        skip(f"{version} cannot be had here")
    sources = [source]
    if environment.get("CGO_ENABLED") == "1":
        need_command("gcc")
        sources.append(folder / "c.go")
        sources[1].write_text('package main\n\n/*\n#include <stdlib.h>\n*/\nimport "C"\n\nfunc init() { C.free(C.malloc(1)) }\n')
    try:
        subprocess.run(["go", "build", *arguments, "-o", folder / "labelled", *sources], env=go, cwd=folder, check=True, timeout=500)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        if version == "local":
            raise
        skip(f"{version} does not build it here: {error}")
    return folder / "labelled"


def check_offsets(program):
    """What is known of that version of Go is what debug information says of its runtime."""
    checker = BUILD / "tests/unit/resolve/test-resolve-go_labels"
    if not checker.exists():
        skip(f"{checker} has not been built")
    fields = {"runtime.g.m": "runtime.g", "runtime.g.labels": "runtime.g", "runtime.m.curg": "runtime.m", "runtime.g.sched": "runtime.g", "runtime.gobuf.bp": "runtime.gobuf"}
    asked = [text for name, of in fields.items() for text in ("-ex", f"print (long) &(('{of}' *) 0)->{name.rpartition('.')[2]}")]
    said = subprocess.run([need_command("gdb"), "-nx", "-batch", "-ex", "set language c", *asked, program], capture_output=True, text=True, timeout=120).stdout
    told = subprocess.run([checker, program], capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.findall(r"^\$\d+ = (\d+)$", said, re.M) == [re.search(rf"^{re.escape(name)} (\d+)$", told, re.M)[1] for name in fields], said + told


def test_as_gos_own_profiler_has_them(record_busy, run, tmp_path):
    program = subject_path("labelled")
    subject = Subject(run(program, tmp_path / "own.pb.gz"))
    samples, said = record_busy(subject, 3)
    assert subject.running.stop(signal.SIGINT) == 0
    seen, own = by_place(samples), by_place(pprof.read(tmp_path / "own.pb.gz")[0])
    check_sets(seen, many_of(program))
    assert {dict(labels).get("route") for place, labels in own if place == "turn"} == {"/a", "/b", None}
    assert abs(share_of_a(seen) - share_of_a(own)) < 0.25, (seen, own)
    cut = sum(count for (place, labels), count in seen.items() if labels and place in ("long", "many"))
    assert cut <= int(re.search(r"(\d+) unlabelled", said)[1]) <= sum(s.count for s in samples), said


def test_stripped(record_busy, run, tmp_path):
    program = subject_path("labelled")
    samples, _ = record_busy(Subject(run(strip(program, tmp_path / "labelled"))), 1.5, "--wall")
    check_sets(by_place(samples), many_of(program))
    check_waits(samples)


def test_with_c_and_position_independent(record_busy, run, tmp_path):
    program = go_build(tmp_path, "local", "-buildmode=pie", "-ldflags=-linkmode=external", CGO_ENABLED="1")
    check_offsets(program)
    samples, _ = record_busy(Subject(run(program)))
    check_sets(by_place(samples), many_of(program))


def test_maps_of_labels(record_busy, run, tmp_path):
    """Up to Go 1.23; of one that is larger than a bucket nothing is read, and that is counted."""
    program = go_build(tmp_path, "go1.23.4", CGO_ENABLED="0")
    check_offsets(program)
    samples, said = record_busy(Subject(run(program)), 1.5, "--wall")
    seen = by_place(samples)
    check_sets(seen, {})
    check_waits(samples)
    assert int(re.search(r"(\d+) unlabelled", said)[1]) >= seen["many", ()] * 0.5, said


# Not optimized: nothing in it reads what it writes.
LIAR = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((section(".go.buildinfo"), used)) char info[64] = "\xff Go buildinf:\b\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" VERSION;
struct g { char before[0x30]; struct m *m; char between[LABELS - 0x38]; const void *labels; };
struct m { char before[CURG]; struct g *curg; };
extern __thread struct g *tlsg __asm__("runtime.tlsg");
__thread struct g *tlsg = 0;
static volatile uint64_t sink;
#define BURNS(name, factor) __attribute__((noinline)) static void name(void) { for (uint64_t i = 0; i < 1000000; i++) sink += i * factor; }
BURNS(burn_true, 3)
BURNS(burn_lies, 5)

struct string { const char *text; uint64_t bytes; };
#if LIST
struct labels { struct string *list; uint64_t count, room; };
#define SET(pairs, n) {pairs, n, n}
#else
struct bucket { uint8_t top[8]; struct string keys[8], values[8]; };
struct map { uint64_t count; uint8_t flags, log2; uint16_t overflows; uint32_t seed; struct bucket *buckets; };
#endif

static struct g g, other;
static struct m m = {.curg = &g};

static void lie(struct g *as, const void *labels)
{
    g.labels = labels;
    tlsg = as;
    burn_lies();
    tlsg = 0;
}

int main(void)
{
    g.m = other.m = &m;
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
    for (;;) {
#if LIST
        struct string pair[] = {{"key", 3}, {"value", 5}}, bad[] = {{"key", 3}, {(const char *)8, 1ull << 40}};
        struct labels good = {pair, 1, 1}, nowhere = {(struct string *)16, 3, 3}, torn = {bad, 1, 1};
        const void *set = &good, *sets[] = {&nowhere, &torn, (const void *)24, (const void *)~0ull, (const void *)(1ull << 62)};
#else
        struct bucket bucket = {.top = {0, 9}, .keys = {{0}, {"key", 3}}, .values = {{0}, {"value", 5}}}, holes = {.top = {9, 9, 9, 9, 9, 9, 9, 9}};
        for (int i = 0; i < 8; i++) holes.keys[i] = holes.values[i] = (struct string){(const char *)8, ~0ull};
        struct map good = {.count = 1, .buckets = &bucket}, large = {.count = 9, .log2 = 1, .buckets = &bucket}, nowhere = {.count = 1, .buckets = (void *)16}, torn = {.count = 8, .buckets = &holes};
        struct map *to_good = &good, *to_large = &large, *to_nowhere = &nowhere, *to_torn = &torn, *to_null = 0, *wild = (void *)~7ull;
        const void *set = &to_good, *sets[] = {&to_large, &to_nowhere, &to_torn, &to_null, &wild, (const void *)24};
#endif
        for (unsigned i = 0; i < sizeof(sets) / sizeof(*sets); i++)
            lie(&g, sets[i]);
        lie((struct g *)40, set); /* nothing there */
        m.curg = &other;
        other.m = (struct m *)&g;
        lie(&g, set); /* a goroutine of another thread's */
        m.curg = 0;
        lie(&g, set);
        m.curg = &g;
        g.m = 0;
        lie(&g, set);
        other.m = g.m = &m;
        g.labels = set;
        tlsg = &g;
        for (int i = 0; i < 5; i++)
            burn_true();
        tlsg = 0;
    }
}
"""


@pytest.mark.parametrize("version", ["go1.26.1", "go1.20.14"])
def test_a_program_that_lies(version, record_busy, run, tmp_path):
    """Nothing is told of what cannot be so, and what is true is."""
    gcc, source = need_command("gcc"), tmp_path / "liar.c"
    layout = {"go1.26.1": (1, 0x160, 0xb8), "go1.20.14": (0, 0x168, 0xc0)}[version]
    source.write_text(LIAR)
    defined = [f"-D{name}={value}" for name, value in zip(("LIST", "LABELS", "CURG"), layout)]
    subprocess.run([gcc, "-O0", "-g", "-no-pie", *defined, f'-DVERSION="\\{len(version):o}" "{version}"', "-o", tmp_path / "liar", source], check=True)
    subject = Subject(run(tmp_path / "liar"))
    samples, said = record_busy(subject, 4)
    seen = Counter()
    for sample in samples:
        for name in ("burn_true", "burn_lies"):
            if name in sample.frames:
                seen[name, sample.labels.get("key")] += sample.count
    assert {key for name, key in seen if name == "burn_lies"} == {None}, seen
    assert seen["burn_true", "value"] > 20 and seen["burn_true", None] <= seen["burn_true", "value"], seen
    assert int(re.search(r"(\d+) unlabelled", said)[1]) > 10, said
    assert subject.running.alive


def test_a_version_to_come(record_busy, run, tmp_path):
    gcc, source = need_command("gcc"), tmp_path / "liar.c"
    source.write_text(LIAR)
    subprocess.run([gcc, "-O0", "-g", "-no-pie", "-DLIST=1", "-DLABELS=0x160", "-DCURG=0xb8", '-DVERSION="\\10" "go1.99.1"', "-o", tmp_path / "liar", source], check=True)
    subject = Subject(run(tmp_path / "liar"))
    samples, said = record_busy(subject, 0.5)
    assert {sample.labels.get("key") for sample in samples} == {None}
    assert f"process {subject.pid} is a program of Go's (go1.99.1) whose" in said, said


def test_the_agent_tells_them(agent, run, profcheck, tmp_path):  # noqa: F811
    """In its profiles, and in what it sends."""
    receiver, wanted = ProfilesReceiver(), (A, B, INNER, LONG, many_of(subject_path("labelled")))
    started = agent("--set", "profile.rate=199", "--set", "budget.cpu=100%", "--set", f"otlp.profiles_endpoint={receiver.url}", "--set", "otlp.interval=1")
    subject = Subject(run(subject_path("labelled")))
    wait_for(lambda: started.metric("sonde_go_labels_processes") > 0, 60, "the process to be known")
    since = cpu_seconds(subject.pid)
    wait_for(lambda: cpu_seconds(subject.pid) > since + 1.5, 120, "some CPU time")
    path = tmp_path / "profile.pb.gz"
    path.write_bytes(started.get("/api/v1/profile?seconds=120&format=pprof")[2])
    told = {tuple(sorted(own_labels(s.labels).items())) for s in pprof.read(path)[0] if "main.burn" in s.frames}
    assert {tuple(sorted(labels.items())) for labels in wanted} <= told, told
    assert started.metric("sonde_go_labels_refused_total") == 0
    assert started.stop() == 0
    receiver.close()
    prefix = "process.context.label."
    sent = {tuple(sorted((key.removeprefix(prefix), value) for key, value in s["attributes"].items() if key.startswith(prefix)))
            for profiles in profcheck(*write(tmp_path, receiver.bodies())) for profile in profiles if profile["resource"]["process.pid"] == subject.pid for s in profile["samples"]}
    assert {tuple(sorted(labels.items())) for labels in wanted} <= sent, sent
