"""JavaScript frames of a Node without flags: functions and their order compared with the program's own stack traces, in interpreted, baseline and
optimized code, of two threads; names, scripts and lines compared with the perf map of the same process; never a name of code that was at the
address before. Exact stacks come from system calls of the innermost functions; sampled ones are in a statistical test."""
import json
import re
from pathlib import Path

import pytest

from harness.fired import assert_all_fired
from harness.gates import gated
from harness.machine import need_command, skip
from harness.paths import TOP
from harness.processes import wait_for
from harness.recording import EARLY

__all__ = ["gated"]  # a fixture
STACKS = TOP / "tests/workloads/node/stacks.js"
HZ = 499
LEAST = 60  # minimum number of samples of each program
# Names that V8 reports to the program differently: V8 stores none for functions with computed names and for eval code itself.
NAMELESS = ("computed name", "eval", None)
# One recording of all programs: each recording would have to read the same large file anew.
PROGRAMS = {"as it is": ("chain",), "baseline": ("chain", "--no-opt", "--always-sparkplug"), "optimized": ("hot", "--no-turbo-inlining"),
            "moving": ("moving",), "mapped": ("chain", "--perf-basic-prof", "--interpreted-frames-native-stack")}


def javascript(sample):
    """Its JavaScript frames, root first: (function, file, line)."""
    return [(name, *source) for name, mapping, source in zip(sample.frames, sample.mappings, sample.sources) if not mapping and not name.startswith("[")]


def shows_trampolines(sample):
    """The trampoline appears in place of the interpreted function."""
    return "Builtins_InterpreterEntryTrampoline" in sample.frames[:-1]


def shows_nameless_trampolines(sample):
    """With a stripped library, as Debian's, the trampoline is an address without a name, repeated."""
    frames = sample.frames[:-1]
    return any(a == b and a.startswith("libnode.so.") for a, b in zip(frames, frames[1:]))


def is_early(sample):
    """Taken before the BPF programs knew its process: JIT code and V8's interpreted functions have no names there."""
    trampolines = shows_trampolines(sample) or shows_nameless_trampolines(sample)
    return trampolines or any(name.startswith("[anon]") or name in EARLY for name in sample.frames[:-1])


def start(run, folder, program, *options, gate=None):
    running = run(need_command("node", "nodejs"), *options, STACKS, program, *([gate] if gate else []), cwd=folder)  # V8 may write a log there
    threads = 2 if program == "chain" else 1
    wait_for(lambda: running.error.count("ready ") >= threads or not running.alive, 60, "node to be ready")
    if not running.alive and "bad option" in running.error:
        skip("this node has no " + " ".join(options))
    return running


def read_and_remove_perf_map(pid):
    """V8's perf map, in Node 18 without columns. Removed, so that no other reader finds it."""
    written = Path(f"/tmp/perf-{pid}.map")
    text = written.read_text(errors="replace")
    written.unlink()
    found = re.findall(r"^[0-9a-f]+ [0-9a-f]+ \w+:[~*^+'-]+(.*?) ?(/\S+?|node:\S+?|inVm\.js):(\d+)(?::\d+)?$", text, re.M)
    return {(name or f"(anonymous:{line})", file, int(line)) for name, file, line in found}


def assert_stacks_match_the_programs_own(running, profile, least=0.99):
    facts = [json.loads(line[6:]) for line in running.error.splitlines() if line.startswith("ready ")]
    assert {fact["thread"] for fact in facts} == {"main", "worker"}
    theirs = {tuple(("" if name in NAMELESS else name, file) for name, file in fact["stack"]) for fact in facts}
    assert all(len(stack) > 100 for stack in theirs)

    def ours(sample):
        frames = [("" if name.startswith("(anonymous:") else name, file) for name, file, _ in javascript(sample)]
        return tuple(frames[:-1] if frames and frames[-1][0] == "spin" else frames)
    mismatched = profile.where(lambda s: ours(s) not in theirs)
    assert mismatched.count <= (1 - least) * profile.count + (least < 1), "\n".join(f"{s.count} of {len(ours(s))} frames: {';'.join(s.frames)}" for s in mismatched.samples[:5])


