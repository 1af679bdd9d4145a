"""Requests observed from outside a server (`traced`): tracers on the probes of every request, compared with the spans that the server exports for
some; and its threads' context, read by gdb and from /proc as OpenTelemetry's OTEPs 4947 and 4719 specify."""
import json
import re
import signal
import struct
import subprocess
import threading
import time
from pathlib import Path

import otlp_decoder
import pytest
from harness.machine import need_command, sanitizers, skip
from harness.paths import BUILD, TOP
from harness.processes import descriptors, wait_for
from otlp_receiver import attributes
from traced_server import CONFIG, NEEDED, PARENT, TRACED, TracedServer, official, receiver, serve  # noqa: F401 (fixtures)

HERE = Path(__file__).resolve().parent
IDS = "%016llx%016llx %016llx %lld", "arg0, arg1, arg2, arg3"
PROBES = {
    "request_start": (f"{IDS[0]} %s %s", f"{IDS[1]}, str(arg4), str(arg5)"),
    "request_end": (f"{IDS[0]} %d %s", f"{IDS[1]}, arg4, str(arg5)"),
    "thread_enter": (f"%d {IDS[0]}", f"tid, {IDS[1]}"),
    "thread_leave": (f"%d {IDS[0]}", f"tid, {IDS[1]}"),
}
NO_REQUEST = ["0" * 32, "0" * 16, "0"]


class Watches:
    """One `sonde probes watch` per probe of a process."""

    def __init__(self, run, sonde, pid, *probes):
        self.watches = {name: run(sonde, "probes", "watch", f"sonde_trace:{name}", "-p", pid, "--json", name=name) for name in probes}
        for watching in self.watches.values():
            wait_for(lambda watching=watching: "attached to" in watching.error or not watching.alive, 60, "the watch to be attached")
            assert watching.alive, watching.error

    @staticmethod
    def words(name, firing):
        high, low, span_id, number, *rest = (argument["value"] for argument in firing["arguments"])
        ids = [f"{high:016x}{low:016x}", f"{span_id:016x}", str(number)]
        return [str(firing["tid"]), *ids] if name.startswith("thread") else [*ids, *("" if value is None else str(value) for value in rest)]

    def received(self):
        """The firings of each probe in order; probes one after another."""
        return [[name, *self.words(name, firing)] for name, watching in self.watches.items()
                for firing in map(json.loads, watching.out.rpartition("\n")[0].splitlines()) if "arguments" in firing]

    def end(self, count):
        """All firings, once there are `count`."""
        wait_for(lambda: len(self.received()) >= count, 60, f"{count} firings")
        for watching in self.watches.values():
            assert watching.stop() == 0, watching.error
        return self.received()


class Bpftrace:
    """bpftrace, attached to probes of a process: the words of each firing, ordered by time."""

    def __init__(self, run, pid, *probes):
        said = [f'usdt:*:sonde_trace:{name} {{ printf("{name} %llu {PROBES[name][0]}\\n", nsecs, {PROBES[name][1]}); }}' for name in probes]
        # bpftrace attaches its probes one after another, in either order.
        self.running = run(need_command("bpftrace"), "-B", "none", "-p", str(pid), "-e", "\n".join(
            ['interval:ms:50 { printf("first\\n"); }', *said, 'interval:ms:50 { printf("last\\n"); }']), name="bpftrace")
        wait_for(lambda: {"first", "last"} <= set(self.running.out.split("\n")) or not self.running.alive, 60, "bpftrace to be attached")
        assert self.running.alive, self.running.error

    def received(self):
        """Sorted: bpftrace's output is not ordered, because it reads the CPUs' buffers one after another."""
        lines = [line.split(" ") for line in self.running.out.rpartition("\n")[0].split("\n") if line.split(" ")[0] in PROBES]
        return [[name, *words] for name, _, *words in sorted(lines, key=lambda line: int(line[1]))]

    def end(self, count):
        """All firings, once there are `count`."""
        wait_for(lambda: len(self.received()) >= count, 60, f"{count} firings", self)
        self.running.stop()
        return self.received()

    def __str__(self):
        return self.running.out[-2000:] + self.running.error


