"""A bare Debian 12 (debootstrap, chroot) for the tests of this folder. Needs root.

The base system is built once, under build/fresh, and copied for each use. A child process mounts file systems in a copy, in a mount namespace
of its own: outside of it, where copies are removed, no mount of this machine can be reached through them."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
FRESH = TOP / "build/fresh"


def say(outcome, name, why=""):
    print(f"{outcome} fresh/{name}" + (f": {' '.join(why.split())[-300:]}" if why else ""), flush=True)
    return outcome != "FAIL"


def call(*command, **options):
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", **options)


def make_base():
    """Debian's base system, the two packages that the README's commands require, and this machine's network settings: name servers and trusted
    certificates."""
    base = FRESH / "base"
    if (base / "complete").exists():
        return base, ""
    remove(base)
    FRESH.mkdir(parents=True, exist_ok=True)
    done = call("debootstrap", "--variant=minbase", "--include=ca-certificates,make,git", "bookworm", base)
    if done.returncode != 0:
        return None, "debootstrap: " + (done.stdout + done.stderr)
    for path in ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt", "root/.npmrc", "etc/pip.conf"):
        if Path("/", path).exists():
            (base / path).unlink(missing_ok=True)
            shutil.copy(Path("/", path), base / path)
    for path in Path("/etc/apt/apt.conf.d").glob("*proxy*"):
        shutil.copy(path, base / "etc/apt/apt.conf.d")
    (base / "complete").touch()
    return base, ""


def processes_in(root):
    """PIDs of the processes whose root it is."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "root") == str(root):
                yield int(process.name)


def remove(folder):
    """Ends what still runs there, in a session of its own: it would go on writing."""
    while pids := list(processes_in(folder)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=True)


def copy_base(base, root):
    remove(root)
    subprocess.run(["cp", "-a", "--reflink=auto", base, root], check=True)


def mount_kernel(root):
    """Mounts what a machine has mounted, in this process's own mount namespace. /dev is created anew: the machine's own stays out of reach."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "dev", root / "dev"], check=True)
    for name, major, minor in (("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)):
        os.mknod(root / "dev" / name, 0o020666, os.makedev(major, minor))
        os.chmod(root / "dev" / name, 0o666)
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{target}", root / "dev" / name)
    for folder in ("shm", "pts"):
        (root / "dev" / folder).mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "shm", root / "dev/shm"], check=True)
    subprocess.run(["mount", "-t", "devpts", "-o", "newinstance,ptmxmode=0666", "devpts", root / "dev/pts"], check=True)
    os.symlink("pts/ptmx", root / "dev/ptmx")
    for folder in ("proc", "sys"):
        subprocess.run(["mount", "--rbind", "--make-rslave", f"/{folder}", root / folder], check=True)


def in_root(root, place, command, log):
    keep = {name: value for name, value in os.environ.items() if re.search("proxy|cert|ca_bundle|cainfo", name, re.I)}
    env = dict(keep, PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", HOME="/root", LC_ALL="C.UTF-8")
    return subprocess.Popen(["chroot", root, "sh", "-c", f"cd '{place}' && exec {command}"], env=env, stdin=subprocess.DEVNULL, stdout=log,
                            stderr=subprocess.STDOUT, start_new_session=True)


def stop(process):
    """Ends the process and all of its children."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)


def missing_tools():
    """Why a bare system cannot be made here; "": it can."""
    missing = [tool for tool in ("debootstrap", "chroot", "git", "unshare") if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    return f"not installed: {', '.join(missing)}" if missing else "needs root" if os.geteuid() != 0 else ""


def run_inside(program, *arguments):
    """Runs `program` again in a mount namespace of its own. Returns whether it succeeded."""
    return subprocess.run(["unshare", "--mount", "--propagation", "private", program, *arguments]).returncode == 0
