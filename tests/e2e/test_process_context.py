"""What a process says of itself (OTEP 4719) is what its samples are of: published by libsonde in C and in Python, and by hand after the OTEP's
text; read from outside by an agent that exports to OpenTelemetry's messages, and by `sonde record`."""
import signal
import subprocess
import time

import pprof
import pytest
from harness.machine import need_command, sanitizers
from harness.paths import BUILD, TOP
from harness.processes import cpu_seconds, wait_for
from harness.recording import is_recording
from harness.workloads import Subject
from profiles_receiver import write
from test_otlp_profiles import profcheck  # noqa: F401
from test_profiles_export import exporting, receiver  # noqa: F401
from test_python import env_of, package  # noqa: F401
from test_traces_otel import NEEDED

pytestmark = pytest.mark.usefixtures("root")

# The publication protocol step by step. SIGUSR1: another version of what is said. The child says nothing.
BY_HAND = """
import ctypes, mmap, os, signal, struct, sys, time

form = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)

def field(number, data):
    size, out = len(data), b""
    while size >= 0x80:
        out, size = out + bytes([size & 0x7f | 0x80]), size >> 7
    return bytes([number << 3 | 2]) + out + bytes([size]) + data

def pair(key, value):
    return field(1, field(1, key.encode()) + field(2, value))

def text(value):
    return field(1, value.encode())

def context(version):
    return field(1, pair("service.name", text(f"{form}-shop")) + pair("service.version", text(version)) + pair("service.instance.id", text(f"{form}-instance-{version}"))
                 + pair("deployment.environment.name", text("test\\u00e4")) + pair("port", b"\\x18\\x50") + pair("process.pid", b"\\x18\\x01") + pair("pid", b"\\x18\\x01")
                 + pair("escape", text("\\x1b[31mred")) + pair("long", text("x" * 5000)) + pair("list", field(5, field(1, text("a"))))
                 ) + field(2, field(1, b"threadlocal.schema_version") + field(2, text("tlsdesc_v1_dev")))

def address_of(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))

fd = os.memfd_create("OTEL_CTX") if form == "memfd" else -1
if fd >= 0:
    os.ftruncate(fd, 4096)
header = mmap.mmap(fd, 4096, flags=mmap.MAP_PRIVATE | (0 if fd >= 0 else mmap.MAP_ANONYMOUS), prot=mmap.PROT_READ | mmap.PROT_WRITE)
if fd >= 0:
    os.close(fd)
header.madvise(mmap.MADV_DONTFORK)

def payload(version):
    data = context(version)
    return ctypes.create_string_buffer(data, len(data))

now = payload("1")
struct.pack_into("=IIQQ", header, 8, 2, len(now), time.time_ns(), ctypes.addressof(now))
header[:8] = b"OTEL_CTX"
named = libc.prctl(0x53564d41, 0, ctypes.c_ulong(address_of(header)), ctypes.c_ulong(4096), b"OTEL_CTX") == 0

def update(*_):
    global now
    other = payload("2")
    struct.pack_into("=Q", header, 16, 0)
    struct.pack_into("=I", header, 12, len(other))
    struct.pack_into("=Q", header, 24, ctypes.addressof(other))
    struct.pack_into("=Q", header, 16, time.time_ns())
    now = other

signal.signal(signal.SIGUSR1, update)
child = os.fork()
if child:
    print("child", child, flush=True)
    print("named", named or form == "memfd", flush=True)
    print("pid", os.getpid(), flush=True)
    print("ready", flush=True)
else:
    libc.prctl(1, signal.SIGKILL)
while True:
    sum(range(200000))
    time.sleep(float(sys.argv[2]))
"""
PYTHON = """
import os, sys, time

from sonde import trace
manager = trace.Manager(sys.argv[1:])
print("pid", os.getpid(), flush=True)
print("ready", flush=True)
while True:
    sum(range(200000))
    time.sleep(0.03)
"""
C = """
#include <sonde/trace.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static volatile uint64_t sink;

int main(int argc, char **argv)
{
    struct sonde_trace_config *config;
    struct sonde_trace_manager *manager;
    char why[200] = "";
    if (sonde_trace_config_new(&config) < 0 || sonde_trace_config_take(config, &argc, argv, why, sizeof(why)) < 0 ||
        sonde_trace_manager_new(config, NULL, &manager, why, sizeof(why)) < 0)
        return fprintf(stderr, "%s\\n", why), 1;
    printf("pid %d\\nready\\n", getpid());
    fflush(stdout);
    for (;;) {
        for (uint64_t i = 0; i < 20000000; i++)
            sink += i;
        usleep(30000);
    }
}
"""


