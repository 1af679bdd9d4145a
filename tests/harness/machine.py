"""Capabilities of this machine: permissions, commands, tracefs, ports, small disks. A test that cannot run here skips with the reason."""
import os
import random
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from harness.paths import BUILD

TRACEFS = Path("/sys/kernel/tracing")


def skip(why):
    """Skips the test that is running; `why` is printed with its name."""
    pytest.skip(why)


def need_root():
    if os.geteuid() != 0:
        skip("needs root")


def need_command(*names):
    """The path of the first command that exists; skips when none does."""
    for name in names:
        path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if path:
            return path
    skip(f"needs the command {' or '.join(names)}")


def sanitizers():
    """The sanitizers of this build of libsonde; a program that links it must use the same."""
    needed = subprocess.run([need_command("readelf"), "-d", BUILD / "lib/libsonde.so"], capture_output=True, text=True, timeout=60).stdout
    return [kind for kind, name in (("address", "libasan"), ("undefined", "libubsan"), ("thread", "libtsan")) if name in needed]


@pytest.fixture
def root():
    need_root()


@pytest.fixture(scope="session")
def tracefs():
    """Mounts tracefs, as perf and bpftrace need it; unmounts it again if it was not mounted."""
    need_root()
    mounted = False
    if not (TRACEFS / "events").is_dir():
        done = subprocess.run(["mount", "-t", "tracefs", "tracefs", str(TRACEFS)], capture_output=True, text=True)
        if done.returncode != 0:
            skip("tracefs cannot be mounted: " + done.stderr.strip())
        mounted = True
    yield TRACEFS
    if mounted:
        subprocess.run(["umount", "-l", str(TRACEFS)], check=False)


@pytest.fixture
def perf(tracefs):
    """A function that runs perf with arguments. Debian's perf is older than some kernels; that is sufficient here."""
    path = need_command("perf")
    probe = subprocess.run([path, "stat", "-e", "cpu-clock", "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        skip("perf does not work here: " + probe.stderr.strip()[-200:])
    return lambda *arguments, **options: subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                                                        errors="replace", **options)


_given_ports = []  # sockets that mark the ports as taken


def free_port():
    """A port that is given to no other test, in this process or in parallel ones: an agent binds it a second later. Below the kernel's ephemeral
    port range."""
    first_of_kernel = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        number = random.randrange(10000, max(first_of_kernel, 20000))
        given = socket.socket(socket.AF_UNIX)
        try:
            given.bind(f"\0sonde-test-port-{number}")  # an abstract socket lives as long as this process, and so does the port
            with socket.socket() as s:
                s.bind(("127.0.0.1", number))
        except OSError:
            given.close()
            continue
        _given_ports.append(given)
        return number


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def small_disk(tmp_path):
    """small_disk(KIB) mounts a file system of that size and returns its path."""
    place = tmp_path / "small"

    def mount(size_kib):
        need_root()
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "none", place], capture_output=True, text=True)
        if done.returncode != 0:
            skip("no tmpfs can be mounted: " + done.stderr.strip())
        return place
    yield mount
    if place.is_mount():
        subprocess.run(["umount", "-l", place], check=False)