def assert_chain(profile, least=0.99):
    """Each sample has the chain's functions from its beginning, none left out, wherever the sample was taken."""
    chain = ["hot", "hotA", "hotB", "hotC"]

    def follows(sample):
        functions = [name for name, *_ in javascript(sample)]
        mine = functions[functions.index("hot"):] if "hot" in functions else []
        return mine and mine == chain[:len(mine)]
    assert profile.where(follows).count >= least * profile.count - (least < 1), profile.top()


def assert_numbered_functions_call_their_own(profile):
    """A function calls the one with its own number; a stale name of the same address would have another number."""
    seen = set()
    for sample in profile.samples:
        numbers = set(re.findall(r"\bcall(?:s|ed)_(\d+)", " ".join(sample.frames)))
        assert len(numbers) <= 1, sample.frames
        seen |= numbers
    assert len(seen) > 10, profile.top()


def counted_losses(profile, loss):
    found = re.search(rf"(\d+) {loss}", profile.messages)
    return int(found[1]) if found else 0


def assert_sources_match_the_perf_map(profile, reported):
    """Names, scripts and lines equal the perf map's."""
    ours = {frame for sample in profile.samples for frame in javascript(sample) if frame[1]}
    assert len(ours) >= 20 and ours <= reported, ours - reported


@pytest.mark.sanitized
def test_exact_javascript_stacks_match_the_programs_own(gated, tmp_path):  # noqa: F811
    running = {name: start(gated.run, tmp_path, *program, gate=gated.path) for name, program in PROGRAMS.items()}
    reported = read_and_remove_perf_map(running["mapped"].pid)
    counts = {name: 2 if program[0] == "chain" else 1 for name, program in PROGRAMS.items()}  # threads

    def fired(name):
        return [int(count) for count in re.findall(r"^fired (\d+)$", running[name].error, re.M)]
    profile = gated.record([each.pid for each in running.values()], lambda: all(len(fired(name)) == count for name, count in counts.items()))
    assert_all_fired(profile, sum(sum(fired(name)) for name in running))
    # Only a limited number of functions are newly reported per sample: the names of further ones come with later samples.
    unnamed = profile.where(lambda s: any(name.startswith("[v8]+") for name in s.frames))
    assert unnamed.count <= counted_losses(profile, "interpreted"), profile.messages
    known = profile.where(lambda s: s not in unnamed.samples)
    of = {name: known.of(pid=each.pid) for name, each in running.items()}
    assert not known.where(is_early).count and all(each.count for each in of.values()), profile.top()
    for name in ("as it is", "baseline", "mapped"):
        assert_stacks_match_the_programs_own(running[name], of[name], 1)
    assert_chain(of["optimized"], 1)
    assert all("hotC" in s.frames for s in of["optimized"].samples), of["optimized"].top()
    assert_numbered_functions_call_their_own(of["moving"])
    assert_sources_match_the_perf_map(of["mapped"], reported)


@pytest.mark.statistical
def test_sampled_javascript_stacks_without_flags(run, record, tmp_path):
    running = {name: start(run, tmp_path, *program) for name, program in PROGRAMS.items()}
    reported = read_and_remove_perf_map(running["mapped"].pid)
    for seconds in (4, 12, 40):
        profile = record("-F", HZ, *(word for each in running.values() for word in ("-p", each.pid)), "-d", seconds, timeout_s=200)
        known = profile.where(lambda s: not is_early(s))
        of = {name: known.of(pid=each.pid) for name, each in running.items()}
        if known.count >= profile.count / 2 and all(each.count >= LEAST for each in of.values()):
            break
    assert known.count >= profile.count / 2 and all(each.count >= LEAST for each in of.values()), f"{profile.messages}\n{profile.top()}"
    for loss, shows in ("interpreted", shows_trampolines), ("unnamed", shows_nameless_trampolines):
        assert profile.where(shows).count <= counted_losses(profile, loss), profile.messages
    for name in ("as it is", "baseline", "mapped"):
        assert_stacks_match_the_programs_own(running[name], of[name])
    assert_chain(of["optimized"])
    # A sample may fall between it and its caller, and at its first instructions its frame does not exist yet.
    assert of["optimized"].where(lambda s: "hotC" in s.frames).count > 0.2 * of["optimized"].count, of["optimized"].top()
    assert_numbered_functions_call_their_own(of["moving"])
    assert_sources_match_the_perf_map(of["mapped"], reported)
