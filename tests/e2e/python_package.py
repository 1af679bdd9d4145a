"""The Python package under test: the unpacked wheel, and programs that import it."""
import functools
import hashlib
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from harness.machine import need_command, sanitizers
from harness.paths import BUILD, TOP
from packages import exclusive

PYTHONS = sorted({path for name in ("python3.9", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14")
                  for path in [shutil.which(name, path="/usr/bin:/usr/local/bin"), *map(str, Path.home().glob(f".pyenv/versions/{name[6:]}.*/bin/{name}"))]
                  if path})
SYSTEM_PYTHON = "/usr/bin/python3"
# The system's interpreter, and those that pyenv has installed.
EVERY_PYTHON = [pytest.param(path, marks=() if path.startswith("/usr/bin/") else pytest.mark.peer, id="system" if path.startswith("/usr/bin/") else Path(path).name) for path in PYTHONS]


def digest_of_sources():
    """A digest of all source files of the wheel."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in ("bindings/python", "lib", "include") for path in (TOP / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        digest.update(f"{path.relative_to(TOP)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@functools.lru_cache
def unpacked():
    """The wheel of this tree, unpacked in the build directory; built once for all runs and lanes."""
    kept = BUILD / "python-package"
    with exclusive(kept):
        place = kept / digest_of_sources()
        if not (place / "complete").exists():
            shutil.rmtree(kept, ignore_errors=True)
            done = subprocess.run([TOP / "tools/make-wheel", place / "wheel"], capture_output=True, text=True, timeout=240)
            assert done.returncode == 0, done.stdout + done.stderr
            wheel, = (place / "wheel").glob("*.whl")
            assert re.fullmatch(r"sonde-[\d.]+-cp39-abi3-linux_\w+\.whl", wheel.name)
            shutil.unpack_archive(wheel, place / "package", "zip")
            (place / "complete").touch()
    return place / "package"


@functools.lru_cache
def sanitized(place, kinds):
    """The package with the libsonde of this build and its extension compiled with the same sanitizers."""
    shutil.copytree(TOP / "bindings/python/sonde", place / "package/sonde", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(BUILD / "lib/libsonde-otlp.so.1", place / "package/sonde")
    done = subprocess.run([need_command("gcc"), "-std=gnu17", "-O1", "-g", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-sanitize-recover=undefined",
                           *(f"-fsanitize={kind}" for kind in kinds), "-D_GNU_SOURCE", f"-I{TOP}/include", f"-I{sysconfig.get_path('include')}",
                           "-o", place / "package/sonde/_native.abi3.so", *(TOP / "bindings/python").glob("_*.c"), BUILD / "lib/libsonde.a", "-pthread"],
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return place / "package"


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """The directory with the unpacked wheel of `make python`. In a build with sanitizers, a copy that uses that build's libsonde."""
    kinds = tuple(sanitizers())
    return sanitized(tmp_path_factory.getbasetemp() / "python", kinds) if kinds else unpacked()


@functools.lru_cache
def env_of(package):
    """The environment of a Python program. Leak detection is off: the interpreter itself leaks at exit."""
    place = {"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin"}
    libraries = [subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, timeout=60).stdout.strip()
                 for kind, name in (("address", "libasan.so"), ("undefined", "libubsan.so")) if kind in sanitizers()]
    return {**place, "LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1"} if libraries else place


def python(package, program, interpreter=SYSTEM_PYTHON, *flags, arguments=()):
    """Runs a program (a path, or source text) that imports `sonde` and must exit with 0. Returns (standard output, standard error)."""
    command = [program, *map(str, arguments)] if isinstance(program, Path) else ["-c", program]
    done = subprocess.run([interpreter, *flags, *command], env=env_of(package), capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr
