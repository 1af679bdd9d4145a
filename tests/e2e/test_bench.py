"""Each row of `make bench`, and each benchmark with a program of its own, runs for a moment: a benchmark that no tier runs stops working unnoticed.

Decides only that a row is measured, never by its figures."""
import re
import subprocess

import pytest
from harness.machine import need_command, need_root
from harness.paths import TOP

SECONDS = 900  # one row compares up to four observers, and some rows build a peer first
NEEDED = ("perf", "bpftrace", "wrk", "nginx", "openssl")


def row_names():
    """The rows that bench/rows.py lists. Read from its text: importing it would need the peers' Python packages."""
    table = re.search(r"^    ROWS = \{(.*?)\}", (TOP / "bench/rows.py").read_text(), re.M | re.S)
    return re.findall(r'"([\w-]+)": ', table[1])


def run_bench(*command):
    need_root()
    for name in NEEDED:
        need_command(name)
    done = subprocess.run(command, cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          timeout=SECONDS)
    return done.returncode, done.stdout


@pytest.mark.statistical
@pytest.mark.parametrize("row", row_names())
def test_each_row_is_measured(row, sonde):
    status, output = run_bench("bench/run", row, "--seconds", "1", "--rounds", "1", "--no-file", "--sonde", sonde)
    assert "could not be measured" not in output and status == 0, output[-3000:]


@pytest.mark.statistical
def test_the_cost_of_requests_is_measured(sonde):
    status, output = run_bench("bench/request_cost", "--rounds", "2", "--seconds", "1", "--sonde", sonde)
    assert status == 0, output[-3000:]
    for way in ("nothing", "requests", "requests and recorder", "waits of it", "empty pair"):
        assert re.search(rf"^{way} +requests a second", output, re.M), output[-3000:]
