"""Frames of JavaScript in a Node that was given no flag: functions and their order against what the program knows of its own stack, in interpreted, baseline
and optimized code, of two threads; names, scripts and lines against the perf map of the same process; and no name of what was at an address
before."""
import json
import re
from pathlib import Path

import pytest

from harness.machine import need_command, skip
from harness.paths import TOP
from harness.processes import wait_for
from harness.recording import EARLY

STACKS = TOP / "tests/subjects/node/stacks.js"
HZ = 499
LEAST = 60  # samples of each program
# What the program is told differently: of a computed name, and of the code of eval itself, V8 has none where it keeps names of functions.
NAMELESS = ("computed name", "eval", None)
# One recording of all: each has to learn the same large file anew.
PROGRAMS = {"as it is": ("chain",), "baseline": ("chain", "--no-opt", "--always-sparkplug"), "optimized": ("hot", "--no-turbo-inlining"),
            "moving": ("moving",), "mapped": ("chain", "--perf-basic-prof", "--interpreted-frames-native-stack")}


def javascript(sample):
    """Its frames of JavaScript, root first: (function, file, line)."""
    return [(name, *source) for name, mapping, source in zip(sample.frames, sample.mappings, sample.sources) if not mapping and not name.startswith("[")]


def shows_trampolines(sample):
    """Instead of what is interpreted."""
    return "Builtins_InterpreterEntryTrampoline" in sample.frames[:-1]


def shows_nameless_trampolines(sample):
    """Where the library is stripped, as Debian's: one and the same address."""
    frames = sample.frames[:-1]
    return any(a == b and a.startswith("libnode.so.") for a, b in zip(frames, frames[1:]))


def is_early(sample):
    """Taken before its process was known to the kernel half: code that V8 made has no name there, nor has what it interprets."""
    trampolines = shows_trampolines(sample) or shows_nameless_trampolines(sample)
    return trampolines or any(name.startswith("[anon]") or name in EARLY for name in sample.frames[:-1])


def start(run, folder, program, *options):
    running = run(need_command("node", "nodejs"), *options, STACKS, program, cwd=folder)  # V8 may leave a log there
    threads = 2 if program == "chain" else 1
    wait_for(lambda: running.error.count("ready ") >= threads or not running.alive, 60, "node to be ready")
    if not running.alive and "bad option" in running.error:
        skip("this node has no " + " ".join(options))
    return running


def take_map(pid):
    """What V8 tells of its code, Node 18 without columns. Nobody else is to read it."""
    written = Path(f"/tmp/perf-{pid}.map")
    text = written.read_text(errors="replace")
    written.unlink()
    found = re.findall(r"^[0-9a-f]+ [0-9a-f]+ \w+:[~*^+'-]+(.*?) ?(/\S+?|node:\S+?|inVm\.js):(\d+)(?::\d+)?$", text, re.M)
    return {(name or f"(anonymous:{line})", file, int(line)) for name, file, line in found}


def assert_its_own_stacks(running, profile):
    facts = [json.loads(line[6:]) for line in running.error.splitlines() if line.startswith("ready ")]
    assert {fact["thread"] for fact in facts} == {"main", "worker"}
    theirs = {tuple(("" if name in NAMELESS else name, file) for name, file in fact["stack"]) for fact in facts}
    assert all(len(stack) > 100 for stack in theirs)

    def ours(sample):
        frames = [("" if name.startswith("(anonymous:") else name, file) for name, file, _ in javascript(sample)]
        return tuple(frames[:-1] if frames and frames[-1][0] == "spin" else frames)
    unlike = profile.where(lambda s: ours(s) not in theirs)
    assert unlike.count <= 0.01 * profile.count + 1, "\n".join(f"{s.count} of {len(ours(s))} frames: {';'.join(s.frames[-12:])}" for s in unlike.samples[:5])


def assert_optimized(profile):
    """Each sample has the functions of the chain from its beginning on, none left out, wherever in them a tick falls."""
    chain = ["hot", "hotA", "hotB", "hotC"]

    def follows(sample):
        functions = [name for name, *_ in javascript(sample)]
        mine = functions[functions.index("hot"):] if "hot" in functions else []
        return mine and mine == chain[:len(mine)]
    assert profile.where(follows).count >= 0.99 * profile.count - 1, profile.top()
    # Ticks fall between it and its caller as the processor has it, and of its first instructions the frame is not there yet.
    assert profile.where(lambda s: "hotC" in s.frames).count > 0.2 * profile.count, profile.top()


def assert_of_one_number(profile):
    """A function calls the one of its own number; a name of what was at its address before has another."""
    seen = set()
    for sample in profile.samples:
        numbers = set(re.findall(r"\bcall(?:s|ed)_(\d+)", " ".join(sample.frames)))
        assert len(numbers) <= 1, sample.frames
        seen |= numbers
    assert len(seen) > 10, profile.top()


@pytest.mark.plain_build
def test_javascript_without_a_flag(run, record, tmp_path):
    running = {name: start(run, tmp_path, *program) for name, program in PROGRAMS.items()}
    told = take_map(running["mapped"].pid)
    for seconds in (4, 12, 40):
        profile = record("-F", HZ, *(word for each in running.values() for word in ("-p", each.pid)), "-d", seconds, timeout_s=200)
        known = profile.where(lambda s: not is_early(s))
        of = {name: known.of(pid=each.pid) for name, each in running.items()}
        if known.count >= profile.count / 2 and all(each.count >= LEAST for each in of.values()):
            break
    assert known.count >= profile.count / 2 and all(each.count >= LEAST for each in of.values()), f"{profile.said}\n{profile.top()}"
    for loss, shows in ("interpreted", shows_trampolines), ("unnamed", shows_nameless_trampolines):
        counted = re.search(rf"(\d+) {loss}", profile.said)
        assert profile.where(shows).count <= int(counted[1] if counted else 0), profile.said
    assert_its_own_stacks(running["as it is"], of["as it is"])
    assert_its_own_stacks(running["baseline"], of["baseline"])
    assert_its_own_stacks(running["mapped"], of["mapped"])
    assert_optimized(of["optimized"])
    assert_of_one_number(of["moving"])
    ours = {frame for sample in of["mapped"].samples for frame in javascript(sample) if frame[1]}
    assert len(ours) >= 20 and ours <= told, ours - told
