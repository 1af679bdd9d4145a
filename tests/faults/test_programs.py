"""Programs that lie: ELF files whose tables are damaged but which run all the same, PIDs that are used again, processes that end in the
middle. The recorder must neither crash nor claim what is not so."""
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

import pprof
from harness.machine import need_command, skip
from harness.processes import cpu_seconds, wait_for
from harness.recording import Profile, is_recording, stack_matches
from harness.workloads import subject_path


def sections(data):
    """[(name, offset, size, position of its header)] of an ELF64 file."""
    at, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, at + i * size) for i in range(count)]
    start = headers[names][4]
    return [(data[start + h[0]:data.index(b"\0", start + h[0])].decode(), h[4], h[5], at + i * size) for i, h in enumerate(headers)]


def damage(data, what, seed):
    """The bytes with one thing damaged that the kernel does not need to run it."""
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


def enough(profile, hz=199):
    """How many samples the subject must have: by the CPU time that it says it got, which on a busy machine is little, and without those
    that the kernel withheld, as it does where somebody else samples too."""
    cpu_ns = sum(int(found) for found in re.findall(r"^cpu_ns (\d+)", profile.said, re.M))
    withheld = sum(int(found) for found in re.findall(r"(\d+) throttled", profile.said))
    return max(1, 0.8 * cpu_ns * hz / 1e9 - 3 - withheld)


@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_program(record, tmp_path, what, seed):
    program = tmp_path / "damaged"
    program.write_bytes(damage(subject_path("deep").read_bytes(), what, seed))
    program.chmod(0o755)
    profile = record("-F", 199, "--", program, 20, 1)
    assert profile.count >= enough(profile), profile.said
    mine = profile.where(lambda s: s.labels.get("process") == "damaged")
    assert mine.count >= enough(profile), profile.top()
    if what not in (".eh_frame", ".eh_frame_hdr"):
        return
    # Damaged rows must end in stacks that say that they are cut, or in whole ones: never in silence halfway.
    silent = mine.where(lambda s: not s.frames[0].startswith("[truncated") and s.frames[0] not in ("_start", "_dl_start", "_dl_start_user") and not s.frames[0].startswith("ld-linux"))
    assert silent.count <= 0.05 * mine.count, silent.top()


def test_garbage_that_calls_itself_a_debug_file(record, tmp_path):
    """A separate debug file that is not one, found by the debug link."""
    program = tmp_path / "deep-debuglink"
    shutil.copy(subject_path("deep-debuglink"), program)
    (tmp_path / ".debug").mkdir()
    (tmp_path / ".debug/deep-debuglink.debug").write_bytes(b"\x7fELF" + random.Random(3).randbytes(4096))
    profile = record("-F", 199, "--", program, 20, 1)
    assert profile.count >= enough(profile), profile.said


def test_pid_used_again(record, sonde, tmp_path, root):
    """Two programs under one PID in one recording: each keeps its own name and stack."""
    control = Path("/proc/sys/kernel/ns_last_pid")
    if not control.exists():
        skip("this kernel cannot choose PIDs (CONFIG_CHECKPOINT_RESTORE)")
    script = tmp_path / "twice.py"
    script.write_text(f"""
import os, sys
def start(command, pid):
    for _ in range(200):
        open("{control}", "w").write(str(pid - 1))
        child = os.fork()
        if child == 0:
            os.execv(command[0], command) if os.getpid() == pid else os._exit(99)
        if child == pid:
            return os.waitpid(child, 0)[1] == 0
        os.waitpid(child, 0)
    return False
first = os.fork()
if first == 0: os._exit(0)
os.waitpid(first, 0)
ok = start(["{subject_path('deep')}", "9", "1"], first) and start(["{subject_path('noreturn')}", "1"], first)
print("pid", first if ok else 0, flush=True)
""")
    profile = record("-F", 199, "--", "/usr/bin/python3", script)
    pid = int(profile.said.split("pid ")[-1].split()[0]) if "pid " in profile.said else 0
    if not pid:
        skip("the PID was taken by somebody else in between")
    mine = profile.of(pid=pid)
    for process, stack, other in (("deep", "recurse;deep_leaf", "never_returns"), ("noreturn", "ends_in_call;never_returns", "deep_leaf")):
        own = mine.of(process=process)
        assert own.share(stack) >= 0.93 and mine.count >= enough(profile), own.top()
        assert not own.where(lambda s, o=other: o in s.frames).count, own.top()


def test_process_ends_while_recorded(sonde, root, run, subject, tmp_path):
    running, path = subject("deep", 10, 600), tmp_path / "p.pb.gz"
    recording = run(sonde, "record", "-F", 199, "-p", running.pid, "-o", path)
    wait_for(lambda: is_recording(recording.pid) or not recording.alive, 60, "the recording")
    since = cpu_seconds(running.pid)
    wait_for(lambda: cpu_seconds(running.pid) > since + 0.5, 60, "some CPU time")
    running.running.stop()
    time.sleep(1)  # it goes on without it
    assert recording.alive and recording.stop(signal.SIGINT) == 0, recording.error
    profile = Profile(*pprof.read(path))
    assert profile.count > 30 and profile.where(lambda s: stack_matches(s.frames, "main;recurse")).count, profile.top()


def test_no_such_process(sonde, root, tmp_path):
    done = subprocess.run([sonde, "record", "-p", "4194000", "-d", "1", "-o", tmp_path / "p.folded"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert done.returncode in (1, 2) and "4194000" in done.stderr, done


def test_debugger_holds_the_program(record, run):
    """A stopped program has no samples; that is no error."""
    need_command("kill")
    running = run(subject_path("deep"), 5, 30)
    wait_for(lambda: "ready" in running.out, 20, "the program")
    os.kill(running.pid, 19)
    profile = record("-p", running.pid, "-d", 1)
    os.kill(running.pid, 18)
    assert profile.count <= 1, profile.top()
