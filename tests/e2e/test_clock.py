"""The agent while the wall clock is stepped: by hours in either direction, and by less than a second, as a time server does. The machine's own
clock does not change: tests/workloads/clock.c shifts the agent's."""
import http.client
import json
import mmap
import os
import signal
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest
from exporting import receiver, sets  # noqa: F401 (a fixture)
from harness.processes import wait_for
from harness.workloads import workload_path
from otlp_profiles import profcheck  # noqa: F401 (a fixture)
from profiles_receiver import export_stats as counts_of_export, total, write
from real_servers import start_prefork

HOUR_NS, SECOND_NS, MILLISECOND_NS = 3600 * 1_000_000_000, 1_000_000_000, 1_000_000
STEPS_NS = [3 * HOUR_NS, -8 * HOUR_NS, 4 * MILLISECOND_NS, -700 * MILLISECOND_NS, 30 * 24 * HOUR_NS]


class Clock:
    """The wall clock of a process started with `environment`."""

    def __init__(self, folder):
        path = folder / "clock"
        path.write_bytes(bytes(8))
        with open(path, "r+b") as file:
            self.shift = mmap.mmap(file.fileno(), 8)
        self.shift_ns = 0
        self.environment = {**os.environ, "LD_PRELOAD": str(workload_path("libclock.so")), "WORKLOAD_CLOCK": str(path)}

    def set_by(self, step_ns):
        self.shift_ns += step_ns
        struct.pack_into("=q", self.shift, 0, self.shift_ns)

    def now_ns(self):
        return time.time_ns() + self.shift_ns


class BlockedRequest(threading.Thread):
    """A request that blocks until the server's lock is free."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.connection = server, http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.connection.connect()
        self.peer = "%s:%d" % self.connection.sock.getsockname()
        self.start()

    def run(self):
        self.connection.request("GET", "/mutex", headers={"Connection": "close"})
        self.connection.getresponse().read()
        self.ended_ns = time.time_ns()
        self.connection.close()

    def waits(self):
        return "futex" in Path(f"/proc/{self.server.pids[0]}/wchan").read_text()


@pytest.fixture
def clocked_agent(agent, run, tmp_path):
    """(clock, agent, server): the agent uses the shifted clock, the server the machine's."""
    clock = Clock(tmp_path)
    watching = agent("--set", "budget.one_cpu=1000%", env=clock.environment)
    return clock, watching, start_prefork(run)


def requests_of(agent, server, seconds=60):
    found = json.loads(agent.text(f"/api/v1/requests?max=1000&seconds={seconds}"))["requests"]
    return [r for r in found if r["pid"] in server.pids and r["status"] == 200]


def ask(clock, server, step_ns):
    """One request during which the clock is stepped; returns its peer, its earliest start and its latest end, both by the new clock."""
    server.running.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: server.running.out.count("locked") > server.locked, what="the lock to be taken")
    server.locked += 1
    began_ns = time.time_ns()
    call = BlockedRequest(server)
    wait_for(call.waits, what="the request to wait")
    clock.set_by(step_ns)
    time.sleep(0.1)
    server.running.process.send_signal(signal.SIGUSR2)
    call.join(60)
    return call.peer, began_ns + clock.shift_ns, call.ended_ns + clock.shift_ns


