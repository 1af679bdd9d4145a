"""A softirq that runs for long is an event with its CPU; a request that it interrupted says so. A socket filter makes it long."""
import ctypes
import json
import os
import re
import socket
import subprocess
import threading

import pytest
from harness.machine import need_command, skip
from harness.processes import wait_for
from harness.workloads import workload_path
from real_servers import get, parts_of, start_prefork, why

SO_ATTACH_BPF, BPF_OBJ_GET, SYS_BPF = 50, 7, 321
SPIN_NS = 3_000_000  # slow_softirq.bpf.c


def open_pinned(path):
    name = ctypes.create_string_buffer(os.fsencode(path))
    attributes = ctypes.create_string_buffer(ctypes.addressof(name).to_bytes(8, "little") + bytes(8))
    fd = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF, BPF_OBJ_GET, attributes, 16)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return fd


@pytest.fixture
def slow_filter(run, tmp_path, root):
    """The descriptor of the loaded program."""
    bpftool, place = need_command("bpftool"), tmp_path / "bpf"
    need_command("clang-16")
    if os.uname().machine != "x86_64":
        skip("the number of bpf(2)")
    place.mkdir()
    held = run("unshare", "-m", "sh", "-c", f"mount -t bpf bpf {place} && {bpftool} prog load '{workload_path('slow_softirq.bpf.o')}' {place}/slow pinmaps {place}/maps && "
               f"{bpftool} map update pinned {place}/maps/itself key 0 0 0 0 value pinned {place}/slow && echo ready && exec sleep 600")
    wait_for(lambda: "ready" in held.out or not held.alive, 30, "the program to be loaded")
    if not held.alive and "unshare:" in held.error:
        skip("unshare -m: " + held.error.strip())
    assert held.alive, held.error
    fd = open_pinned(f"/proc/{held.pid}/root{place}/slow")
    yield fd
    os.close(fd)


def serve(server):
    """Until the socket is closed."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


def interrupted(request):
    return [p for p in parts_of(request, "other") if re.search(r"^CPU \d+ ran NET_RX", p["detail"])]


def test_a_request_names_the_softirq_that_interrupted_it(sonde, agent, run, slow_filter):
    started, prefork = agent("--set", "budget.one_cpu=1000%", "--set", "interrupts.enabled=true"), start_prefork(run)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, SO_ATTACH_BPF, slow_filter)
        threading.Thread(target=serve, args=(server,), daemon=True).start()

        def find_request():
            get(prefork.port, f"/downstream?{server.getsockname()[1]}")
            return [r for r in why(sonde, started) if r["route"] == "/downstream" and interrupted(r)]
        request = wait_for(find_request, what="the request")[0]
        assert sum(p["ns"] for p in interrupted(request)) >= SPIN_NS, request
        event = wait_for(lambda: [e for e in json.loads(started.text("/api/v1/events?seconds=60&max=1000"))["events"] if e["name"] == "interrupts.long" and
                                  e["attributes"].get("softirq") == "NET_RX" and e["duration_ns"] >= SPIN_NS], what="the event")[0]
        assert re.search(rf"^CPU {event['attributes']['cpu']} ran softirq NET_RX for [\d.]+ ms", event["text"]), event
        done = subprocess.run([sonde, "events", "--kind", "interrupts", "--agent", f"127.0.0.1:{started.port}"], capture_output=True, text=True, timeout=60, check=True)
        assert event["text"] in done.stdout and "ethtool -L" in done.stdout, done
    wait_for(lambda: started.metric("sonde_interrupts_softirq_seconds_sum", softirq="NET_RX") >= SPIN_NS / 1e9, what="the next collection of metrics")
