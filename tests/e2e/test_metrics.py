"""docs/metrics.md, and docs/signals for single signals, document every metric with its type and labels, and no others."""
import json
import mmap
import os
import re
import socket
import subprocess
import sys
import time

import pytest

from file_systems import file_system  # noqa: F401 (a fixture)
from gpu_fake import gpus  # noqa: F401 (a fixture)
from harness.agents import NO_REQUESTS, everything_enabled
from harness.paths import TOP
from harness.processes import wait_for
from harness.workloads import workload_path
from io_probe import limitation
from memory_limits import cgroup, large_file, limited  # noqa: F401 (fixtures)
from real_servers import get, start_prefork
from test_calls import server_that_calls
from test_cuda import call_libcuda
from test_drops import lose_packets
from test_slow_calls import SLOW_CONNECTS
from test_streams import ask, chat, start_model_server

# Labels of GPUs begin with hw_, too; sonde_cuda is the provider of libsonde-cuda's probes.
FAMILY = r"(?:(?:sonde|http_server|rpc_server|gen_ai_server|hw_gpu)_[a-z0-9_]+(?<!hw_gpu_task)(?<!sonde_cuda)|hw_(?:status|errors|errors_total|[a-z]+_(?:watts|celsius|joules|joules_total)))"
SUFFIX = {"counter": "_total", "info": "_info"}
PAGE = "\n".join(path.read_text() for path in [TOP / "docs/metrics.md", *sorted((TOP / "docs").glob("signals/*.md"))])
DOCUMENTED = {name: (type_, set(re.findall(r"`(\w+)`", labels))) for name, type_, labels in
        re.findall(r"^\| `(\w+)` \| (gauge|counter|info|histogram) \| ([^|]*)\|", PAGE, re.M)}


def without_suffix(name, type_):
    return name.removesuffix(SUFFIX.get(type_, ""))


def test_every_metric_of_the_source_is_documented():
    """Includes metrics that this machine does not export. Those of `sonde server` are in a page of their own; src/client only reads them."""
    written, of_server = set(), set()
    for path in set((TOP / "src").rglob("*.c")) - set((TOP / "src/client").rglob("*.c")):
        found = of_server if path.is_relative_to(TOP / "src/server") else written
        found |= set(re.findall(rf'"({FAMILY})"', path.read_text()))
    about_server = (TOP / "docs/server.md").read_text()
    assert of_server and all(re.search(f"`{name}(_total)?`", about_server) for name in of_server)
    assert {without_suffix(name, type_) for name, (type_, _) in DOCUMENTED.items()} == written
    assert len(DOCUMENTED) == len(re.findall(rf"^\| `{FAMILY}` ", PAGE, re.M)), "a row with an unknown type, or a name twice"


def test_every_node_event_is_documented():
    emitted = {name for path in (TOP / "src/signals").rglob("*.c") for name in re.findall(r'\.name = "([a-z_]+\.[a-z_]+)"', path.read_text())}
    assert emitted == {name for path in (TOP / "docs/signals").glob("*.md") for name in re.findall(r'"name":"([a-z_.]+)"', path.read_text())}


def test_every_loss_reason_is_documented():
    reasons = dict(re.findall(r'X\(\w+, "(\w+)",[ \\\n]+"([^"]+)"\)', (TOP / "src/model/loss.h").read_text()))
    assert reasons and dict(re.findall(r"^\| `(\w+)` \| ([^|`]+) \|$", PAGE, re.M)) == reasons
    agent_only = {"shed", "request_unmatched", "request_unbound", "request_not_detailed", "stream_unread", "call_uncounted", "not_resolved"}
    manual = (TOP / "docs/man/sonde-record.1").read_text().replace("\\-", "-").partition(".SH LOSSES")[2].partition(".SH ")[0]
    assert dict(re.findall(r"^\.TP\n\.B (\w+)\n(.+)$", manual, re.M)) == {name: words for name, words in reasons.items() if name not in agent_only}


def exported(started):
    status, _, body = started.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert status == 200
    types, labels = {}, {}
    for line in re.sub(r" # \{.*", "", body.decode()).splitlines():
        if family := re.match(r"# TYPE (\S+) (\S+)", line):
            name = family[1] + SUFFIX.get(family[2], "")
            types[name] = family[2]
        elif point := re.match(r"([a-z_]+)(?:\{(.*)\})? ", line):
            own = re.sub(r"_(bucket|sum|count)$", "", point[1]) if types.get(name) == "histogram" else point[1]
            labels.setdefault(own, set()).update(re.findall(r'(\w+)="', point[2] or ""))
    for name in types:
        if types[name] == "histogram":
            labels.get(name, set()).discard("le")
    return {name: (types[name], labels.get(name, set())) for name in types}


def use_a_file(path):
    """I/O of each kind that has a metric of its own: bytes read and written, also by a block device, an error, and the pages of a program that starts."""
    with open(path, "wb") as f:
        f.write(b"x" * 4096)
        os.fsync(f.fileno())
    assert len(path.read_bytes()) == 4096
    direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
    assert os.preadv(direct, [mmap.mmap(-1, 4096)], 0) == 4096
    os.close(direct)
    with pytest.raises(FileNotFoundError):
        open(path.parent / "missing")
    subprocess.run(["true"], check=True)


def unseen_metrics(sonde, unified):
    """Those that this kernel cannot have. `unified`: its memory controller is that of cgroup v2."""
    unseen = limitation(sonde)
    of_v2 = () if unified else ("sonde_reclaim_stalled_seconds_total", "sonde_reclaim_high_total")
    return set(of_v2) | {name for name, words in (("sonde_io_mapped_bytes_total", "mmap is not seen"), ("sonde_io_cache_missed_bytes_total", "misses of the page cache are not seen"))
            if words in unseen}