@pytest.fixture(params=["sonde", pytest.param("bpftrace", marks=pytest.mark.peer)])
def listen(request, run, sonde, root, tracefs):
    """listen(server, probes...) -> an object that receives their firings; all probes if none are named."""
    if request.param == "sonde":
        return lambda server, *probes: Watches(run, sonde, server.running.pid, *(probes or PROBES))
    return lambda server, *probes: Bpftrace(run, server.running.pid, *(probes or PROBES))


@pytest.mark.sanitized
@NEEDED
def test_probes_fire_for_every_request_and_match_the_spans(serve, receiver, listen):
    """One in three is sampled unless its caller decides. Every span id of a firing with an `id` belongs to an exported span of the same trace and
    model; other requests have no span."""
    to = receiver()
    server = serve(to.url, "rate=3")
    listener = listen(server)
    models = [("simple", "ens", "bls")[i % 3] for i in range(12)]
    for i, model in enumerate(models):
        assert server.infer(model, f"r{i}")[0] == 200
    assert server.infer("simple", "sampled", traceparent=PARENT)[0] == 200
    assert server.infer("simple", "unsampled", traceparent=PARENT[:-1] + "0")[0] == 200
    assert server.infer("simple", "", body=b"{")[0] == 400
    requests, children = 12 + 3, 8
    received = listener.end(4 * (requests + children))
    counts = server.end()
    starts, ends = ({tuple(words[:3]): words[3:] for name, *words in received if name == wanted} for wanted in ("request_start", "request_end"))
    assert len(starts) == len(ends) == requests + children and starts.keys() == ends.keys()  # each once, by its three ids
    assert len({span_id for _, span_id, _ in starts}) == requests + children
    by_trace = {}
    for (trace_id, span_id, _), (model, *_) in starts.items():
        by_trace.setdefault(trace_id, []).append(model)
    assert sorted(map(tuple, by_trace.values())) == sorted(
        [("simple",)] * 5 + [("ens", "simple")] * 4 + [("bls", "simple")] * 4 + [("simple", "simple")])  # two requests of one trace
    ids = {words[1]: (key, words[0]) for key, words in ends.items() if words[1]}
    assert ids.keys() == {f"r{i}" for i in range(12)} | {"sampled", "unsampled"}
    assert {key[0] for key, _ in (ids["sampled"], ids["unsampled"])} == {PARENT.split("-")[1]}
    assert sorted(status for _, status in ids.values()) == ["0"] * 14 and sorted(words[0] for words in ends.values())[-1] == "1"
    recorded = {key for key in starts if key[2] != "0"}
    assert len({trace_id for trace_id, *_ in recorded}) == counts["sampled"] == 5
    assert ids["sampled"][0] in recorded and ids["unsampled"][0] not in recorded
    sent = {(span["traceId"], span["spanId"]): span for span in to.spans()}
    for trace_id, span_id, number in recorded:
        span = sent.pop((trace_id, span_id))
        assert span["name"] == "InferRequest" or (span["name"], str(attributes(span["attributes"])["triton.trace_id"])) == ("simple", number)
    assert {trace_id for trace_id, _ in sent} <= {trace_id for trace_id, *_ in recorded}  # child spans


@pytest.fixture
def serve_files(run, tmp_path):
    return lambda *settings: TracedServer(run, "level=TIMESTAMPS", f"triton,file={tmp_path}/t.json", *settings)


def test_enter_and_leave_probes_follow_each_thread(serve_files, listen):
    """The last firing of a thread has the request that it works for."""
    server = serve_files("rate=1000")
    listener = listen(server)
    assert server.infer("bls", "b")[0] == 200
    received = listener.end(8)
    outer, inner = [words[:3] for name, *words in received if name == "request_start"]
    threads = [(name, *words) for name, *words in received if name.startswith("thread")]
    assert {words[0] for _, *words in threads} == {str(server.running.pid)}
    assert {name: [words[1:] for one, *words in threads if one == name] for name in ("thread_enter", "thread_leave")} == {
        "thread_enter": [outer, inner], "thread_leave": [outer, NO_REQUEST]}
    assert [words[:3] for name, *words in received if name == "request_end"] == [inner, outer]
    if isinstance(listener, Bpftrace):
        assert [name for name, *_ in received] == ["request_start", "thread_enter", "request_start", "thread_enter", "thread_leave", "request_end", "thread_leave",
                                                "request_end"]


