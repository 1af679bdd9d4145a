"""Places that cannot be written: said clearly, with the path and the reason, and what was there before is left alone."""
import os
import subprocess

import pytest

from conftest import need_command, need_root, skip, subject_path


def record(sonde, *arguments, **options):
    return subprocess.run([sonde, "record", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, errors="replace", **options)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB."""
    need_root()
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], capture_output=True, text=True)
    if done.returncode != 0:
        skip("no tmpfs can be mounted: " + done.stderr.strip())
    yield place
    subprocess.run(["umount", "-l", place], check=False)


def test_no_such_directory(sonde, root, tmp_path):
    """Known before the recording begins: the command must not even run."""
    mark = tmp_path / "ran"
    done = record(sonde, "-o", tmp_path / "no/such/p.pb.gz", "--", "touch", mark)
    assert done.returncode == 1 and "no/such/p.pb.gz" in done.stderr and "No such file or directory" in done.stderr, done
    assert not mark.exists()


def test_output_is_a_directory(sonde, root, tmp_path):
    folder = tmp_path / "x.pb.gz"
    folder.mkdir()
    done = record(sonde, "-o", folder, "--", "true")
    assert done.returncode == 1 and "is a directory" in done.stderr.lower(), done


def test_unknown_format(sonde, root, tmp_path):
    done = record(sonde, "-o", tmp_path / "x.tiff", "--", "true")
    assert done.returncode in (1, 2) and ".pb.gz" in done.stderr and ".folded" in done.stderr, done


def test_full_disk(sonde, root, small_disk):
    """The old profile survives; no half-written file stays behind."""
    old = small_disk / "p.pb.gz"
    old.write_bytes(b"old")
    try:
        (small_disk / "filler").write_bytes(b"x" * (1 << 20))
    except OSError:
        pass
    done = record(sonde, "-F", 199, "-o", old, "--", subject_path("deep"), 20, 1)
    assert done.returncode == 1 and "No space left on device" in done.stderr, done
    assert old.read_bytes() == b"old"
    assert {p.name for p in small_disk.iterdir()} == {"p.pb.gz", "filler"}


def test_full_disk_for_the_wire(sonde, root, small_disk, tmp_path):
    """The profile is whole all the same; what the disk holds of the wire can be replayed."""
    wire, profile = small_disk / "wire", tmp_path / "p.folded"
    done = record(sonde, "-F", 499, "--record-wire", wire, "-o", profile, "--", subject_path("deep"), 20, 1)
    assert done.returncode == 1 and "No space left on device" in done.stderr and "record of the wire" in done.stderr, done
    assert "deep;" in profile.read_text(), done
    again = record(sonde, "--replay", wire, "-o", tmp_path / "again.folded")
    assert again.returncode == 0 and "damaged" in again.stderr, again


def test_standard_output_full(sonde, root):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sonde, "record", "-o", "-", "--", subject_path("deep"), "5", "1"], stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "No space left on device" in done.stderr, done


def test_reader_goes_away(sonde, root):
    done = subprocess.run(["bash", "-c", f"set -o pipefail; '{sonde}' record -o - -- '{subject_path('deep')}' 50 1 | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert int(done.stdout) in (0, 1, 141), done  # ends; not by a fault


def test_read_only_root(sonde, root, tmp_path):
    """All file systems read-only but for one: records into that one, refuses the others, leaves nothing elsewhere."""
    need_command("unshare")
    inside = tmp_path / "rw"
    inside.mkdir()
    script = (f"mount -t tmpfs none {inside} && mount -o remount,bind,ro / && cd / && "
              f"'{sonde}' record -F 199 -o {inside}/p.folded -- '{subject_path('deep')}' 5 1; echo status $?; cat {inside}/p.folded; "
              f"'{sonde}' record -o /p.folded -- true; echo status $?")
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
    if "status" not in done.stdout:
        skip("no read-only root can be made: " + done.stderr.strip()[-200:])
    assert "status 0" in done.stdout and "deep_leaf" in done.stdout and done.stdout.endswith("status 1\n"), done
    assert "Read-only file system" in done.stderr, done.stderr


def test_no_working_directory(sonde, root, tmp_path):
    """Started in a directory that has been removed."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && '{sonde}' record -o {tmp_path}/p.folded -- true; echo status $?"
    done = subprocess.run(["sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=dict(os.environ))
    assert "status 0" in done.stdout, done
