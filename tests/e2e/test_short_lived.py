"""Processes that live for 10 ms, seen by Sonde and at the same time by a perf that looks at the whole node: as many samples as perf
has, each of them under its process, with its stack whole and named."""
import os
import re
import shutil
import subprocess

from conftest import Profile, need_command, subject_path

import pprof

HZ, PROCESSES, MILLISECONDS = 199, 300, 10
NAMELESS = re.compile(r"\+0x[0-9a-f]+$|^\[|^0x[0-9a-f]+$|^$")
# Where a process begins: in user space, or in the kernel while exec has not yet, or exit no longer, any user memory.
BEGINNINGS = re.compile(r"_start$|_dl_start(_user)?$|entry_SYSCALL_64|asm_|ret_from_fork|el0|__primary")


def perf_count(perf, data, name):
    """perf's samples of that command. Debian 12's perf sometimes dies over BPF programs that come and go, each of its readers in a place
    of its own; None if all do."""
    for arguments, count in ((("script", "-F", "comm,pid"), lambda line: line.rsplit(None, 1)[0].strip() == name),
                             (("report", "--stdio", "--no-children", "-F", "sample,comm"),
                              lambda line: int(line.split()[0]) if line.split()[1:] == [name] else 0)):
        done = perf(*arguments, "-i", data)
        if done.returncode == 0:
            return sum(count(line) for line in done.stdout.splitlines() if line.strip() and not line.startswith("#"))
    return None


def is_whole(sample):
    return BEGINNINGS.match(sample.frames[0]) and not any(NAMELESS.search(frame) for frame in sample.frames)


def is_placed(sample, path):
    """Under a pid and the file that it runs; in the middle of exec the new one may not be there yet."""
    return sample.labels.get("pid") and (sample.labels.get("process.executable.path") == str(path) or "do_execveat_common" in str(sample.frames))


def test_as_many_samples_as_perf(sonde, perf, root, tmp_path):
    storm, data, ours = tmp_path / f"storm-{os.getpid()}", tmp_path / "perf.data", tmp_path / "ours.pb.gz"
    shutil.copy(subject_path("storm"), storm)
    # One inside the other, so that both have begun before the storm does and end after it.
    theirs = [need_command("perf"), "record", "-B", "-N", "--no-bpf-event", "-q", "-a", "-e", "cpu-clock", "-F", HZ, "-o", data, "--"]
    command = [sonde, "record", "-F", HZ, "-o", ours, "--", *theirs, storm, PROCESSES, MILLISECONDS]
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, errors="replace")
    facts = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)
    assert done.returncode == 0 and facts.get("processes") == str(PROCESSES), done
    profile = Profile(*pprof.read(ours), done.stderr).of(process=storm.name)
    # A sampler's clock stands anywhere in its period when a thread gets the CPU: each stretch of running is worth a sample more or
    # less, with a variance of at most a quarter; that twice, and three of its roots.
    chance = 3 * (2 * (PROCESSES + int(facts["switches"])) / 4) ** 0.5
    theirs = perf_count(perf, data, storm.name)
    if theirs is None:
        theirs = int(facts["cpu_ns"]) * HZ / 1e9
    assert theirs > 0.5 * PROCESSES, f"perf saw {theirs} samples: {done.stderr[-1000:]}"
    assert profile.count >= 0.97 * theirs - chance, f"perf {theirs}, ours {profile.count}, by chance {chance:.0f}\n{done.stderr[-1500:]}"
    whole = profile.where(is_whole)
    assert whole.count >= 0.99 * profile.count - 2, profile.where(lambda s: not is_whole(s)).top()
    placed = profile.where(lambda s: is_placed(s, storm))
    assert placed.count == profile.count, profile.where(lambda s: not is_placed(s, storm)).top()
    busy = profile.where(lambda s: "storm_leaf" in s.frames)
    assert busy.share("main;storm_work;storm_leaf") == 1, busy.top()
    assert len({s.labels["pid"] for s in profile.samples}) > 0.5 * PROCESSES, "all of them in a few processes"
