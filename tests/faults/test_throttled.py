"""A kernel that drops samples because its limit on samples per second is low: they are counted, and nothing else is affected."""
import re
from pathlib import Path

import pytest

from harness.machine import skip
from harness.workloads import workload_path

LIMIT = Path("/proc/sys/kernel/perf_event_max_sample_rate")
HZ = 1000


@pytest.fixture
def low_limit(root):
    before = LIMIT.read_text()
    try:
        LIMIT.write_text("250")
    except OSError as error:
        skip(f"the limit cannot be lowered: {error}")
    yield
    LIMIT.write_text(before)


@pytest.mark.statistical  # the limit is machine-wide
def test_withheld_samples_are_counted(record, low_limit):
    profile = record("-F", HZ, "--", workload_path("deep"), 3, 2)
    throttled = re.search(r"(\d+) throttled", profile.messages)
    cpu_ns = re.search(r"cpu_ns (\d+)", profile.messages)
    if not throttled and profile.count > 1000:
        skip("this kernel's timer ticks too often for the limit to be felt")
    assert throttled, profile.messages
    assert profile.share("main;...;deep_leaf") >= 0.9, profile.top()
    if cpu_ns:
        assert profile.count + int(throttled[1]) >= 0.9 * int(cpu_ns[1]) * HZ / 1e9, profile.messages
