"""Packages from PyPI in virtual environments, and programs of Go modules, which are kept in the build directory: for tests (e2e/pypi.py) and benchmarks."""
import contextlib
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

TESTS = Path(__file__).resolve().parent
BUILD = TESTS.parent / "build"  # shared by builds with sanitizers
PY_SPY = ["py-spy==0.4.1"]


class Missing(RuntimeError):
    """The environment cannot be created on this machine; the message is the reason."""


@contextlib.contextmanager
def exclusive(place):
    """Serializes test lanes that create the same environment."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place.with_name(place.name + ".lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def environment(name, needed, interpreters, fit="True", build_s=400):
    """The bin directory of an environment with the packages `needed`, using the first interpreter where the expression `fit` is true. `build_s`: how long
    a package may take, which some have to be compiled for."""
    place = BUILD / name
    with exclusive(place):
        return create_environment(place, needed, interpreters, fit, build_s)


def create_environment(place, needed, interpreters, fit, build_s):
    done = place / "complete"
    if done.exists() and done.read_text() == str(needed):
        return place / "bin"
    check = f"import sys, ensurepip; sys.exit(not ({fit}))"
    interpreter = next((path for path in interpreters if subprocess.run([path, "-c", check], capture_output=True).returncode == 0), None)
    if not interpreter:
        raise Missing(f"there is no Python with venv where {fit}")
    shutil.rmtree(place, ignore_errors=True)
    for command in ([interpreter, "-m", "venv", place], [place / "bin/pip", "install", "-q", "--disable-pip-version-check", *needed]):
        try:
            made = subprocess.run(command, capture_output=True, text=True, timeout=build_s)
        except subprocess.TimeoutExpired as late:
            raise Missing(f"{needed[0]} was not there within {build_s} s from PyPI") from late
        if made.returncode != 0:
            raise Missing(f"{needed[0]} cannot be had: " + (made.stderr.strip() or made.stdout.strip())[-200:])
    done.write_text(str(needed))
    return place / "bin"


def go_program(name):
    """The program of the Go module in tests/workloads/NAME, whose dependencies go.sum pins."""
    program = BUILD / "go-programs" / name
    with exclusive(program):
        try:
            made = subprocess.run(["go", "build", "-mod=readonly", "-o", program, "."], cwd=TESTS / "workloads" / name, env=dict(os.environ, CGO_ENABLED="0"),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Missing(f"{name} cannot be built: {error}") from error
    if made.returncode != 0:
        raise Missing(f"{name} cannot be built: {made.stderr.strip()[-200:]}")
    return program
