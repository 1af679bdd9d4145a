"""Requests as they look from outside a server (`traced`): bpftrace on the probes of every request, beside the spans that the server sends of
some; and the context of its threads, read by gdb and from /proc as OpenTelemetry's OTEPs 4947 and 4719 say."""
import json
import re
import signal
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest
from harness.machine import need_command, sanitizers, skip
from harness.paths import BUILD, TOP
from harness.processes import descriptors, wait_for
from otlp_receiver import attributes
from test_traces import CONFIG, TRACED
from test_traces_otel import NEEDED, PARENT, TracedServer, official, receiver, serve  # noqa: F401 (fixtures)

IDS = "%016llx%016llx %016llx %lld", "arg0, arg1, arg2, arg3"
PROBES = {
    "request_start": (f"{IDS[0]} %s %s", f"{IDS[1]}, str(arg4), str(arg5)"),
    "request_end": (f"{IDS[0]} %d %s", f"{IDS[1]}, arg4, str(arg5)"),
    "thread_enter": (f"%d {IDS[0]}", f"tid, {IDS[1]}"),
    "thread_leave": (f"%d {IDS[0]}", f"tid, {IDS[1]}"),
}
NOBODY = ["0" * 32, "0" * 16, "0"]


class Listener:
    """bpftrace, attached to probes of a process: the words of each firing, in order."""

    def __init__(self, run, pid, *probes):
        said = [f'usdt:*:sonde_trace:{name} {{ printf("{name} %llu {PROBES[name][0]}\\n", nsecs, {PROBES[name][1]}); }}' for name in probes]
        # They are attached one after another, in whichever direction.
        self.running = run(need_command("bpftrace"), "-B", "none", "-p", str(pid), "-e", "\n".join(
            ['interval:ms:50 { printf("first\\n"); }', *said, 'interval:ms:50 { printf("last\\n"); }']), name="bpftrace")
        wait_for(lambda: {"first", "last"} <= set(self.running.out.split("\n")) or not self.running.alive, 60, "bpftrace to be attached")
        assert self.running.alive, self.running.error

    def heard(self):
        """In order of time, which what bpftrace reads from several CPUs is not."""
        lines = [line.split(" ") for line in self.running.out.rpartition("\n")[0].split("\n") if line.split(" ")[0] in PROBES]
        return [[name, *words] for name, _, *words in sorted(lines, key=lambda line: int(line[1]))]

    def end(self, count):
        """Until there are so many."""
        wait_for(lambda: len(self.heard()) >= count, 60, f"{count} firings", self)
        self.running.stop()
        return self.heard()

    def __str__(self):
        return self.running.out[-2000:] + self.running.error


@pytest.fixture
def listen(run, root, tracefs):
    return lambda server, *probes: Listener(run, server.running.pid, *(probes or PROBES))


@NEEDED
def test_every_request_is_heard_and_some_have_spans(serve, receiver, listen):
    """One in three is sampled, and what its caller says decides. Every span identifier that was heard with an `id` is that of a span which was
    sent, of its trace and model; of the others nothing was sent."""
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
    heard = listener.end(4 * (requests + children))
    counts = server.end()
    starts, ends = ({tuple(words[:3]): words[3:] for name, *words in heard if name == wanted} for wanted in ("request_start", "request_end"))
    assert len(starts) == len(ends) == requests + children and starts.keys() == ends.keys()  # each once, by its three identifiers
    assert len({span_id for _, span_id, _ in starts}) == requests + children
    by_trace = {}
    for (trace_id, span_id, _), (model, *_) in starts.items():
        by_trace.setdefault(trace_id, []).append(model)
    assert sorted(map(tuple, by_trace.values())) == sorted(
        [("simple",)] * 5 + [("ens", "simple")] * 4 + [("bls", "simple")] * 4 + [("simple", "simple")])  # both that came in one trace
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
    assert {trace_id for trace_id, _ in sent} <= {trace_id for trace_id, *_ in recorded}  # the spans below those


def test_threads_enter_and_leave(serve_files, listen):
    """What holds for a thread is what the last probe said of it."""
    server = serve_files("rate=1000")
    listener = listen(server)
    assert server.infer("bls", "b")[0] == 200
    heard = listener.end(8)
    ids = [words[:3] for name, *words in heard if name == "request_start"]
    tid = str(server.running.pid)
    assert [words[0] for name, *words in heard if name.startswith("thread")] == [tid] * 4
    assert [(name, words[1:] if name.startswith("thread") else words[:3]) for name, *words in heard] == [
        ("request_start", ids[0]), ("thread_enter", ids[0]), ("request_start", ids[1]), ("thread_enter", ids[1]), ("thread_leave", ids[0]),
        ("request_end", ids[1]), ("thread_leave", NOBODY), ("request_end", ids[0])]


