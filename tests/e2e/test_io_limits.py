"""I/O monitoring of hostile programs: mounts by the thousand, cgroups that vanish, file systems that lie, and a client that does not read its page."""
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lying_fuse
from cgroups import cgroup, cgroup_roots, cgroup_version  # noqa: F401 (a fixture)
from file_systems import file_system  # noqa: F401 (a fixture)
from harness.agents import NO_REQUESTS
from harness.machine import skip
from harness.processes import memory_bytes, wait_for

TESTS = Path(__file__).resolve().parent
MOUNTS_EACH = 1000
# Groups of mounts in a mount namespace of its own; mounts of a group are copied at once, which is quick. Then follows orders, line by line.
MOUNTS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
top, groups, each = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def mount(source, target, kind, flags):
    if libc.mount(source.encode(), target.encode(), kind, flags, None) < 0:
        sys.exit(f"mount {target}: {os.strerror(ctypes.get_errno())}")

for group in range(groups):
    os.mkdir(f"{top}/{group}")
mount("sonde-test", f"{top}/0", b"tmpfs", 0)
for i in range(each):
    os.mkdir(f"{top}/0/{i}")
    mount(f"{top}/0/{i}", f"{top}/0/{i}", None, 4096)  # MS_BIND
for group in range(1, groups):
    mount(f"{top}/0", f"{top}/{group}", None, 4096 | 16384)  # MS_BIND | MS_REC
print("mounted", flush=True)
for order in sys.stdin:
    places = [(groups - 1, each - 1)] if order == "last\\n" else [(g, i) for g in range(groups) for i in range(each)]
    for group, i in places:
        fd = os.open(f"{top}/{group}/{i}/file", os.O_RDWR | os.O_CREAT)
        os.write(fd, b"x" * 77)
        os.posix_fallocate(fd, 0, 100)
        os.close(fd)
    print("done", order, end="", flush=True)
"""


class Mounts:
    def __init__(self, top, groups):
        self.top, self.groups = top, groups
        self.process = subprocess.Popen(["unshare", "--mount", "/usr/bin/python3", "-c", MOUNTS, top, str(groups), str(MOUNTS_EACH)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "mounted\n"
        self.last = f"{top}/{groups - 1}/{MOUNTS_EACH - 1}"

    def __enter__(self):
        return self

    def use(self, which):
        """"last": the last mount; "all": each of them."""
        self.process.stdin.write(f"{which}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"done {which}\n"

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(120) == 0


@pytest.fixture
def watching(agent):
    """With memory for tables and series of full size."""
    return agent(*NO_REQUESTS, "--set", "io.enabled=true", "--set", "budget.one_cpu=1000%", "--set", "budget.memory=1GiB")


def lost(started):
    return started.metric("sonde_self_losses_total", reason="map_full") + started.metric("sonde_self_losses_total", reason="missed")


def scrape_s(started):
    start = time.monotonic()
    started.text("/metrics")
    return time.monotonic() - start


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.parametrize("thousands", [33, pytest.param(99, marks=pytest.mark.statistical)])
def test_mounts_by_the_thousand(watching, file_system, thousands):
    """Up to as many as fs.mount-max allows: 99,000 of 100,000. Operations beyond the kernel's tables are counted without the mount's name, and as a
    loss; counters from before go on as before."""
    limit, present = int(Path("/proc/sys/fs/mount-max").read_text()), len(Path("/proc/self/mountinfo").read_text().splitlines())
    groups = min(thousands, (limit - present) // (MOUNTS_EACH + 1))
    if groups < 2:
        skip(f"fs.mount-max is {limit}")
    count = groups * MOUNTS_EACH
    before = lost(watching)
    with Mounts(file_system("tmpfs"), groups) as mounts:
        mounts.use("last")
        wait_for(lambda: watching.metric("sonde_io_write_bytes_total", mountpoint=mounts.last) == 77)
        assert lost(watching) == before
        start = time.monotonic()
        mounts.use("all")
        took_s = time.monotonic() - start
        wait_for(lambda: watching.metric("sonde_io_operations_total", operation="allocate") == count + 1)
        assert lost(watching) > before
        assert watching.metric("sonde_io_write_bytes_total", mountpoint=mounts.last) == 2 * 77
        assert watching.metric("sonde_io_series") < 20000
        assert memory_bytes(watching.pid, "VmHWM") < 192 << 20
        mounts.use("last")
        wait_for(lambda: watching.metric("sonde_io_write_bytes_total", mountpoint=mounts.last) == 3 * 77)
        assert took_s < 60 and scrape_s(watching) < 10


@pytest.mark.thorough
def test_client_that_does_not_read_does_not_block_others(watching, file_system):
    """Its page does not fit the buffers of its connection."""
    with Mounts(file_system("tmpfs"), 3) as mounts:
        mounts.use("all")
        wait_for(lambda: len(watching.text("/metrics")) > 8 << 20)
        hanging = []
        try:
            for _ in range(8):
                s = socket.socket()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.connect(("127.0.0.1", watching.port))
                s.sendall(f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{watching.port}\r\n\r\n".encode())
                assert s.recv(15) == b"HTTP/1.1 200 OK"
                hanging.append(s)
            assert watching.get("/healthz", timeout_s=5)[0] == 200 and scrape_s(watching) < 10
            mounts.use("last")
            wait_for(lambda: watching.metric("sonde_io_write_bytes_total", mountpoint=f"{mounts.top}/0/0") == 77)
        finally:
            for s in hanging:
                s.close()


# A cgroup for each write, which is removed right after it.
VANISHING = """
import os, sys
fd, count, roots = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), int(sys.argv[2]), sys.argv[3:]

