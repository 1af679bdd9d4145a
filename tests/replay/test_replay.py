"""Replay: a recording yields the same output again, without the kernel and without privileges, any number of times."""
import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pprof
import pytest
from folded_stacks import without_kernel
from harness.machine import need_command, need_root
from harness.module_recording import Stage
from harness.paths import BUILD
from harness.processes import cpu_seconds, wait_for
from harness.recording import Profile
from harness.results import variants
from harness.workloads import workload_path

PROGRAM = "replayed"  # a name that no other program here has


def folded(path):
    """{stack: count}, without the samples that are marked as truncated."""
    samples = {}
    for line in path.read_text(errors="replace").splitlines():
        stack, count = line.rsplit(" ", 1)
        if "[truncated" not in stack:
            samples[stack] = samples.get(stack, 0) + int(count)
    return samples


def copy_of_deep(folder):
    return shutil.copy(workload_path("deep"), folder / PROGRAM)


@pytest.fixture(scope="module")
def recorded(sonde, tmp_path_factory):
    """A recording of programs that started before it and are gone at replay, each with about a hundred samples, and the live output."""
    need_root()
    folder = tmp_path_factory.mktemp("recorded")
    with Stage(sonde, folder) as stage:
        programs = [stage.workload(*command) for command in ([copy_of_deep(folder), 200, 600], [workload_path("cxx"), 600], [workload_path("threads"), 600],
                                                           [workload_path("signals"), 600])]
        recording = stage.record("-F", 199, "--record-events", folder / "node.wire", *[word for program in programs for word in ("-p", program.pid)])
        since = {program.pid: cpu_seconds(program.pid) for program in programs}
        wait_for(lambda: all(cpu_seconds(pid) > before + 0.5 for pid, before in since.items()), 120, "some CPU time")
        stage.end(recording)
    return folder / "node.wire", folder / "live.folded"


