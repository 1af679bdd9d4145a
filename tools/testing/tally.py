"""Counts results and prints them: one line per test, then the time per suite, the failures, and the final line."""
import re
import threading
from pathlib import Path
from typing import NamedTuple

SLOWEST = 12
DETAIL_LINES = 60


class Result(NamedTuple):
    outcome: str  # "pass", "FAIL" or "skip"
    name: str
    why: str = ""
    details: str = ""
    seconds: float = 0
    nodeid: str = ""  # pytest's node id


class Tally:
    """Results of all suites. Methods may be called from any thread."""

    def __init__(self, logs):
        self.counts = {"pass": 0, "FAIL": 0, "skip": 0}
        self.retried = None  # None: no suite retries
        self.failures = []
        self.seconds_of_files, self.seconds_of_suites = {}, {}
        self.logs = Path(logs)  # directory for the whole output of failed cases
        self.lock = threading.Lock()

    def add(self, result):
        outcome, name, why, details, seconds, _ = result
        text = f"{name}: {why}" if why else name
        file = name.partition(".")[0]
        with self.lock:
            self.seconds_of_files[file] = self.seconds_of_files.get(file, 0) + seconds
            self.counts[outcome] += 1
            print("\n    | ".join([f"{outcome} {text}", *details.rstrip().splitlines()[-DETAIL_LINES:]]), flush=True)
            if outcome == "FAIL":
                self.failures.append((text, self.keep_log(name, why, details)))

    def keep_log(self, name, why, details):
        path = self.logs / "failed" / (re.sub(r"[^\w.,=+-]+", "-", name)[:150] + ".log")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n{why}\n\n{details}\n", errors="replace")
        return path

    def line(self, outcome, name, why="", details="", seconds=0):
        self.add(Result(outcome, name, why, details, seconds))

    def retry(self, name, why):
        """Records a failure that is decided by running the test again: it is printed but not counted yet."""
        with self.lock:
            self.retried = (self.retried or 0) + 1
            print(f"retry {name}: {why}", flush=True)

    def suite_took(self, name, seconds):
        with self.lock:
            self.seconds_of_suites[name] = seconds

    def summary(self):
        """Prints the time per suite, the failures and the final line; returns the exit status."""
        slowest = sorted(self.seconds_of_files.items(), key=lambda each: -each[1])[:SLOWEST]
        for what, pairs in ("seconds", self.seconds_of_suites.items()), ("slowest files", [each for each in slowest if each[1] >= 1]):
            if pairs:
                print(f"{what}: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in pairs))
        if self.failures:
            print("failed:\n" + "\n".join(f"    {text}\n        {log}" for text, log in self.failures))
        retried = "" if self.retried is None else f", {self.retried} retried"
        print(f"{self.counts['pass']} passed, {self.counts['FAIL']} failed, {self.counts['skip']} skipped{retried}", flush=True)
        return 1 if self.counts["FAIL"] else 0
