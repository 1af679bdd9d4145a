"""Every operation and every byte of fio is counted, for the job and on the mount: exactly, with every engine."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cgroups import cgroup, cgroup_version  # noqa: F401 (a fixture)
from file_systems import file_system  # noqa: F401 (a fixture)
from harness.agents import NO_REQUESTS
from harness.machine import skip
from harness.processes import wait_for
from io_probe import unseen  # noqa: F401 (a fixture)

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
    "psync-large": ["--bsrange=4k-1m"],
    "io_uring-large": ["--iodepth=8", "--bsrange=4k-1m"],
}


def results_of(fio_output):
    """What each job of fio did: (operations, bytes) of reads and of writes."""
    jobs = json.loads(fio_output[fio_output.index("{"):])["jobs"]
    return [[(job[way]["total_ios"], job[way]["io_bytes"]) for way in ("read", "write")] for job in jobs]


def fio(folder, *options, enter=None):
    """What fio did: (operations, bytes) of reads and of writes."""
    command = ["fio", "--name=work", f"--filename={folder}/data", "--output-format=json", "--size=8m", *options]
    if enter:
        procs = " ".join(str(folder / "cgroup.procs") for folder in enter)
        command = ["sh", "-c", f'for procs in {procs}; do echo $$ > $procs || exit; done; exec "$0" "$@"', *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return results_of(done.stdout)[0]


def fio_by_each_engine(points, engines, direct):
    """What the job of each engine did at its point; they run at the same time."""
    command = ["fio", "--output-format=json", "--name=global", "--size=8m", "--rw=randrw", "--bs=4k", "--number_ios=300", "--io_size=256m", f"--direct={direct}"]
    for point, (name, options) in zip(points, engines.items(), strict=True):
        command += [f"--name={name}", f"--filename={point}/data", f"--ioengine={name.partition('-')[0]}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return results_of(done.stdout)


def counted(started, point, **labels):
    at = dict(labels, mountpoint=str(point))
    return [(started.metric("sonde_io_operations_total", operation=way, **at), started.metric(f"sonde_io_{way}_bytes_total", **at)) for way in ("read", "write")]


@pytest.fixture(scope="module")
def watching(module_agent):
    return module_agent(*NO_REQUESTS, "--set", "io.enabled=true", "--set", "budget.one_cpu=1000%")


def test_fio_is_counted_exactly(watching, file_system, unseen):
    """With each engine, on a mount of its own: the same files on another mount have counters of their own."""
    engines = {name: options for name, options in ENGINES.items()
               if not ("io_uring" in name and "io_uring is not seen" in unseen) and not ("libaio" in name and "AIO is not seen" in unseen)}
    expected, names = {}, {}
    for kind, direct in (("tmpfs", 0), ("ext4", 0), ("ext4", 1), ("xfs", 0), ("xfs", 1), ("overlay", 0), ("bindfs", 0)):
        whole = file_system(kind)
        (whole / "data").write_bytes(bytes(8 << 20))  # whole: fio does not count the writes that complete a file
        points = [file_system(whole) for _ in engines]
        for point, name, done in zip(points, engines, fio_by_each_engine(points, engines, direct), strict=True):
            assert done[0][0] + done[1][0] == 300 and (done[0][1] + done[1][1] == 300 * 4096) == ("large" not in name), done
            expected[str(point)], names[str(point)] = done, f"{name} on {kind}, direct={direct}"
    seen = {}
    try:
        wait_for(lambda: seen.update({point: counted(watching, point) for point in expected}) or seen == expected)
    except AssertionError:
        assert {names[point]: seen[point] for point in expected} == {names[point]: done for point, done in expected.items()}
        raise


def test_pages_of_mmap(watching, file_system, unseen):
    """Of a file in memory every page that fio touches has been mapped, and is counted once or, with those around it, several times."""
    if "mmap is not seen" in unseen:
        skip("this kernel has no tracepoints for it")
    point = file_system("ext4")
    fio(point, "--create_only=1", "--rw=write")
    assert fio(point, "--ioengine=mmap", "--rw=read", "--bs=4k")[0] == (2048, 8 << 20)
    wait_for(lambda: watching.metric("sonde_io_mapped_bytes_total", mountpoint=str(point), contract="pages") >= 8 << 20)
    assert watching.metric("sonde_io_mapped_bytes_total", mountpoint=str(point)) <= 4 * (8 << 20)
    assert counted(watching, point, contract="exact")[0] == (0, 0)  # no read was a system call


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
        wait_for(lambda: counted(watching, point, manager=manager, job_id=job)[0] == (operations, 4096 * operations))  # noqa: B023
    assert watching.metric("sonde_io_job_info", manager="slurm", job_id="4711", uid="0") == 1


def test_layers_of_fuse(watching, file_system, tmp_path, run):
    """Bytes that go through FUSE are counted for the client and for the daemon, each with its layer."""
    behind, point = file_system("tmpfs"), tmp_path / "fuse"
    (behind / "file").write_bytes(b"x" * 65536)
    point.mkdir()
    server = run(sys.executable, Path(__file__).resolve().parent.parent / "fuse.py", behind / "file", point)
    if not wait_for(lambda: server.out or not server.alive) or not server.out:
        skip("no FUSE here: " + server.error[-200:])
    try:
        fd = os.open(point / "program", os.O_RDONLY)
        assert sum(len(os.pread(fd, 4096, 4096 * i)) for i in range(16)) == 65536
        os.close(fd)
        wait_for(lambda: counted(watching, point, layer="client", fstype="fuse.test")[0] == (16, 65536))
        assert counted(watching, behind, layer="daemon")[0][1] == 65536  # each page once
        assert counted(watching, behind, layer="")[0] == (0, 0)
    finally:
        subprocess.run(["umount", "-l", point], check=True)


MOVE = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for procs in sys.argv[2:]:
    for folder in procs.split(":"):
        open(folder + "/cgroup.procs", "w").write("0")
    for _ in range(10):
        os.pread(fd, 4096, 0)
"""


