"""Request traces of Python programs: runs programs that start with a manager and a model, and parses their trace files."""
import json

import pytest
from harness.paths import TOP
from python_package import SYSTEM_PYTHON, python
from traced_server import by_id

TRACES = TOP / "tests/workloads/python/traces"
BEGIN = """
import array, gc, os, sys, threading, time
from sonde import trace
manager = trace.Manager(["rate=1", "level=TIMESTAMPS", "level=TENSORS", "triton,file=FILE"])
model = manager.model("simple", 2)
"""


@pytest.fixture
def write(package, tmp_path):
    """write(program) -> ({id: its objects}, standard output, standard error). The program is a file of tests/workloads/python/traces, or source
    text (BEGIN is prepended to it)."""
    def written(program, interpreter=SYSTEM_PYTHON, *flags, arguments=()):
        file = tmp_path / "trace.json"
        if program.endswith(".py"):
            out, error = python(package, TRACES / program, interpreter, *flags, arguments=(file, *arguments))
        else:
            out, error = python(package, BEGIN.replace("FILE", str(file)) + program, interpreter, *flags)
        return by_id(json.loads(file.read_text())) if file.exists() else {}, out, error
    return written


def head(objects):
    return next(entry for entry in objects if "model_name" in entry)


def stamps(objects):
    return [(stamp["name"], stamp["ns"]) for entry in objects for stamp in entry.get("timestamps", ())]


def tensors(objects):
    return {entry["tensor"]["name"]: entry["tensor"] for entry in objects if "tensor" in entry}
