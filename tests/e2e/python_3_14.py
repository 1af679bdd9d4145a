"""CPython 3.14 where none is installed. cx_Freeze ships a whole interpreter in one stripped file, which PyPI has. Its main() looks for a frozen
program; a library loaded before it calls the interpreter's own main() instead. Modules written in Python come from 3.13. C modules that are not
in the file are missing: _socket, _ctypes, unicodedata."""
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from harness.machine import need_command, skip
from harness.paths import TOP
from packages import exclusive
from pypi import environment

PACKAGE = "freeze-core==0.8.1"
MISSING = {"tasks", "ctypes_callback", "executed"}  # cases of tests/workloads/python/stacks.py that need those modules
MAIN = TOP / "tests/workloads/python/main_3_14.c"


def get(python_3_13):
    """The path of a command (a shell script) that runs CPython 3.14. Skips when it is not available."""
    place = TOP / "build" / "python-3.14"  # shared by builds with sanitizers
    command = place / "command"
    if not python_3_13:
        skip("needs CPython 3.14, or the library of 3.13")
    if platform.machine() != "x86_64":
        skip("CPython 3.14 is at hand for x86-64 only")
    with exclusive(place):
        make(place, command, python_3_13)
    said = subprocess.run([command, "-c", "import sys, threading, faulthandler; print(sys.version)"], capture_output=True, text=True)
    if not said.stdout.startswith("3.14."):
        skip("CPython 3.14 does not run here: " + said.stderr.strip()[-200:])
    return Path(command)


def make(place, command, python_3_13):
    if not (place / "complete").exists():
        compiler = need_command("gcc", "cc")
        pip = environment("pip", ["pip"], ["/usr/bin/python3", sys.executable], "True") / "pip"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        try:
            done = subprocess.run([pip, "download", "-q", "--disable-pip-version-check", PACKAGE, "-d", place, "--no-deps", "--only-binary=:all:",
                                   "--python-version", "3.14", "--platform", "manylinux_2_17_x86_64"], capture_output=True, text=True, timeout=400)
        except subprocess.TimeoutExpired:
            skip(f"{PACKAGE} was not there within 400 s from PyPI")
        if done.returncode != 0:
            skip(f"{PACKAGE} cannot be had: " + done.stderr.strip()[-200:])
        with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
            (place / "python3.14").write_bytes(wheel.read("freeze_core/bases/console-cpython-314-x86_64-linux-gnu"))
        (place / "python3.14").chmod(0o755)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", MAIN, "-o", place / "main.so", "-ldl"], check=True)
        (place / "complete").touch()
    library = subprocess.run([python_3_13, "-c", "import os; print(os.path.dirname(os.__file__))"], capture_output=True, text=True).stdout.strip()
    text = (f"#!/bin/sh\nexport LD_PRELOAD='{place}/main.so' PYTHONHOME='{place}' PYTHONPATH='{library}' PYTHONDONTWRITEBYTECODE=1\n"
            f"exec '{place}/python3.14' \"$@\"\n")
    if not command.exists() or command.read_text() != text:
        command.write_text(text)
        command.chmod(0o755)
