"""Faults around the agent: a second agent, kill -9, ten thousand short-lived processes, invalid configuration, misbehaving clients."""
import contextlib
import ctypes
import errno
import os
import re
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

from harness.fired import assert_exact, fire_all, fires
from harness.machine import skip
from harness.processes import bpf_objects, cpu_seconds, memory_bytes, wait_for
from harness.recording import FIRED, Recording
from harness.workloads import workload_path


def test_second_agent_is_refused(agent, sonde):
    first = agent()
    second = subprocess.run([sonde, "up", "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert second.returncode == 1 and re.search(r"already|another|second", second.stderr) and str(first.pid) in second.stderr and "capabilities" not in second.stderr, second
    assert first.running.alive and first.get("/healthz")[0] == 200


@pytest.mark.thorough
@pytest.mark.sanitized
def test_recording_works_beside_an_agent(agent, fire, workload):
    first = agent()
    workload = workload("deep", 20, 600, env=fires())
    assert_exact(fire(workload), workload.stack)
    assert first.running.alive


def test_taken_port_is_an_error(sonde, root):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        done = subprocess.run([sonde, "up", "--listen", f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and str(port) in done.stderr and "Address already in use" in done.stderr, done


def bpf_ids():
    """{("map" or "prog", id)} of all BPF objects in the kernel."""
    found, call = set(), {"x86_64": 321, "aarch64": 280}.get(os.uname().machine)
    if not call:
        skip("the number of bpf(2) is not known here")
    for kind, next_id in (("prog", 11), ("map", 12)):
        number = 0
        while True:
            attributes = ctypes.create_string_buffer(struct.pack("<III", number, 0, 0))
            if ctypes.CDLL(None, use_errno=True).syscall(call, next_id, attributes, 12) != 0:
                assert ctypes.get_errno() == errno.ENOENT, os.strerror(ctypes.get_errno())
                break
            number = struct.unpack_from("<I", attributes, 4)[0]
            found.add((kind, number))
    return found


@pytest.mark.sanitized
def test_killed_agent_leaves_nothing(agent):
    """After kill -9 none of its BPF programs and maps is left, nor its helper process, and the next agent starts at once."""
    first = agent()
    held = set(bpf_objects(first.pid))
    helpers = [int(pid) for pid in Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()]
    assert {kind for kind, _ in held} == {"map", "prog"} and held <= bpf_ids() and helpers
    first.running.process.send_signal(signal.SIGKILL)
    first.running.wait()
    wait_for(lambda: not held & bpf_ids(), 60, f"the kernel to give back {held}")
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in helpers), 30, "its helper to end")
    second = agent()
    assert second.get("/healthz")[0] == 200
    assert second.stop() == 0


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_agent_stops_on_signals(agent, signal_number):
    started = agent()
    assert started.stop(signal_number) == 0, started.running.error


@pytest.mark.thorough
def test_agent_stops_on_a_signal_right_after_start(agent):
    for _ in range(3):
        started = agent(wait=False)
        wait_for(lambda: "http://" in started.running.out or not started.running.alive, 60, "the page's address")  # noqa: B023
        assert started.stop(signal.SIGINT) == 0, started.running.error


@pytest.mark.statistical
def test_memory_is_bounded_for_ten_thousand_short_processes(agent, run):
    """Memory does not grow with the number of processes seen."""
    started = agent()
    storm = workload_path("storm")

    def storms(count):
        assert run(storm, count, 0).wait(240) == 0
        return memory_bytes(started.pid)
    first = storms(3000)
    last = storms(7000)
    assert started.running.alive, started.running.error
    wait_for(lambda: started.used_bytes() < 64 << 20, 60, "memory, BPF included, to be below the budget")
    assert last - first < (16 << 20), f"from {first >> 20} to {last >> 20} MiB"
    # Wait until it has caught up, then check that it released the memory of ended processes.
    wait_for(lambda: started.get("/healthz")[0] == 200, 20, "/healthz")
    before = cpu_seconds(started.pid)
    time.sleep(2)
    assert cpu_seconds(started.pid) - before < 1.5, "still busy with processes that are long gone"


@pytest.mark.statistical
def test_killed_processes_leave_no_state(agent, run):
    """Parents that die before their children, exec under kill -9, exits at any point: no state is kept, and other processes are sampled as before."""
    started = agent("--rate", 199)
    helpers = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()

    def storm():
        script = "for i in $(seq 300); do (sh -c 'exec sleep 0.01' & kill -9 $! 2>/dev/null); (exit 3) & done; wait"
        assert run("bash", "-c", script).wait(120) == 0
        seen = started.metric("sonde_self_samples_total")
        wait_for(lambda: started.metric("sonde_self_samples_total") > seen, 60, "samples")  # at least of the test itself

    def descriptors():
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in (started.pid, *helpers))
    storm()
    before = descriptors()
    for _ in range(3):
        storm()
    # After 2700 processes; other processes of the node have files that are kept open too.
    wait_for(lambda: descriptors() < before + 500, 60, f"descriptors to be closed: there were {before}")
    wait_for(lambda: started.used_bytes() < 64 << 20, 60, "memory, BPF included, to be below the budget")
    deep = run(workload_path("deep"), 20, 120)
    wait_for(lambda: "main;recurse;recurse" in started.text(f"/api/v1/profile?format=folded&pid={deep.pid}"), 60, "names of a program that came later")
    lost, samples = {reason: started.metric("sonde_self_losses_total", reason=reason) for reason in ("decode", "no_process")}, started.metric("sonde_self_samples_total")
    assert lost["decode"] == 0 and lost["no_process"] <= 0.02 * samples, f"{lost} of {samples}"
    assert started.stop() == 0, started.running.error


@pytest.mark.parametrize("text,wanted", [
    ("profile:\n  rat: 19\n", ["profile.rat", ":2"]),
    ("profile:\n  rate: many\n", ["profile.rate", "many", ":2"]),
    ("budget:\n  memory: 64 parsecs\n", ["budget.memory", "64 parsecs", ":2"]),
    ("budget:\n  one_cpu: 30000%\n", ["budget.one_cpu", ":2"]),
    ("profile: [1, 2\n", []),
    ("\x00\x01\x02", []),
], ids=["unknown key", "bad value", "bad unit", "out of range", "not yaml", "bytes"])
def test_invalid_configuration_is_explained(sonde, tmp_path, text, wanted):
    path = tmp_path / "sonde.yaml"
    path.write_text(text)
    done = subprocess.run([sonde, "up", "--config", path, "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2), done
    assert str(path) in done.stderr and all(word in done.stderr for word in wanted), done.stderr


def raw(port, data, timeout_s=10):
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as s:
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            return s.recv(1 << 16)
        except OSError:  # the agent may close the connection at any point
            return b""


@pytest.mark.thorough
@pytest.mark.sanitized
def test_misbehaving_clients_do_not_block_others(agent):
    started = agent()
    for data in (b"\x00" * 4096, b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20000 + b"\r\n", b"GET " + b"/a" * 100000 + b" HTTP/1.1\r\n\r\n",
                 b"GET /%zz%00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                 b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"):
        answer = raw(started.port, data)
        assert b" 200 " not in answer.split(b"\r\n")[0] and b"root:" not in answer, answer[:200]
    # Many clients that connect and send nothing must not keep others out forever.
    idle = []
    for _ in range(200):
        with contextlib.suppress(ConnectionError):  # beyond its connection limit it may refuse
            idle.append(socket.create_connection(("127.0.0.1", started.port)))
    for s in idle:
        s.close()
    wait_for(lambda: started.get("/healthz")[0] == 200, 30, "/healthz")


@pytest.mark.statistical
def test_idle_clients_take_little_memory(agent):
    started = agent()
    idle = []
    for _ in range(200):
        with contextlib.suppress(ConnectionError):
            idle.append(socket.create_connection(("127.0.0.1", started.port)))
    memory = memory_bytes(started.pid)
    for s in idle:
        s.close()
    assert memory < (128 << 20)


def test_foreign_host_name_is_refused(agent):
    """DNS rebinding: the page of another site, whose host name resolves to 127.0.0.1."""
    started = agent()
    assert started.get("/api/v1/status", {"Host": "evil.example"})[0] in (400, 403, 421)
    assert started.get("/api/v1/status", {"Host": f"127.0.0.1:{started.port}"})[0] == 200
    assert started.get("/api/v1/status", {"Host": f"localhost:{started.port}"})[0] == 200


def test_page_is_on_loopback_only(agent):
    started = agent()
    with open("/proc/net/tcp") as f:
        local = [line.split()[1] for line in f if line.split()[1].endswith(f":{started.port:04X}")]
    assert local and all(address.startswith("0100007F:") for address in local), local


def test_a_page_that_others_can_reach_says_so(agent):
    started = agent("--listen", "0.0.0.0:0", "--set", "page.open=true", wait=False)
    wait_for(lambda: "http://0.0.0.0:" in started.running.out, 60, "the page's address")
    assert "everybody whose machine reaches 0.0.0.0:0 can read" in started.running.error and "all users" not in started.running.out


def test_starts_with_an_empty_environment(sonde, root, tmp_path):
    done = subprocess.run([sonde, "record", "-o", tmp_path / "p.folded", "--", "/bin/true"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, env={})
    assert done.returncode == 0, done


def test_works_with_few_descriptors(sonde, root, run, workload, tmp_path):
    """Just enough to attach and to open a few files: everything has a name."""
    workload, (ready, write), path = workload("deep", 20, 600, env=fires()), os.pipe(), tmp_path / "p.pb.gz"
    running = run("prlimit", f"--nofile={64 + 8 * os.cpu_count()}", sonde, "record", "--ready-fd", write, "--event", FIRED, "-p", workload.pid, "-o", path, pass_fds=[write])
    os.close(write)
    recording = Recording(running, ready, path)
    os.close(ready)
    fire_all(workload)
    profile = recording.finish()
    assert_exact(profile, workload.stack)
    assert "unnamed" not in profile.messages


@pytest.mark.parametrize("count", [10, 20, 32, 40])
def test_too_few_descriptors_are_an_error(sonde, root, tmp_path, count):
    """Too few to attach, or to wait for events: an error, and no file that could be mistaken for a profile."""
    path = tmp_path / "p.folded"
    done = subprocess.run(["prlimit", f"--nofile={count}", sonde, "record", "-o", path, "--", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "Too many open files" in done.stderr and not path.exists(), done