@pytest.fixture
def serve_files(run, tmp_path):
    return lambda *settings: TracedServer(run, "level=TIMESTAMPS", f"triton,file={tmp_path}/t.json", *settings)


def test_no_request_is_lost_under_load(run, root, tracefs, tmp_path):
    """Two threads as fast as they go; bpftrace counts in the kernel. Who is attached changes nothing of what is sampled."""
    program = "\n".join(f'usdt:*:sonde_trace:{name} {{ @{name} = count(); }}' for name in PROBES)
    running = run(TRACED, CONFIG, "level=TIMESTAMPS", CONFIG, "rate=10", CONFIG, f"triton,file={tmp_path}/t.json", "--load", "3000", "wait", name="load")
    wait_for(lambda: "waiting" in running.out, what="the server")
    listener = run(need_command("bpftrace"), "-B", "line", "-p", str(running.pid), "-e",
                   'interval:ms:50 { printf("first\\n"); }\n' + program + '\ninterval:ms:50 { printf("last\\n"); }', name="bpftrace")
    wait_for(lambda: {"first", "last"} <= set(listener.out.split("\n")) or not listener.alive, 60, "bpftrace to be attached")
    running.process.send_signal(signal.SIGUSR1)
    assert running.wait(60) == 0, running.error
    listener.stop()
    counts = {name: int(count) for name, count in re.findall(r"@(\w+): (\d+)", listener.out)}
    traces = 6000 + 4000  # and the steps of ens and bls
    assert counts == {"request_start": traces, "request_end": traces, "thread_enter": traces, "thread_leave": traces}
    assert "sampled 600 written 600 " in running.out


FORKS = r"""
#include <sonde/trace.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sonde_trace_config *config;
    struct sonde_trace_manager *manager;
    struct sonde_trace_model *model;
    sigset_t start;
    int got, status = 1;
    if (argc < 2 || sonde_trace_config_new(&config) < 0 || sonde_trace_config_set(config, "--trace-config", argv[1], NULL, 0) < 0 ||
        sonde_trace_config_set(config, "--trace-config", "level=TIMESTAMPS", NULL, 0) < 0 ||
        sonde_trace_config_set(config, "--trace-config", "rate=1", NULL, 0) < 0 || sonde_trace_manager_new(config, NULL, &manager, NULL, 0) < 0 ||
        sonde_trace_model_new(manager, "m", 1, &model) < 0)
        return 1;
    sonde_trace_config_free(config);
    sigemptyset(&start);
    sigaddset(&start, SIGUSR1);
    sigprocmask(SIG_BLOCK, &start, NULL);
    printf("waiting\n");
    fflush(stdout);
    sigwait(&start, &got);
    struct sonde_trace *t = sonde_trace_start(model, NULL);
    sonde_trace_enter(t);
    pid_t child = fork();
    if (child == 0) {
        sonde_trace_leave(t);
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    }
    for (int i = 0; i < (child == 0 ? 3 : 0); i++) {
        struct sonde_trace *own = sonde_trace_start(model, NULL);
        sonde_trace_enter(own);
        sonde_trace_leave(own);
        sonde_trace_end(own, SONDE_TRACE_OK, NULL);
    }
    if (child == 0)
        _exit(sonde_trace_manager_flush(manager, 20000) != 0);
    waitpid(child, &status, 0);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    sonde_trace_model_free(model);
    sonde_trace_manager_free(manager);
    printf("%d %d\n", child, status);
    return 0;
}
"""


