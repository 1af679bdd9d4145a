"""Misleading programs: ELF files with damaged tables that run nevertheless, reused PIDs, processes that end during the recording. The recorder must
neither crash nor record wrong data."""
import os
import random
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from harness.fired import assert_all_fired, fires
from harness.machine import skip
from harness.paths import TOP
from harness.processes import cpu_seconds, wait_for
from harness.recording import stack_matches
from harness.workloads import workload_path


def sections(data):
    """[(name, offset, size, position of its header)] of an ELF64 file."""
    at, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, at + i * size) for i in range(count)]
    start = headers[names][4]
    return [(data[start + h[0]:data.index(b"\0", start + h[0])].decode(), h[4], h[5], at + i * size) for i, h in enumerate(headers)]


def damage(data, what, seed):
    """The file's bytes with one damage that does not prevent the kernel from running it."""
    data, chance = bytearray(data), random.Random(seed)
    table = {name: (offset, size, header) for name, offset, size, header in sections(data)}
    if what == "section headers":
        offset, = struct.unpack_from("<Q", data, 0x28)
        for i in range(offset, len(data)):
            data[i] = chance.randrange(256)
    elif what == "no section table":
        struct.pack_into("<Q", data, 0x28, 0xFFFFFFFFFFFFFF00)
    elif what == "huge counts":
        struct.pack_into("<HH", data, 0x3C, 0xFFFF, 0xFFFE)
    elif what == "truncated":
        del data[table[".symtab"][0] + table[".symtab"][1] // 2:]
    elif what == "symbols overlap the end":
        struct.pack_into("<Q", data, table[".symtab"][2] + 0x20, 1 << 40)
    else:
        offset, size, _ = table[what]
        for _ in range(max(4, size // 16)):
            data[offset + chance.randrange(size)] = chance.randrange(256)
    return bytes(data)


DAMAGE = ["section headers", "no section table", "huge counts", "truncated", "symbols overlap the end", ".symtab", ".strtab", ".eh_frame", ".eh_frame_hdr"]


@pytest.fixture
def fire_program(workload, fire):
    """fire_program(path) records one stack per event of a program that is a damaged copy of `deep`."""
    def start(path):
        path.chmod(0o755)
        started = workload("deep", 20, 600, path=path, env=fires())
        profile = fire(started)
        assert_all_fired(profile)
        assert profile.count > 0 and {s.labels["process"] for s in profile.samples} == {path.name}, profile.messages
        return started, profile
    return start


@pytest.mark.thorough
@pytest.mark.sanitized
@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_elf_files_give_no_wrong_stacks(fire_program, tmp_path, what):
    program = tmp_path / "damaged"
    program.write_bytes(damage(workload_path("deep").read_bytes(), what, seed=1))
    _, profile = fire_program(program)
    if what not in (".eh_frame", ".eh_frame_hdr"):
        return
    # Damaged unwind tables lead to stacks that are marked as truncated, or to whole ones.
    silent = profile.where(lambda s: not s.frames[0].startswith("[truncated") and s.frames[0] not in ("_start", "_dl_start", "_dl_start_user") and not s.frames[0].startswith("ld-linux"))
    assert not silent.samples, silent.top()


def test_invalid_debug_file_is_ignored(fire_program, tmp_path):
    """The file is found through the debug link."""
    program = tmp_path / "deep-debuglink"
    shutil.copy(workload_path("deep-debuglink"), program)
    (tmp_path / ".debug").mkdir()
    (tmp_path / ".debug/deep-debuglink.debug").write_bytes(b"\x7fELF" + random.Random(3).randbytes(4096))
    fire_program(program)


@pytest.fixture
def record_reused_pid(record, sonde, tmp_path, root):
    """record_reused_pid(seconds): the profile of a PID that belongs first to `deep` and then to `noreturn`, for that long each."""
    def start(seconds):
        if not Path("/proc/sys/kernel/ns_last_pid").exists():
            skip("this kernel cannot choose PIDs (CONFIG_CHECKPOINT_RESTORE)")
        profile = record("-F", 199, "--", "/usr/bin/python3", TOP / "tests/workloads/python/pid_twice.py", seconds, workload_path("deep"), workload_path("noreturn"))
        pid = int(profile.messages.split("pid ")[-1].split()[0]) if "pid " in profile.messages else 0
        if not pid:
            skip("another process took the PID in between")
        return profile.of(pid=pid)
    return start


STACKS = (("deep", "recurse;deep_leaf", "deep_leaf", "never_returns"), ("noreturn", "ends_in_call;never_returns", "never_returns", "deep_leaf"))


def test_reused_pid_keeps_programs_apart(record_reused_pid):
    """Two programs under one PID in one recording: each keeps its own name and functions."""
    profile = record_reused_pid(0.5)
    for process, _, leaf, other in STACKS:
        own = profile.of(process=process)
        assert own.where(lambda s, leaf=leaf: leaf in s.frames).count, own.top()
        assert not own.where(lambda s, o=other: o in s.frames).count, own.top()


@pytest.mark.statistical
def test_sampled_stacks_of_a_reused_pid(record_reused_pid):
    profile = record_reused_pid(1)
    for process, stack, _, _ in STACKS:
        assert profile.of(process=process).share(stack) >= 0.93, profile.top()


@pytest.mark.sanitized
def test_recording_ends_with_its_process(recording, workload):
    workload = workload("deep", 10, 600)
    running = recording("-F", 199, "-p", workload.pid)
    since = cpu_seconds(workload.pid)
    wait_for(lambda: cpu_seconds(workload.pid) > since + 0.5, 60, "some CPU time")
    workload.running.stop()
    time.sleep(0.5)  # the recording continues without the process
    assert running.running.alive
    profile = running.finish()
    assert profile.where(lambda s: stack_matches(s.frames, workload.stack)).count, profile.top()


def test_unknown_process_is_an_error(sonde, root, tmp_path):
    done = subprocess.run([sonde, "record", "-p", "4194000", "-d", "1", "-o", tmp_path / "p.folded"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert done.returncode in (1, 2) and "4194000" in done.stderr, done


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_stopped_program_has_no_samples(record, run):
    """For example a program stopped by a debugger; an empty profile is no error."""
    running = run(workload_path("deep"), 5, 30)
    wait_for(lambda: "ready" in running.out, 20, "the program")
    os.kill(running.pid, signal.SIGSTOP)
    wait_for(lambda: state_of(running.pid) == "T", 30, "it to be stopped")
    profile = record("-p", running.pid, "-d", "500ms")
    os.kill(running.pid, signal.SIGCONT)
    assert profile.count == 0, profile.top()
