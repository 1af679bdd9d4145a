"""Programs of tests/workloads/python whose stacks are known, in the installed versions of CPython."""
import os
import re
import signal
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest

import python_3_14
from harness.machine import skip
from harness.paths import TOP
from harness.processes import wait_for

FOLDER = TOP / "tests/workloads/python"
STACKS = FOLDER / "stacks.py"
DEBIAN = Path("/usr/bin/python3")
FIRINGS = 100  # system calls per thread of stacks.py and interpreters.py once its gate opens
HZ = 397  # sampling rate
MINORS = (8, 9, 10, 11, 12, 13, 14)
Frame = namedtuple("Frame", "function file line")


def installed():
    """Installed interpreters: {"3.11.2": path}; the system's comes first."""
    places = [DEBIAN, *sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))]
    found = {}
    for path in filter(Path.exists, places):
        version = subprocess.run([path, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], capture_output=True, text=True).stdout.strip()
        found[version] = path
    return found


INSTALLED = installed()


def of_version(minor):
    """The path of a CPython 3.MINOR, or None."""
    return next((path for version, path in INSTALLED.items() if version.startswith(f"3.{minor}.")), None)


def minor_of(path):
    """The minor version; 3.14 is not among the installed ones (python_3_14.py)."""
    return next((int(version.split(".")[1]) for version, known in INSTALLED.items() if known == path), 14)


def versions(*minors):
    """Test parameters: the system's interpreter, and those installed by other means."""
    return [pytest.param("system"), *(pytest.param(minor, id=f"3.{minor}", marks=pytest.mark.peer) for minor in minors)]


def interpreter_of(version):
    """The path of one of versions(); skips when it is not installed."""
    if version == "system":
        return DEBIAN
    path = next((path for known, path in INSTALLED.items() if known.startswith(f"3.{version}.") and path != DEBIAN), None)
    return path or (python_3_14.get(of_version(13)) if version == 14 else skip(f"needs CPython 3.{version} beside the system's"))


def wait_until_ready(running):
    wait_for(lambda: "ready" in running.out or not running.alive, 60, f"the program to be ready; it said: {running.error}")
    assert "ready" in running.out, running.error


def children_of(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def interpreted(sample):
    """The Python frames of a sample, root first."""
    return [Frame(name, file, line) for name, mapping, (file, line) in zip(sample.frames, sample.mappings, sample.sources) if file and not mapping]


def functions(sample):
    return [frame.function for frame in interpreted(sample)]


def shown(stack):
    return ";".join(f"{f.function} ({Path(f.file).name}:{f.line})" for f in stack)


def of_process(profile, pid):
    return profile.where(lambda s: s.labels["pid"] == pid)


def counted_interpreted(profile):
    """The number of samples that the profile reports as lacking interpreter frames."""
    found = re.search(r"(\d+) interpreted", profile.messages)
    return int(found[1]) if found else 0


def line_of(source, text):
    """The number of the one line of a file that contains a text."""
    line, = (number for number, line in enumerate(source.read_text().splitlines(), 1) if text in line)
    return line


def spinning(stack):
    return bool(stack) and stack[-1].function == "spin"


def from_faulthandler(running):
    """The stacks of the threads that are in spin(), root first, limited to the 100 innermost frames."""
    before = len(running.error)
    os.kill(running.pid, signal.SIGUSR1)
    wait_for(lambda: re.search(r'stacks\.py", line \d+ in <module>|(  File .*\n){100}', running.error[before:]), 30, "faulthandler")
    text = running.error[before:]
    found = []
    for block in re.split(r"(?m)^(?:Current t|T)hread .*:\n", text):
        frames = [Frame(m[3].encode().decode("unicode_escape"), m[1].encode().decode("unicode_escape"), int(m[2]))
                  for m in re.finditer(r'  File "(.*)", line (\d+) in (.*)', block)]
        found.append(frames[::-1])
    return [stack for stack in found if spinning(stack)]


def same(ours, theirs, leaf_line=None):
    """Compares function, file and line of every frame; the leaf's line is `leaf_line`, or any. faulthandler has no qualified names and prints only
    the 100 innermost frames."""
    ours = ours[-len(theirs):] if len(theirs) == 100 else ours
    return len(ours) == len(theirs) and all(
        a.function.rsplit(".", 1)[-1] == b.function.rsplit(".", 1)[-1] and a.file == b.file and
        (a.line == b.line if i < len(ours) - 1 else a.line == leaf_line or (leaf_line is None and a.line > 0))
        for i, (a, b) in enumerate(zip(ours, theirs)))
