"""System calls in which a thread waits for long are events and counted; calls that are made to wait are not."""
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from file_systems import file_system  # noqa: F401 (a fixture)
from harness.machine import need_command
from harness.processes import wait_for

pytestmark = pytest.mark.usefixtures("root")
SLOW_CONNECTS = Path(__file__).resolve().parent / "slow_connects.py"
# Half a second in each of the calls that are made to wait.
WAIT = """
import os, select, subprocess, sys, threading, time
open("/proc/self/comm", "w").write("waits-for-events")
os.mkfifo(sys.argv[1])
def later(what):
    threading.Timer(0.5, what).start()
reader, writer = os.pipe()
later(lambda: os.close(os.open(sys.argv[1], os.O_WRONLY)))
os.close(os.open(sys.argv[1], os.O_RDONLY))
later(lambda: os.write(writer, b"x"))
os.read(reader, 1)
select.select([reader], [], [], 0.5)
select.poll().poll(500)
time.sleep(0.5)
subprocess.run(["sleep", "0.5"], check=True)
event = threading.Event()
later(event.set)
event.wait()
print("done", flush=True)
"""
WRITE = """
import os, sys
open("/proc/self/comm", "w").write("frozen-writer")
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
print("open", flush=True)
sys.stdin.readline()
os.write(fd, b"x")
"""


@pytest.fixture(scope="module")
def started(module_agent):
    return module_agent("--set", "slow_calls.enabled=true", "--set", "slow_calls.threshold=250ms", "--set", "budget.one_cpu=1000%")


def events_of(started, thread_name):
    found = json.loads(started.text("/api/v1/events?seconds=300&max=1000"))["events"]
    return [e for e in found if e["name"] == "slow_calls.long" and e["attributes"]["thread.name"] == thread_name]


def test_a_slow_connect_is_an_event_and_waits_for_events_are_not(started, run, sonde, tmp_path):
    waiting = run(sys.executable, "-c", WAIT, tmp_path / "fifo")
    wait_for(lambda: "done" in waiting.out, what="the waits for events")
    run(sys.executable, SLOW_CONNECTS, tmp_path / "socket")
    event = wait_for(lambda: [e for e in events_of(started, "slow-connect") if "stack" in e["attributes"]], 60, "an event with a stack")[-1]
    about = event["attributes"]
    assert about["system_call"] == "connect" and event["duration_ns"] >= 250e6 and "unix_stream_connect" in about["stack"], event
    assert "connect() slow_connects.py:" in event["text"] and "<lambda>" in about["stack"], event
    count, seconds = (started.metric(f"sonde_slow_calls_{name}_total", service_name=about["service.name"], system_call="connect") for name in ("waits", "wait_seconds"))
    assert count >= 2 and seconds >= 0.25 * count
    assert not events_of(started, "waits-for-events")  # which ended before the first connect began
    done = subprocess.run([sonde, "events", "--kind", "slow_calls", "--agent", f"127.0.0.1:{started.port}"], capture_output=True, text=True, timeout=60, check=True)
    assert event["text"] in done.stdout and "slow_calls.md" in done.stdout, done


def test_a_write_to_a_frozen_file_system_names_the_file(started, file_system):  # noqa: F811
    need_command("fsfreeze")
    point = file_system("ext4")
    with subprocess.Popen([sys.executable, "-c", WRITE, point / "ledger"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "open\n"
        subprocess.run(["fsfreeze", "-f", point], check=True)
        try:
            writer.stdin.write("\n")
            writer.stdin.flush()
            wait_for(lambda: Path(f"/proc/{writer.pid}/stat").read_text().rpartition(")")[2].split()[0] == "D", what="the write")
            time.sleep(0.6)
        finally:
            subprocess.run(["fsfreeze", "-u", point], check=True)
    event, = wait_for(lambda: events_of(started, "frozen-writer"), what="the event")
    assert event["attributes"]["system_call"] == "write" and event["attributes"]["process.pid"] == str(writer.pid), event
    assert event["attributes"]["file.name"] == "ledger" and " in write of ledger (ext4)" in event["text"], event
