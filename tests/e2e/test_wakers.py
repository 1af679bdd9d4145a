"""`sonde record --off-cpu --wakers`: above each wait who ended it, against a program whose threads are let go in known ways. Of which waits
the waker was seen depends on the machine (some kernels do not trace everything), so what is asserted is what is said where it was."""
import re
import struct
import subprocess
from collections import Counter

import pytest

import pprof
from harness.machine import need_root
from harness.recording import Profile
from harness.workloads import subject_path

NOT_SEEN = "[waker not seen]"
INTERRUPT = "[woken by an interrupt]"
WAKERS = {  # of waits in the function of that name: the leaf, who is said to have ended them, and where he was (None: no thread's work)
    "wait_here": ("[lock: futex]", "[woken by wakers]", "let_go"),
    "receive_here": ("[network: recvfrom]", "[woken by wakers]", "send_here"),
    "read_here": ("[ipc: read]", "[woken by feeder]", "feed_here"),
    "sleep_here": ("[sleep: clock_nanosleep]", INTERRUPT, None),
}


def split(sample):
    """(frames of the waiter, root first, with the reason; the separator or None; frames of the waker, leaf first)."""
    for i, frame in enumerate(sample.frames):
        if frame == NOT_SEEN or frame.startswith("[woken by "):
            return sample.frames[:i], frame, sample.frames[i + 1:]
    return sample.frames, None, []


def check(profile):
    """How many waits there were of each place whose waker was seen."""
    seen = Counter()
    for sample in profile.samples:
        waiter, separator, waker = split(sample)
        place = next((f for f in waiter if f in WAKERS and "live" in waiter), None)
        if waiter[-1] == "[run queue]":
            assert separator is None, sample
        if place is None or waiter[-1] != WAKERS[place][0] or separator in (None, NOT_SEEN):
            continue
        _, by, where = WAKERS[place]
        if place == "receive_here" and separator == INTERRUPT:
            continue  # the kernel had a thread of its own bring it, or an interrupt came before the sender did
        if where is None:
            assert separator == by and not any(f in waker for f in (*WAKERS, "main", "live")), sample
            assert waker and {m for m in sample.mappings[-len(waker):]} == {"[kernel.kallsyms]"}, sample
        elif not any(f.startswith("[truncated") for f in waker):
            assert separator == by and where in waker and "main" in waker[waker.index(where):], sample
            assert waker.index(where) < waker.index("main"), sample
        else:
            continue  # the first moments, before there are rows
        seen[place] += sample.count
    return seen


@pytest.fixture(scope="module")
def recording(sonde, tmp_path_factory):
    """(the profile, its wire)."""
    need_root()
    folder = tmp_path_factory.mktemp("wakers")
    done = subprocess.run([sonde, "record", "--off-cpu", "--wakers", "--record-wire", folder / "wire", "-o", folder / "out.pb.gz", "--",
                           subject_path("wakers"), "2"], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return Profile(*pprof.read(folder / "out.pb.gz"), done.stderr), folder / "wire"


def test_who_let_it_go(recording):
    profile, _ = recording
    seen = check(profile)
    assert set(seen) == set(WAKERS), f"{seen} {profile.top()}"
    for place, count in seen.items():
        waits = profile.where(lambda s: {place, "live", WAKERS[place][0]} <= set(s.frames))
        assert count >= 0.5 * waits.count, f"{place}: {seen} {waits.top()}"
    not_seen = profile.where(lambda s: NOT_SEEN in s.frames).count
    told = re.search(r"; (\d+) of which the waker was not seen", profile.said)
    assert (int(told[1]) if told else 0) == not_seen, profile.said


def replay(sonde, wire, out):
    done = subprocess.run([sonde, "record", "--replay", wire, "-o", out], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return Profile(*pprof.read(out), done.stderr)


def sums(profile):
    found = Counter()
    for sample in profile.samples:
        waiter, separator, waker = split(sample)
        found[sample.labels["tid"], waiter[-1], separator, tuple(f for f in waker if f.endswith("_here") or f == "let_go")] += sample.ns
    return found


def test_a_replay_says_the_same(sonde, recording, tmp_path):
    profile, wire = recording
    assert sums(replay(sonde, wire, tmp_path / "again.pb.gz")) == sums(profile)


def test_who_is_lost_is_counted(sonde, recording, tmp_path):
    """Of a wire without the records of wakers, each wait that was ended by somebody says that he was not seen."""
    profile, wire = recording
    data, at, kept = wire.read_bytes(), 16, bytearray(wire.read_bytes()[:16])
    while at < len(data):
        size, kind = struct.unpack_from("<IH", data, at)
        kept += b"" if kind == 5 else data[at:at + size]
        at += size
    assert len(kept) < len(data)
    (tmp_path / "wire").write_bytes(kept)
    without = replay(sonde, tmp_path / "wire", tmp_path / "out.pb.gz")
    ended = profile.where(lambda s: split(s)[1]).count
    assert ended and without.where(lambda s: split(s)[1] == NOT_SEEN).count == without.where(lambda s: split(s)[1]).count == ended
    assert f"; {ended} of which the waker was not seen" in without.said
    assert without.ns == profile.ns and without.count == profile.count


def test_who_waits_is_chosen_not_who_wakes(record, subject):
    """The waker is another process than what was asked for, and is named all the same."""
    subject("wakers", 60)
    profile = record("--wall", "--wakers", "-C", "reader", "-d", 2)
    assert {s.labels["thread"] for s in profile.samples} == {"reader"}, profile.top()
    assert set(check(profile)) == {"read_here"}, profile.top()


def test_it_goes_with_waits_only(sonde):
    for arguments in (["--wakers"], ["--wakers", "-F", "99"], ["--wakers", "--replay", "/dev/null"]):
        done = subprocess.run([sonde, "record", *arguments, "-d", "1"], capture_output=True, text=True, timeout=30)
        assert done.returncode != 0 and "--wakers goes with --off-cpu or --wall" in done.stderr, done
