"""Runs programs, Meson's suites and pytest, and hands each result to a Tally."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testing.tally import Result

TOP = Path(__file__).resolve().parent.parent.parent
BUILD = TOP / "build"
LOGS = BUILD / "test-logs"
JOBS = str(os.cpu_count() or 1)
LINE = re.compile(r"^(pass|FAIL|skip) (.*)$")
# Test lanes have separate mount namespaces, and each can run an agent of its own: a lock allows one per node, which has one socket.
LANE = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-ec", """
mount --make-rprivate / 2>/dev/null || :  # where / is no mount (chroot) this is not needed
own=$(mktemp); : >>/run/sonde.lock; mount --bind "$own" /run/sonde.lock; rm "$own"
mkdir -p /run/sonde; mount -t tmpfs sonde /run/sonde; exec "$@" """, "lane"]
TRIES = 3  # runs of a statistical test; the majority decides


def environment(**extra):
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", LC_ALL="C.UTF-8", **extra)
    env["PATH"] += ":/usr/sbin:/sbin"
    return env


def as_root():
    """A command prefix that runs a command as root; None if that is impossible."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
        return ["sudo", "-n", "-E"]
    return None


def build_step(tally, name, *commands, env=None):
    """Runs commands that build something for later tests; a failure counts as one failed test. Returns whether all succeeded."""
    started = time.monotonic()
    for command in commands:
        done = subprocess.run(command, cwd=TOP, env=env or environment(), stdin=subprocess.DEVNULL, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            tally.line("FAIL", name, " ".join(map(str, command)), done.stdout)
            return False
    tally.line("pass", name, seconds=time.monotonic() - started)
    return True


# ---- programs that print lines of results ----

def run_lines(tally, name, command, timeout_s, env=None):
    """Runs a program that prints result lines; its whole output goes to a log, and the end of it is printed when the program fails."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / (name.replace("/", "-") + ".log")
    failed, tail = False, []
    with open(log, "w") as keep, subprocess.Popen(
            command, cwd=TOP, env=env or environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True) as process:
        timer = threading.Timer(timeout_s, lambda: os.killpg(process.pid, 9))
        timer.start()
        started = time.monotonic()
        for line in process.stdout:
            keep.write(line)
            tail = (tail + [line.rstrip()])[-60:]
            found = LINE.match(line.rstrip())
            if found:
                test, _, why = found[2].partition(": ")
                failed |= found[1] == "FAIL"
                tally.line(found[1], test, why)
        timer.cancel()
    if process.returncode != 0 and not failed:
        why = f"exit status {process.returncode}"
        if time.monotonic() - started >= timeout_s:
            why = f"stopped after {timeout_s} s"
        tally.line("FAIL", name, why, "\n".join(tail))


# ---- Meson ----

def cmocka_results(test):
    """The cases of a cmocka program from its output: (outcome, name, why)."""
    results, words, name = [], [], None
    for line in (test.get("stdout") or "").splitlines():
        found = re.match(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] (\S+)$", line)
        if not found:
            words.append(line.strip())
        elif found[1] == "RUN":
            name, words = found[2], []
        elif name:
            outcome = {"OK": "pass", "FAILED": "FAIL", "SKIPPED": "skip"}[found[1]]
            why = " ".join(filter(None, words)) if outcome == "skip" else ""
            results.append((outcome, name, why or ("no reason given" if outcome == "skip" else "")))
            name = None
    if name:
        results.append(("FAIL", name, "did not reach its end"))
    return results


def meson_results(prefix, build, suite, command, env, timeout_factor, only=()):
    """A Result for every case of every program of a suite, or only of the programs in `only`."""
    log = Path(build) / "meson-logs" / f"testlog-{suite}.json"  # suites of one build may run in parallel
    log.unlink(missing_ok=True)
    done = subprocess.run([*command, "meson", "test", "-C", str(build), "--no-rebuild", "--suite", suite, "--logbase", log.stem, "--num-processes", JOBS,
                           "--timeout-multiplier", str(timeout_factor), *only],
                          cwd=TOP, env=env or environment(), stdin=subprocess.DEVNULL, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if not log.exists():
        if "No suitable tests" in done.stdout or "No tests defined" in done.stdout:
            return [Result("skip", prefix, f"the suite {suite} is empty")]
        return [Result("FAIL", prefix, "meson test did not run", done.stdout)]
    results = []
    for text in log.read_text().splitlines():
        test = json.loads(text)
        name = prefix + "/" + re.sub(r"^.*? / ", "", test["name"])
        good = test["result"] in ("OK", "EXPECTEDFAIL")
        details = (test.get("stdout") or "") + (test.get("stderr") or "")
        cases = cmocka_results(test)
        seconds = test.get("duration") or 0
        for outcome, case, why in cases:
            results.append(Result(outcome, f"{name}.{case}", why, details if outcome == "FAIL" else "", seconds))
            details, seconds = "" if outcome == "FAIL" else details, 0
        if test["result"] == "SKIP" and not cases:
            results.append(Result("skip", name, " ".join(details.split())[-200:] or "no reason given", "", seconds))
        elif not good and test["result"] != "SKIP" and not any(outcome == "FAIL" for outcome, _, _ in cases):
            results.append(Result("FAIL", name, f"{test['result']}, exit status {test.get('returncode')}", details, seconds))
        elif good and not cases:
            results.append(Result("pass", name, seconds=seconds))
    return results


def meson_suite(tally, prefix, build, suite, command=(), env=None, timeout_factor=1, retry=False):
    """Runs a suite of `build`. Counts every case of every cmocka program; any other program counts as one. `retry`: see pytest_suite."""
    def run(only=()):
        return meson_results(prefix, build, suite, command, env, timeout_factor, only)
    for result in run():
        if retry and result.outcome == "FAIL":
            program = re.sub(rf"^{prefix}/", "", result.name).partition(".")[0]
            result = decide(tally, result, lambda: [again for again in run([program]) if again.name == result.name])
        tally.add(result)


# ---- pytest ----

def python():
    for candidate in ("/usr/bin/python3", "python3"):
        if subprocess.run([candidate, "-c", "import pytest"], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL).returncode == 0:
            return candidate
    return None


def pytest_suite(tally, *folders, timeout_s, root=True, prefix="", options=(), lanes=1, retry=False, **extra):
    """Runs pytest on directories under tests/, in `lanes` parallel processes that divide the files among them (`--claims` of tests/harness/results.py).
    `retry`: a failed test is run again alone, and the majority of its runs decides (statistical tests only). `extra`: its environment."""
    name = prefix + "-".join(folders)
    files = [str(path.relative_to(TOP)) for folder in folders for path in sorted((TOP / "tests" / folder).glob("test_*.py"))]
    if not files:
        return
    interpreter, before = python(), as_root() if root else []
    if interpreter is None or before is None:
        tally.line("FAIL", name, "pytest is not installed" if interpreter is None else "needs root, and sudo would ask for a password")
        return
    has_timeout = subprocess.run([interpreter, "-c", "import pytest_timeout"], stderr=subprocess.DEVNULL).returncode == 0
    # To compile the tests with pytest's assertions takes 10 s: this keeps them for the next process. Programs of the tests write none (tests/conftest.py).
    keep = ["-X", f"pycache_prefix={BUILD / 'pycache'}"]
    command = [*before, *(LANE if lanes > 1 else []), interpreter, *keep, "-m", "pytest", "-p", "no:cacheprovider", "-ra", "--continue-on-collection-errors",
               *(["--timeout=600"] if has_timeout else []), *options]
    ends_at, env = time.monotonic() + timeout_s, environment(**extra)
    del env["PYTHONDONTWRITEBYTECODE"]

    def run(run_name, *claims):
        failed = []
        for result in pytest_run(run_name, [*command, *claims, *files], prefix, ends_at, env):
            if retry and result.outcome == "FAIL":
                failed.append(result)
            else:
                tally.add(result)
        for result in failed:
            tally.add(decide(tally, result, lambda: list(pytest_run(name + "/again", [*command, result.nodeid], prefix, ends_at, env))))
    if lanes == 1:
        run(name)
        return
    with tempfile.TemporaryDirectory() as claims, ThreadPoolExecutor(lanes) as pool:
        list(pool.map(lambda lane: run(f"{name}/lane-{lane + 1}", f"--claims={claims}"), range(lanes)))


def pytest_run(run_name, command, prefix, ends_at, env):
    """Yields each Result as it arrives: tests/harness/results.py writes one line of JSON per result into a file."""
    LOGS.mkdir(parents=True, exist_ok=True)
    results = LOGS / (run_name.replace("/", "-") + ".jsonl")
    results.write_text("")
    failed = False
    with open(results.with_suffix(".log"), "w") as log, open(results) as lines, subprocess.Popen(
            [*command, f"--results={results}"], cwd=TOP, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True) as process:
        running, rest = True, ""
        while running:
            try:
                process.wait(0.2)
                running = False
            except subprocess.TimeoutExpired:
                if time.monotonic() > ends_at:
                    os.killpg(process.pid, 9)
            rest += lines.read()
            *whole, rest = rest.split("\n")
            for text in whole:
                result = json.loads(text)
                failed |= result["outcome"] == "FAIL"
                yield Result(**dict(result, name=prefix + result["name"]))
    if process.returncode not in (0, 5) and not failed:
        why = "stopped: the suite's time is over" if process.returncode == -9 else f"pytest ended with {process.returncode}"
        details = "\n".join(results.with_suffix(".log").read_text().splitlines()[-60:])
        yield Result("FAIL", run_name, why, details, nodeid=command[-1])


# ---- statistical tests ----

def decide(tally, failure, run_again):
    """The majority of up to TRIES runs of a test that failed once: run_again() runs it alone and returns its results."""
    last, failures, passes = failure, 1, 0
    while max(failures, passes) <= TRIES // 2:
        tally.retry(failure.name, last.why)
        again = run_again()
        bad = [result for result in again if result.outcome == "FAIL"]
        if again and not bad:
            passes += 1
        else:
            failures += 1
            last = bad[0] if bad else last
    if passes > failures:
        return failure._replace(outcome="pass", why=f"{passes} of {passes + failures} runs", details="")
    return failure._replace(why=last.why, details=last.details)
