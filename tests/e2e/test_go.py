"""Go's runtime works on stacks of its own: what the collector and the scheduler do there is recorded under the function that caused it, as far
as that is known, and never under addresses that are none."""
import re
import subprocess

import pytest
from go_programs import go_build, strip
from harness.fired import assert_exact, fires
from harness.machine import skip
from harness.paths import BUILD
from harness.recording import EARLY
from harness.workloads import workload_path

HZ = 499
# Where a stack of Go's begins: a goroutine, a thread, and what the runtime goes over to its thread's stack with and cannot be walked out of.
ROOTS = re.compile(r"(_?rt0_\w+|runtime\.(goexit|mstart|mcall|morestack|rt0_go|mstart0|clone|sigreturn\w*))(\.abi0)?$|_start$|entry_SYSCALL_64|asm_")
MORESTACK = re.compile(r"runtime\.morestack(\.abi0)?$")


def test_stack_of_a_stripped_program(fire, workload, tmp_path):
    """By the tables that Go keeps for itself; test_record.py has it with symbols."""
    workload = workload("gopher", 600, path=strip(workload_path("gopher"), tmp_path / "gopher"), env=fires())
    assert_exact(fire(workload), workload.stack)


@pytest.mark.parametrize("stripped", [False, True], ids=["whole", "stripped"])
@pytest.mark.statistical
def test_stacks_of_the_runtime(record, tmp_path, stripped):
    program = workload_path("gopher")
    if stripped:
        program = strip(program, tmp_path / "gopher")
    assert_whole(churn(record, program))


def churn(record, program):
    """A profile of it that is so long that what came before the program's rows is not much of it: a busy machine takes its time to make them."""
    for seconds in (4, 16):
        profile = record("-F", HZ, "--", program, seconds, "churn")
        if profile.early <= 0.25:
            break
    assert profile.count > 200, profile.said
    return profile


def assert_whole(profile):
    cut, early = profile.truncated * profile.count, profile.early * profile.count
    assert cut - early <= 0.01 * profile.count + 3, profile.cut.top()
    assert early <= 0.25 * profile.count + 3, profile.cut.top()
    whole = profile.where(lambda s: not s.frames[0].startswith("["))
    strange = whole.where(lambda s: not ROOTS.match(s.frames[0]))
    assert strange.count <= 0.01 * profile.count + 3, strange.top()
    helping = profile.where(lambda s: any(frame.startswith("runtime.gcAssistAlloc1") for frame in s.frames) and not set(EARLY) & set(s.frames))
    assert helping.count > 10, profile.top()
    told = helping.where(lambda s: any(name.startswith("main.") for name in s.frames))
    assert told.count >= 0.95 * helping.count - 3, helping.where(lambda s: s not in told.samples).top()
    assert_growing(whole)


def callers(sample):
    """Who called for more stack, from the first function of the goroutine; [] where nobody is told."""
    return sample.frames[:next(i for i, name in enumerate(sample.frames) if MORESTACK.match(name))]


def assert_growing(whole):
    """Stacks that grow are told with those who called for it, and whoever has been put aside meanwhile with none."""
    growing = whole.where(lambda s: any(map(MORESTACK.match, s.frames)))
    copied = growing.where(lambda s: "runtime.copystack" in s.frames)
    assert copied.count > 3 and not copied.where(lambda s: not callers(s)).count, copied.top()
    assert not growing.where(lambda s: "runtime.schedule" in s.frames and callers(s)).count, growing.top()
    for sample in growing.samples:
        own = [name for name in callers(sample) if name.startswith("main.")]
        if "main.deepen" in own:  # by itself, and all by the one function that the goroutine was made for
            at = own.index("main.grow")
            assert set(own[at + 1:]) == {"main.deepen"} and all(name.startswith("main.churn.") for name in own[:at]), own


def test_rules_of_a_stripped_program(tmp_path):
    """Those of its own table are those of .debug_frame, for every byte of code; by frame pointers the caller of a function without a frame is left out."""
    checker = BUILD / "tests/unit/resolve/test-resolve-go_table"
    if not checker.exists():
        skip(f"{checker} has not been built")
    program = workload_path("gopher")
    done = subprocess.run([checker, program, strip(program, tmp_path / "gopher")], capture_output=True, text=True, timeout=60)
    size, other = map(int, re.match(r"(\d+) bytes of code, (\d+) with another rule", done.stdout).groups())
    assert size > 100000 and other == 0, done.stderr


@pytest.mark.statistical
@pytest.mark.peer
def test_position_independent_and_linked_by_the_system(record, tmp_path):
    """Before Go 1.26 the table of functions then has no section of its own, and stripped nothing else names them. Before Go 1.21 what the runtime does
    on its thread's stack keeps no frame pointer to the goroutine."""
    program = go_build(tmp_path, "go1.20.14", "-buildmode=pie", "-ldflags=-linkmode=external -s", name="gopher", CGO_ENABLED="1")
    profile = churn(record, program)
    named = profile.where(lambda s: "main.churn" in s.frames or any(frame.startswith("runtime.") for frame in s.frames))
    assert named.count >= 0.97 * profile.count - 3, profile.top()
    assert_whole(profile)
