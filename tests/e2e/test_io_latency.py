"""Durations of I/O compared with fio's own: both saw the same operations. One at a time: with more of them in flight, fio's time lasts until it reaps
those that have ended."""
import json
import re
import subprocess

import pytest

from file_systems import file_system  # noqa: F401 (a fixture)
from harness.processes import wait_for

pytestmark = pytest.mark.statistical
QUANTILES = (50, 90, 99)
OPERATIONS = 16000


def fio_latencies_ns(point, *options):
    """{quantile: ns} of reads, from before their submission to their completion."""
    done = subprocess.run(["fio", "--name=work", f"--filename={point}/data", "--size=64m", "--rw=randread", "--bs=4k", f"--number_ios={OPERATIONS}", "--output-format=json",
                           "--lat_percentiles=1", f"--percentile_list={':'.join(map(str, QUANTILES))}", *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    read = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["read"]
    assert read["total_ios"] == OPERATIONS
    return {quantile: read["lat_ns"]["percentile"][f"{quantile:.6f}"] for quantile in QUANTILES}


def histogram_of_reads(started, point):
    """[(bound in seconds, operations up to it)] of the mount."""
    pattern = rf'sonde_io_duration_seconds_bucket{{.*mountpoint="{re.escape(str(point))}".*operation="read",le="(.*)"}}$'
    found = {}
    for key, count in started.metrics().items():
        match = re.match(pattern, key)
        if match:
            bound = float(match[1].replace("+Inf", "inf"))
            found[bound] = found.get(bound, 0) + count
    return sorted(found.items())


def bucket_of_quantile(histogram, quantile):
    """(lower, upper bound) in seconds."""
    i = next(i for i, (_, count) in enumerate(histogram) if count >= quantile / 100 * histogram[-1][1])
    return histogram[i - 1][0] if i else 0, histogram[i][0]


@pytest.mark.parametrize("kind, options", [("tmpfs", ["--ioengine=psync"]), ("ext4", ["--ioengine=psync", "--direct=1"]),
                                           ("ext4", ["--ioengine=io_uring", "--direct=1"]), ("ext4", ["--ioengine=libaio", "--direct=1"])],
                         ids=["memory", "device", "io_uring", "aio"])
def test_quantiles_are_those_of_fio(agent, file_system, kind, options):
    started, whole = agent("--set", "io.enabled=true", "--set", "budget.one_cpu=1000%"), file_system(kind)
    subprocess.run(["fio", "--name=work", f"--filename={whole}/data", "--size=64m", "--create_only=1", "--rw=read"], check=True, capture_output=True, timeout=60)
    point = file_system(whole)  # with counters of its own
    expected = fio_latencies_ns(point, *options)
    wait_for(lambda: (histogram_of_reads(started, point) or [(0, 0)])[-1][1] == OPERATIONS)
    histogram = histogram_of_reads(started, point)
    for quantile, ns in expected.items():  # the kernel's buckets end at every power of two, these at every second one
        lower, upper = bucket_of_quantile(histogram, quantile)
        assert lower / 2 <= ns / 1e9 <= 2 * upper < float("inf"), (quantile, expected, histogram)
