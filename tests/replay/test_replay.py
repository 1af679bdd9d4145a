"""Replay: what was recorded on the wire says the same again, without the kernel and without rights, as often as one likes."""
import os
import subprocess

import pytest

from conftest import need_command


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
    deep = subject("deep", "200", "20")
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
    deep = {stack: n for stack, n in expected.items() if stack.startswith("deep;")}
    assert sum(deep.values()) > 100
    assert {stack: n for stack, n in said.items() if stack.startswith("deep;")} == deep


def test_twice_is_equal(sonde, recorded, tmp_path):
    wire, _ = recorded
    replay(sonde, wire, tmp_path / "a.folded")
    replay(sonde, wire, tmp_path / "b.folded")
    assert (tmp_path / "a.folded").read_bytes() == (tmp_path / "b.folded").read_bytes()


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
