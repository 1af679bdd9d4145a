"""CPython frames in off-CPU time, compared with the threads' own report of where they wait; and threads with frames in several interpreters, on CPU
and waiting."""
import json
import re
from pathlib import Path

import pytest

from harness.fired import assert_all_fired
from harness.gates import gated
from harness.processes import wait_for
from python_programs import (DEBIAN, FIRINGS, FOLDER, HZ, INSTALLED, Frame, counted_interpreted, interpreted, interpreter_of, minor_of,
                             of_process, of_version, shown, versions, wait_until_ready)
from off_cpu import ROOM, profile_of

__all__ = ["gated"]  # a fixture
WAITS, INTERPRETERS = FOLDER / "waits.py", FOLDER / "interpreters.py"
READABLE = {version: path for version, path in INSTALLED.items() if 8 <= int(version.split(".")[1]) <= 14}
LEAVES = {"in_sleep": ("[sleep: ", "[events: "), "in_callback": ("[sleep: ", "[events: "), "in_lock": ("[lock: futex]",), "in_queue": ("[lock: futex]",),
          "in_select": ("[events: ",), "in_asyncio": ("[events: ",)}  # before 3.11 asyncio sleeps in select()


def accounts(running):
    """{tid: its stack, root first}."""
    return {int(tid): [Frame(*frame) for frame in json.loads(stack)] for tid, stack in re.findall(r"^stack (\d+) (.*)$", running.out, re.M)}


def place_of(stack):
    return next(f.function for f in stack if f.function in LEAVES)


def waits_of(profile, tid, place):
    """Waits whose stack could be read and that are the intended ones; on a busy machine a thread waits for its CPU anywhere."""
    return profile.of(tid=tid).where(lambda s: interpreted(s) and s.frames[-1].startswith(LEAVES[place]))


def from_its_beginning(profile):
    """The stacks that begin with the thread's first function."""
    return profile.where(lambda s: s.frames[0].startswith(("clone", "__clone")))


def assert_order(sample):
    """C and kernel frames are above the Python frames, and no evaluator is among them."""
    assert "_PyEval_EvalFrameDefault" not in sample.frames, sample.frames
    python = [i for i, (file, _) in enumerate(sample.sources) if file and not sample.mappings[i]]
    assert sample.mappings[-2].startswith("[kernel") and python[-1] + 1 < sample.mappings.index(sample.mappings[-2]), sample.frames


def recorded(record, running, is_enough, *arguments):
    """A profile with enough samples, however slow the machine is."""
    for duration in (2, 8, 30, 90):
        profile = record(*arguments, *(word for r in running for word in ("-p", r.pid)), "-d", duration, timeout_s=300)
        if is_enough(profile):
            break
    return profile


def test_waits_match_the_threads_own_stacks(gated):  # noqa: F811
    """Every intended wait has a stack from the thread's first function to the kernel; of waits for a lock only some, as threads wait for the GIL
    anywhere."""
    program = gated.run(DEBIAN, WAITS, gated.path)
    wait_until_ready(program)
    profile = gated.record_all([program.pid], lambda: "waited" in program.out, "--off-cpu")
    theirs = accounts(program)
    assert len(theirs) == len(LEAVES)
    for tid, stack in theirs.items():
        place = place_of(stack)
        known = waits_of(profile, tid, place).where(lambda s: "pass_gate" not in s.frames)
        equal = known.where(lambda s: interpreted(s) == stack)
        shows = f"{place}: {shown(stack)}\nours: {known.top()}\n{profile.messages}"
        assert equal.count and (equal.count == known.count or LEAVES[place] == ("[lock: futex]",)), shows
        assert from_its_beginning(equal).count == equal.count, shows
        for sample in equal.samples:
            assert_order(sample)