def start_load(run, tmp_path):
    """`traced`, which at SIGUSR1 serves 3000 requests on each of two threads as fast as it can."""
    running = run(TRACED, CONFIG, "level=TIMESTAMPS", CONFIG, "rate=10", CONFIG, f"triton,file={tmp_path}/t.json", "--load", "3000", "wait", name="load")
    wait_for(lambda: "waiting" in running.out, what="the server")
    return running


REQUESTS_OF_LOAD = 6000 + 4000  # plus the steps of ens and bls


def test_no_firing_is_lost_uncounted_under_load(run, sonde, root, tmp_path):
    """Each watch counts every firing as seen or lost. An attached tracer does not change the sampling."""
    running = start_load(run, tmp_path)
    watches = [run(sonde, "probes", "watch", f"sonde_trace:{name}", "-p", running.pid, "--json", "--hist", "id", name=name) for name in PROBES]
    for watching in watches:
        wait_for(lambda watching=watching: "attached to" in watching.error or not watching.alive, 60, "the watch to be attached")
        assert watching.alive, watching.error
    running.process.send_signal(signal.SIGUSR1)
    assert running.wait(120) == 0, running.error
    for watching in watches:  # each watch ends with the process
        assert watching.wait(60) == 0, watching.error
        counts = json.loads(watching.out)
        assert counts["fired"] + counts["lost"] == REQUESTS_OF_LOAD
    assert "sampled 600 written 600 " in running.out


@pytest.mark.peer
def test_bpftrace_counts_every_request_under_load(run, root, tracefs, tmp_path):
    program = "\n".join(f'usdt:*:sonde_trace:{name} {{ @{name} = count(); }}' for name in PROBES)
    running = start_load(run, tmp_path)
    listener = run(need_command("bpftrace"), "-B", "line", "-p", str(running.pid), "-e",
                   'interval:ms:50 { printf("first\\n"); }\n' + program + '\ninterval:ms:50 { printf("last\\n"); }', name="bpftrace")
    wait_for(lambda: {"first", "last"} <= set(listener.out.split("\n")) or not listener.alive, 60, "bpftrace to be attached")
    running.process.send_signal(signal.SIGUSR1)
    assert running.wait(60) == 0, running.error
    listener.stop()
    counts = {name: int(count) for name, count in re.findall(r"@(\w+): (\d+)", listener.out)}
    assert counts == dict.fromkeys(PROBES, REQUESTS_OF_LOAD)


@pytest.mark.peer
def test_fork_during_a_request_does_not_mix_requests(run, root, tracefs, tmp_path):
    """With bpftrace attached to the object, which children inherit: requests begun by the parent end in the parent, and a child's are its own."""
    subprocess.run([need_command("gcc"), f"-I{TOP}/include", TOP / "tests/workloads/forked_request.c", "-o", tmp_path / "forks", f"-L{BUILD}/lib", "-lsonde",
                    f"-Wl,-rpath,{BUILD}/lib", *(f"-fsanitize={kind}" for kind in sanitizers())], check=True, timeout=60)
    running = run(tmp_path / "forks", f"triton,file={tmp_path}/t.json")
    wait_for(lambda: "waiting" in running.out, what="the program", seen=running.error)
    place, = (path for path, kind in descriptors(running.pid).items() if "memfd:sonde_trace" in kind)
    said = [f'usdt:{place}:sonde_trace:{name} {{ printf("{name} %llu %d %lld\\n", nsecs, pid, arg3); }}' for name in PROBES]
    listener = run(need_command("bpftrace"), "-B", "none", "-e", "\n".join(
        ['interval:ms:50 { printf("first\\n"); }', *said, 'interval:ms:50 { printf("last\\n"); }']), name="bpftrace")
    wait_for(lambda: {"first", "last"} <= set(listener.out.split("\n")) or not listener.alive, 60, "bpftrace to be attached")
    running.process.send_signal(signal.SIGUSR1)
    assert running.wait(60) == 0, running.error
    child, status = map(int, running.out.splitlines()[-1].split())
    assert status == 0

    def received():
        lines = [line.split() for line in listener.out.rpartition("\n")[0].split("\n") if line.split(" ")[0] in PROBES]
        return [(int(pid), name, int(number)) for name, _, pid, number in sorted(lines, key=lambda line: int(line[1]))]
    wait_for(lambda: len(received()) >= 16, 60, "the firings", listener.out)
    listener.stop()
    said = received()
    assert [event[1:] for event in said if event[0] == running.pid] == [
        ("request_start", 1), ("thread_enter", 1), ("thread_leave", 0), ("request_end", 1)]
    assert [event[1:] for event in said if event[0] == child] == [
        event for i in (2, 3, 4) for event in (("request_start", i), ("thread_enter", i), ("thread_leave", 0), ("request_end", i))]
    assert len(said) == 16


