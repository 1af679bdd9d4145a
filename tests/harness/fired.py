"""Programs of tests/workloads that make a known number of system calls in their leaf function on SIGUSR1 (workload.h), and the stacks recorded for
them."""
import os
import re
import signal

from harness.processes import wait_for
from harness.recording import FIRED, stack_matches

FIRINGS = 200


def fires(count=FIRINGS, stay=False):
    """The environment of a program that makes `count` calls. `stay`: the program does not exit afterwards (fire_and_stay)."""
    return dict(os.environ, WORKLOAD_FIRE=str(count), **({"WORKLOAD_STAY": "1"} if stay else {}))


def fire_all(*workloads):
    """Sends SIGUSR1 to all, and waits for their exit."""
    for workload in workloads:
        os.kill(workload.pid, signal.SIGUSR1)
    for workload in workloads:
        workload.end()


def start_firing(*workloads):
    """Sends SIGUSR1 to programs that stay, and waits until all calls are made."""
    for workload in workloads:
        os.kill(workload.pid, signal.SIGUSR1)
    for workload in workloads:
        wait_for(lambda workload=workload: "fired" in workload.facts() or not workload.running.alive, 60, "the program to fire")
        assert "fired" in workload.facts(), workload.running.error


def fire_and_stay(recording, workload, *arguments):
    """The profile of a program that is still running when the recording ends: names, labels and lines are read from it then."""
    running = recording("--event", FIRED, "-p", workload.pid, *arguments)
    start_firing(workload)
    return running.finish()


def missed(said):
    """The number of events that a recording counts as missed, on the whole node."""
    found = re.search(r"(\d+) missed", said)
    return int(found[1]) if found else 0


def assert_all_fired(profile, count=FIRINGS):
    """Asserts one stack per call, except for those counted as missed."""
    assert count - missed(profile.messages) <= profile.count <= count, f"{profile.count} of {count}\n{profile.messages}\n{profile.top()}"


def assert_exact(profile, stack, count=FIRINGS):
    """Asserts that all calls were recorded, each with this stack."""
    assert_all_fired(profile, count)
    assert profile.count > 0, profile.messages
    strange = profile.where(lambda s: not stack_matches(s.frames, stack))
    assert not strange.samples, f"expected {stack}\n{strange.top()}"
