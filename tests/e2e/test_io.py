"""Every operation and every byte of fio is counted, for the job and on the mount: exactly, with every engine."""
import json
import subprocess

import pytest

from cgroups import cgroup, cgroup_version  # noqa: F401 (a fixture)
from file_systems import file_system  # noqa: F401 (a fixture)
from harness.processes import wait_for

CONTAINER = "0123456789abcdef" * 4
ENGINES = {
    "psync": [],
    "sync": [],
    "vsync": [],
    "pvsync2": [],
    "libaio": ["--iodepth=8"],
    "libaio-reaped": ["--iodepth=8", "--userspace_reap"],
    "io_uring": ["--iodepth=8"],
    "io_uring-polled": ["--iodepth=8", "--sqthread_poll", "--registerfiles", "--fixedbufs"],
}


def fio(folder, *options, enter=None):
    """What fio did: (operations, bytes) of reads and of writes."""
    command = ["fio", "--name=work", f"--filename={folder}/data", "--output-format=json", "--size=8m", *options]
    if enter:
        procs = " ".join(str(folder / "cgroup.procs") for folder in enter)
        command = ["sh", "-c", f'for procs in {procs}; do echo $$ > $procs || exit; done; exec "$0" "$@"', *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    return [(job[way]["total_ios"], job[way]["io_bytes"]) for way in ("read", "write")]


def counted(started, point, **labels):
    at = dict(labels, mountpoint=str(point))
    return [(started.metric("sonde_io_operations_total", operation=way, **at), started.metric(f"sonde_io_{way}_bytes_total", **at)) for way in ("read", "write")]


@pytest.fixture
def watching(agent):
    return agent("--set", "io.enabled=true", "--set", "budget.cpu=100%")


@pytest.mark.parametrize("kind, direct", [("tmpfs", False), ("ext4", False), ("ext4", True), ("xfs", True), ("overlay", False)])
def test_fio_is_counted_exactly(watching, file_system, kind, direct):
    whole, expected = file_system(kind), {}
    fio(whole, "--create_only=1", "--rw=write")
    for name, options in ENGINES.items():
        point = file_system(whole)  # the same files on another mount, so that each engine has counters of its own
        done = fio(point, f"--ioengine={name.partition('-')[0]}", "--rw=randrw", "--bs=4k", "--number_ios=600", f"--direct={int(direct)}", *options)
        assert done[0][0] + done[1][0] == 600, done
        expected[str(point)] = done
    seen = {}
    try:
        wait_for(lambda: seen.update({point: counted(watching, point) for point in expected}) or seen == expected)
    except AssertionError:
        assert {name: seen[point] for name, point in zip(ENGINES, expected)} == dict(zip(ENGINES, expected.values()))
        raise


def test_jobs_of_resource_managers(watching, file_system, cgroup):
    """Steps are folded into their job, and one that has ended keeps its figures. The cgroups are made by hand, as the managers make them."""
    point, version = file_system("tmpfs"), cgroup_version()
    fio(point, "--create_only=1", "--rw=write")
    expected = {}
    for path, manager, job in (("slurm/uid_0/job_4711/step_0", "slurm", "4711"), ("slurm/uid_0/job_4711/step_1", "slurm", "4711"),
                               (f"docker/{CONTAINER}", "docker", CONTAINER), ("lsf/c1/job.17.1.2", "lsf", "17")):
        folders = cgroup(version, path)
        assert fio(point, "--rw=read", "--bs=4k", "--number_ios=50", enter=folders)[0] == (50, 204800)
        for folder in folders if path.endswith("step_0") else []:
            folder.rmdir()
        expected[manager, job] = expected.get((manager, job), 0) + 50
    for (manager, job), operations in expected.items():
        wait_for(lambda: counted(watching, point, manager=manager, job=job)[0] == (operations, 4096 * operations))  # noqa: B023
