"""A process that the kernel kills for memory is an event that names the limit and the function that had grown the process."""
import json
import subprocess
import sys

import pytest

from harness.agents import NO_REQUESTS
from harness.machine import need_command
from harness.processes import wait_for
from harness.results import variants
from harness.workloads import SOURCES, workload_path
from memory_limits import cgroup, limited  # noqa: F401 (fixtures)

OPTIONS = (*NO_REQUESTS, "--set", "budget.one_cpu=1000%")
LIMIT = 256 << 20  # four seconds of growth, and a JVM
PYTHON = """
import time
kept = []
def load_batch():
    kept.append(bytearray(b"x" * (1 << 20)))
while True:
    load_batch()
    time.sleep(0.02)
"""


def python(tmp_path):
    program = tmp_path / "app.py"
    program.write_text(PYTHON)
    return (sys.executable, program), "load_batch() app.py:5"


def c(tmp_path):
    return (workload_path("grows"),), "grow_cache()"


def go(tmp_path):
    return (workload_path("growing"),), "main.appendRows()"


def java(tmp_path):
    program, compiler = need_command("java"), need_command("javac")
    subprocess.run([compiler, "-d", tmp_path, SOURCES / "java/Grows.java"], check=True, capture_output=True, timeout=120)
    return (program, "-Xmx2g", "-cp", tmp_path, "Grows"), "Grows.loadRows()"


def kernel_count(limits):
    """Kills in the cgroup, by the kernel."""
    text = (limits.path / ("memory.oom_control" if limits.version == "v1" else "memory.events")).read_text()
    return int(dict(line.split() for line in text.splitlines())["oom_kill"])


def events_of(started, pid):
    events = json.loads(started.text("/api/v1/events?seconds=300&max=1000"))["events"]
    return [e for e in events if e["name"] == "oom.killed" and e["attributes"]["process.pid"] == str(pid)]


@pytest.mark.parametrize("language", variants(python, c, go, java))
def test_the_event_names_the_function_that_grew(agent, run, sonde, tmp_path, limited, language):  # noqa: F811
    limits = limited(f"sonde-e2e-oom-{language.__name__}")
    limits.limit.write_text(str(LIMIT))
    command, function = language(tmp_path)
    started = agent(*OPTIONS)
    victim = run(*limits.command(*command))
    wait_for(lambda: not victim.alive, 120, "the kernel to kill it")
    event = wait_for(lambda: events_of(started, victim.pid), what="the event")[0]
    about = event["attributes"]
    assert about["growth.function"].startswith(function), event
    assert f", grown in {about['growth.function']} ({about['growth.percent']} % of its page faults" in event["text"], event
    assert f" of 256 MiB of cgroup {limits.name} was reached" in event["text"] and about["cgroup"] == limits.name and about["limit"] == str(LIMIT), event
    assert 0.6 * LIMIT < int(about["memory.anonymous"]) <= LIMIT and about["trigger.pid"] == str(victim.pid), event
    assert kernel_count(limits) == 1
    assert started.metric("sonde_oom_kills_total", limit="cgroup") >= 1  # of the whole node: another test may have one at the same time
    listed = subprocess.run([sonde, "events", "--kind", "oom", "--agent", f"127.0.0.1:{started.port}"], capture_output=True, text=True, timeout=60, check=True)
    assert event["text"] in listed.stdout and "look at the function that grew" in listed.stdout, listed


def test_the_largest_others_of_the_cgroup_are_named(agent, run, limited):  # noqa: F811
    limits, hold = limited("sonde-e2e-oom-others"), "import time; held = bytearray(b'x' * (12 << 20)); print('held', flush=True); time.sleep(600)"
    started = agent(*OPTIONS)
    other = run(*limits.command(sys.executable, "-c", hold))
    wait_for(lambda: "held" in other.out, what="the other process")
    victim = run(*limits.command(sys.executable, "-c", "held = bytearray(b'x' * (1 << 30))"))
    wait_for(lambda: not victim.alive, 60, "the kernel to kill it")
    event = wait_for(lambda: events_of(started, victim.pid), what="the event")[0]
    assert f"The largest others in the cgroup: {event['attributes']['process.command']} (pid {other.pid}) " in event["text"], event
