"""Replay: what was recorded on the wire says the same again, without the kernel and without rights, as often as one likes."""
import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pprof
import pytest

from harness.machine import need_command
from harness.paths import BUILD
from harness.recording import Profile
from harness.workloads import subject_path

PROGRAM = "replayed"  # a name that nothing else here has


def folded(path):
    """{stack: count}, without the samples that say of themselves that they are not whole."""
    samples = {}
    for line in path.read_text(errors="replace").splitlines():
        stack, count = line.rsplit(" ", 1)
        if "[truncated" not in stack:
            samples[stack] = samples.get(stack, 0) + int(count)
    return samples


@pytest.fixture
def recorded(sonde, tmp_path, root, subject):
    """A wire file of the whole node with a deep program that is older than the recording and gone at replay, and what was said live."""
    wire, live = tmp_path / "node.wire", tmp_path / "live.folded"
    path = shutil.copy(subject_path("deep"), tmp_path / PROGRAM)
    deep = subject("deep", "200", "20", path=path)
    done = subprocess.run([sonde, "record", "-F", "199", "-d", "3", "--record-wire", wire, "-o", live], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    deep.running.stop()
    return wire, live


def replay(sonde, wire, out, **options):
    done = subprocess.run([sonde, "record", "--replay", wire, "-o", out], capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_says_the_same(sonde, recorded, tmp_path):
    wire, live = recorded
    replay(sonde, wire, tmp_path / "a.folded")
    expected, said = folded(live), folded(tmp_path / "a.folded")
    deep = {stack: n for stack, n in expected.items() if stack.startswith(PROGRAM + ";")}
    assert sum(deep.values()) > 100
    assert {stack: n for stack, n in said.items() if stack.startswith(PROGRAM + ";")} == deep


def test_twice_is_equal(sonde, recorded, tmp_path):
    wire, _ = recorded
    replay(sonde, wire, tmp_path / "a.folded")
    replay(sonde, wire, tmp_path / "b.folded")
    first, second = ((tmp_path / name).read_text(errors="replace").splitlines() for name in ("a.folded", "b.folded"))
    assert without_kernel(first) == without_kernel(second)


def without_kernel(lines):
    """{stack: count} of the user's part: the kernel's names are those of now, and BPF programs come and go. What was lost is in it."""
    stacks = {}
    for line in lines:
        stack, count = line.rsplit(" ", 1)
        frames = stack.split(";")
        end = next((i for i, frame in enumerate(frames) if frame.endswith("_[k]") or frame.startswith("[kernel")), len(frames))
        stacks[";".join(frames[:end])] = stacks.get(";".join(frames[:end]), 0) + int(count)
    stacks.pop("# unnamed", None)
    return stacks


def running_names():
    names = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            names.add(path.read_text(errors="replace").rstrip("\n"))
        except OSError:  # it has ended
            pass
    return names


@pytest.mark.timeout(900)  # rows of all that ran are made anew for each sample, also of the largest compiler
@pytest.mark.parametrize("memory_mib,every", [(0, 1), (0, 7), (8, 0), (8, 1)])
def test_a_cache_changes_nothing(sonde, recorded, tmp_path, memory_mib, every):
    """Emptied after every sample, or after each seventh; and of a small size: the same stacks and the same losses."""
    wire, _ = recorded
    before = running_names()
    replay(sonde, wire, tmp_path / "a.folded")

    def forgetful(memory_mib, every):
        done = subprocess.run([BUILD / "tests/replay-trimmed", wire, str(memory_mib << 20), str(every)], capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        return without_kernel(done.stdout.splitlines())
    plain = forgetful(0, 0)
    once, again = without_kernel((tmp_path / "a.folded").read_text().splitlines()), forgetful(memory_mib, every)
    # The files of programs that came and went on this machine may have gone as well, between two replays.
    lasting = {PROGRAM, "sonde"} | before & running_names()

    def comparable(stacks):
        return {stack: count for stack, count in stacks.items() if stack.split(";")[0] in lasting}
    assert comparable(plain) == comparable(once) == comparable(again)
    assert sum(count for stack, count in comparable(plain).items() if "deep_leaf" in stack) > 100
    if all(stack.split(";")[0] in lasting for stack in plain if ";" in stack):  # of others there are losses, too
        assert plain == again


def test_times_are_those_of_the_records(sonde, recorded, tmp_path):
    """Rate and length as recorded, whatever the replay's own are; and no day, which the wire does not hold."""
    wire, _ = recorded
    for name in ("a.json", "b.json"):
        replay(sonde, wire, tmp_path / name)
    said, again = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    times = [[{key: profile[key] for key in ("name", "unit", "startValue", "endValue", "weights")} for profile in one["profiles"]] for one in (said, again)]
    assert times[0] == times[1]  # frames of the kernel are named as of now, see without_kernel
    assert said["name"] == "sonde" and said["sonde"]["start_time_unix_ms"] == 0
    assert said["sonde"]["period_ns"] == 1000000000 // 199 and 2e9 < said["sonde"]["duration_ns"] < 60e9, said["sonde"]
    done = subprocess.run([sonde, "record", "--replay", wire, "-F", "19", "-o", tmp_path / "c.json"], capture_output=True, text=True)
    assert done.returncode == 2 and "only -o" in done.stderr, done


def test_needs_no_rights(sonde, recorded, tmp_path):
    wire, _ = recorded
    setpriv = need_command("setpriv")
    for path in [tmp_path, *tmp_path.parents]:
        os.chmod(path, path.stat().st_mode | 0o055)
    os.chmod(wire, 0o644)
    free = tmp_path / "free"
    free.mkdir()
    os.chmod(free, 0o777)
    done = subprocess.run([setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
                           sonde, "record", "--replay", wire, "-o", free / "n.folded"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert sum(folded(free / "n.folded").values()) > 100


@pytest.mark.parametrize("damage", ["cut", "garbage", "foreign", "empty"])
def test_damaged_files(sonde, recorded, tmp_path, damage):
    wire, _ = recorded
    good = wire.read_bytes()
    bad = {"cut": good[:len(good) // 2 - 3], "garbage": good[:4096] + b"\xff" * 100 + good[4096:], "foreign": b"GIF89a" + good, "empty": b""}
    path = tmp_path / "bad.wire"
    path.write_bytes(bad[damage])
    done = subprocess.run([sonde, "record", "--replay", path, "-o", tmp_path / "x.folded"], capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 1)
    assert "bad.wire" in done.stderr or "record" in done.stderr
    if damage in ("foreign", "empty"):
        assert done.returncode == 1 and not (tmp_path / "x.folded").exists()


class Wire:
    """A wire file made by hand: its records, a microsecond apart (probes/*.h)."""
    FORK, EXEC, MMAP, CPU_SAMPLE = 16, 17, 20, 1
    PID = 0x40000000  # larger than any

    def __init__(self):
        self.data, self.time_ns = b"SONDEWIR" + struct.pack("<II", 2, 0), 10 ** 12

    def add(self, kind, body, pid=PID):
        body += bytes(-len(body) % 8)
        self.time_ns += 1000
        self.data += struct.pack("<IHHQII", 24 + len(body), kind, 0, self.time_ns, pid, pid) + body

    def execute(self, name, pid=PID):
        self.add(self.EXEC, struct.pack("<16s", name.encode()), pid)

    def map(self, path, start=0x400000, pid=PID):
        text = path.encode() + b"\0"
        self.add(self.MMAP, struct.pack("<QQQQQIIB20sBH", start, 0x1000, 0, 0, 0, 0, 0, 0, b"", 0, len(text)) + text, pid)

    def sample(self, pid=PID):
        NO_USER = 1
        self.add(self.CPU_SAMPLE, struct.pack("<QQIHHBBHI5Q16s", 0, 10 ** 7, 0, 0, 0, NO_USER, 0, 0, 0, *[0] * 5, b"thread"), pid)


def test_program_in_the_middle_of_exec(sonde, tmp_path):
    """From its exec on a process is the new program, which says where its file is only when it maps that."""
    wire, path, out = Wire(), tmp_path / "made.wire", tmp_path / "made.pb.gz"
    wire.add(wire.FORK, struct.pack("<II", wire.PID + 1, wire.PID + 1))
    for name in ("first", "second", "third"):
        wire.execute(name)
        wire.sample()
        wire.execute("other", wire.PID + 2)
        wire.map("//anon")
        wire.map("/bin/other", pid=wire.PID + 2)
        wire.sample()
        if name != "second":  # which executes the third before it has mapped anything
            wire.map(f"/bin/{name}", 0x600000)
            wire.sample()
    path.write_bytes(wire.data)
    replay(sonde, path, out)
    profile = Profile(*pprof.read(out), "").of(pid=wire.PID)
    placed = {}
    for sample in profile.samples:
        at = sample.labels.get("process.executable.path")
        placed[at] = placed.get(at, 0) + sample.count
    assert placed == {"/bin/first": 3, None: 2, "/bin/third": 3}