def exchange_tls_records():
    """Sends the first bytes of a TLS handshake over a connection, and a reply."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as client:
        server, _ = listening.accept()
        with server:
            client.sendall(b"\x16\x03\x01\x00\x40" + bytes(64))
            server.recv(100)
            server.sendall(b"\x16\x03\x03\x00\x40" + bytes(64))
            client.recv(100)


CONTEND = """
import threading
def compute():
    while True:
        pass
for _ in range(2):
    threading.Thread(target=compute).start()
"""


def use_a_gpu(gpus):  # noqa: F811
    """This process uses the fake GPU, which has metrics of GPM."""
    gpus.write(f"process 0 {os.getpid()} 1000", f"sample 0 {os.getpid()} 50 0", "nvmlGpmQueryDeviceSupport 0 1", *(f"nvmlGpmMetricsGet 0 {metric} 5000" for metric in (1, 2, 5, 10)))


def block_and_contend(started, run, socket_path):
    """Threads that wait for Python's GIL, a thread that waits for its vforked child, which goes on for a while, and threads that connect to a full queue."""
    contending = run("/usr/bin/python3", "-c", CONTEND)
    wait_for(lambda: started.metric("sonde_python_gil_wait_seconds_total"), what="waits for the GIL")
    contending.kill()
    run(workload_path("vforks"), 60)
    wait_for(lambda: started.metric("sonde_blocked_tasks"), what="the blocked task")
    run(sys.executable, SLOW_CONNECTS, socket_path)
    wait_for(lambda: started.metric("sonde_slow_calls_waits_total", system_call="connect"), what="the slow call")


def test_agent_exports_the_documented_metrics(agent, run, sonde, tmp_path, file_system, limited, large_file, gpus):  # noqa: F811
    """Stacks of servers' waits are recorded only where off-CPU profiles, which have them, are disabled."""
    plain = agent()
    of_plain = exported(plain)
    built = json.loads(subprocess.run([sonde, "version", "--json"], capture_output=True, text=True, check=True).stdout)
    assert plain.metric("sonde_build_info", version=built["version"], revision=built["revision"] or "") == 1
    assert plain.stop() == 0
    server = start_prefork(run)
    use_a_gpu(gpus)
    started = agent(*everything_enabled(sonde), "--set", "budget.one_cpu=1000%", "--set", "profile.sampling_rules=user=0:20", "--set", "otlp.profiles_endpoint=http://127.0.0.1:9/",
                    "--set", "otlp.metrics_endpoint=http://127.0.0.1:9/", "--set", "otlp.traces_endpoint=http://127.0.0.1:9/",
                    "--set", "otlp.logs_endpoint=http://127.0.0.1:9/", "--set", "opamp.endpoint=http://127.0.0.1:9/", env=gpus.environment)
    wait_for(lambda: started.metric("sonde_gpu_engine_active_ratio"), what="the second poll of the GPU")
    get(server.port, "/sleep?0.1")
    assert get(server.port, "/status?503").status == 503
    wait_for(lambda: started.metric("http_server_request_duration_seconds_count", error_type="503"), what="the failed request")
    wait_for(lambda: started.metric("sonde_requests_detailed_total") and started.metric("http_server_request_duration_seconds_count"), what="the request")
    wait_for(lambda: "sonde_off_cpu_seconds_total{" in started.text("/metrics"), what="a wait")
    model_server, _ = start_model_server(run, tmp_path)
    for model in ("m", "missing"):
        ask(model_server.port, chat(2, model=model))
    wait_for(lambda: started.metric("gen_ai_server_request_duration_seconds_count") == 2, what="the tokens")
    exchange_tls_records()
    lose_packets()
    with server_that_calls() as (served, _):
        get(served, "/GET")
        wait_for(lambda: "sonde_calls_total{" in started.text("/metrics"), what="the call")
    limits = limited("sonde-e2e-metrics")
    limits.reclaim(large_file)
    wait_for(lambda: "sonde_opaque_bytes_total{" in started.text("/metrics"), what="the traffic that is not HTTP/1")
    use_a_file(file_system("ext4") / "file")
    unseen = unseen_metrics(sonde, limits.version == "v2")
    unseen |= {"rpc_server_call_duration_seconds", "sonde_gpu_xids_total"}  # of gRPC: test_http2; of the kernel log: test_gpu
    documented = {name: about for name, about in DOCUMENTED.items() if name not in unseen}
    wait_for(lambda: all(re.search(rf"^{name}[{{ ]", started.text("/metrics"), re.M) for name in documented if name.startswith("sonde_io_") and "_series" not in name and DOCUMENTED[name][0] == "counter"), what="its I/O")
    block_and_contend(started, run, tmp_path / "socket")
    call_libcuda(run)
    wait_for(lambda: "sonde_gpu_process_synchronize_seconds_total{" in started.text("/metrics"), what="the calls of libcuda")
    run(*limits.command(workload_path("grows")))
    wait_for(lambda: started.metric("sonde_oom_kills_total"), what="the kill for memory")
    found = {**of_plain, **exported(started)}
    found.pop("rpc_server_call_duration_seconds", None)  # another test may speak gRPC meanwhile
    assert found == documented


@pytest.mark.thorough
def test_metrics_are_collected_only_when_somebody_asks(agent):
    """A node with many jobs has tens of thousands of series: without a reader they cost nothing."""
    started, name = agent(*NO_REQUESTS), "sonde_self_metrics_collections_total"
    time.sleep(1.1)
    first = started.metric(name)
    time.sleep(3)
    assert started.metric(name) == first + 1
