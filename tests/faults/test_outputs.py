"""Outputs that cannot be written: the message has the path and the reason, and existing files are left alone. The recorded event occurs once in a
shell, at its start, so that no timing decides whether there is a sample."""
import json
import os
import re
import resource
import subprocess
from pathlib import Path

import pytest

import pprof
from harness.machine import need_command, skip
from harness.processes import wait_for
from harness.recording import FIRED

SHELL = ["--event", FIRED, "--", "sh", "-c"]  # calls getppid() once at its start



def record(sonde, *arguments, **options):
    return subprocess.run([sonde, "record", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, errors="replace", **options)


@pytest.mark.sanitized
def test_missing_output_directory_is_an_error(sonde, root, tmp_path):
    """Detected before the recording starts: the command must not even run."""
    mark = tmp_path / "ran"
    done = record(sonde, "-o", tmp_path / "no/such/p.pb.gz", "--", "touch", mark)
    assert done.returncode == 1 and "no/such/p.pb.gz" in done.stderr and "No such file or directory" in done.stderr, done
    assert not mark.exists()


def test_directory_as_output_is_an_error(sonde, root, tmp_path):
    folder = tmp_path / "x.pb.gz"
    folder.mkdir()
    done = record(sonde, "-o", folder, "--", "true")
    assert done.returncode == 1 and "is a directory" in done.stderr.lower(), done


def test_unknown_format_is_an_error(sonde, root, tmp_path):
    done = record(sonde, "-o", tmp_path / "x.tiff", "--", "true")
    assert done.returncode in (1, 2) and ".pb.gz" in done.stderr and ".folded" in done.stderr, done


def rescued_file(done, suffix):
    """The path, from the message, of a profile that was saved elsewhere because the output could not be written."""
    place = Path(re.search(r"it is kept in (\S+) instead", done.stderr)[1])
    assert place.name.startswith("sonde-") and place.name.endswith(suffix) and place.stat().st_mode & 0o77 == 0, place
    return place


@pytest.mark.sanitized
def test_profile_is_written_without_free_descriptors(sonde, root, run, tmp_path):
    """The profile is written although the recorded command took every free descriptor."""
    path, mark = tmp_path / "p.folded", tmp_path / "ran"
    go_on = tmp_path / "go-on"
    recording = run(sonde, "record", "-o", path, *SHELL, f"touch {mark}; while [ ! -e {go_on} ]; do sleep 0.01; done; exec sh -c :")
    wait_for(mark.exists, 60, "the command")
    open_ones = {int(fd.name) for fd in Path(f"/proc/{recording.pid}/fd").iterdir()}
    lowest = min(set(range(len(open_ones) + 1)) - open_ones)  # the next descriptor to be assigned
    resource.prlimit(recording.pid, resource.RLIMIT_NOFILE, (lowest, lowest))
    go_on.touch()
    assert recording.wait(60) == 0, recording.error
    assert re.search("^sh;", path.read_text(), re.MULTILINE), recording.error


@pytest.mark.sanitized
def test_full_disk_keeps_the_old_profile(sonde, root, small_disk, tmp_path):
    """The old profile survives, no partial file is left behind, and the recorded data is saved elsewhere."""
    disk = small_disk(64)
    old = disk / "p.pb.gz"
    old.write_bytes(b"old")
    try:
        (disk / "filler").write_bytes(b"x" * (1 << 20))
    except OSError:
        pass
    done = record(sonde, "-o", old, *SHELL, ":", env=dict(os.environ, TMPDIR=str(tmp_path)))
    assert done.returncode == 1 and "No space left on device" in done.stderr, done
    kept = rescued_file(done, ".pb.gz")
    assert kept.parent == tmp_path and any(s.labels["process"] == "sh" for s in pprof.read(kept)[0]), done
    assert old.read_bytes() == b"old"
    assert {p.name for p in disk.iterdir()} == {"p.pb.gz", "filler"}


@pytest.mark.sanitized
def test_full_disk_for_event_records_keeps_the_profile(sonde, root, small_disk, tmp_path):
    """The profile is complete all the same; the event records on the disk can be replayed."""
    wire, profile = small_disk(64) / "wire", tmp_path / "p.folded"
    events = "for i in $(seq 2000); do (:); done; exec sh -c :"  # more process event records than fit on the disk
    done = record(sonde, "--record-events", wire, "-o", profile, *SHELL, events)
    assert done.returncode == 1 and "No space left on device" in done.stderr and "--record-events stops here" in done.stderr, done
    assert re.search("^sh;", profile.read_text(), re.MULTILINE), done
    again = record(sonde, "--replay", wire, "-o", tmp_path / "again.folded")
    assert again.returncode == 0, again  # "damaged", unless the disk was full exactly between two records
    assert wire.stat().st_size > 1 << 15, wire.stat()


@pytest.mark.sanitized
def test_full_standard_output_is_an_error(sonde, root, tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sonde, "record", "-o", "-", *SHELL, ":"], stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60, env=dict(os.environ, TMPDIR=str(tmp_path)))
    assert done.returncode == 1 and "standard output" in done.stderr and "No space left on device" in done.stderr, done
    assert rescued_file(done, ".folded").read_text().startswith("sh;")


