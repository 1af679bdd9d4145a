"""`sonde io report`: what a command, process or job did with each file equals what the programs say that they did."""
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from cgroups import cgroup, cgroup_version  # noqa: F401 (a fixture)
from file_systems import file_system  # noqa: F401 (a fixture)
from harness.processes import descriptors, wait_for
from harness.results import variants
from harness.workloads import workload_path
from io_probe import unseen  # noqa: F401 (a fixture)

pytestmark = pytest.mark.usefixtures("root")
BINS = [100, 1024, 10240, 102400, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30]


@pytest.fixture
def report(sonde, tmp_path):
    """report(command...): its output and the report."""
    def run(*command, options=()):
        out = tmp_path / "report.json"
        done = subprocess.run([sonde, "io", "report", "-o", out, *options, *(["--", *map(str, command)] if command else [])],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and "no name" not in done.stderr, done.stderr + done.stdout
        made = json.loads(out.read_text())
        assert made["lost_operations"] == 0
        return done.stdout, made
    return run


def files_at(made, point):
    return [file for file in made["files"] if file["path"].startswith(f"{point}/")]


def total(files, way, key="operations"):
    return sum(file[way][key] for file in files)


@pytest.mark.parametrize(("engine", "pattern"), variants(("psync", "read"), ("psync", "write"), ("pvsync2", "randread"), ("libaio", "randread"), ("io_uring", "write")))
def test_accesses_of_fio(report, file_system, unseen, engine, pattern):
    if f"{engine} is not seen" in unseen or (engine == "libaio" and "AIO is not seen" in unseen):
        pytest.skip("this kernel does not show them")
    point = file_system("ext4")
    name = ["--name=work", f"--filename={point}/data", "--size=4m"]
    subprocess.run(["fio", *name, "--create_only=1", "--rw=write"], check=True, capture_output=True, timeout=60)
    out, made = report("fio", *name, "--output-format=json", f"--ioengine={engine}", f"--rw={pattern}", "--bs=4k", "--iodepth=1")
    way = "write" if pattern == "write" else "read"
    job = json.loads(out[out.index("{"):])["jobs"][0][way]
    data = [file for file in files_at(made, point) if file["path"] == f"{point}/data"]
    accesses = {key: total(data, f"{way}s", key) for key in ("operations", "bytes", "located", "sequential", "consecutive", "unaligned")}
    assert (accesses["operations"], accesses["bytes"]) == (job["total_ios"], job["io_bytes"]) == (1024, 4 << 20)
    assert accesses["located"] == 1024 and accesses["unaligned"] == 0
    if pattern == "randread":
        assert accesses["consecutive"] < 32 and 300 < accesses["sequential"] < 724
    else:
        assert accesses["consecutive"] == accesses["sequential"] == 1023
    assert sum(count for file in data for count in [file[f"{way}s"]["sizes"][2]]) == 1024
    assert {"bytes": 4096, "count": 1024} in data[0]["common_sizes"]
    assert max(file[f"{way}s"]["end_offset_bytes"] for file in data) == 4 << 20
    moved = sum(sum(process[f"{way}_bytes"]) for process in made["heatmap"]["processes"])
    assert moved == total(made["files"], f"{way}s", "bytes")


@pytest.mark.parametrize("way", variants("shared", "own", "strided"))
def test_ranks_like_those_of_ior(report, file_system, way):
    point = file_system("xfs")
    out, made = report(workload_path("ranks"), way, point, 4, 65536, 50)
    said = json.loads(out)
    files = files_at(made, point)
    for direction in ("reads", "writes"):
        assert (total(files, direction), total(files, direction, "bytes")) == (said["operations"], said["bytes"]) == (200, 200 * 65536)
        assert total(files, direction, "sequential") == 4 * 49
        assert total(files, direction, "consecutive") == (0 if way == "strided" else 4 * 49)
    assert len({file["process"] for file in files}) == 4 and len({file["path"] for file in files}) == (4 if way == "own" else 1)
    assert sum(file["creates"] for file in files) == (4 if way == "own" else 1)
    assert sum(file["opens"] + file["creates"] for file in files) == sum(file["closes"] for file in files) == 8
    assert sum(file["syncs"] for file in files) == 4
    if way == "strided":
        assert all({"bytes": 3 * 65536, "count": 98} in file["common_strides"] for file in files)
    writers = [file for file in files if file["writes"]["operations"]]  # IOR's time: from the first open to the last close
    span_ns = max(file["sync"]["last_ns"] for file in writers) - min(file["open"]["first_ns"] for file in writers)
    assert span_ns <= said["write_s"] * 1e9  # the program's own clock has the time of the calls outside the kernel, too


def test_files_like_those_of_mdtest(report, file_system):
    point = file_system("tmpfs")
    _, made = report(workload_path("ranks"), "metadata", point, 2, 100, 2000)
    files = files_at(made, point)
    assert len(files) == 4000 and {file["path"] for file in files} == {f"{point}/rank{rank}/file{i}" for rank in (0, 1) for i in range(2000)}
    assert all(file["creates"] == file["closes"] == file["writes"]["operations"] == 1 and file["writes"]["bytes"] == 100 for file in files)
    by_path = [file for file in made["files"] if not file["path"]]
    assert sum(file["stats"] for file in by_path) >= 4000 and sum(file["others"] for file in by_path) == 4000 + 2


@pytest.mark.thorough
def test_more_files_than_the_kernels_table_holds(sonde, file_system, tmp_path):
    """Entries are taken out of the table while the program runs; files that do not fit are counted. Each file is created, written and closed."""
    point, out = file_system("tmpfs"), tmp_path / "report.json"
    subprocess.run([sonde, "io", "report", "-o", out, "--", workload_path("ranks"), "metadata", point, "2", "100", "17000"], check=True, timeout=120)
    made = json.loads(out.read_text())
    files = [file for file in made["files"] if file["mount_point"] == str(point)]
    seen = sum(file[key] for file in files for key in ("creates", "closes")) + total(files, "writes")
    assert seen <= 3 * 34000 <= seen + made["lost_operations"]
    assert seen > 34000


SHARED = """
import os, sys
for rank in range(2):
    if os.fork() == 0:
        for i in range(3000):
            fd = os.open(f"{sys.argv[1]}/file{i}", os.O_RDONLY)
            os.read(fd, 10)
            os.close(fd)
        os._exit(0)
for rank in range(2):
    os.wait()
"""


def test_files_that_processes_share_keep_their_names(report, file_system):
    """Also where the kernel's table must be emptied meanwhile."""
    point = file_system("tmpfs")
    for i in range(3000):
        (point / f"file{i}").write_bytes(b"x" * 10)
    _, made = report(sys.executable, "-c", SHARED, point)
    files = files_at(made, point)
    assert len(files) == 6000 and {file["path"] for file in files} == {f"{point}/file{i}" for i in range(3000)}
    assert all(file["reads"]["bytes"] == 10 for file in files) and len({file["process"] for file in files}) == 2


LAST = """
import os, signal, sys, time
def end(number, _):
    with open(sys.argv[1], "wb") as f:
        f.write(b"x" * 4321)
    sys.exit(7)
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1] + "-ready", "wb").close()
while True:
    time.sleep(0.01)
"""


def test_interrupted_command_has_time_to_end(sonde, run, file_system, tmp_path):
    point, out = file_system("tmpfs"), tmp_path / "report.json"
    watch = run(sonde, "io", "report", "-o", out, "--", sys.executable, "-c", LAST, point / "last")
    wait_for(lambda: (point / "last-ready").exists())
    os.killpg(watch.pid, signal.SIGINT)
    assert watch.wait(30) == 7
    assert [file["writes"]["bytes"] for file in files_at(json.loads(out.read_text()), point) if file["path"] == f"{point}/last"] == [4321]


@pytest.mark.thorough
def test_command_that_does_not_end_is_killed(sonde, file_system, tmp_path):
    point, out = file_system("tmpfs"), tmp_path / "report.json"
    done = subprocess.run([sonde, "io", "report", "-d", "2s", "-o", out, "--", sys.executable, "-c", LAST, point / "last"], timeout=60)
    assert done.returncode == 128 + signal.SIGKILL
    assert [file["creates"] for file in files_at(json.loads(out.read_text()), point)] == [1]


STEADY = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
print("ready", flush=True)
while True:
    os.pwrite(fd, b"x" * 1000, 0)
    time.sleep(0.01)
"""


def test_running_process_and_job(report, run, sonde, file_system, cgroup, tmp_path):
    point = file_system("tmpfs")
    job = cgroup(cgroup_version(), "slurm/uid_0/job_4712/step_0")
    inside = run(sys.executable, "-c", STEADY, point / "of-job")
    outside = run(sys.executable, "-c", STEADY, point / "of-process")
    wait_for(lambda: "ready" in inside.out and "ready" in outside.out)
    for folder in job:
        (folder / "cgroup.procs").write_text(str(inside.pid))
    for options, name, title in ((["--pid", str(outside.pid)], "of-process", f"process {outside.pid}"), (["--job", "4712"], "of-job", "slurm 4712"),
                                 (["--job", "slurm 4712"], "of-job", "slurm 4712")):
        _, made = report(options=[*options, "-d", "300ms"])
        assert made["title"] == title
        assert {file["path"] for file in files_at(made, point)} == {f"{point}/{name}"}
        written = files_at(made, point)[0]["writes"]
        assert written["operations"] > 5 and written["bytes"] == 1000 * written["operations"]
    out = tmp_path / "until-the-end.json"
    watch = run(sonde, "io", "report", "--pid", str(outside.pid), "-o", out)
    wait_for(lambda: any("pidfd" in link for link in descriptors(watch.pid).values()), what="the report to know the process")
    outside.stop(signal.SIGKILL)
    assert watch.wait(30) == 0 and json.loads(out.read_text())["title"] == f"process {outside.pid}"


def test_formats_and_exit_status(sonde, file_system, tmp_path):
    point = file_system("tmpfs")
    write = [sys.executable, "-c", f"open('{point}/a\\nb','wb').write(b'x' * 5000); raise SystemExit(3)"]
    text = subprocess.run([sonde, "io", "report", "--", *write], capture_output=True, text=True, timeout=60)
    assert subprocess.run([sonde, "io", "report", "-o", tmp_path / "e.json", "--", "sh", "-c", f"exec > {point}/out; exec {sys.executable} -c 'print(1)'"], timeout=60).returncode == 0
    assert [process["command"][:6] for process in json.loads((tmp_path / "e.json").read_text())["processes"]] == ["python"]  # the last program that it executed
    assert text.returncode == 3 and text.stdout.startswith("I/O of ") and "a\nb" not in text.stdout
    assert re.search(r"^ +\S+ \S+ +\S+ %.* 4.88 KiB +1 .*a.?b$", text.stdout, re.M), text.stdout
    for name, begin in (("r.html", b"<!DOCTYPE html>"), ("r.darshan", b"3."), ("r.txt", b"I/O of ")):
        assert subprocess.run([sonde, "io", "report", "-o", tmp_path / name, "--", *write], capture_output=True, timeout=60).returncode == 3
        assert (tmp_path / name).read_bytes()[:len(begin)].lower() == begin.lower(), name


def test_report_without_operations_says_why(sonde, run, tmp_path):
    idle = run("sleep", "60")
    done = subprocess.run([sonde, "io", "report", "-p", str(idle.pid), "-d", "300ms"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and re.search(r"\n  No I/O operation was seen in the last \S+ m?s, and all of that time was observed.\n", done.stdout), done


FAILING = """
import os, sys
folder = sys.argv[1]
fd = os.open(folder + "/file", os.O_WRONLY | os.O_CREAT)
for call in [lambda: os.pread(fd, 10, 0)] * 3 + [lambda: os.mkdir("/proc/version/x"), lambda: os.open(folder + "/missing/file", os.O_RDONLY)]:
    try:
        call()
    except OSError:
        pass
"""


def test_failed_operations_name_error_and_file(sonde, report, file_system, tmp_path):
    """Errors that programs expect are kept apart; the interpreter itself has many of those."""
    point = file_system("tmpfs")
    _, made = report(sys.executable, "-c", FAILING, point)
    assert sum(failure["count"] for failure in made["failures"]) == sum(file["errors"] for file in made["files"])
    assert [(f["error"], f["operation"], f["path"], f["count"]) for f in made["failures"] if not f["is_expected"]] == [("EBADF", "read", f"{point}/file", 3)]
    expected = {(f["error"], f["operation"], f["path"], f["count"]) for f in made["failures"] if f["is_expected"]}
    assert {("ENOTDIR", "mkdir", "/proc/version/x", 1), ("ENOENT", "open", f"{point}/missing/file", 1)} <= expected
    text = subprocess.run([sonde, "io", "report", "--", sys.executable, "-c", FAILING, point], capture_output=True, text=True, timeout=60).stdout
    assert re.search(r"\n  3 operations failed:\n +3  EBADF +read +\S+/file\n", text), text
    assert re.search(r"\n  [\d,]+ more failed as programs expect", text)


@pytest.mark.parametrize(("options", "message"), [
    ([], "one of --job ID, --pid PID and -- COMMAND is needed"),
    (["--pid", "1", "--", "true"], "one of --job ID, --pid PID and -- COMMAND is needed"),
    (["--pid", "4194304"], "--pid"),
    (["--job", "no-such-job"], "no job 'no-such-job' is running"),
    (["--", "/no/such/program"], "cannot be executed"),
    (["-o", "/no/such/folder/x.json", "--", "true"], "/no/such/folder"),
])
def test_errors(sonde, options, message):
    done = subprocess.run([sonde, "io", "report", *options], capture_output=True, text=True, timeout=60)
    assert done.returncode not in (0, 3) and message in done.stderr, done
