"""Cgroup directories as container managers, Slurm and systemd create them, in either cgroup version, and programs that run in them."""
import os
import signal
import time
from pathlib import Path

import pytest

from harness.fired import fires
from harness.machine import skip
from harness.workloads import Workload, workload_path

CONTAINER, POD = "4f5d3c2b1a" * 6 + "abcd", "0b1d3c5e-1111-2222-3333-444455556666"
POD_ = POD.replace("-", "_")  # the form used in systemd slice names
SLICE = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD_}.slice"


def cgroup_roots(version):
    """The hierarchies that a container manager would use: the unified one, or all of version 1."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(m[1]) for m in mounts if m[2] == ("cgroup2" if version == "v2" else "cgroup")]


def cgroup_version():
    """The cgroup version that container managers use: 1 on a hybrid machine. The options -c and --cgroup search it, too."""
    return "v1" if cgroup_roots("v1") else "v2"


@pytest.fixture
def cgroup():
    """cgroup(version, path) creates a directory in the hierarchies; teardown kills its processes and removes it with the parents it created."""
    created = []

    def make_one(version, at):
        if at.exists():
            return
        try:
            at.mkdir()
        except FileExistsError:
            return
        created.append(at)
        for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new v1 cgroup, which accepts no process until they are set
            if version == "v1" and (at / name).exists():
                (at / name).write_text((at.parent / name).read_text())

    def make(version, path):
        roots = cgroup_roots(version)
        if not roots:
            skip(f"no cgroup {version} hierarchy is mounted")
        for root in roots:
            parts = [root / "/".join(path.split("/")[:count]) for count in range(1, path.count("/") + 2)]
            while not parts[-1].exists():
                try:
                    for at in parts:
                        make_one(version, at)
                except FileNotFoundError:  # a test in another lane removed the shared parent
                    continue
                except OSError as error:
                    skip(f"cannot make {parts[-1]}: {error}")
        return [root / path for root in roots]
    yield make
    for path in sorted(set(created), key=lambda path: -len(path.parts)):
        if not path.exists():
            continue
        for pid in (path / "cgroup.procs").read_text().split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        for _ in range(200):
            try:
                path.rmdir()
                break
            except OSError:
                time.sleep(0.02)


@pytest.fixture
def inside(run, cgroup):
    """inside(version, path) starts a program that is in the cgroup before its exec. It fires at SIGUSR1 (harness/fired.py)."""
    def start(version, path, stay=False):
        enter = " && ".join(f"echo $$ > {folder}/cgroup.procs" for folder in cgroup(version, path))
        return Workload(run("sh", "-c", f"{enter} && exec '{workload_path('deep')}' 10 600", env=fires(stay=stay)))
    return start