@pytest.mark.statistical
@pytest.mark.peer
def test_waits_match_the_threads_own_stacks_in_every_version(record, run):
    """In every installed version: functions, files and lines, including the innermost one's; below them the thread's entry, above them C and the
    kernel."""
    programs = {version: run(path, WAITS, name=version) for version, path in READABLE.items()}
    for program in programs.values():
        wait_until_ready(program)
    theirs = {tid: stack for program in programs.values() for tid, stack in accounts(program).items()}
    assert len(theirs) == len(LEAVES) * len(programs)
    place = {tid: place_of(stack) for tid, stack in theirs.items()}
    profile = recorded(record, programs.values(), lambda p: all(waits_of(p, tid, place[tid]).count >= 20 for tid in theirs), "--off-cpu")
    for tid, stack in theirs.items():
        known = waits_of(profile, tid, place[tid])
        waits = known.where(lambda s: interpreted(s) == stack)
        least = 0.1 if "[lock: futex]" in LEAVES[place[tid]] else 0.9  # the GIL is a futex too, waited for at any line
        assert known.count >= 20 and waits.count >= least * known.count, f"theirs: {shown(stack)}\nours:\n" + "\n".join(
            f"{s.count} {shown(interpreted(s))}" for s in sorted(known.samples, key=lambda s: -s.count)[:4]) + profile.messages
        whole = from_its_beginning(waits)
        assert whole.count > 0.5 * waits.count, f"{place[tid]}: {waits.top()}"
        for sample in whole.samples:
            assert_order(sample)


def test_agent_shows_python_frames_of_waits(agent, run):
    program = run(DEBIAN, WAITS)
    wait_until_ready(program)
    theirs, started, seen = accounts(program), agent("--off-cpu", *ROOM), {}

    def is_there():
        seen["waits"] = profile_of(started, "off_cpu", pid=program.pid)
        return any([f[:2] for f in interpreted(s)] == [f[:2] for f in stack] for tid, stack in theirs.items() for s in seen["waits"].of(tid=tid).samples)
    wait_for(is_there, 240, "one of the threads' stacks", seen)


def test_waker_has_python_frames(gated):  # noqa: F811
    """The waker's functions stand above the wait, in reverse order."""
    program = gated.run(DEBIAN, FOLDER / "handover.py", gated.path)
    wait_until_ready(program)
    tid = int(re.search(r"tid (\d+)", program.out)[1])
    profile = gated.record_all([program.pid], lambda: "given" in program.out, "--off-cpu", "--wakers")
    found = profile.of(tid=tid).where(lambda s: [f.function for f in interpreted(s)] == ["Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run", "taker",
                                                                                        "giver", "Thread.run", "Thread._bootstrap_inner", "Thread._bootstrap"])
    assert found.count, profile.top()
    for sample in found.samples:
        separator = next(i for i, frame in enumerate(sample.frames) if frame.startswith("[woken by "))
        assert sample.frames.index("taker") < separator < sample.frames.index("giver"), sample.frames


INNER = ["<module>", "middle", "middle.<locals>.<lambda>", "spin"]
ROOTS = {"same": ["<module>", "outer"], "lent": ["Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run", "<lambda>", "outer"]}


def names(stack):
    """Unqualified, as before 3.11."""
    return [f.function.rsplit(".", 1)[-1] for f in stack]


def names_of(way):
    return names(Frame(name, "", 0) for name in ROOTS[way] + INNER)


def spinner_of(program):
    wait_until_ready(program)
    return int(re.search(r"spinner (\d+)", program.out)[1])


def assert_where_called(sample):
    """The inner interpreter's frames stand above the frames of the outer one and of the C functions that called it."""
    files = [Path(f.file).name for f in interpreted(sample)]
    assert set(files[-4:]) == {"<string>"} and set(files[-6:-4]) == {"interpreters.py"}, sample.sources
    first, last = sample.frames.index("outer"), sample.frames.index("middle")
    between = [m for (file, _), m in list(zip(sample.sources, sample.mappings))[first + 1:last - 1] if not (file and not m)]
    assert between and all("python" in m for m in between), sample.frames


