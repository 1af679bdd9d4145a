"""Go's runtime runs on stacks of its own: what the garbage collector and the scheduler do there is recorded under the function that caused it, where
that is known, and never under wrong addresses."""
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
# Outermost frames of Go stacks: a goroutine's, a thread's, and functions that switch to the thread's stack, beyond which no unwinding is possible.
ROOTS = re.compile(r"(_?rt0_\w+|runtime\.(goexit|mstart|mcall|morestack|rt0_go|mstart0|clone|sigreturn\w*))(\.abi0)?$|_start$|entry_SYSCALL_64|asm_")
MORESTACK = re.compile(r"runtime\.morestack(\.abi0)?$")


def test_stripped_program_has_its_stack(fire, workload, tmp_path):
    """Uses the tables that Go needs itself (pclntab); test_record.py covers the program with symbols."""
    workload = workload("gopher", 600, path=strip(workload_path("gopher"), tmp_path / "gopher"), env=fires())
    assert_exact(fire(workload), workload.stack)


@pytest.mark.parametrize("stripped", [False, True], ids=["whole", "stripped"])
@pytest.mark.statistical
def test_runtime_stacks_are_whole_under_their_goroutine(record, tmp_path, stripped):
    program = workload_path("gopher")
    if stripped:
        program = strip(program, tmp_path / "gopher")
    assert_whole(record_churn(record, program))


def record_churn(record, program):
    """A profile long enough that samples from before the program's unwind table was built are few: a busy machine takes longer to build it."""
    for seconds in (4, 16):
        profile = record("-F", HZ, "--", program, seconds, "churn")
        if profile.early <= 0.25:
            break
    assert profile.count > 200, profile.messages
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
    attributed = helping.where(lambda s: any(name.startswith("main.") for name in s.frames))
    assert attributed.count >= 0.95 * helping.count - 3, helping.where(lambda s: s not in attributed.samples).top()
    assert_growing(whole)


def callers_of_morestack(sample):
    """The functions below morestack, from the goroutine's first function on; [] if the stack shows none."""
    return sample.frames[:next(i for i, name in enumerate(sample.frames) if MORESTACK.match(name))]


def assert_growing(whole):
    """Samples in stack growth include the callers that needed more stack; goroutines parked meanwhile show none."""
    growing = whole.where(lambda s: any(map(MORESTACK.match, s.frames)))
    copied = growing.where(lambda s: "runtime.copystack" in s.frames)
    assert copied.count > 3 and not copied.where(lambda s: not callers_of_morestack(s)).count, copied.top()
    assert not growing.where(lambda s: "runtime.schedule" in s.frames and callers_of_morestack(s)).count, growing.top()
    for sample in growing.samples:
        own = [name for name in callers_of_morestack(sample) if name.startswith("main.")]
        if "main.deepen" in own:  # recursion, started by the goroutine's own function
            at = own.index("main.grow")
            assert set(own[at + 1:]) == {"main.deepen"} and all(name.startswith("main.churn.") for name in own[:at]), own


def test_pclntab_unwind_rules_equal_debug_frame(tmp_path):
    """The rules from Go's own table equal .debug_frame's for every byte of code; frame pointers alone skip the caller of a frameless function."""
    checker = BUILD / "tests/unit/resolve/test-resolve-go_table"
    if not checker.exists():
        skip(f"{checker} has not been built")
    program = workload_path("gopher")
    done = subprocess.run([checker, program, strip(program, tmp_path / "gopher")], capture_output=True, text=True, timeout=60)
    size, other = map(int, re.match(r"(\d+) bytes of code, (\d+) with another rule", done.stdout).groups())
    assert size > 100000 and other == 0, done.stderr


@pytest.mark.statistical
@pytest.mark.peer
def test_pie_linked_by_the_system_linker(record, tmp_path):
    """Before Go 1.26 such a program's function table has no section of its own, and a stripped program has no other names. Before Go 1.21 the runtime
    keeps no frame pointer to the goroutine when it switches to its thread's stack."""
    program = go_build(tmp_path, "go1.20.14", "-buildmode=pie", "-ldflags=-linkmode=external -s", name="gopher", CGO_ENABLED="1")
    profile = record_churn(record, program)
    named = profile.where(lambda s: "main.churn" in s.frames or any(frame.startswith("runtime.") for frame in s.frames))
    assert named.count >= 0.97 * profile.count - 3, profile.top()
    assert_whole(profile)
