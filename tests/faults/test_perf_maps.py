"""Invalid perf maps: every user may write to /tmp. Whatever is there, the agent continues, reads nothing that it should not, shows no wrong name, and
counts refused files."""
import contextlib
import os
import threading
from pathlib import Path

import pytest

from harness.processes import memory_bytes, wait_for

HZ = 199


@pytest.fixture
def start(workload):
    """start(): a program with JIT code that has no perf map yet, and the path of that map, which is removed with it."""
    all_started = []

    def start_one():
        started = workload("jitted", 600, "none")
        started.map = Path(f"/tmp/perf-{started.pid}.map")
        started.code = int(started.facts()["code"], 16)
        all_started.append(started)
        return started
    yield start_one
    for started in all_started:
        clear(started.map)


def clear(path):
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)


def lines(program, *, inner="jit_inner"):
    return f"{program.code:x} 8 jit_outer\n{program.code + 1024:x} c {inner}\n"


def place_file(program, what, folder):
    if what == "symbolic link":
        (folder / "elsewhere").write_text(lines(program))
        program.map.symlink_to(folder / "elsewhere")
    elif what == "FIFO":
        os.mkfifo(program.map)
    elif what == "directory":
        program.map.mkdir()
    elif what == "device":
        os.mknod(program.map, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
    elif what == "of another user":
        program.map.write_text(lines(program))
        os.chown(program.map, 12345, 12345)
    elif what == "of an earlier process":
        program.map.write_text(lines(program))
        os.utime(program.map, (1000, 1000))
    elif what == "4 GiB of nothing":
        program.map.write_text(lines(program))
        os.truncate(program.map, 4 << 30)
    elif what == "almost 4 GiB of nothing":
        program.map.write_text(lines(program))
        os.truncate(program.map, (4 << 30) - 4096)


WHAT = ["symbolic link", "FIFO", "directory", "device", "of another user", "of an earlier process", "4 GiB of nothing", "almost 4 GiB of nothing"]


@pytest.mark.statistical
def test_files_that_are_not_perf_maps_are_refused(start, agent, tmp_path):
    """One program per kind of file, and one agent for all; then a valid map, which is accepted."""
    programs = {}
    for what in WHAT:
        programs[what] = start()
        try:
            place_file(programs[what], what, tmp_path)
        except OSError as error:
            print(f"{what}: cannot be made here: {error}")
            del programs[what]
    started = agent("--rate", HZ)

    def folded(program):
        return started.text(f"/api/v1/profile?format=folded&pid={program.pid}")
    for what, program in programs.items():
        wait_for(lambda: "[anon]+" in folded(program), 90, f"samples of the program with {what}")
    wait_for(lambda: started.metric("sonde_self_jit_refused_total") >= len(programs), 60, "all of them to be refused")
    for what, program in programs.items():
        assert "jit_" not in folded(program), what
    some = programs["directory"]
    clear(some.map)
    some.map.write_text(lines(some))
    wait_for(lambda: "jit_outer;native_middle;jit_inner" in folded(some), 90, "the name")


@contextlib.contextmanager
def growing(program):
    """Appends to its map continuously, half a line at a time."""
    over = threading.Event()

    def write():
        with open(program.map, "w") as out:
            out.write(lines(program))
            for i in range(10 ** 9):
                if over.is_set():
                    return
                line = f"{program.code + 0x10000 + 64 * (i % 5000):x} 40 other_{i} of many\n"
                out.write(line[:20])
                out.flush()
                out.write(line[20:])
    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def test_growing_map_is_read(start, agent):
    program = start()
    with growing(program):
        started = agent("--rate", HZ)
        wait_for(lambda: "jit_outer;native_middle;jit_inner" in started.text(f"/api/v1/profile?format=folded&pid={program.pid}"), 90, "the name")
        assert "other_" not in started.text(f"/api/v1/profile?format=folded&pid={program.pid}")


@pytest.mark.statistical
def test_sampled_names_are_right_while_the_map_grows(start, record):
    program = start()
    with growing(program):
        profile = record("-p", program.pid, "-F", HZ, "-d", 2)
    named = profile.where(lambda s: "jit_inner" in s.frames)
    assert named.count > 0, profile.top()
    assert named.share("main;jit_outer;native_middle;jit_inner") >= 0.98 - named.early, named.top()
    assert not any(name.startswith("other_") for sample in profile.samples for name in sample.frames), profile.top()


@pytest.mark.statistical
def test_huge_map_is_read_in_steps(start, agent):
    """Read in pieces, one per turn, and not stored whole: names that were read before the end are correct."""
    program, started = start(), agent("--rate", HZ)
    wait_for(lambda: "[anon]" in started.text(f"/api/v1/profile?format=folded&pid={program.pid}"), 60, "frames without a name")
    far = program.code + (1 << 32)
    with open(program.map, "w") as out:
        for first in range(0, 10 ** 7, 50000):
            out.write("".join(f"{far + 16 * i:x} 10 fun_{i}\n" for i in range(first, first + 50000)))
        out.write(lines(program))
    assert program.map.stat().st_size > 200 << 20

    def is_named():
        assert started.running.alive
        folded = started.text(f"/api/v1/profile?format=folded&pid={program.pid}")
        assert "fun_" not in folded, folded
        return "jit_outer;native_middle;jit_inner" in folded
    wait_for(is_named, 240, "the name behind ten million lines")
    assert started.metric("sonde_self_jit_bytes") < 6 << 20
    assert memory_bytes(started.pid) < program.map.stat().st_size