def test_slowest_requests_survive_clock_steps(clocked_agent):
    clock, agent, server = clocked_agent
    server.locked = 0
    shown = {}
    for step_ns in STEPS_NS:
        peer, began_ns, ended_ns = ask(clock, server, step_ns)
        wait_for(lambda p=peer: p in {r["peer"] for r in requests_of(agent, server, 300)}, 20, f"the request, the clock set by {step_ns / 1e9} s")
        clock.set_by(-step_ns // 3)  # step again after the request has ended
        last_minute = [r for r in requests_of(agent, server) if r["peer"] == peer]
        assert len(last_minute) == 1, last_minute
        start_ns = last_minute[0]["start_time_unix_nano"]
        assert began_ns - MILLISECOND_NS <= start_ns <= ended_ns + MILLISECOND_NS, (began_ns, start_ns, ended_ns)
        shown[peer] = start_ns
    all_of_them = requests_of(agent, server, 300)
    assert {r["peer"]: r["start_time_unix_nano"] for r in all_of_them} == shown and len(all_of_them) == len(STEPS_NS), all_of_them
    durations = [r["duration_ns"] for r in all_of_them]
    assert durations == sorted(durations, reverse=True) and max(durations) < 60_000_000_000
    time.sleep(1.1)  # so that all of them ended more than a second ago
    assert not requests_of(agent, server, 1)


def test_profile_survives_clock_steps(clocked_agent, run):
    """Samples from before and after the step are in one profile, which ends at the current wall-clock time and keeps its true duration."""
    clock, agent, _ = clocked_agent
    began = time.monotonic()
    busy = run(workload_path("deep"), 10, 60)
    seen = 0
    for step_ns in (3 * HOUR_NS, -8 * HOUR_NS):
        def weight(least=seen):
            profile = json.loads(agent.text(f"/api/v1/profile?seconds=120&pid={busy.pid}"))
            ns = sum(sum(one["weights"]) for one in profile["profiles"])
            return ns > least + 1e8 and ns
        seen = wait_for(weight, 30, "more CPU time")
        clock.set_by(step_ns)
    before_ns = clock.now_ns()
    profile = json.loads(agent.text("/api/v1/profile?seconds=120"))["sonde"]
    ends_ns = profile["start_time_unix_ms"] * 1e6 + profile["duration_ns"]
    assert before_ns - 20 * MILLISECOND_NS <= ends_ns <= clock.now_ns() + 20 * MILLISECOND_NS, profile
    assert profile["duration_ns"] <= (time.monotonic() - began + 120) * 1e9


@pytest.mark.thorough
def test_clock_at_the_epoch_from_the_start(sonde, agent, run, tmp_path):
    """1 January 1970, as on a board without a battery."""
    clock = Clock(tmp_path)
    clock.set_by(-time.time_ns() + 100_000_000_000)
    watching, server = agent("--set", "budget.one_cpu=1000%", env=clock.environment), start_prefork(run)
    server.locked = 0
    peer, _, _ = ask(clock, server, 0)
    wait_for(lambda: peer in {r["peer"] for r in requests_of(watching, server)}, 20, "the request")
    done = subprocess.run([sonde, "why", "--slowest", "1000", "--agent", f"127.0.0.1:{watching.port}"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0 and "GET /mutex took" in done.stdout, done


@pytest.mark.statistical
def test_exported_packets_survive_clock_steps(agent, run, receiver, profcheck, tmp_path):  # noqa: F811
    """A profile's timestamps use the clock as it stood when the profile began: profcheck checks that each sample lies within its profile's interval.
    By the unshifted clock the profiles are consecutive."""
    clock, to = Clock(tmp_path), receiver()
    began_ns, shifts = time.time_ns(), [0]
    started = agent("--rate", 97, "--set", "budget.one_cpu=1000%", "--set", "budget.memory=1GiB", *sets(profiles_endpoint=to.url, interval=1), env=clock.environment)
    run(workload_path("deep"), 10, 60)
    for step_ns in (3 * HOUR_NS, -8 * HOUR_NS, 0):
        before = len(to.posts)
        wait_for(lambda: len(to.posts) >= before + 2, 60, "packets with this clock offset")  # noqa: B023
        clock.set_by(step_ns)
        shifts.append(clock.shift_ns)
    assert started.stop() == 0
    ended_ns = time.time_ns()
    packets = profcheck(*write(tmp_path, to.bodies()))
    says = counts_of_export(started)
    assert says["dropped"] == 0 and total(packets) == says["taken"] > 0
    last_ns, used = began_ns, []
    for start_ns, duration_ns in ((profile["start"], profile["duration"]) for profiles in packets for profile in profiles):
        shift_ns = min(shifts, key=lambda shift: abs(began_ns + shift - start_ns))  # the offsets are hours apart
        real_ns = start_ns - shift_ns
        assert began_ns - SECOND_NS <= real_ns and 0 < duration_ns and real_ns + duration_ns <= ended_ns + MILLISECOND_NS, (start_ns, duration_ns, shifts)
        assert real_ns >= last_ns - SECOND_NS, "a profile is sent before an earlier one"
        last_ns = max(last_ns, real_ns)
        used += [shift_ns] if shift_ns not in used[-1:] else []
    assert used == [0, 3 * HOUR_NS, -5 * HOUR_NS], (used, shifts)
