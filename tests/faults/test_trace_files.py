"""libsonde's trace files under faults: a full disk, a killed server, an existing file."""
import json
import re

import pytest
from harness.paths import BUILD
from harness.processes import wait_for

TRACED = BUILD / "tests/traced"
CONFIG = "--trace-config"


@pytest.fixture
def load(run):
    """load(file, requests, settings...) -> Running"""

    def start(file, requests, *settings):
        options = [part for setting in ("rate=1", "level=TIMESTAMPS", f"triton,file={file}", *settings) for part in (CONFIG, setting)]
        return run(TRACED, *options, "--load", requests)
    return start


def counts_of(running):
    assert running.wait(120) == 0, running.error
    words = running.out.splitlines()[-1].split()
    return dict(zip(words[::2], map(int, words[1::2])))


def requests_in(*files):
    return sum("model_name" in o and "parent_id" not in o for file in files for o in json.loads(file.read_text()))


@pytest.mark.sanitized
@pytest.mark.parametrize("settings", [(), ("triton,log-frequency=50",)])
def test_full_disk_loses_only_counted_requests(load, small_disk, settings):
    """Every file is a whole array, every request is in a file or counted as lost, and the error is logged once, not per request."""
    disk = small_disk(256)
    running = load(disk / "t.json", 3000, *settings)
    counts = counts_of(running)
    files = [file for file in disk.iterdir() if file.stat().st_size > 0]
    assert counts["dropped_write"] > 0 and counts["write_errors"] > 0
    assert requests_in(*files) == counts["written"] > 0
    assert counts["written"] + counts["dropped_write"] + counts["dropped_queue"] == counts["sampled"] == 6000
    assert running.error.count("No space left on device") >= 1
    assert running.error.count("No space left on device") <= counts["write_errors"]
    assert all(file.stat().st_size for file in disk.iterdir()), "an empty file was left behind"


@pytest.mark.sanitized
def test_killed_server_leaves_a_readable_file(load, tmp_path):
    """SIGKILL at any time: completed writes are there. A truncated write is at the end, and everything before it can be read."""
    file = tmp_path / "t.json"
    running = load(file, 10 ** 7)
    wait_for(lambda: not running.alive or file.exists() and file.stat().st_size > 200000, what="part of a file")
    assert running.alive, running.error
    running.kill()
    text = file.read_text()
    try:
        objects = json.loads(text)
    except ValueError:
        objects = json.loads(text[:text.rindex("},{")] + "}]")
    assert len(objects) > 1000


@pytest.mark.sanitized
def test_existing_files_are_kept(load, tmp_path):
    file = tmp_path / "t.json"
    for i in range(3):
        counts_of(load(file, 5))
    assert sorted(path.name for path in tmp_path.glob("t.json*")) == ["t.json", "t.json.old.1", "t.json.old.2"]
    assert [requests_in(path) for path in tmp_path.glob("t.json*")] == [10, 10, 10]


@pytest.mark.sanitized
def test_two_servers_do_not_share_a_file(load, tmp_path):
    """Concurrently: neither server writes into the other's file or renames it."""
    file = tmp_path / "t.json"
    both = [load(file, 3000), load(file, 3000)]
    written = sum(counts_of(running)["written"] for running in both)
    files = list(tmp_path.glob("t.json*"))
    names = sorted(re.sub(r"\d+$", "N", path.name) for path in files)
    assert names in (["t.json", "t.json.pN"], ["t.json", "t.json.old.N"])  # the latter if one server ended before the other began to write
    assert requests_in(*files) == written