def replay(sonde, wire, out, **options):
    done = subprocess.run([sonde, "record", "--replay", wire, "-o", out], capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_replay_equals_live_output(sonde, recorded, tmp_path):
    wire, live = recorded
    replay(sonde, wire, tmp_path / "a.folded")
    expected, said = folded(live), folded(tmp_path / "a.folded")
    deep = {stack: n for stack, n in expected.items() if stack.startswith(PROGRAM + ";")}
    assert deep
    assert {stack: n for stack, n in said.items() if stack.startswith(PROGRAM + ";")} == deep


def test_replay_is_deterministic(sonde, recorded, tmp_path):
    wire, _ = recorded
    replay(sonde, wire, tmp_path / "a.folded")
    replay(sonde, wire, tmp_path / "b.folded")
    first, second = ((tmp_path / name).read_text(errors="replace").splitlines() for name in ("a.folded", "b.folded"))
    assert without_kernel(first) == without_kernel(second)


def replay_with_small_caches(wire, memory_mib, every):
    """{stack: count} of a replay whose caches are emptied after every `every` samples and have this size."""
    done = subprocess.run([BUILD / "tests/replay-trimmed", wire, str(memory_mib << 20), str(every)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return without_kernel(done.stdout.splitlines())


def only_stacks(stacks, programs=None):
    """Without the comments that count losses."""
    return {stack: count for stack, count in stacks.items() if not stack.startswith("#") and (programs is None or stack.split(";")[0] in programs)}


@pytest.mark.sanitized
@pytest.mark.parametrize("memory_mib,every", variants((0, 1), (0, 7), (8, 0), (8, 1)))
def test_small_caches_do_not_change_stacks(sonde, recorded, tmp_path, memory_mib, every):
    """Emptied after every sample, or after each seventh; and with a small size: the same stacks and the same losses."""
    wire, _ = recorded
    replay(sonde, wire, tmp_path / "a.folded")
    plain, again = replay_with_small_caches(wire, 0, 0), replay_with_small_caches(wire, memory_mib, every)
    assert plain == again
    assert only_stacks(plain) == only_stacks(without_kernel((tmp_path / "a.folded").read_text().splitlines()))
    assert any("deep_leaf" in stack for stack in plain)


def running_names():
    names = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            names.add(path.read_text(errors="replace").rstrip("\n"))
        except OSError:  # it has exited
            pass
    return names


@pytest.mark.statistical
@pytest.mark.timeout(900)  # unwind tables of all programs are built again and again, also of the largest compiler
def test_small_caches_do_not_change_node_stacks(sonde, root, workload, tmp_path):
    wire = tmp_path / "node.wire"
    deep = workload("deep", "200", "600", path=copy_of_deep(tmp_path))
    done = subprocess.run([sonde, "record", "-F", "199", "-d", "3", "--record-events", wire, "-o", tmp_path / "live.folded"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    deep.running.stop()
    before = running_names()
    replay(sonde, wire, tmp_path / "a.folded")
    plain, again = replay_with_small_caches(wire, 0, 0), replay_with_small_caches(wire, 0, 7)
    once = without_kernel((tmp_path / "a.folded").read_text().splitlines())
    # Files of short-lived programs on this machine may also have disappeared between two replays.
    lasting = {PROGRAM, "sonde"} | before & running_names()
    assert only_stacks(plain, lasting) == only_stacks(once, lasting) == only_stacks(again, lasting)
    assert sum(count for stack, count in plain.items() if "deep_leaf" in stack) > 100


def test_times_come_from_the_recording(sonde, recorded, tmp_path):
    """Rate and length as recorded, whatever options the replay has; and no date, which the recording does not contain."""
    wire, _ = recorded
    for name in ("a.json", "b.json"):
        replay(sonde, wire, tmp_path / name)
    said, again = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    times = [[{key: profile[key] for key in ("name", "unit", "startValue", "endValue", "weights")} for profile in one["profiles"]] for one in (said, again)]
    assert times[0] == times[1]  # kernel frames have their present names, see without_kernel
    assert said["name"] == "sonde" and said["sonde"]["start_time_unix_ms"] == 0
    assert said["sonde"]["period_ns"] == 1000000000 // 199 and said["sonde"]["duration_ns"] == again["sonde"]["duration_ns"] > 0, said["sonde"]
    done = subprocess.run([sonde, "record", "--replay", wire, "-F", "19", "-o", tmp_path / "c.json"], capture_output=True, text=True)
    assert done.returncode == 2 and "--inlines only" in done.stderr, done


def test_replay_needs_no_privileges(sonde, recorded, tmp_path):
    wire, _ = recorded
    setpriv = need_command("setpriv")
    for path in {tmp_path, *tmp_path.parents, *wire.parents}:
        os.chmod(path, path.stat().st_mode | 0o055)
    os.chmod(wire, 0o644)
    free = tmp_path / "free"
    free.mkdir()
    os.chmod(free, 0o777)
    done = subprocess.run([setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
                           sonde, "record", "--replay", wire, "-o", free / "n.folded"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert any("deep_leaf" in stack for stack in folded(free / "n.folded"))


@pytest.mark.sanitized
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
    """A recording built by hand: its records, a microsecond apart (probes/*.h)."""
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


def test_sample_during_exec(sonde, tmp_path):
    """After its exec a process is the new program, whose file is only known when it is mapped."""
    wire, path, out = Wire(), tmp_path / "made.wire", tmp_path / "made.pb.gz"
    wire.add(wire.FORK, struct.pack("<II", wire.PID + 1, wire.PID + 1))
    for name in ("first", "second", "third"):
        wire.execute(name)
        wire.sample()
        wire.execute("other", wire.PID + 2)
        wire.map("//anon")
        wire.map("/bin/other", pid=wire.PID + 2)
        wire.sample()
        if name != "second":  # which calls exec() for the third before it has mapped anything
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
