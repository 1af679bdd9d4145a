"""The pages that reads bring into the page cache, compared with fincore (util-linux), on file systems of the test's own."""
import functools
import os
import subprocess
from pathlib import Path

import pytest

from file_systems import file_system  # noqa: F401 (a fixture)
from harness.agents import NO_REQUESTS
from harness.machine import need_command, skip
from harness.processes import wait_for
from harness.results import variants
from io_probe import limitation, unseen  # noqa: F401 (a fixture)

SIZE = 8 << 20
PAGE = os.sysconf("SC_PAGESIZE")
DAMON = Path("/sys/kernel/mm/damon/admin/kdamonds")


def with_evictions(test):
    """Where the kernel evicts pages at any time, as DAMON does, they may be missed twice, or no longer be there to compare with: the test is repeated, up to
    five times."""
    @functools.wraps(test)
    def repeated(*args, **kwargs):
        for left in range(4, -1, -1):
            try:
                return test(*args, **kwargs)
            except AssertionError:
                if not left or not any(state.read_text() == "on\n" for state in DAMON.glob("*/state")):
                    raise
    return repeated


@pytest.fixture(scope="module")
def watching(module_agent, sonde):
    need_command("fincore")
    if "misses of the page cache are not seen" in limitation(sonde):
        skip("this kernel has no tracepoint for it")
    return module_agent(*NO_REQUESTS, "--set", "io.enabled=true", "--set", "budget.one_cpu=1000%")


def resident(path):
    done = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", path], capture_output=True, text=True, check=True)
    return int(done.stdout)


def uncached(point):
    """A file without any page in the page cache."""
    path = point / "data"
    path.write_bytes(os.urandom(SIZE))
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    assert resident(path) == 0
    return path


def missed(watching, point, **labels):
    return watching.metric("sonde_io_cache_missed_bytes_total", mountpoint=str(point), contract="pages", **labels)


def has_read(watching, point, size):
    wait_for(lambda: watching.metric("sonde_io_read_bytes_total", mountpoint=str(point)) >= size, what=f"{size} bytes read")


@pytest.mark.parametrize("kind", variants("ext4", "xfs", "overlay", "bindfs"))
@with_evictions
def test_sequential_reads(watching, file_system, kind):  # noqa: F811
    """Each page is missed once, but with bindfs after each open, also fincore's, which empties the cache. Writes miss nothing. The overlayfs is above a tmpfs, whose
    pages are always there."""
    point = file_system(kind)
    if kind == "overlay":
        path = point / "data"
        path.write_bytes(bytes(SIZE))
    else:
        path = uncached(point)
    for read in (SIZE, 2 * SIZE):
        assert len(path.read_bytes()) == SIZE
        has_read(watching, point, read)
        assert missed(watching, point) == {"overlay": 0, "bindfs": read}.get(kind, SIZE)
    assert resident(path) == (0 if kind == "bindfs" else SIZE)


@with_evictions
def test_layers_of_a_container(watching, file_system, tmp_path):  # noqa: F811
    """Pages of a file below an overlayfs are missed on the mount that the program uses."""
    below, above, point = file_system("ext4"), file_system("tmpfs"), tmp_path / "container"
    path = uncached(below)
    for folder in (above / "upper", above / "work", point):
        folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir={below},upperdir={above}/upper,workdir={above}/work", "sonde-test", point], capture_output=True, text=True)
    if done.returncode:
        skip(done.stderr)
    try:
        assert len((point / "data").read_bytes()) == SIZE
        has_read(watching, point, SIZE)
        assert missed(watching, point) == resident(path) == SIZE
    finally:
        subprocess.run(["umount", point], check=True)


@with_evictions
def test_scattered_reads(watching, file_system):  # noqa: F811
    """Without read-ahead only the pages that are read are missed, with it also those around them."""
    point = file_system("ext4")
    path = uncached(point)
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    for i in range(100):
        os.pread(fd, 10, 16 * PAGE * i)
    os.close(fd)
    has_read(watching, point, 1000)
    assert missed(watching, point) == resident(path) == 100 * PAGE
    with open(path, "rb", buffering=0) as f:
        f.seek(SIZE // 2)
        for _ in range(3):
            f.read(PAGE)
    has_read(watching, point, 1000 + 3 * PAGE)
    assert missed(watching, point) == resident(path) > 103 * PAGE


@with_evictions
def test_direct_reads_and_writes_miss_nothing(watching, file_system):  # noqa: F811
    point = file_system("ext4")
    path = uncached(point)
    subprocess.run(["dd", f"if={path}", "of=/dev/null", "iflag=direct", "bs=1M"], check=True, capture_output=True)
    subprocess.run(["dd", f"if={path}", f"of={point}/copy", "iflag=direct", "bs=1M"], check=True, capture_output=True)
    has_read(watching, point, 2 * SIZE)
    assert missed(watching, point) == 0 and resident(path) == 0 and resident(point / "copy") == SIZE


@with_evictions
def test_copies_between_files(watching, file_system):  # noqa: F811
    """One system call reads a file and writes another: only the pages of the former are missed."""
    point = file_system("ext4")
    path = uncached(point)
    source, target = os.open(path, os.O_RDONLY), os.open(point / "copy", os.O_CREAT | os.O_WRONLY)
    copied = 0
    while copied < SIZE:
        copied += os.sendfile(target, source, copied, SIZE - copied)
    os.close(source), os.close(target)
    has_read(watching, point, SIZE)
    assert missed(watching, point) == resident(path) == resident(point / "copy") == SIZE


@with_evictions
def test_block_device(watching, file_system, tmp_path):  # noqa: F811
    """Reads of a block device itself count as misses of its own page cache."""
    image = tmp_path / "image"
    image.write_bytes(os.urandom(SIZE))
    device = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True)
    if device.returncode:
        skip(device.stderr)
    before, device = missed(watching, "/dev"), device.stdout.strip()
    try:
        fd = os.open(device, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        size = sum(len(os.pread(fd, 1 << 16, at)) for at in range(0, SIZE, 1 << 16))
        os.close(fd)
        assert size == SIZE
        wait_for(lambda: missed(watching, "/dev") - before >= SIZE)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@pytest.mark.parametrize("engine", variants("io_uring", "psync", "libaio"))
@pytest.mark.parametrize("pattern", ["read", "randread"])
@with_evictions
def test_buffered_reads_of_fio(watching, file_system, unseen, engine, pattern):  # noqa: F811
    """Whichever thread brings the pages."""
    if {"libaio": "Linux AIO is not seen", "io_uring": "io_uring is not seen"}.get(engine, "reads are not seen") in unseen:
        skip("not seen on this kernel")
    whole = file_system("ext4")
    path = uncached(whole)
    point = file_system(whole)
    subprocess.run(["fio", "--name=work", f"--filename={point}/data", f"--size={SIZE}", f"--ioengine={engine}", f"--rw={pattern}", "--bs=16k", "--iodepth=8", "--number_ios=100"],
                   check=True, capture_output=True)
    has_read(watching, point, 100 * 16384)
    assert missed(watching, point) == resident(path) >= 100 * 16384
