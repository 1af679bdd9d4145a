"""The environment of the requests: a slow disk, a cgroup, CPU hogs, and decoys."""
import contextlib
import itertools
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

DISK_BYTES_PER_SECOND = 4 << 20
DIRECT_BYTES, MAPPED_BYTES = 8 << 20, 32 << 20
PERIOD_US, QUOTA_US = 100_000, 10_000
HOG = ["sh", "-c", "while :; do :; done"]
cgroup_numbers = itertools.count(1)
REMOTE = ("loss", "interrupts")  # need a RemoteService


class Cgroup:
    """A cgroup of ours, in either version: one directory, or one for each controller."""

    def __init__(self):
        name_of_ours = f"sonde-causes-{os.getpid()}-{next(cgroup_numbers)}"
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        self.folders = {}
        for _, path, kind, options, *_ in mounts:
            for name, controller in (("cpu", "cpu"), ("io", "blkio"), ("memory", "memory")):
                if kind == "cgroup2" and name in (Path(path) / "cgroup.controllers").read_text().split():
                    with contextlib.suppress(OSError):
                        (Path(path) / "cgroup.subtree_control").write_text(f"+{name}")
                        self.folders[name] = (Path(path) / name_of_ours, True)
                elif kind == "cgroup" and controller in options.split(","):
                    self.folders.setdefault(name, (Path(path) / name_of_ours, False))
        for folder, _ in self.folders.values():
            folder.mkdir(exist_ok=True)

    def enter(self):
        """The calling process enters; for preexec_fn."""
        for folder, _ in self.folders.values():
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def limit_disk(self, device):
        if "io" not in self.folders:
            return False
        folder, unified = self.folders["io"]
        number = os.stat(device).st_rdev
        place = f"{os.major(number)}:{os.minor(number)}"
        if unified:
            (folder / "io.max").write_text(f"{place} rbps={DISK_BYTES_PER_SECOND}")
        else:
            (folder / "blkio.throttle.read_bps_device").write_text(f"{place} {DISK_BYTES_PER_SECOND}")
        return True

    @contextlib.contextmanager
    def quota(self):
        folder, unified = self.folders["cpu"]

        def limit(quota):
            if unified:
                (folder / "cpu.max").write_text(f"{quota or 'max'} {PERIOD_US}")
            else:
                (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (folder / "cpu.cfs_quota_us").write_text(str(quota or -1))
        limit(QUOTA_US)
        try:
            yield
        finally:
            limit(0)

    def remove(self):
        for folder in {folder for folder, _ in self.folders.values()}:
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.02)


@contextlib.contextmanager
def slow_disk(folder, cgroup):
    """A file system with the files `direct` and `mapped`, on a loop device that the cgroup reads slowly. Without loop devices or a controller, files in
    `folder`. Yields (its directory, whether it is slow)."""
    place, device = folder / "disk", ""
    place.mkdir()
    with tempfile.NamedTemporaryFile(dir=folder) as image:
        image.truncate(DIRECT_BYTES + MAPPED_BYTES + (16 << 20))
        done = subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image.name], stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode == 0:
            device = subprocess.run(["losetup", "--find", "--show", image.name], capture_output=True, text=True).stdout.strip()
        mounted = bool(device) and subprocess.run(["mount", device, place], capture_output=True).returncode == 0
        try:
            for name, size in (("direct", DIRECT_BYTES), ("mapped", MAPPED_BYTES)):
                (place / name).write_bytes(os.urandom(size))
            subprocess.run(["sync", "-f", place], check=True)
            yield place, mounted and cgroup.limit_disk(device)
        finally:
            for _ in range(100 if mounted else 0):
                if subprocess.run(["umount", place], capture_output=True).returncode == 0:
                    break
                time.sleep(0.05)
            if device:
                subprocess.run(["losetup", "-d", device], check=False)


@contextlib.contextmanager
def processes(commands, cpu=None):
    """Each in a session of its own, so that autogroup scheduling treats them separately."""
    started = [subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, preexec_fn=lambda: cpu is None or os.sched_setaffinity(0, {cpu}))
               for command in commands]
    time.sleep(0.3)
    try:
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGKILL)
            process.wait()


def pin(pids, cpus):
    """Pins all threads of the processes `pids`; threads created later inherit it."""
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), cpus)


@contextlib.contextmanager
def pinned(server, cpu, meanwhile):
    """The server on one CPU, and what `meanwhile` sets up."""
    everywhere = os.sched_getaffinity(0)
    pin(server.pids(), {cpu})
    try:
        with meanwhile:
            yield
    finally:
        pin(server.pids(), everywhere)


def hogs(server, cpu_of_server, cpu_of_hogs):
    """Three hogs on a CPU, and the server on one."""
    return pinned(server, cpu_of_server, processes([HOG] * 3, cpu_of_hogs))


@contextlib.contextmanager
def around(name, server, remote, memory):
    """The injection or decoy of that name (catalogue.Cause.around) for a running server. `remote`: the RemoteService, or None; `memory`: the ShortMemory,
    or None."""
    cpus = sorted(os.sched_getaffinity(0))
    if name == "hog":
        made = hogs(server, cpus[-1], cpus[-1])
    elif name == "hog_elsewhere":
        made = hogs(server, cpus[-1], cpus[0])
    elif name == "quota":
        made = server.cgroup.quota()
    elif name == "disk_elsewhere":
        made = processes([["sh", "-c", f"while dd if={server.folder}/direct of=/dev/null bs=64k iflag=direct status=none; do sleep 0.02; done"]] * 2)
    elif name == "interrupts":
        made = pinned(server, cpus[-1], remote.storm(cpus[0], cpus[-1]))
    elif name == "loss":
        made = remote.loss()
    elif name == "memory":
        made = memory.limit(server.cgroup)
    elif name == "lock_elsewhere":
        made = server.contended_lock()
    else:
        made = contextlib.nullcontext()
    with made:
        yield