@pytest.mark.peer
def test_one_liners_of_the_guide_work(serve_files, run, root, tracefs):
    """The bpftrace one-liners of docs/traces.md: every request is in the first one's histograms, although none is sampled."""
    durations, system_calls = re.findall(r"^    bpftrace -p PID -e '(.*)'$", (TOP / "docs/traces.md").read_text(), re.M)
    server = serve_files("rate=1000")

    def listen_with(program, name):
        listener = run(need_command("bpftrace"), "-B", "line", "-p", server.running.pid, "-e",
                       f'interval:ms:50 {{ printf("first\\n"); }} {program} interval:ms:50 {{ printf("last\\n"); }}', name=name)
        wait_for(lambda: {"first", "last"} <= set(listener.out.split("\n")) or not listener.alive, 60, "bpftrace to be attached")
        assert listener.alive, listener.error
        return listener
    listeners = [listen_with(durations, "durations"), listen_with(system_calls, "calls")]
    for i in range(9):
        assert server.infer(("simple", "ens", "bls")[i % 3], f"r{i}")[0] == 200
    server.end()  # the last request ends after its response was sent
    write = r"^[0-9a-f]{32} (?:1|64)$"  # the write of the response, on x86-64 or arm64
    wait_for(lambda: len(re.findall(write, listeners[1].out, re.M)) >= 9, 60, "the system calls", listeners[1])
    for listener in listeners:
        listener.stop()
    counts = {}
    for model, body in re.findall(r"^@us\[(\w+)\]: *\n((?:[\[(].*\n)+)", listeners[0].out, re.M):
        counts[model] = sum(int(count) for count in re.findall(r"[\])] +(\d+) \|", body))
    assert counts == {"simple": 9, "ens": 3, "bls": 3}, listeners[0].out
    assert len(set(re.findall(write, listeners[1].out, re.M))) == 9


# --- the thread's context ------------------------------------------------------------------------

@pytest.mark.peer
@NEEDED
def test_debugger_reads_the_thread_context(run, serve, receiver, root, tmp_path):  # noqa: F811
    """By the variable's name in the OTEP, byte for byte; gdb finds it in the thread as any reader would."""
    to = receiver()
    server = serve(to.url)
    commands = ["set pagination off", "tbreak sonde_trace_leave", f"shell touch {tmp_path}/attached", "continue",
                "x/36xb *(unsigned char **)&otel_thread_ctx_v1", "tbreak sonde_trace_end", "continue", "x/1xg &otel_thread_ctx_v1", "detach"]
    gdb = run(need_command("gdb"), "-q", "-nx", "-batch", "-p", server.running.pid, *(part for command in commands for part in ("-ex", command)), name="gdb")
    wait_for(lambda: (tmp_path / "attached").exists() or not gdb.alive, 60, "gdb to be attached")
    asking = threading.Thread(target=server.infer, args=("simple", "r"), kwargs={"traceparent": PARENT})
    asking.start()
    assert gdb.wait(60) == 0, gdb.error
    asking.join(30)
    server.end()
    said = gdb.out + gdb.error
    data = bytes(int(byte, 16) for line in re.findall(r"^0x[0-9a-f]+[^\n]*?:((?:\t0x[0-9a-f]{2})+)$", said, re.M) for byte in line.split())
    trace_id, span_id, valid, flags, size, key, length, model = struct.unpack("=16s8sBBHBB6s", data)
    request, = (span for span in to.spans() if span["name"] == "InferRequest")
    assert (trace_id.hex(), span_id.hex()) == (request["traceId"], request["spanId"]) and request["traceId"] == PARENT.split("-")[1]
    assert (valid, flags, size, key, length, model) == (1, 1, 8, 0, 6, b"simple")
    after, = re.findall(r"^0x[0-9a-f]+[^\n]*?:\t(0x[0-9a-f]{16})$", said, re.M)
    assert int(after, 16) == 0