@pytest.fixture
def by_hand(run):
    def start(form, pause_s=0.03):
        subject = Subject(run("/usr/bin/python3", "-c", BY_HAND, form, str(pause_s)))
        return subject if subject.facts()["named"] == "True" else None  # a kernel without names of anonymous memory
    return start


def settings(name):
    """Whose spans nobody receives."""
    return ["mode=opentelemetry", "rate=1", "level=TIMESTAMPS", "opentelemetry,url=http://127.0.0.1:9/v1/traces",
            f"opentelemetry,resource=service.name={name}-shop", f"opentelemetry,resource=service.instance.id={name}-instance"]


@pytest.fixture
def by_libsonde(run, tmp_path, package):  # noqa: F811
    def start_c():
        (tmp_path / "shop.c").write_text(C)
        library = BUILD / "lib"
        subprocess.run([need_command("gcc"), "-O1", *(f"-fsanitize={kind}" for kind in sanitizers()), "-o", tmp_path / "shop", tmp_path / "shop.c", f"-I{TOP}/include",
                        f"-L{library}", "-lsonde", f"-Wl,-rpath,{library}"], check=True)
        return Subject(run(tmp_path / "shop", *(text for one in settings("c") for text in ("--trace-config", one))))

    def start_python():
        return Subject(run("/usr/bin/python3", "-c", PYTHON, *settings("python"), env=env_of(package)))
    return start_c, start_python


def expected_of(form, version):
    return {"service.name": f"{form}-shop", "service.version": version, "service.instance.id": f"{form}-instance-{version}", "deployment.environment.name": "test\u00e4",
            "port": 80}


SAID = ("service.name", "service.version", "service.instance.id", "deployment.environment.name", "port", "escape", "long", "list")


@NEEDED
def test_resources_of_what_is_exported(exporting, receiver, profcheck, by_hand, by_libsonde, tmp_path):  # noqa: F811
    """Each packet by OpenTelemetry's messages: no attribute twice, none of a version that was never said, none of a parent's in its child."""
    to = receiver()
    agent = exporting(to.url)
    hands = {form: subject for form in ("memfd", "anonymous") if (subject := by_hand(form))}
    c, python = (start() for start in by_libsonde)

    def has(*names):
        bodies = b"".join(to.bodies())
        return all(name.encode() in bodies for name in names)
    wait_for(lambda: has("c-instance", "python-instance", *(f"{form}-instance-1" for form in hands)), 120, "what all say of themselves")
    assert agent.metric("sonde_process_contexts") >= 2 + len(hands)
    for hand in hands.values():
        hand.running.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: has(*(f"{form}-instance-2" for form in hands)), 120, "what they say then")
    assert agent.stop() == 0
    packets = profcheck(*write(tmp_path, to.bodies()))
    resources = [profile["resource"] for profiles in packets for profile in profiles]

    def of(pid):
        found = [resource for resource in resources if resource["process.pid"] == int(pid)]
        return found, [{key: resource[key] for key in SAID if key in resource} for resource in found if "service.instance.id" in resource]
    for form, hand in hands.items():
        found, said = of(hand.pid)
        assert expected_of(form, "1") in said and expected_of(form, "2") in said, said
        assert all(one in (expected_of(form, "1"), expected_of(form, "2")) for one in said), said
        assert found[-1]["process.command"].startswith("python3") and found[-1]["service.instance.id"].endswith("-2")
        assert not any(set(resource) & {"threadlocal.schema_version"} for resource in found)
        found, said = of(hand.facts()["child"])
        assert found and not said and all(resource["service.name"] != f"{form}-shop" for resource in found), found
    for subject, name in ((c, "c"), (python, "python")):
        said = of(subject.pid)[1]
        assert said and all((one["service.name"], one["service.instance.id"]) == (f"{name}-shop", f"{name}-instance") for one in said), said


def test_labels_of_what_is_recorded(sonde, run, by_hand, tmp_path):
    hand, path = by_hand("memfd", 0), tmp_path / "profile.pb.gz"
    time.sleep(1)  # of a younger one it is not asked
    recording = run(sonde, "record", "-F", "199", "-p", hand.pid, "-o", path)
    wait_for(lambda: is_recording(recording.pid) or not recording.alive, 60, "the recording")
    since = cpu_seconds(hand.pid)
    wait_for(lambda: cpu_seconds(hand.pid) > since + 3, 120, "some CPU time")
    assert recording.stop(signal.SIGINT) == 0, recording.error
    expected, seen = expected_of("memfd", "1"), 0
    for sample in pprof.read(path)[0]:
        said = {key: sample.labels[key] for key in SAID if key in sample.labels}
        if "service.instance.id" in said:  # else it was taken before it could be read
            assert said == expected and sample.labels["pid"] == hand.pid
            seen += sample.count
    assert seen > 5