def test_a_fork_in_the_middle_of_a_request(run, root, tracefs, tmp_path):
    """With bpftrace attached to the object, which children have too: what the parent began ends there alone, and the child's are its own."""
    (tmp_path / "forks.c").write_text(FORKS)
    subprocess.run([need_command("gcc"), f"-I{TOP}/include", tmp_path / "forks.c", "-o", tmp_path / "forks", f"-L{BUILD}/lib", "-lsonde",
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

    def heard():
        lines = [line.split() for line in listener.out.rpartition("\n")[0].split("\n") if line.split(" ")[0] in PROBES]
        return [(int(pid), name, int(number)) for name, _, pid, number in sorted(lines, key=lambda line: int(line[1]))]
    wait_for(lambda: len(heard()) >= 16, 60, "the firings", listener.out)
    listener.stop()
    said = heard()
    assert [event[1:] for event in said if event[0] == running.pid] == [
        ("request_start", 1), ("thread_enter", 1), ("thread_leave", 0), ("request_end", 1)]
    assert [event[1:] for event in said if event[0] == child] == [
        event for i in (2, 3, 4) for event in (("request_start", i), ("thread_enter", i), ("thread_leave", 0), ("request_end", i))]
    assert len(said) == 16


def test_the_guide(serve_files, run, root, tracefs):
    """The bpftrace one-liners of docs/traces.md: every request is in the first one's histograms, none at all is sampled."""
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
    server.end()  # the last request ends after its answer
    write = r"^[0-9a-f]{32} (?:1|64)$"  # of the answer, on x86-64 or arm64
    wait_for(lambda: len(re.findall(write, listeners[1].out, re.M)) >= 9, 60, "the system calls", listeners[1])
    for listener in listeners:
        listener.stop()
    counts = {}
    for model, body in re.findall(r"^@us\[(\w+)\]: *\n((?:[\[(].*\n)+)", listeners[0].out, re.M):
        counts[model] = sum(int(count) for count in re.findall(r"[\])] +(\d+) \|", body))
    assert counts == {"simple": 9, "ens": 3, "bls": 3}, listeners[0].out
    assert len(set(re.findall(write, listeners[1].out, re.M))) == 9


# --- the thread's context ------------------------------------------------------------------------

@NEEDED
def test_a_debugger_reads_the_record(run, serve, receiver, root, tmp_path):  # noqa: F811
    """By the name that the OTEP gives the variable, byte for byte; gdb finds it in the thread as any reader would."""
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
    """By OTEP 4719: the payload. Its header is found by the mapping's name."""
    mapping, = (line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if re.search(r" (\[anon_shmem:|\[anon:|/memfd:)OTEL_CTX", line))
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(int(mapping.split("-")[0], 16))
        signature, version, size, published_ns, payload = struct.unpack("=8sIIQQ", memory.read(32))
        assert (signature, version) == (b"OTEL_CTX", 2) and published_ns > 0
        memory.seek(payload)
        return memory.read(size)


# The message ProcessContext of process_context.proto, which the package does not have yet, of the official ones that it has.
DECODE = """if True:
    import json, sys
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    import opentelemetry.proto.resource.v1.resource_pb2
    official = "opentelemetry/proto/common/v1/common.proto", "opentelemetry/proto/resource/v1/resource.proto"
    file = descriptor_pb2.FileDescriptorProto(name="process_context.proto", package="p", syntax="proto3", dependency=official)
    message = file.message_type.add(name="ProcessContext")
    message.field.add(name="resource", number=1, type=11, label=1, type_name=".opentelemetry.proto.resource.v1.Resource")
    message.field.add(name="attributes", number=2, type=11, label=3, type_name=".opentelemetry.proto.common.v1.KeyValue")
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    context = message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName("p.ProcessContext"))
    print(json.dumps(json_format.MessageToDict(context.FromString(sys.stdin.buffer.read()))))"""


@NEEDED
def test_the_context_of_the_process(serve, receiver, root, official):  # noqa: F811
    """Decoded by the official messages: the resource of the spans, and how the threads' records are read."""
    to = receiver()
    server = serve(to.url, "opentelemetry,resource=service.name=mine", "opentelemetry,resource=a=\u00e4")
    context = official(read_process_context(server.running.pid), program=DECODE)
    assert server.infer("simple", "r")[0] == 200
    server.end()
    packet = json.loads(to.posts[0]["body"])
    assert attributes(context["resource"]["attributes"]) == attributes(packet["resourceSpans"][0]["resource"]["attributes"])
    values = {pair["key"]: pair["value"] for pair in context["attributes"]}
    assert values == {"threadlocal.schema_version": {"stringValue": "tlsdesc_v1_dev"},
                      "threadlocal.attribute_key_map": {"arrayValue": {"values": [{"stringValue": "triton.model_name"}]}}}


@NEEDED
def test_opentelemetrys_profiler_reads_the_context(serve, receiver, root):  # noqa: F811
    """By its own packages, which are as strict as it is: which mapping is a context's, version, size, time of publication, message."""
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


@pytest.mark.plain_build
def test_readers_find_the_variable(tmp_path):
    """In the dynamic symbol table of the library, with a relocation by its name; and of a program that contains the library."""
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