@pytest.mark.parametrize("way", ROOTS)
@pytest.mark.parametrize("version", versions(8, 10, 12, 13))
def test_frames_of_several_interpreters_in_one_thread(gated, way, version):  # noqa: F811
    """Each frame is where it was called from. 3.8 and 3.9 do not record which interpreter owns a frame: no frame of uncertain origin is named."""
    path = interpreter_of(version)
    program = gated.run(path, INTERPRETERS, way, gated.path)
    tid = spinner_of(program)
    ours = gated.record([program.pid], lambda: "fired" in program.out)
    assert_all_fired(ours.of(tid=tid), FIRINGS)
    for sample in ours.samples:
        if minor_of(path) >= 10:
            assert names(interpreted(sample)) == names_of(way) and "_PyEval_EvalFrameDefault" not in sample.frames, sample.frames
            assert_where_called(sample)
        else:
            assert "list_extend" in sample.frames and not {"spin", "middle"} & set(names(interpreted(sample))), sample.frames
            assert way != "same" or "[truncated: several interpreters in one thread]" in sample.frames, sample.frames
    assert counted_interpreted(ours) == (0 if minor_of(path) >= 10 else ours.count), ours.messages


@pytest.mark.statistical
@pytest.mark.peer
@pytest.mark.parametrize("way", ROOTS)
def test_sampled_threads_with_frames_in_several_interpreters(record, run, way):
    """While they work, and while they and others wait."""
    programs = {minor: run(path, INTERPRETERS, way, name=f"{minor}") for minor, path in ((m, of_version(m)) for m in (8, 10, 11, 12, 13)) if path}
    spinners = {minor: spinner_of(program) for minor, program in programs.items()}

    def spun(profile, minor):
        """Samples with a known interpreter and all C functions; without them, Python frames cannot be placed."""
        known = profile.of(tid=spinners[minor])
        if minor < 10:
            return known.where(lambda s: "list_extend" in s.frames)
        return known.where(lambda s: interpreted(s) and not s.frames[0].startswith("[truncated"))

    def on_a_cpu(profile):
        return profile.where(lambda s: not s.frames[-1].startswith("["))

    def is_enough(profile):
        return all(min(on_a_cpu(spun(profile, minor)).count, spun(profile, minor).count - on_a_cpu(spun(profile, minor)).count) >= 20 for minor in programs)
    profile = recorded(record, programs.values(), is_enough, "--wall", "-F", HZ)
    assert is_enough(profile), f"{profile.messages}\n{profile.top()}"
    for minor, program in programs.items():
        ours = spun(profile, minor)
        if minor >= 10:
            equal = ours.where(lambda s: names(interpreted(s)) == names_of(way) and "_PyEval_EvalFrameDefault" not in s.frames[:-1])
            assert equal.count >= 0.95 * ours.count - 1, ours.top()
            for sample in equal.samples:
                assert_where_called(sample)
        else:
            inner = ours.where(lambda s: "spin" in names(interpreted(s)) or "middle" in names(interpreted(s)))
            assert not inner.count and counted_interpreted(profile) >= 0.9 * on_a_cpu(ours).count, ours.top()  # waits are counted in sums only
            if way == "same":
                said = ours.where(lambda s: "[truncated: several interpreters in one thread]" in s.frames)
                assert said.count >= 0.9 * ours.count, ours.top()
        waiting = of_process(profile, program.pid).where(lambda s: s.labels["tid"] != spinners[minor] and interpreted(s))
        assert waiting.count or (minor < 10 and way == "lent"), f"{profile.messages}\n{profile.top()}"  # such a thread has two thread states, and neither is read
        unexpected = waiting.where(lambda s: names(interpreted(s))[-1] != "wait" or not {"spin", "middle"}.isdisjoint(names(interpreted(s))))
        assert unexpected.count <= 0.05 * waiting.count + 1, unexpected.top()
