"""Data loaders that do not keep up: the time that `sonde io report` says the consumer waited for reads equals what the consumer and its loaders measure
themselves."""
import json
import subprocess
from pathlib import Path

import pytest

from cgroups import cgroup, cgroup_version  # noqa: F401 (a fixture)
from file_systems import file_system  # noqa: F401 (a fixture)
from harness.machine import skip
from harness.processes import command_name, wait_for
from harness.results import variants
from harness.workloads import workload_path

pytestmark = pytest.mark.usefixtures("root")
DELAY_MS = 20
BATCHES = 40
WAYS = ["threads", "pipe", "unix", "tcp"]


@pytest.fixture
def slow(run, tmp_path):
    """A folder on a slow FUSE: every read of `direct` takes 20 ms, only the first read of `program` does."""
    if not Path("/dev/fuse").exists():
        skip("no FUSE here")
    behind, point = tmp_path / "behind", tmp_path / "slow"
    behind.write_bytes(bytes(1 << 20))
    point.mkdir()
    server = run("/usr/bin/python3", Path(__file__).with_name("slow_fuse.py"), behind, point, DELAY_MS)
    wait_for(lambda: "ready" in server.out)
    yield point
    subprocess.run(["umount", "-l", point], check=True)


@pytest.fixture
def report(sonde, tmp_path):
    """report(way, file, loaders, compute_us, decode_us): what the loaders say, the report, and its finding."""
    def run(way, file, loaders, compute_us=0, decode_us=0):
        out = tmp_path / "report.json"
        done = subprocess.run([sonde, "io", "report", "-o", out, "--", workload_path("loaders"), way, file, str(loaders), str(BATCHES), "4096",
                               str(compute_us), str(decode_us)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
        made = json.loads(out.read_text())
        return json.loads(done.stdout), made, finding_of(made)
    return run


def finding_of(made):
    found = [finding for finding in made["findings"] if finding["name"] == "input_bound"]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize("way", variants(*WAYS))
def test_consumer_waits_for_its_loader(report, slow, way):
    said, made, finding = report(way, slow / "direct", 1)
    waited_s = finding["figures"]["waited_ns"] / 1e9
    # The program's clock also has the time that a thread waits for a CPU after each read.
    assert said["for_reads_s"] / 2 < waited_s < said["for_reads_s"] + 0.001
    assert finding["figures"]["thread"] == said["thread"] == made["processes"][finding["process"]]["pid"]
    assert finding["figures"]["readers"] == 1
    assert finding["share"] == pytest.approx(finding["figures"]["waited_ns"] / made["waits_observed_ns"])
    assert finding["severity"] == "high" and finding["file"] == f"{slow}/direct" and finding["other_files"] == 0
    assert way == "tcp" or "inferred_ns" not in finding["figures"]


@pytest.mark.parametrize("way", variants("threads", "pipe"))
def test_several_loaders(report, slow, way):
    said, _, finding = report(way, slow / "direct", 3)
    assert finding["figures"]["readers"] == 3
    assert said["for_reads_s"] / 2 < finding["figures"]["waited_ns"] / 1e9 < said["for_reads_s"] + 0.001


def test_reads_through_the_page_cache(report, slow):
    """With read-ahead: few of them wait."""
    said, _, finding = report("threads", slow / "program", 1)
    assert said["for_reads_s"] / 2 < finding["figures"]["waited_ns"] / 1e9 < said["for_reads_s"] + 0.001
    assert finding["file"] == f"{slow}/program"


@pytest.mark.parametrize("way", variants(*WAYS))
def test_loader_that_decodes(report, file_system, way):
    """The consumer waits as long, except that the wait is the loader's CPU time."""
    file = file_system("tmpfs") / "data"
    file.write_bytes(bytes(1 << 20))
    said, _, finding = report(way, file, 1, decode_us=20000)
    assert said["waited_s"] > 0.5 and finding is None


def test_consumer_that_reads_itself(report, slow):
    said, _, finding = report("own", slow / "direct", 0)
    assert said["waited_s"] > 0.5 and finding is None


@pytest.mark.parametrize("way", variants(*WAYS))
def test_loaders_that_keep_up(report, file_system, way):
    """They are ahead by more and more batches."""
    file = file_system("tmpfs") / "data"
    file.write_bytes(bytes(1 << 20))
    _, _, finding = report(way, file, 2, compute_us=10000)
    assert finding is None


def test_running_job(run, sonde, slow, cgroup, tmp_path):
    """Its processes are found by their cgroup, also those that use no file."""
    out = tmp_path / "report.json"
    job = cgroup(cgroup_version(), "slurm/uid_0/job_4713/step_0")
    command = [workload_path("loaders"), "pipe", str(slow / "direct"), "1", "5000", "4096", "0", "0"]  # longer than the test
    loaders = run("/bin/sh", "-c", f"while ! test -e {tmp_path}/go; do sleep 0.1; done; exec \"$@\"", "sh", *command)
    for folder in job:
        (folder / "cgroup.procs").write_text(str(loaders.pid))
    (tmp_path / "go").touch()
    wait_for(lambda: command_name(loaders.pid) == "loaders")
    subprocess.run([sonde, "io", "report", "--job", "4713", "-d", "1500ms", "-o", out], check=True, timeout=60)
    made = json.loads(out.read_text())
    finding = finding_of(made)
    assert made["processes"][finding["process"]] == {"pid": loaders.pid, "command": "loaders"}
    assert finding["share"] > 0.4 and finding["file"] == f"{slow}/direct"
    assert finding["figures"].get("unknown_ns", 0) < finding["figures"]["waited_ns"] / 10


def test_shell_that_waits_for_programs_that_read(sonde, slow, tmp_path):
    """It uses no data of theirs."""
    out = tmp_path / "report.json"
    subprocess.run([sonde, "io", "report", "-o", out, "--", "/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8; do cat $0 > /dev/null; done", slow / "direct"], check=True, timeout=60)
    made = json.loads(out.read_text())
    assert len(made["processes"]) > 8 and finding_of(made) is None


@pytest.mark.statistical
@pytest.mark.parametrize("way", WAYS)
def test_time_that_the_consumer_waits(report, slow, way):
    """Also correct where the consumer and its loader compute: the consumer waits only for the rest of each read."""
    said, _, finding = report(way, slow / "direct", 1, compute_us=7000, decode_us=5000)
    assert finding["figures"]["waited_ns"] / 1e9 == pytest.approx(said["for_reads_s"], rel=0.1)
    assert said["for_reads_s"] / BATCHES == pytest.approx(0.013, rel=0.3)
