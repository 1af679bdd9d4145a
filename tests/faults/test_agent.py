"""The agent under things that happen: a second one, kill -9, ten thousand short processes, configuration that is wrong, clients that
misbehave."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from conftest import cpu_seconds, free_port, memory_bytes, subject_path, wait_for


def test_second_agent_is_refused(agent, sonde):
    first = agent()
    second = subprocess.run([sonde, "up", "--listen", f"127.0.0.1:{free_port()}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert second.returncode == 1 and re.search(r"already|another|second", second.stderr) and str(first.pid) in second.stderr, second
    assert first.running.alive and first.get("/healthz")[0] == 200


def test_recording_beside_an_agent(agent, record):
    first = agent()
    profile = record("-F", 199, "--", subject_path("deep"), 20, 2)
    assert profile.share(";".join(["main", *["recurse"] * 3])) > 0.9, profile.top()
    assert first.running.alive


def test_port_is_taken(sonde, root):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        done = subprocess.run([sonde, "up", "--listen", f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and str(port) in done.stderr and "Address already in use" in done.stderr, done


def test_killed_agent_leaves_nothing(agent):
    """After kill -9 the next one starts at once, and no BPF program of the first is left running."""
    first = agent()
    first.running.process.send_signal(signal.SIGKILL)
    first.running.wait()
    second = agent()
    assert second.get("/healthz")[0] == 200
    assert second.stop() == 0


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_stops_when_asked(agent, signal_number):
    started = agent()
    assert started.stop(signal_number) == 0, started.running.error


def test_ten_thousand_short_processes(agent, run):
    """Memory is bounded: it does not grow with how many processes there have been."""
    started = agent()
    storm = subject_path("storm")

    def storms(count):
        assert run(storm, count, 0).wait(240) == 0
        return memory_bytes(started.pid)
    first = storms(3000)
    last = storms(7000)
    assert started.running.alive, started.running.error
    assert last < (96 << 20), f"{last >> 20} MiB resident"
    assert last - first < (8 << 20), f"from {first >> 20} to {last >> 20} MiB"
    # Wait until it has caught up, then see that it gave back what the dead had.
    wait_for(lambda: started.get("/healthz")[0] == 200, 20, "/healthz")
    before = cpu_seconds(started.pid)
    time.sleep(2)
    assert cpu_seconds(started.pid) - before < 1.5, "still busy with processes that are long gone"


def test_processes_die_at_every_step(agent, run):
    """Threads that exec, parents that die first, exits in the middle of everything."""
    started = agent()
    script = "for i in $(seq 300); do (sh -c 'exec sleep 0.01' & kill -9 $! 2>/dev/null); (exit 3) & done; wait"
    assert run("bash", "-c", script).wait(120) == 0
    assert started.running.alive and started.get("/healthz")[0] == 200, started.running.error
    assert started.text("/metrics")


@pytest.mark.parametrize("text,wanted", [
    ("profile:\n  rat: 19\n", ["profile.rat", ":2"]),
    ("profile:\n  rate: many\n", ["profile.rate", "many", ":2"]),
    ("budget:\n  memory: 64 parsecs\n", ["budget.memory", "64 parsecs", ":2"]),
    ("budget:\n  cpu: 300%\n", ["budget.cpu", ":2"]),
    ("profile: [1, 2\n", []),
    ("\x00\x01\x02", []),
], ids=["unknown key", "bad value", "bad unit", "out of range", "not yaml", "bytes"])
def test_bad_configuration(sonde, tmp_path, text, wanted):
    path = tmp_path / "sonde.yaml"
    path.write_text(text)
    done = subprocess.run([sonde, "up", "--config", path, "--listen", f"127.0.0.1:{free_port()}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2), done
    assert str(path) in done.stderr and all(word in done.stderr for word in wanted), done.stderr


def raw(port, data, timeout_s=10):
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as s:
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            return s.recv(1 << 16)
        except OSError:  # it may have hung up at any point
            return b""


def test_clients_that_misbehave(agent):
    started = agent()
    for data in (b"\x00" * 4096, b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20000 + b"\r\n", b"GET " + b"/a" * 100000 + b" HTTP/1.1\r\n\r\n",
                 b"GET /%zz%00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                 b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"):
        answer = raw(started.port, data)
        assert b" 200 " not in answer.split(b"\r\n")[0] and b"root:" not in answer, answer[:200]
    # Many that connect and say nothing must not keep others out for ever.
    idle = []
    for _ in range(200):
        with contextlib.suppress(ConnectionError):  # beyond what it takes at a time it may refuse
            idle.append(socket.create_connection(("127.0.0.1", started.port)))
    for s in idle:
        s.close()
    wait_for(lambda: started.get("/healthz")[0] == 200, 30, "/healthz")
    assert memory_bytes(started.pid) < (128 << 20)


def test_foreign_host_name_is_refused(agent):
    """DNS rebinding: a page of somebody else's that was made to resolve to 127.0.0.1."""
    started = agent()
    assert started.get("/api/v1/status", {"Host": "evil.example"})[0] in (400, 403, 421)
    assert started.get("/api/v1/status", {"Host": f"127.0.0.1:{started.port}"})[0] == 200
    assert started.get("/api/v1/status", {"Host": f"localhost:{started.port}"})[0] == 200


def test_page_is_on_loopback_only(agent):
    started = agent()
    with open("/proc/net/tcp") as f:
        local = [line.split()[1] for line in f if line.split()[1].endswith(f":{started.port:04X}")]
    assert local and all(address.startswith("0100007F:") for address in local), local


def test_no_environment_at_all(sonde, root, tmp_path):
    done = subprocess.run([sonde, "record", "-o", tmp_path / "p.folded", "--", "/bin/true"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, env={})
    assert done.returncode == 0, done


def test_few_descriptors(sonde, root, tmp_path):
    """A limit of 64 open files: a message or a profile, no crash."""
    done = subprocess.run(["bash", "-c", f"ulimit -n 64; '{sonde}' record -F 199 -o {tmp_path}/p.folded -- '{subject_path('deep')}' 20 1"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, env=dict(os.environ))
    assert done.returncode in (0, 1) and (done.returncode == 0 or done.stderr), done
