"""Darshan logs, read by Darshan's own library, by PyDarshan and by drishti (PyPI). The logs come from tests/unit/export/make_darshan.c, so that no
privileges are needed and every value is known: the comments of io_report_example.h say what the three processes did."""
import csv
import json
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pypi
import pytest
from harness.paths import BUILD

pytestmark = pytest.mark.peer

READER = Path(__file__).resolve().parent / "darshan_reader.py"
NEEDED = ["darshan==3.5.0", "drishti-io==0.8"]
NOT_OBSERVED = ["FILENOS", "DUPS", "SEEKS", "MMAPS", "RENAME_SOURCES", "RENAME_TARGETS", "RENAMED_FROM", "MODE", "MEM_NOT_ALIGNED", "MEM_ALIGNMENT"]
KIB, MIB = 1 << 10, 1 << 20

BY_PATH = {"OPENS": 2, "STATS": 5, "FILE_ALIGNMENT": -1, "F_OPEN_START_TIMESTAMP": 0.001, "F_OPEN_END_TIMESTAMP": 0.002, "F_META_TIME": 50e-6}
INPUT = {"OPENS": 1, "STATS": 1, "READS": 8, "BYTES_READ": 64 * MIB, "MAX_BYTE_READ": 64 * MIB - 1, "SEQ_READS": 7, "CONSEC_READS": 7,
         "RW_SWITCHES": 1, "FILE_ALIGNMENT": -1, "MAX_READ_TIME_SIZE": 8 * MIB, "SIZE_READ_4M_10M": 8, "ACCESS1_ACCESS": 8 * MIB, "ACCESS1_COUNT": 8,
         "F_OPEN_START_TIMESTAMP": 0.030, "F_OPEN_END_TIMESTAMP": 0.031, "F_READ_START_TIMESTAMP": 0.032, "F_READ_END_TIMESTAMP": 0.039,
         "F_CLOSE_START_TIMESTAMP": 0.040, "F_CLOSE_END_TIMESTAMP": 0.041, "F_READ_TIME": 0.006, "F_META_TIME": 0.003, "F_MAX_READ_TIME": 0.004}
# The seconds of the ranks are 1.502, 2.502 and 3.502; their bytes are 1000, 2000 and 3000 times 4 KiB.
SHARED = {"OPENS": 4, "WRITES": 6000, "FSYNCS": 6, "BYTES_WRITTEN": 6000 * 4 * KIB, "MAX_BYTE_WRITTEN": 2999999, "SEQ_WRITES": 5997,
          "CONSEC_WRITES": 5994, "FILE_NOT_ALIGNED": 12, "FILE_ALIGNMENT": 4096, "MAX_WRITE_TIME_SIZE": 4098, "SIZE_WRITE_1K_10K": 6000,
          "STRIDE1_STRIDE": 512, "STRIDE1_COUNT": 27, "STRIDE2_STRIDE": 3 * MIB, "STRIDE2_COUNT": 12, "STRIDE3_STRIDE": 2 * MIB, "STRIDE3_COUNT": 11,
          "STRIDE4_STRIDE": 1 * MIB, "STRIDE4_COUNT": 10, "ACCESS1_ACCESS": 4096, "ACCESS1_COUNT": 6000,
          "FASTEST_RANK": 0, "FASTEST_RANK_BYTES": 1000 * 4 * KIB, "SLOWEST_RANK": 2, "SLOWEST_RANK_BYTES": 3000 * 4 * KIB,
          "F_OPEN_START_TIMESTAMP": 0.010, "F_OPEN_END_TIMESTAMP": 0.022, "F_WRITE_START_TIMESTAMP": 0.098, "F_WRITE_END_TIMESTAMP": 6.002,
          "F_CLOSE_START_TIMESTAMP": 8.000, "F_CLOSE_END_TIMESTAMP": 8.102, "F_WRITE_TIME": 1 + 2 + 3 + 3 * 0.5, "F_META_TIME": 0.006,
          "F_MAX_WRITE_TIME": 0.007, "F_FASTEST_RANK_TIME": 1.502, "F_SLOWEST_RANK_TIME": 3.502, "F_VARIANCE_RANK_TIME": 2 / 3,
          "F_VARIANCE_RANK_BYTES": 2 / 3 * (4096e3) ** 2}
