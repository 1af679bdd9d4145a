"""Requests of block devices by job: as many, and as many bytes, as fio asked for and as the kernel's own statistics have."""
import os
import subprocess
import time
from pathlib import Path

import pytest

from cgroups import cgroup, cgroup_version  # noqa: F401 (a fixture)
from file_systems import file_system  # noqa: F401 (a fixture)
from harness.agents import NO_REQUESTS
from harness.processes import wait_for
from harness.recording import attached_probes
from harness.results import variants
from test_io import CONTAINER, fio

SECTOR = 512


@pytest.fixture
def watching(agent):
    """Not shared: tests may get the same loop device."""
    return agent(*NO_REQUESTS, "--set", "io.enabled=true", "--set", "budget.one_cpu=1000%")


def device_of(point):
    """The name of the block device that is mounted there."""
    number = os.stat(point).st_dev
    return (Path("/sys/dev/block") / f"{os.major(number)}:{os.minor(number)}").resolve().name


def kernel_figures(device):
    """Of /proc/diskstats: (reads, bytes read, bytes written, flushes). Its writes include syncs that write nothing."""
    fields = next(line.split()[3:] for line in Path("/proc/diskstats").read_text().splitlines() if line.split()[2] == device)
    return int(fields[0]), int(fields[2]) * SECTOR, int(fields[6]) * SECTOR, int(fields[15])


def counted(started, **labels):
    """The same, and the writes."""
    operations = {way: started.metric("sonde_io_device_operations_total", operation=way, **labels) for way in ("read", "write", "flush")}
    return (operations["read"], started.metric("sonde_io_device_read_bytes_total", **labels), started.metric("sonde_io_device_write_bytes_total", **labels),
            operations["flush"]), operations["write"]


def charged_bytes(folders, device):
    """(bytes read, bytes written) that the kernel charged to the cgroup for the device."""
    number = Path(f"/sys/block/{device}/dev").read_text().strip()
    for folder in folders:
        if (folder / "io.stat").exists():
            lines = [line.partition(" ")[2] for line in (folder / "io.stat").read_text().splitlines() if line.startswith(number + " ")]
            figures = dict(pair.split("=") for line in lines for pair in line.split())
            return int(figures.get("rbytes", 0)), int(figures.get("wbytes", 0))
        if (folder / "blkio.throttle.io_service_bytes").exists():
            lines = [line.split() for line in (folder / "blkio.throttle.io_service_bytes").read_text().splitlines()]
            figures = {line[1]: int(line[2]) for line in lines if line[0] == number}
            return figures.get("Read", 0), figures.get("Write", 0)
    return None


def settled_figures(started, device):
    """The device's metrics and the kernel's statistics, once neither changes: metrics are a second old."""
    before = None
    for _ in range(20):
        now = (counted(started, device=device)[0], kernel_figures(device))
        if now == before:
            return now
        before = now
        time.sleep(1.5)
    raise AssertionError(f"{device} is never idle: {before}")


@pytest.mark.parametrize("kind", variants("ext4", "xfs"))
def test_direct_io_of_a_job(watching, file_system, cgroup, kind):  # noqa: F811
    point, folders = file_system(kind), cgroup(cgroup_version(), f"docker/{CONTAINER}")
    device, job = device_of(point), {"manager": "docker", "job_id": CONTAINER}
    fio(point, "--rw=write", "--bs=1m", "--end_fsync=1")
    subprocess.run(["sync", "-f", point], check=True)
    before = settled_figures(watching, device)
    expected = [0, 0, 0, 0]
    for engine in ("psync", "io_uring"):
        done = fio(point, f"--ioengine={engine}", "--rw=randrw", "--bs=4k", "--direct=1", "--norandommap", "--overwrite=1", "--number_ios=400", enter=folders)
        expected = [x + y for x, y in zip(expected, sum(done, ()), strict=True)]
    reads, read_bytes, writes, write_bytes = expected
    assert reads + writes == 800

    def of_job():
        (seen_reads, seen_read_bytes, seen_write_bytes, _), seen_writes = counted(watching, device=device, **job)
        return [seen_reads, seen_read_bytes, seen_writes, seen_write_bytes]
    wait_for(lambda: of_job() == [reads, read_bytes, writes, write_bytes], what=f"{expected}, not {of_job()}")
    assert charged_bytes(folders, device) in (None, (read_bytes, write_bytes))
    for name in ("queue", "service"):
        assert watching.metric(f"sonde_io_device_{name}_seconds_count", device=device, **job) == reads + writes
    assert 0 < watching.metric("sonde_io_device_service_seconds_sum", device=device, **job) < 60
    assert watching.metric("sonde_io_device_errors_total", device=device) == 0
    subprocess.run(["sync", "-f", point], check=True)  # writes the rest of the journal
    after = settled_figures(watching, device)
    mine, its = ([now - then for now, then in zip(after[i], before[i], strict=True)] for i in range(2))
    assert mine == its


def test_buffered_writes_of_a_job(watching, file_system, cgroup):  # noqa: F811
    """What the job itself writes back counts for it, in either version of cgroups; flushes are the kernel's."""
    point, folders = file_system("ext4"), cgroup(cgroup_version(), "slurm/uid_0/job_815/step_0")
    device, job = device_of(point), {"manager": "slurm", "job_id": "815"}
    flushes = watching.metric("sonde_io_device_operations_total", device=device, operation="flush", manager="kernel")
    fio(point, "--rw=write", "--bs=64k", "--end_fsync=1", enter=folders)
    wait_for(lambda: watching.metric("sonde_io_device_write_bytes_total", device=device, **job) >= 8 << 20)
    charged = charged_bytes(folders, device)
    assert charged in (None, (watching.metric("sonde_io_device_read_bytes_total", device=device, **job),
                              watching.metric("sonde_io_device_write_bytes_total", device=device, **job)))
    assert watching.metric("sonde_io_device_operations_total", device=device, operation="flush", manager="kernel") > flushes


def test_doctor_reports_block_devices(sonde, root):
    assert attached_probes(sonde)["block devices"]["attached"]
