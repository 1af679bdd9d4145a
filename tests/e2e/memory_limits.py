"""Cgroups with a limit of memory, in either version, and programs that reclaim memory in them."""
import subprocess

import pytest

from cgroups import cgroup, cgroup_version  # noqa: F401 (fixture)
from harness.machine import skip

LIMIT, FILE_BYTES = 48 << 20, 64 << 20


class LimitedCgroup:
    """`path` is its directory, `name` its path as in /proc/PID/cgroup."""

    def __init__(self, folders, name):
        self.version = cgroup_version()
        found = [folder for folder in folders if (folder / ("memory.limit_in_bytes" if self.version == "v1" else "memory.max")).exists()]
        if not found:
            skip("no memory controller here")
        self.path, self.name, self.procs = found[0], f"/{name}", [folder / "cgroup.procs" for folder in folders]
        self.limit = self.path / ("memory.limit_in_bytes" if self.version == "v1" else "memory.max")
        self.limit.write_text(str(LIMIT))

    def command(self, *words):
        """`words`, run by a process that has entered the cgroup."""
        enter = " && ".join(f"echo $$ > {procs}" for procs in self.procs)
        return ("sh", "-c", f'{enter} && exec "$@"', "sh", *map(str, words))

    def reclaim(self, file):
        """A process in the cgroup reads more than the limit, so that it reclaims the pages that it has read before."""
        subprocess.run(self.command("cat", file), check=True, stdout=subprocess.DEVNULL, timeout=60)


@pytest.fixture
def limited(cgroup):  # noqa: F811
    """limited(name) makes a cgroup with a limit of LIMIT."""
    return lambda name: LimitedCgroup(cgroup(cgroup_version(), name), name)


@pytest.fixture
def large_file(tmp_path):
    """A file whose pages can be reclaimed. Holes are not read from a disk."""
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(FILE_BYTES)
    if subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True).stdout.strip() in ("tmpfs", "ramfs"):
        skip("memory of a tmpfs is not reclaimed")
    return path