OWN = {"OPENS": 1, "WRITES": 1, "BYTES_WRITTEN": 10, "FILE_ALIGNMENT": -1, "SIZE_WRITE_0_100": 1, "F_WRITE_START_TIMESTAMP": 0.050,
       "F_WRITE_END_TIMESTAMP": 0.051, "F_WRITE_TIME": 0.001, "F_META_TIME": 0.001}
EXPECTED = {**{("<calls by path>", rank): BY_PATH for rank in range(3)}, ("/data/shared.bin", -1): SHARED, ("/scratch/log \ufffd", 0): OWN,
            **{("/scratch/input", rank): INPUT for rank in range(2)}}


@pytest.fixture(scope="module")
def programs():
    """The directory with the commands of the environment; skips when PyPI is not reachable."""
    return pypi.environment("darshan", NEEDED, [sys.executable, "/usr/bin/python3"], "(3, 10) <= sys.version_info < (3, 14)")


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """The directory with example.darshan, lost.darshan, none.darshan and many.darshan."""
    program = BUILD / "tests/unit/export/make-darshan"
    if not program.exists():
        pytest.fail(f"{program} has not been built")
    folder = tmp_path_factory.mktemp("darshan")
    subprocess.run([program, folder], check=True, timeout=60)
    return folder


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=300,
                          **options)
    assert done.returncode == 0, done.stderr + done.stdout
    return done


def read(programs, path):
    done = run(programs / "python", "-W", "ignore", READER, "read", path)
    assert "Error" not in done.stderr, done.stderr  # libdarshan-util prints its errors
    return json.loads(done.stdout)


def summary(programs, path):
    """The HTML page of PyDarshan."""
    page = path.with_suffix(".html")
    run(programs / "python", "-W", "ignore", "-m", "darshan", "summary", path, "--output", page)
    return page.read_text()


def insights(programs, path):
    """The codes of the insights of drishti."""
    run(programs / "drishti", "--csv", "--export_dir", path.parent, path, cwd=path.parent)
    with open(path.with_suffix(".csv")) as file:
        codes = next(csv.DictReader(file))
    return {code for code, value in codes.items() if value == "True"}


def regions(path):
    """The header without places, the versions of the modules, and the regions, each inflated."""
    data = path.read_bytes()
    places = [struct.unpack_from("<2Q", data, 32 + 16 * i) for i in range(1 + 64)]
    job = zlib.decompress(data[1328:places[0][0]])
    return data[:32], data[1072:1328], job, [zlib.decompress(data[at:at + size]) if size else b"" for at, size in places]


def test_pydarshan_reads_every_counter_as_written(programs, logs):
    found = read(programs, logs / "example.darshan")
    records = {(record["name"], record["rank"]): record["values"] for record in found["records"]}
    assert len(found["records"]) == len(records) and records.keys() == EXPECTED.keys()
    for key, values in records.items():
        assert len(values) == 69 + 17
        expected = {name: 0 for name in values} | {f"POSIX_{name}": -1 for name in NOT_OBSERVED}
        wanted = {f"POSIX_{name}": value for name, value in EXPECTED[key].items()}
        assert wanted.keys() <= values.keys()
        assert values == pytest.approx(expected | wanted, rel=1e-12), key
    assert len({record["id"] for record in found["records"]}) == 4


def test_pydarshan_reads_job_mounts_and_heatmap(programs, logs):
    found = read(programs, logs / "example.darshan")
    job = found["job"]
    assert (job["uid"], job["jobid"], job["nprocs"], job["run_time"], job["log_ver"]) == (1000, 4711, 3, 10, "3.41")
    assert (job["start_time_sec"], job["start_time_nsec"]) == (1785585600, 250000000)
    assert (job["end_time_sec"], job["end_time_nsec"]) == (1785585610, 250000000)
    assert found["exe"] == "/usr/bin/train --epochs 3"
    assert found["mounts"] == [["/data", "xfs"], ["/", "ext4"]]
    assert found["heatmaps"] == {"POSIX read": {"0": list(range(20)), "1": list(range(20))},
                                 "POSIX write": {str(rank): [1000 * rank + i * i for i in range(20)] for rank in range(2)}}
    assert {name: module["partial_flag"] for name, module in found["modules"].items()} == {"POSIX": False, "HEATMAP": False}
    lost = read(programs, logs / "lost.darshan")
    assert {name: module["partial_flag"] for name, module in lost["modules"].items()} == {"POSIX": True, "HEATMAP": True}


