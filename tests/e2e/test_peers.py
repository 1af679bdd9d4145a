"""Sonde's stacks compared with gdb's and perf's (tests/peers.py), frame by frame, in user space: in C, C++, Rust and Go, in signal handlers and the
vDSO, and in programs as Debian ships them, most of whose functions have no name. test_record.py has exact stacks of all these programs;
test_stops.py compares with gdb at single instructions."""
import subprocess
from collections import Counter

import pytest

import peers
from busy_programs import busy
from harness.machine import need_command
from harness.processes import wait_for

__all__ = ["busy"]  # a fixture
pytestmark = pytest.mark.statistical
HZ = 397


@pytest.mark.parametrize("program,least", [("deep-static 40", 0.97), ("noreturn", 0.97), ("signals alt", 0.97), ("gopher", 0.95), ("python3", 0.97)])
def test_same_frames_as_gdb(record, busy, program, least):  # noqa: F811
    """Go's scheduler is at times between two goroutines."""
    pid, function = busy(program)

    def seen():
        return [places for places in (peers.up_to(stack, function) for stack in peers.gdb_stacks(pid)) if places]
    stacks = wait_for(seen, 30, f"gdb to see {function}")
    ours = record("-F", HZ, "-p", pid, "-d", 1)
    ours.samples = list(map(peers.with_evaluators, ours.samples))
    assert ours.count > 20, ours.messages
    for places in stacks:
        same = ours.where(lambda s, p=places: peers.same_frames(s, p) and function not in s.frames[len(p):])
        assert same.count + ours.early * ours.count >= least * ours.count - 3, f"gdb: {';'.join(map(str, places))}\n{ours.top()}"


def assert_same_stacks(ours, theirs):
    """Compares all stacks that make up 5 % on either side. 5.5 sigma of both shares, of some thirty stacks: one random failure in a million runs."""
    n, m = ours.total(), theirs.total()
    said = "".join(f"\n{ours[s] / n:.3f} {theirs[s] / m:.3f} {';'.join(name or file for file, name in s)}" for s, _ in (ours + theirs).most_common(8))
    for stack in ours | theirs:
        a, b, p = ours[stack] / n, theirs[stack] / m, (ours[stack] + theirs[stack]) / (n + m)
        if max(a, b) > 0.05:
            assert abs(a - b) <= 5.5 * (p * (1 - p) * (1 / n + 1 / m)) ** 0.5, f"ours, perf's:{said}"
            assert a and b or max(a, b) * min(n, m) < 20, f"ours, perf's:{said}"


# How perf unwinds. deep-static is missing: perf sees deep_leaf and none of its callers.
@pytest.mark.parametrize("program,way", [("deep 60", "dwarf,16384"), ("vdso", "dwarf,16384"), ("cxx throw", "dwarf,16384"), ("rusty-v0", "dwarf,16384"),
                                         ("openssl", "dwarf,16384")])
def test_same_stacks_as_perf(record, perf, busy, tmp_path, program, way):  # noqa: F811
    """One after the other: these programs behave the same throughout, and this perf crashes when BPF programs are loaded while it records."""
    pid, _ = busy(program)
    data = tmp_path / "perf.data"
    done = subprocess.run([need_command("perf"), "record", "-B", "-N", "--no-bpf-event", "-q", "-e", "cpu-clock", "-F", str(HZ), "--call-graph", way,
                           "-p", str(pid), "-o", data, "--", "sleep", "2"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    profile = record("-F", HZ, "-p", pid, "-d", 2)
    theirs = Counter(map(peers.functions, peers.perf_stacks(perf, data, pid, way != "fp")))
    ours = Counter()
    for sample in map(peers.with_evaluators, profile.samples):
        places = peers.places_of(sample)
        ours[peers.functions(places)] += sample.count
        if sample.count > 0.05 * profile.count:
            assert all(place.is_named(name) for place, name in zip(places, sample.frames)), (sample.frames, list(map(str, places)))
    assert ours.total() > 50 and theirs.total() > 50, f"{profile.messages}\n{done.stderr}"
    assert_same_stacks(ours, theirs)
    assert profile.early <= 0.05, profile.cut.top()
    assert profile.truncated - profile.early - profile.overwritten <= 0.01 + 2 / profile.count, profile.cut.top()
    assert profile.overwritten <= 0.08 + 2 / profile.count, profile.cut.top()
