"""`sonde memory`: the holders of the page cache and the memory of the node, compared with the kernel's numbers."""
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.machine import skip
from harness.processes import wait_for
from memory_limits import cgroup, limited  # noqa: F401 (fixtures)

pytestmark = pytest.mark.usefixtures("root")
FILE_BYTES, HELD_BYTES, GROWN_BYTES = 8 << 20, 96 << 20, 16 << 20
HOLD = f"""
import mmap, signal, sys
opened = open(sys.argv[1], "rb")
held = bytearray(b"x" * {HELD_BYTES})
shared = mmap.mmap(-1, 4 << 20)
shared.write(b"x" * (4 << 20))
grown = []
signal.signal(signal.SIGUSR1, lambda *_: grown.append(bytes({GROWN_BYTES}).replace(b"\\0", b"x")))
print("held", flush=True)
while True:
    signal.pause()
"""

# Runs a program with a seccomp filter, so that cachestat(2), system call 451, does not exist for it.
WITHOUT_CACHESTAT = """
import ctypes, os, struct, sys
filters = b"".join(struct.pack("HBBI", *words) for words in ((0x20, 0, 0, 0), (0x15, 0, 1, 451), (6, 0, 0, 0x50000 | 38), (6, 0, 0, 0x7FFF0000)))
code = ctypes.create_string_buffer(filters)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def cached_file(tmp_path):
    """A file whose pages are all in the page cache and written back."""
    path = tmp_path / "cached"
    with open(path, "wb") as file:
        file.write(b"x" * FILE_BYTES)
        os.fsync(file.fileno())
    if subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True).stdout.strip() in ("tmpfs", "ramfs"):
        skip("pages of a tmpfs cannot be dropped")
    return path


def memory(sonde, *arguments, before=()):
    done = subprocess.run([*before, sonde, "memory", "--json", "-n", "100000", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


def file_of(report, path):
    return next((f for f in report["files"] if f["path"] == str(path)), None)


def drop_half(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, FILE_BYTES // 2, os.POSIX_FADV_DONTNEED)
    os.close(fd)


@pytest.mark.parametrize("method", ["cachestat", "mincore"])
def test_the_pages_of_a_file_are_counted(sonde, run, cached_file, method):
    before = (sys.executable, "-c", WITHOUT_CACHESTAT) if method == "mincore" else ()
    holder = run(sys.executable, "-c", HOLD, cached_file)
    wait_for(lambda: "held" in holder.out, what="the process that has the file open")
    report = memory(sonde, "-d", "0", before=before)
    found = file_of(report, cached_file)
    if report["method"] != method:
        skip("the kernel has no cachestat")
    assert found["cached_bytes"] == found["size_bytes"] == FILE_BYTES and found["pid"] == holder.pid and found["processes"] == 1, found
    assert found.get("dirty_bytes") == (0 if method == "cachestat" else None), found
    drop_half(cached_file)
    assert file_of(memory(sonde, "-d", "0", before=before), cached_file)["cached_bytes"] == FILE_BYTES // 2


def test_a_file_that_no_process_has_open_is_found_in_its_folder(sonde, cached_file):
    assert file_of(memory(sonde, "-d", "0"), cached_file) is None
    found = file_of(memory(sonde, "-d", "0", cached_file.parent), cached_file)
    assert found["cached_bytes"] == FILE_BYTES and found["processes"] == 0 and "pid" not in found, found
    done = subprocess.run([sonde, "memory", "-d", "0", cached_file / "missing"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "missing" in done.stderr, done


def test_the_memory_of_a_process_is_that_of_the_kernel_and_its_growth_is_measured(sonde, run, cached_file):
    holder = run(sys.executable, "-c", HOLD, cached_file)
    wait_for(lambda: "held" in holder.out, what="the memory")
    status = Path(f"/proc/{holder.pid}/status").read_text()
    report = memory(sonde, "-d", "0")
    found = next(p for p in report["processes"] if p["pid"] == holder.pid)
    assert found["anonymous_bytes"] == int(re.search(r"RssAnon:\s+(\d+)", status)[1]) * 1024 > HELD_BYTES, found
    assert found["shared_bytes"] == int(re.search(r"RssShmem:\s+(\d+)", status)[1]) * 1024 >= 4 << 20, found
    assert found["growth_bytes"] == 0 and found["command"] == Path(f"/proc/{holder.pid}/comm").read_text().strip(), found
    with subprocess.Popen([sonde, "memory", "--json", "-n", "100000", "-d", "3"], stdout=subprocess.PIPE, text=True) as measuring:
        wait_for(lambda: Path(f"/proc/{measuring.pid}/wchan").read_text() == "hrtimer_nanosleep", what="the pause between its two walks")
        os.kill(holder.pid, signal.SIGUSR1)
        grown = next(p for p in json.loads(measuring.communicate(timeout=60)[0])["processes"] if p["pid"] == holder.pid)
    assert GROWN_BYTES <= grown["growth_bytes"] < 2 * GROWN_BYTES, grown


def test_the_memory_of_a_cgroup_is_that_of_the_kernel(sonde, run, limited, cached_file):  # noqa: F811
    limits = limited("sonde-e2e-memory")
    limits.limit.write_text(str(512 << 20))
    holder = run(*limits.command(sys.executable, "-c", HOLD, cached_file))
    wait_for(lambda: "held" in holder.out, what="the memory")

    def numbers_agree():
        stat = dict(line.split() for line in (limits.path / "memory.stat").read_text().splitlines())
        found = next(c for c in memory(sonde, "-d", "0")["cgroups"] if c["cgroup"] == limits.name)
        anonymous, shared = int(stat["rss" if limits.version == "v1" else "anon"]), int(stat["shmem"])
        return anonymous > HELD_BYTES and shared >= 4 << 20 and (found["anonymous_bytes"], found["shared_bytes"]) == (anonymous, shared)
    wait_for(numbers_agree, what="the kernel's numbers, which it updates now and then")


def test_the_tables_name_the_largest(sonde, run, cached_file):
    holder = run(sys.executable, "-c", HOLD, cached_file)
    wait_for(lambda: "held" in holder.out, what="the memory")
    done = subprocess.run([sonde, "memory", "-d", "0", "-n", "100000"], capture_output=True, text=True, timeout=60, check=True)
    assert re.search(rf"^ *(9\d\.\d|1\d\d) MiB +4\.00 MiB +- +\S+ +{holder.pid} ", done.stdout, re.M), done.stdout
    assert re.search(rf"^ *8\.00 MiB +- +8\.00 MiB +{holder.pid} .* {cached_file}$", done.stdout, re.M), done.stdout
    assert re.search(r"^\d+ files were found, with \S+ \S+ of the page cache, ", done.stdout, re.M), done.stdout