def test_darshans_library_writes_the_same_log(programs, logs):
    """Its copy differs in the order of the mounts only."""
    copy = logs / "copy.darshan"
    run(programs / "python", READER, "copy", logs / "example.darshan", copy)
    head, versions, job, others = regions(logs / "example.darshan")
    its_head, its_versions, its_job, its_others = regions(copy)
    assert (head, versions, others) == (its_head, its_versions, its_others)
    lines, its_lines = (region.rstrip(b"\0").split(b"\n") for region in (job[1080:], its_job[1080:]))
    assert job[:1080] == its_job[:1080] and len(job) == len(its_job)
    assert lines[0] == its_lines[0] and sorted(lines) == sorted(its_lines) and len(lines) == 3


def test_summary_has_the_heatmap(programs, logs):
    page = summary(programs, logs / "example.darshan")
    for text in ["Heat Map: HEATMAP POSIX", "I/O Cost", "Access Pattern", "Common Access Sizes", "Data Access by Category",
                 "/usr/bin/train --epochs 3", "128.00 MiB", "23.44 MiB"]:
        assert text in page
    assert page.count("data:image/png;base64,") == 6
    assert "Heatmap data is not available" not in page and "Module data incomplete" not in page
    assert summary(programs, logs / "lost.darshan").count("Module data incomplete") == 2


def test_summary_without_files(programs, logs):
    found = read(programs, logs / "none.darshan")
    assert (found["records"], found["names"], found["modules"], found["exe"]) == ([], [], {}, "<unknown>")
    assert "no instrumentation records" in summary(programs, logs / "none.darshan")


def test_thousands_of_unusual_names(programs, logs):
    found = read(programs, logs / "many.darshan")
    assert sorted(record["values"]["POSIX_STATS"] for record in found["records"]) == list(range(5000))
    assert all(re.match(f"/m/{record['values']['POSIX_STATS']}(?![0-9])", record["name"]) for record in found["records"])
    assert max(len(name.encode()) for name in found["names"]) == 4095
    assert "5000" in summary(programs, logs / "many.darshan")


def test_drishti_finds_small_writes_and_imbalance(programs, logs):
    """P01 and P04: more writes than reads, more bytes read than written. P06 and P16: small writes, also to a shared file. P12 and P14: sequential
    reads and writes. P18 and P19: imbalance of bytes and of time in a shared file. M01: no MPI-IO. Counters that were not observed (-1) cause no insight."""
    assert insights(programs, logs / "example.darshan") == {"P01", "P04", "P06", "P12", "P14", "P16", "P18", "P19", "M01"}
    assert insights(programs, logs / "none.darshan") == {"M01"}


COUNT = """
import darshan, json, sys
counters = darshan.DarshanReport(sys.argv[1], read_all=True).records["POSIX"].to_df()["counters"]
print(json.dumps([int(counters["POSIX_" + name].sum()) for name in ("READS", "BYTES_READ", "WRITES", "BYTES_WRITTEN")]))
"""


def test_log_of_a_real_program(programs, sonde, root, tmp_path):
    """What Darshan's library reads from a log that `sonde io report` has written equals what fio says that it did."""
    log, result = tmp_path / "fio.darshan", tmp_path / "fio.json"
    run(sonde, "io", "report", "-o", log, "--", "fio", "--name=work", f"--filename={tmp_path}/data", "--size=8m", "--rw=randrw", "--bs=64k", "--numjobs=2",
        "--thread=0", "--group_reporting", "--output-format=json", f"--output={result}")
    job = json.loads(result.read_text())["jobs"][0]
    done = json.loads(run(programs / "python", "-W", "ignore", "-c", COUNT, log).stdout)
    assert done[0] >= job["read"]["total_ios"] > 0 and done[1] - job["read"]["io_bytes"] < 1 << 20  # fio reads and lays out files of its own, too
    assert done[2] >= job["write"]["total_ios"] > 0 and 8 << 20 <= done[3] - job["write"]["io_bytes"] < 9 << 20
    assert "heatmap" in summary(programs, log).lower()
