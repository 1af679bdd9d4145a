"""File systems of a test's own, each with a mount point of its own: whatever is done there, the test did it."""
import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness.machine import skip

MNT_DETACH = 2
IMAGE_MIB = 320  # the least that mkfs.xfs takes is 300


def mount(*arguments):
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        skip(f"mount {' '.join(map(str, arguments))}: {done.stderr.strip()}")


def image_of(folder, kind):
    with tempfile.NamedTemporaryFile(dir=folder, suffix=f".{kind}", delete=False) as f:
        f.truncate(IMAGE_MIB << 20)
    image = f.name
    program = shutil.which(f"mkfs.{kind}", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    done = program and subprocess.run([program, "-q", image], capture_output=True, text=True)
    if not done or done.returncode:
        skip(f"mkfs.{kind}: {done.stderr.strip() if done else 'not installed'}")
    return image


@pytest.fixture
def file_system(tmp_path, root):
    """file_system(kind) mounts an empty one, "tmpfs", "ext4", "xfs", "overlay" or "bindfs" (FUSE), and returns its mount point; file_system(PATH)
    mounts that folder there, too. Unmounted at the end."""
    mounted = []

    def make(kind):
        point = Path(tempfile.mkdtemp(dir=tmp_path, prefix="mount-"))
        if isinstance(kind, Path):
            mount("--bind", kind, point)
        elif kind == "tmpfs":
            mount("-t", "tmpfs", "-o", "size=256m", "sonde-test", point)
        elif kind == "overlay":
            below = make("tmpfs")
            for name in ("lower", "upper", "work"):
                (below / name).mkdir()
            mount("-t", "overlay", "-o", f"lowerdir={below}/lower,upperdir={below}/upper,workdir={below}/work", "sonde-test", point)
        elif kind == "bindfs":
            if not os.path.exists("/dev/fuse"):
                skip("no FUSE here")
            subprocess.run(["bindfs", make("tmpfs"), point], check=True, timeout=60)
        else:
            mount("-o", "loop", image_of(tmp_path, kind), point)
        mounted.append(point)
        return point
    yield make
    for point in reversed(mounted):
        ctypes.CDLL(None).umount2(os.fsencode(point), MNT_DETACH)