def enter(folder):
    for root in roots:
        open(f"{root}/{folder}/cgroup.procs", "w").write("0")

for i in range(count):
    for root in roots:
        os.mkdir(f"{root}/sonde-io/{i}")
    enter(f"sonde-io/{i}")
    os.pwrite(fd, b"x" * 100, 0)
    enter("sonde-io")
    for root in roots:
        os.rmdir(f"{root}/sonde-io/{i}")
print("done", flush=True)
"""


def rows_at(running, point):
    return [row for line in running.out.split("\n")[:-1] for row in json.loads(line)["rows"] if row["mount"] == f"{point} (tmpfs)"]


@pytest.mark.thorough
def test_cgroups_that_vanish_lose_nothing(watching, sonde, run, file_system, cgroup):
    """Each operation is counted once, for its job, by the agent that is being scraped and by `sonde io`."""
    point, count = file_system("tmpfs"), 600
    cgroup(cgroup_version(), "sonde-io")
    before = lost(watching)
    top = run(sonde, "io", "--by", "job,mount", "--json", "-i", "200ms", "-d", "60s", "-n", "100000")
    wait_for(lambda: top.out.count("\n") > 1, what="the first interval")
    work = run(sys.executable, "-c", VANISHING, point / "file", count, *cgroup_roots(cgroup_version()), name="vanishing")
    while not work.out:
        assert work.alive and watching.get("/metrics")[0] == 200, work.error
    wait_for(lambda: watching.metric("sonde_io_write_bytes_total", mountpoint=str(point)) == 100 * count)
    assert watching.metric("sonde_io_operations_total", mountpoint=str(point), operation="write", job_id="other") == 0
    assert lost(watching) == before
    wait_for(lambda: sum(row["writes"] for row in rows_at(top, point)) == count)
    jobs = {row["job"] for row in rows_at(top, point) if row["writes"]}
    assert len(jobs) == count and all("/sonde-io/" in job for job in jobs), sorted(jobs)[:5]
    assert not top.error
    top.stop()


def read_lies(folder, name):
    """(reads, bytes, reads that failed) of one file, whatever it returns."""
    done, failed = [], 0
    fd = os.open(folder / name, os.O_RDONLY)
    for offset in (0, 4096, 10000, 65536, 1 << 40):
        for size in (1, 4096, 100000):
            try:
                done.append(len(os.pread(fd, size, offset)))
                assert done[-1] <= size
            except OSError:
                failed += 1
    os.close(fd)
    return len(done) + failed, sum(done), failed


@pytest.mark.thorough
def test_file_system_that_lies(watching, file_system, tmp_path, run):
    """The kernel limits the byte counts that a FUSE server returns; the counters equal the results of the calls."""
    behind, point = file_system("tmpfs"), tmp_path / "fuse"
    (behind / "file").write_bytes(b"x" * 65536)
    point.mkdir()
    server = run("/usr/bin/python3", TESTS / "lying_fuse.py", behind / "file", point)
    if not wait_for(lambda: server.out or not server.alive) or not server.out:
        skip("no FUSE here: " + server.error[-200:])
    try:
        read = {name: read_lies(point, name) for name in lying_fuse.NAMES}
        operations, moved, failed = map(sum, zip(*read.values()))
        assert read["direct-more"][2] > 0 and read["direct-short"][1] < read["direct-huge"][1] and read["direct-none"][1] == 0, read

        def metric(name, **labels):
            return watching.metric(name, mountpoint=str(point), layer="client", **labels)
        wait_for(lambda: metric("sonde_io_operations_total", operation="read") == operations)
        assert metric("sonde_io_read_bytes_total") == moved
        assert metric("sonde_io_errors_total", operation="read") == failed
        assert metric("sonde_io_errors_total", operation="read", error=str(lying_fuse.NAMELESS_ERROR)) == read["failing"][2] + read["direct-failing"][2] > 0
        assert metric("sonde_io_size_bytes_count", operation="read") == operations - failed
        assert server.alive
    finally:
        subprocess.run(["umount", "-l", point], check=True)
