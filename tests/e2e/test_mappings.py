"""Thousands of mappings per second, each of another file at the same address: a sample's names come from the file mapped when it was taken."""
import pytest

from harness.fired import fires, missed
from harness.workloads import workload_path

HZ = 499


def calls_of(profile):
    """One entry per sample: the caller's name says which file is mapped, because called_2 calls remapped_2."""
    return [(caller, callee) for s in profile.samples for caller, callee in zip(s.frames, s.frames[1:])
            if caller.startswith("called_") and callee.startswith("remapped_") for _ in range(s.count)]


def test_names_follow_the_mapping_at_each_event(fire, workload):
    """One event in each of a thousand mappings."""
    libraries = [workload_path(f"libremapped-{i}.so") for i in range(4)]
    profile = fire(workload("remapper", 600, *libraries, env=fires(1000)))
    calls = calls_of(profile)
    assert 1000 - missed(profile.messages) <= len(calls) <= 1000, profile.messages + profile.top()
    assert all(caller.replace("called", "remapped") == callee for caller, callee in calls), calls


@pytest.mark.parametrize("way", ["from its start", "under way"])
@pytest.mark.statistical
def test_sampled_names_follow_the_mapping(record, workload, way):
    libraries = [workload_path(f"libremapped-{i}.so") for i in range(4)]
    running, right = workload("remapper", 600, *libraries) if way == "under way" else None, 0
    for seconds in (1, 1, 4, 16):
        profile = record("-F", HZ, "-p", running.pid, "-d", seconds) if running else record("-F", HZ, "--", workload_path("remapper"), 2 * seconds, *libraries)
        calls = calls_of(profile)
        wrong = [call for call in calls if call[0].replace("called", "remapped") != call[1]]
        # A machine that is too slow for the mappings reports losses.
        assert len(wrong) <= (0.05 if "sideband" in profile.messages else 0.002) * len(calls) + 1, (wrong, profile.messages)
        right += len(calls) - len(wrong)
        if right >= 12 and (not running or seconds > 1):
            break
    assert right >= 4, profile.messages + profile.top()
