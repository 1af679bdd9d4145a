"""Long-running CPU-bound programs, from tests/workloads and from Debian, for comparing stacks with other profilers."""
import textwrap
from pathlib import Path

import pytest

import peers
from harness.machine import skip
from harness.processes import wait_for

TURNS = textwrap.dedent("""
    def turn(depth):
        while depth == 0:
            pass
        return list(map(turn, [depth - 1]))
    turn(5)
""")
DEBIAN = {"python3": (["-c", TURNS], "_PyEval_EvalFrameDefault"),
          "openssl": (["speed", "-seconds", "60", "-bytes", "256", "-evp", "sha256"], "EVP_Digest")}


@pytest.fixture
def busy(workload, run):
    """busy(text) starts a program; returns (pid, the innermost function of its stack that stays the same)."""
    def start(text):
        name, *words = text.split()
        if name not in DEBIAN:
            started = workload(name, *[w for w in words if w.isdigit()], 60, *[w for w in words if not w.isdigit()])
            return started.pid, (started.stack or "").split(";")[-1]
        path = Path("/usr/bin") / name  # by absolute path: PATH may find another installation first
        if not path.exists():
            skip(f"needs {path}")
        arguments, function = DEBIAN[name]
        running = run(path, *arguments)
        wait_for(lambda: any(function in place.names for stack in peers.gdb_stacks(running.pid) for place in stack), 30, f"{function} on the stack")
        return running.pid, function
    return start