@pytest.mark.parametrize("closed, where", [("<&-", [0]), ("<&- >&- 2>&-", [0, 1, 2])])
def test_closed_standard_descriptors_are_not_reused(sonde, root, tmp_path, closed, where):
    """Descriptors opened later (sockets, maps, the profile itself) do not get these numbers, and messages do not end up in them."""
    out, seen = tmp_path / "out.folded", tmp_path / "seen"
    look = f"for i in 0 1 2; do readlink /proc/$PPID/fd/$i; done >{seen}"
    done = subprocess.run(["sh", "-c", f'exec "$0" record -o {out} -- sh -c "$1" {closed}', sonde, look], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and out.exists()
    standard = seen.read_text().splitlines()
    assert len(standard) == 3 and {standard[i] for i in where} == {"/dev/null"}, standard


def test_a_closed_output_is_an_error(sonde, root, tmp_path):
    done = subprocess.run(["sh", "-c", 'exec "$0" record -o - "$@" >&-', sonde, *SHELL, ":"], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, TMPDIR=str(tmp_path)))
    assert done.returncode == 1 and "standard output" in done.stderr and "Bad file descriptor" in done.stderr, done


def test_closed_pipe_ends_the_recording(sonde, root):
    done = subprocess.run(["bash", "-c", f"set -o pipefail; '{sonde}' record -o - {' '.join(SHELL)} : | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert int(done.stdout) in (0, 1, 141), done  # exits, and not by a crash
    assert "kept in" not in done.stderr, done


@pytest.mark.sanitized
def test_symbolic_links_are_followed(sonde, root, tmp_path):
    """Like cp: the target file is replaced, the links stay."""
    (tmp_path / "there").mkdir()
    target = tmp_path / "there/real.folded"
    target.write_text("old")
    (tmp_path / "there/second").symlink_to("real.folded")
    link = tmp_path / "link.folded"
    link.symlink_to("there/second")
    done = record(sonde, "-o", link, *SHELL, ":")
    assert done.returncode == 0 and target.read_text().startswith("sh;"), done
    assert link.is_symlink() and (tmp_path / "there/second").is_symlink() and not target.is_symlink()


@pytest.mark.parametrize("leads_to, said", [("nowhere.folded", "which does not exist"), ("link.folded", "Too many levels of symbolic links")],
                         ids=["nowhere", "itself"])
def test_broken_symbolic_links_are_errors(sonde, root, tmp_path, leads_to, said):
    link, mark = tmp_path / "link.folded", tmp_path / "ran"
    link.symlink_to(leads_to)
    done = record(sonde, "-o", link, "--", "touch", mark)
    assert done.returncode == 1 and str(link) in done.stderr and said in done.stderr, done
    assert not mark.exists() and os.listdir(tmp_path) == ["link.folded"]


@pytest.mark.parametrize("own_first", [False, True])
def test_links_of_another_user_in_a_sticky_directory_are_refused(sonde, root, tmp_path, own_first):
    """What another user may prepare in /tmp for root; the kernel's own protection may be off."""
    shared, precious = tmp_path / "shared", tmp_path / "precious.folded"
    shared.mkdir()
    shared.chmod(0o1777)
    precious.write_text("precious")
    (shared / "p.folded").symlink_to(precious)
    os.lchown(shared / "p.folded", 65534, 65534)
    asked = shared / "p.folded"
    if own_first:
        asked = tmp_path / "own.folded"
        asked.symlink_to(shared / "p.folded")
    done = record(sonde, "-o", asked, "--", "true")
    assert done.returncode == 1 and "link of another user" in done.stderr, done
    assert precious.read_text() == "precious"
    done = record(sonde, "--record-events", asked, "-o", tmp_path / "p.folded", "--", "true")
    assert done.returncode == 1 and "link of another user" in done.stderr, done
    assert precious.read_text() == "precious"


@pytest.mark.sanitized
def test_replaced_pipe_is_not_followed(sonde, root, tmp_path):
    """Data goes to the pipe that existed when the recording began, never to the target of a link that replaced it."""
    fifo, other = tmp_path / "p.folded", tmp_path / "other"
    os.mkfifo(fifo)
    os.mkfifo(other)
    script = f"rm '{fifo}'; ln -s '{other}' '{fifo}'"
    reader = os.open(other, os.O_RDONLY | os.O_NONBLOCK)
    done = record(sonde, "-o", fifo, *SHELL, script, env=dict(os.environ, TMPDIR=str(tmp_path)))
    assert done.returncode == 1 and str(fifo) in done.stderr, done
    assert os.read(reader, 100) == b""
    os.close(reader)
    assert rescued_file(done, ".folded").read_text().startswith("sh;")


@pytest.mark.parametrize("arguments, said", [
    (["-d", "5ms", "-F", 10, "-C", "sleepless"], ["no thread is named 'sleepless'"]),
    (["-d", "1ms", "-F", 1, "-p", "SLEEPER"], ["1.00 s"]),  # the recording may have lasted more than a second too
    (["-F", 10, "-p", "SLEEPER", "-d", "300ms"], ["a sample is due every 100 ms of CPU time (-F 10)"]),
    (["-C", "a-name-that-is-cut-by-the-kernel", "-d", "300ms"], ["no selected thread was sampled on a CPU"]),
], ids=["no such thread", "too short", "idle", "a long name"])
def test_empty_profile_is_explained(sonde, root, run, tmp_path, arguments, said):
    sleeper = run("bash", "-c", "echo -n a-name-that-is-cut-by-the-kernel > /proc/$$/comm; kill -STOP $$")
    wait_for(lambda: Path(f"/proc/{sleeper.pid}/stat").read_text().split()[1:3] == ["(a-name-that-is-)", "T"], 30, "it to be stopped")
    done = record(sonde, *(sleeper.pid if a == "SLEEPER" else a for a in arguments), "-o", tmp_path / "p.json")
    assert done.returncode == 0 and ": 0 samples" in done.stderr, done
    why = json.loads((tmp_path / "p.json").read_text())["sonde"]["nothing"]
    assert f"sonde: warning: record: {why}\n" in done.stderr and all(words in why for words in said), (done, why)
    assert ("no thread" in done.stderr) == ("sleepless" in arguments), done


def test_read_only_root_file_system(sonde, root, tmp_path):
    """All file systems but one are read-only: records into that one, refuses the others, leaves nothing elsewhere."""
    need_command("unshare")
    inside = tmp_path / "rw"
    inside.mkdir()
    script = (f"mount -t tmpfs none {inside} && mount -o remount,bind,ro / && cd / && "
              f"'{sonde}' record -o {inside}/p.folded {' '.join(SHELL)} :; echo status $?; cat {inside}/p.folded; "
              f"'{sonde}' record -o /p.folded -- true; echo status $?")
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
    if "status" not in done.stdout:
        skip("no read-only root can be made: " + done.stderr.strip()[-200:])
    assert "status 0" in done.stdout and "\nsh;" in done.stdout and done.stdout.endswith("status 1\n"), done
    assert "Read-only file system" in done.stderr, done.stderr


def test_removed_working_directory(sonde, root, tmp_path):
    """Started in a directory that has been removed."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && '{sonde}' record -o {tmp_path}/p.folded -- true; echo status $?"
    done = subprocess.run(["sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=dict(os.environ))
    assert "status 0" in done.stdout, done
