"""`make` installs packages before it configures, and again after their list changes; the tools it calls are stubs."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
STAND_IN = """#!/bin/sh
echo "${{0##*/}} $*" >> {log}
[ "${{0##*/}}" != meson ] || {{ mkdir -p build && : > build/build.ninja; }}
"""


@pytest.fixture
def make(tmp_path):
    """make(target) -> the commands it called, in order."""
    log = tmp_path / "called"
    (tmp_path / "bin").mkdir()
    (tmp_path / "tools").mkdir()
    shutil.copy(TOP / "Makefile", tmp_path)
    shutil.copytree(TOP / "tools/packages", tmp_path / "tools/packages")
    for path in ("bin/meson", "bin/ninja", "tools/install-packages", "tools/as-root", "tools/run-tests"):
        (tmp_path / path).write_text(STAND_IN.format(log=log))
        (tmp_path / path).chmod(0o755)

    def call(target="all"):
        log.write_text("")
        done = subprocess.run(["make", target], cwd=tmp_path, env=dict(os.environ, PATH=f"{tmp_path}/bin:{os.environ['PATH']}"), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return log.read_text().splitlines()
    call.top = tmp_path
    return call


def test_packages_are_installed_without_a_build(make):
    assert make() == ["install-packages build", "meson setup build", "ninja -C build"]
    assert make() == ["ninja -C build"], "nothing has changed"


def test_packages_are_installed_after_their_list_changes(make):
    make()
    built = (make.top / "build/build.ninja").stat().st_mtime
    os.utime(make.top / "tools/packages/build.txt", (built + 10, built + 10))
    assert make() == ["install-packages build", "meson setup --reconfigure build", "ninja -C build"]
    os.utime(make.top / "tools/packages/test.txt", (built + 20, built + 20))
    os.utime(make.top / "build/build.ninja", (built + 20, built + 20))
    assert make() == ["ninja -C build"], "what tests need is no business of the build"


def test_run_builds_and_starts_the_page(make):
    assert make("run")[-2:] == ["ninja -C build", "as-root build/sonde up"]


def test_test_installs_its_packages_first(make):
    assert make("test") == ["install-packages build test", "run-tests "]


def test_every_group_of_packages_exists():
    groups = {group for line in re.findall(r"tools/install-packages (.*)", (TOP / "Makefile").read_text()) for group in line.split()}
    assert {"build", "test", "peers"} <= groups
    assert not [group for group in groups if not (TOP / f"tools/packages/{group}.txt").is_file()]
