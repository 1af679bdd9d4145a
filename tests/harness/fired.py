"""Programs of tests/workloads that make a known number of system calls in their leaf when they get SIGUSR1 (workload.h), and the stacks recorded of them."""
import os
import re
import signal

from harness.processes import wait_for
from harness.recording import FIRED, stack_matches

FIRINGS = 200


def fires(count=FIRINGS, stay=False):
    """The environment of a program that is to fire `count` times. `stay`: and then not to end (fire_and_stay)."""
    return dict(os.environ, WORKLOAD_FIRE=str(count), **({"WORKLOAD_STAY": "1"} if stay else {}))


def fire_all(*workloads):
    """Makes them all fire, and waits for their ends."""
    for workload in workloads:
        os.kill(workload.pid, signal.SIGUSR1)
    for workload in workloads:
        workload.end()


def start_firing(*workloads):
    """Makes programs that stay fire, and waits until all have."""
    for workload in workloads:
        os.kill(workload.pid, signal.SIGUSR1)
    for workload in workloads:
        wait_for(lambda workload=workload: "fired" in workload.facts() or not workload.running.alive, 60, "the program to fire")
        assert "fired" in workload.facts(), workload.running.error


def fire_and_stay(recording, workload, *arguments):
    """The profile of a program that still runs when the recording ends: names, labels and lines come from what can be read of it then."""
    running = recording("--event", FIRED, "-p", workload.pid, *arguments)
    start_firing(workload)
    return running.finish()


def missed(said):
    """The events that a recording counts as missed, of the whole node."""
    found = re.search(r"(\d+) missed", said)
    return int(found[1]) if found else 0


def assert_all_fired(profile, count=FIRINGS):
    """A stack for each firing, but for those counted as missed."""
    assert count - missed(profile.said) <= profile.count <= count, f"{profile.count} of {count}\n{profile.said}\n{profile.top()}"


def assert_exact(profile, stack, count=FIRINGS):
    """All fired, and each with this stack."""
    assert_all_fired(profile, count)
    assert profile.count > 0, profile.said
    strange = profile.where(lambda s: not stack_matches(s.frames, stack))
    assert not strange.samples, f"expected {stack}\n{strange.top()}"
