"""Builds and strips Go programs for tests."""
import os
import re
import shutil
import subprocess
from pathlib import Path

from harness.machine import need_command, skip
from harness.paths import WORKLOADS, TOP


def go_version(program):
    return tuple(map(int, re.search(r"go(\d+)\.(\d+)", subprocess.run([need_command("go"), "version", program], capture_output=True, text=True).stdout).groups()))


def strip(program, to):
    subprocess.run([need_command("strip"), "-o", to, program], check=True)
    return to


def go_build(folder, version, *arguments, name="labelled", **environment):
    """Builds a program of tests/workloads with that version of Go; CGO_ENABLED=1 includes C code. Skips when the version is not available."""
    source = shutil.copy(TOP / f"tests/workloads/{name}.go", folder / f"{name}.go")
    go = dict(os.environ, GOCACHE=str(WORKLOADS / ".go"), GOTOOLCHAIN=version, GOFLAGS="-mod=mod", GO111MODULE="on", **environment)
    try:
        said = subprocess.run([need_command("go"), "version"], env=go, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100).stdout
    except subprocess.TimeoutExpired:
        said = ""
    if version != "local" and version not in said:
        skip(f"{version} cannot be had here")
    sources = [source]
    if environment.get("CGO_ENABLED") == "1":
        need_command("gcc")
        sources.append(folder / "c.go")
        sources[1].write_text('package main\n\n/*\n#include <stdlib.h>\n*/\nimport "C"\n\nfunc init() { C.free(C.malloc(1)) }\n')
    try:
        subprocess.run(["go", "build", *arguments, "-o", folder / name, *sources], env=go, cwd=folder, check=True, timeout=500)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        if version == "local":
            raise
        skip(f"{version} does not build it here: {error}")
    return Path(folder / name)