def read_process_context(pid):
    """The payload, by OTEP 4719. The mapping's name leads to its header."""
    mapping, = (line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if re.search(r" (\[anon_shmem:|\[anon:|/memfd:)OTEL_CTX", line))
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(int(mapping.split("-")[0], 16))
        signature, version, size, published_ns, payload = struct.unpack("=8sIIQQ", memory.read(32))
        assert (signature, version) == (b"OTEL_CTX", 2) and published_ns > 0
        memory.seek(payload)
        return memory.read(size)


@pytest.fixture(params=["own", pytest.param("official", marks=pytest.mark.peer)])
def decode_context(request):
    """A decoder of ProcessContext: the table of otlp_decoder.py, or the messages of opentelemetry-proto."""
    if request.param == "own":
        return lambda body: otlp_decoder.decode(body, "ProcessContext")
    official = request.getfixturevalue("official")  # noqa: F811
    return lambda body: official(body, program=(HERE / "process_context_decoder.py").read_text())


@NEEDED
def test_process_context_is_the_spans_resource(serve, receiver, root, decode_context):  # noqa: F811
    """The spans' resource, and how to read the threads' contexts."""
    to = receiver()
    server = serve(to.url, "opentelemetry,resource=service.name=mine", "opentelemetry,resource=a=\u00e4")
    context = decode_context(read_process_context(server.running.pid))
    assert server.infer("simple", "r")[0] == 200
    server.end()
    packet = json.loads(to.posts[0]["body"])
    assert attributes(context["resource"]["attributes"]) == attributes(packet["resourceSpans"][0]["resource"]["attributes"])
    values = {pair["key"]: pair["value"] for pair in context["attributes"]}
    assert values == {"threadlocal.schema_version": {"stringValue": "tlsdesc_v1_dev"},
                      "threadlocal.attribute_key_map": {"arrayValue": {"values": [{"stringValue": "triton.model_name"}]}}}


@pytest.mark.peer
@NEEDED
def test_opentelemetry_profiler_reads_the_process_context(serve, receiver, root):  # noqa: F811
    """By the profiler's own packages, which are as strict as it is: mapping name, version, size, publication time, message."""
    reader = TOP / "build/opentelemetry/process-context"
    if not reader.exists():
        skip("the reader of OpenTelemetry's profiler has not been built here: tests/opentelemetry/build")
    to, before = receiver(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    server = serve(to.url, "opentelemetry,resource=service.name=mine", "opentelemetry,resource=a=\u00e4")
    done = subprocess.run([reader, str(server.running.pid)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert before < said["publishedAtNs"] < time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert server.infer("simple", "r")[0] == 200
    server.end()
    packet = json.loads(to.posts[0]["body"])
    assert attributes(said["context"]["resource"]["attributes"]) == attributes(packet["resourceSpans"][0]["resource"]["attributes"])
    assert attributes(said["context"]["attributes"]) == {"threadlocal.schema_version": "tlsdesc_v1_dev",
                                                         "threadlocal.attribute_key_map": ["triton.model_name"]}


def test_context_variable_is_in_the_dynamic_symbol_table(tmp_path):
    """In the dynamic symbol table of the library, with a relocation by name; also in a program that contains the library."""
    library = BUILD / "lib/libsonde.so"
    symbols = subprocess.run([need_command("readelf"), "--dyn-syms", "-rW", library], capture_output=True, text=True, timeout=60).stdout
    assert re.search(r" 8 TLS +GLOBAL DEFAULT +\d+ otel_thread_ctx_v1(@@|$)", symbols, re.M), symbols
    assert re.search(r"R_(X86_64_(TLSDESC|DTPMOD64)|AARCH64_TLSDESC)\S* .*otel_thread_ctx_v1", symbols), symbols
    program = tmp_path / "program.c"
    program.write_text("#include <sonde/trace.h>\nint main(void) { sonde_trace_enter(0); return 0; }\n")
    private = re.search(r"^Libs.private: (.*)", (BUILD / "meson-private/sonde.pc").read_text(), re.M)[1].split()
    subprocess.run([need_command("gcc"), f"-I{TOP}/include", program, BUILD / "lib/libsonde.a", *private, "-o", tmp_path / "program"], check=True, timeout=60)
    symbols = subprocess.run(["readelf", "--dyn-syms", "-W", tmp_path / "program"], capture_output=True, text=True, timeout=60).stdout
    assert re.search(r" 8 TLS +GLOBAL DEFAULT +\d+ otel_thread_ctx_v1$", symbols, re.M), symbols
