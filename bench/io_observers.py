"""Observers of I/O that bench/io_cost compares: each is started, given a few seconds to attach, and ended after the measurement. One that does not work on
this machine is left out, with its reason."""
import os
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import measure

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
import packages  # noqa: E402

ATTACH_S = 4
TRIED = "import os, sys; fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT); [os.write(fd, b'x') for _ in range(10000)]"
DFTRACER = ["dftracer==2.2.0"]
BPFTRACE = """
tracepoint:syscalls:sys_exit_read, tracepoint:syscalls:sys_exit_pread64 /args->ret > 0/ { @read[cgroup] = sum(args->ret); @reads[cgroup] = count(); }
tracepoint:syscalls:sys_exit_write, tracepoint:syscalls:sys_exit_pwrite64 /args->ret > 0/ { @written[cgroup] = sum(args->ret); @writes[cgroup] = count(); }
tracepoint:syscalls:sys_exit_openat, tracepoint:syscalls:sys_exit_close { @others[cgroup] = count(); }
"""


class Observer:
    """`what` it counts; `start()` is a context manager that yields the environment of the observed programs."""

    def __init__(self, name, what, start):
        self.name, self.what, self.start = name, what, start


@contextmanager
def attached(*command):
    with measure.Observer(command) as observer:
        time.sleep(ATTACH_S)
        observer.check()
        yield {}


def dftracer(folder):
    """Preloaded into each program; writes a trace of every call."""
    library, = (packages.environment("dftracer", DFTRACER, ["/usr/bin/python3"]).parent / "lib").glob("python3*/site-packages/dftracer/lib64/libdftracer_preload.so")
    trace = folder / "dftracer"
    trace.mkdir()

    @contextmanager
    def start():
        for file in trace.iterdir():
            file.unlink()
        yield {"DFTRACER_ENABLE": "1", "DFTRACER_INIT": "PRELOAD", "DFTRACER_LOG_FILE": str(trace / "trace"), "DFTRACER_DATA_DIR": "all", "LD_PRELOAD": str(library)}
        if not any(file.stat().st_size > 1000 for file in trace.iterdir()):
            raise measure.Ended("it wrote no trace")
    return start


def libbpf_tool(name, *options):
    path = measure.which(name)
    if not path:
        raise measure.Ended("Debian's package libbpf-tools is not installed")
    return lambda: attached(path, *options)


def candidates(sonde, folder):
    """(name, the counted operations, a function that returns its start)."""
    yield "nothing", "", lambda: lambda: nullcontext({})
    yield "sonde io", "everything, by job and mount", lambda: lambda: attached(sonde, "io", "--json", "-i", "1s", "-d", "1h")
    yield "bpftrace", "bytes and calls of read, write, open and close, by cgroup", lambda: lambda: attached(measure.which("bpftrace"), "-e", BPFTRACE)
    yield "filetop", "reads and writes, by file and process", lambda: libbpf_tool("filetop", "-C", "-a", "1")
    yield "vfsstat", "reads, writes, opens and syncs of the node", lambda: libbpf_tool("vfsstat", "1")
    yield "syscount", "calls and time of all system calls, by number", lambda: libbpf_tool("syscount", "-L", "-i", "1")
    yield "opensnoop", "opens, each printed", lambda: libbpf_tool("opensnoop")
    yield "dftracer", "a trace of each call, written by the program itself", lambda: dftracer(folder)


def available(sonde, folder):
    """The observers that work, each tried once, and {name: why not} for the others."""
    found, missing = [], {}
    for name, what, find in candidates(sonde, folder):
        try:
            start = find()
            with start() as environment:
                subprocess.run([sys.executable, "-c", TRIED, folder / "tried"], env={**os.environ, **environment}, check=True, capture_output=True)
            found.append(Observer(name, what, start))
        except (measure.Ended, packages.Missing, ValueError, subprocess.CalledProcessError) as error:
            missing[name] = (str(error).strip().splitlines() or ["it ended"])[-1][-160:]
    return found, missing