def test_a_process_that_moves_counts_where_it_is(watching, file_system, cgroup):
    point = file_system("tmpfs")
    (point / "file").write_bytes(b"x" * 4096)
    jobs = [":".join(map(str, cgroup(cgroup_version(), f"sonde-io-{name}"))) for name in "ab"]
    subprocess.run([sys.executable, "-c", MOVE, point / "file", *jobs], check=True)
    for name in "ab":
        wait_for(lambda: counted(watching, point, manager="none", job_id=f"/sonde-io-{name}")[0] == (10, 40960))  # noqa: B023


def intervals(running):
    """Of `sonde io --json`: the lines that are complete."""
    return [json.loads(line) for line in running.out.split("\n")[:-1]]


def test_table_of_what_was_done_meanwhile(sonde, run, root, file_system):
    """All intervals together have what fio did, by process and file; each operation is in one of them."""
    point = file_system("tmpfs")
    fio(point, "--create_only=1", "--rw=write")
    watch = run(sonde, "io", "--by", "mount,process,file", "--json", "-i", "200ms", "-d", "60s", "-n", "100000")
    wait_for(lambda: watch.out.count("\n") > 1, what="the first interval")
    done = fio(point, "--rw=randrw", "--bs=4k", "--number_ios=300")

    def seen():
        rows = [row for interval in intervals(watch) for row in interval["rows"] if row["mount"] == f"{point} (tmpfs)"]
        return [(sum(row[f"{way}s"] for row in rows), sum(row[f"{way}_bytes"] for row in rows)) for way in ("read", "write")], rows
    wait_for(lambda: seen()[0] == done, what=f"{done}, not {seen()[0]}")
    rows = [row for row in seen()[1] if row["reads"]]
    assert {row["file"] for row in rows} == {f"{point}/data"}
    assert {row["process"].partition(" ")[2] for row in rows} <= {"fio", "fio (ended)"} and len({row["process"] for row in rows}) == 1
    assert all(0 < row["p50_at_most_ns"] <= row["p99_at_most_ns"] and row["time_ns"] > 0 and row["errors"] == 0 for row in rows)
    watch.stop()


def test_table_as_text(sonde, root, file_system):
    done = subprocess.run([sonde, "io", "-i", "300ms"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.splitlines()[0].split() == [
        "IO", "TIME", "READ/S", "CACHED", "WRITE/S", "READS/S", "WRITES/S", "SYNCS/S", "OTHERS/S", "ERR/S", "P50", "P99", "JOB", "MOUNT"], done


SYNCING = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for _ in range(200):
    os.write(fd, b"x" * 4096)
    os.fsync(fd)
    try:
        os.read(fd, 1)
    except OSError:
        pass
"""


def test_a_job_that_syncs_and_fails_is_named(sonde, run, root, file_system):
    """Rows are in the order of I/O time. Syncs have a column; process, file and error are listed."""
    point = file_system("ext4")
    watch = run(sonde, "io", "--json", "-i", "200ms", "-d", "60s", "-n", "100000")
    wait_for(lambda: watch.out.count("\n") > 1, what="the first interval")
    work = run(sys.executable, "-c", SYNCING, point / "log", name="syncing")

    def listed(name, **values):
        return [item for interval in intervals(watch) for item in interval[name] if all(item[key] == value for key, value in values.items())]
    wait_for(lambda: sum(row["syncs"] for row in listed("rows", mount=f"{point} (ext4)")) == 200)
    busy = listed("busiest", operation="sync", path=f"{point}/log")
    assert sum(item["operations"] for item in busy) == 200 and all(item["files"] == 1 and item["time_ns"] == item["path_time_ns"] > 0 for item in busy)
    assert {(item["process"], item["command"]) for item in busy} == {(work.pid, os.path.basename(sys.executable))}
    failed = listed("failures", error="EBADF", operation="read", path=f"{point}/log", process=work.pid)
    assert sum(item["count"] for item in failed) == 200 and not any(item["is_expected"] for item in failed)
    assert sum(row["unexpected_errors"] for row in listed("rows", mount=f"{point} (ext4)")) == 200
    for interval in intervals(watch):
        assert (times := [row["time_ns"] for row in interval["rows"]]) == sorted(times, reverse=True)
        covered = interval["coverage"]
        assert covered["asked_seconds"] == covered["observed_seconds"] > 0 and "opaque_ports" not in covered
    watch.stop()


def test_mount_points_with_any_name(watching, file_system, tmp_path):
    """Quotes, newlines and bytes that are no UTF-8 are escaped or replaced; the page stays readable."""
    whole, point = file_system("tmpfs"), os.fsencode(tmp_path) + b"/a\"b\nc\\d\xff"
    os.mkdir(point)
    subprocess.run([b"mount", b"--bind", os.fsencode(whole), point], check=True)
    try:
        with open(point + b"/file", "wb") as f:
            f.write(b"x" * 1000)
        escaped = str(tmp_path) + '/a\\"b\\nc\\\\d\ufffd'
        wait_for(lambda: watching.metric("sonde_io_write_bytes_total", mountpoint=escaped) == 1000)
        assert all(re.fullmatch(r'\w+(\{(\w+="([^"\\\n]|\\["\\n])*",?)*\})? \S+', line) for line in watching.text("/metrics").splitlines() if line and line[0] != "#")
    finally:
        subprocess.run([b"umount", b"-l", point], check=True)
