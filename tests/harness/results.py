"""For tools/run-tests: one line of JSON for each test result, the markers of the tiers, and files divided among parallel processes."""
import functools
import json
import re
from pathlib import Path

import pytest

MARKERS = {  # which tier of tools/run-tests runs a test; a test without one of the first three markers belongs to `make test`
    "statistical": "decided by random sampling, load, wall time, CPU, memory or sample counts: `make test-statistical`",
    "peer": "needs another project's program beyond Debian's interpreters and compilers: `make test-peers`",
    "thorough": "a variant or a rare condition of what a test of `make test` covers, or one that takes long: `make test-thorough`",
    "alone": "makes an assertion about the whole node: no other test runs meanwhile",
    "sanitized": "worth running with AddressSanitizer: also `make test-sanitize`",
}


def variants(first, *others):
    """Parameters of a test: `make test` runs it with the first, `make test-thorough` with the others. A tuple has a value for each parameter."""
    return [first, *(pytest.param(*(other if isinstance(other, tuple) else [other]), marks=pytest.mark.thorough) for other in others)]


def pytest_addoption(parser):
    parser.addoption("--results", help="append one line of JSON per result to this file")
    parser.addoption("--claims", help="an empty directory for parallel runs of the same files: each file runs in one of them")


def pytest_configure(config):
    path = config.getoption("--results")
    config.results_file = open(path, "a", buffering=1) if path else None
    for marker, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {meaning}")
    _Results.config = config


class _Results:
    config = None
    seconds = 0  # since the last result

    @classmethod
    def add(cls, outcome, nodeid, why="", details="", place=""):
        if cls.config is None or cls.config.results_file is None:
            return
        name = re.sub(r"^tests/", "", nodeid).replace(".py::", ".").replace("::", ".") + place
        line = {"outcome": outcome, "name": name, "nodeid": nodeid, "why": " ".join(why.split())[:300], "details": details, "seconds": cls.seconds}
        cls.config.results_file.write(json.dumps(line) + "\n")
        cls.seconds = 0


def pytest_runtest_logreport(report):
    _Results.seconds += report.duration
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        why = crash.message if crash else str(report.longrepr)
        place = "" if report.when == "call" else f" ({report.when})"
        _Results.add("FAIL", report.nodeid, why, report.longreprtext, place)
    elif report.skipped:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", str(report.longrepr))
        _Results.add("skip", report.nodeid, re.sub(r"^Skipped: ", "", why))
    elif report.when == "call":
        _Results.add("pass", report.nodeid)


def pytest_collectreport(report):
    if report.failed:
        _Results.add("FAIL", report.nodeid, str(report.longrepr).splitlines()[-1], report.longreprtext, " (collection)")


@functools.cache
def _claimed(folder, group):
    """Whether this process runs the group of files: the process that asks first."""
    try:
        (Path(folder) / group).mkdir()
    except FileExistsError:
        return False
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    """Leaves a test out, without a result, if another process runs its file. Files whose names have the same prefix may attach to the same programs
    (test_probes*): they are one group."""
    folder = item.config.getoption("--claims")
    if folder and not _claimed(folder, "_".join(item.path.stem.split("_")[:2])):
        return True
    return None
