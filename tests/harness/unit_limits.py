"""Runs a command with the rights that a systemd unit leaves it: `unit_limits.py UNIT COMMAND...`, in a mount namespace of its own, as root.

A stand-in for systemd, which is not process 1 where tests run. It applies the capability bounding set, the system call filter (with systemd's own
lists of calls), the address families, the network namespace, the ban on writable code, and the view of files: `/` read-only but for ReadWritePaths, no homes, a private
/tmp and /dev, and /proc without other users' processes."""
import ctypes
import errno
import os
import re
import subprocess
import sys
from pathlib import Path

PR_SET_NO_NEW_PRIVS = 38
ALLOW, ERRNO = 0x7FFF0000, 0x00050000  # of libseccomp
EQUAL, MASKED_EQUAL = 4, 7
PROT_WRITE, PROT_EXEC = 2, 4
CLONE_NEWNET = 0x40000000
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


class Argument(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint), ("operation", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def settings(path):
    """{key: [value, ...]} of a unit file; an empty value removes those before it."""
    found = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", Path(path).read_text(), re.M):
        found[key] = found.get(key, []) + [value] if value else []
    return found


def expand(name):
    """The system calls of one of systemd's sets, "@file-system"; a call is itself."""
    if not name.startswith("@"):
        return {name}
    lines = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    return set().union(*(expand(line.strip()) for line in lines if line.strip() and not line.strip().startswith("#")))


def allowed_calls(filters):
    calls = expand("@default")
    for line in filters:
        for name in line.removeprefix("~").split():
            calls = calls - expand(name) if line.startswith("~") else calls | expand(name)
    return calls


def load_filter(unit):
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ERRNO | errno.EPERM))

    def allow(call, *arguments):
        number = library.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:  # others are of another architecture
            done = library.seccomp_rule_add_array(context, ALLOW, number, len(arguments), (Argument * len(arguments))(*arguments))
            assert done == 0, (call, done)
    for call in allowed_calls(unit["SystemCallFilter"]) - {"socket", "mmap", "mprotect", "pkey_mprotect"}:
        allow(call)
    for family in unit["RestrictAddressFamilies"][0].split():
        allow("socket", Argument(0, EQUAL, FAMILIES[family], 0))
    for both in (0, PROT_WRITE, PROT_EXEC):
        allow("mmap", Argument(2, MASKED_EQUAL, PROT_WRITE | PROT_EXEC, both))
    for call in ("mprotect", "pkey_mprotect"):
        allow(call, Argument(2, MASKED_EQUAL, PROT_EXEC, 0))
    assert ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert library.seccomp_load(context) == 0


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def mount_own_view(unit, kept):
    """`kept`: a folder that stays visible, because the command is there."""
    assert unit["ProtectSystem"] == ["strict"] and unit["ProtectHome"] == ["yes"] and unit["ProtectProc"] == ["invisible"]
    hold = Path("/run/unit-limits")  # in this mount namespace only
    hold.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "hold", hold)
    for name in ("kept", "dev"):
        (hold / name).mkdir()
    mount("--bind", kept, hold / "kept")
    mount("-t", "tmpfs", "-o", "mode=755", "dev", hold / "dev")
    for name in DEVICES:
        (hold / "dev" / name).touch()
        mount("--bind", Path("/dev", name), hold / "dev" / name)
    mount("--rbind", hold / "dev", "/dev")
    for path in unit["ReadWritePaths"]:
        mount("--rbind", path, path)
    mount("-o", "remount,bind,ro", "/")
    for folder in ("/home", "/root", "/tmp"):
        if os.path.isdir(folder):
            mount("-t", "tmpfs", "private", folder)
    mount("-t", "proc", "-o", "hidepid=invisible", "proc", "/proc")
    return hold / "kept"


def main(path, command, *arguments):
    unit = settings(path)
    command = Path(command).resolve()
    kept = mount_own_view(unit, command.parent)
    if unit.get("PrivateNetwork") == ["yes"]:
        assert ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) == 0
    bounding = "-all," + ",".join("+" + name.removeprefix("CAP_").lower() for name in unit["CapabilityBoundingSet"][0].split())
    load_filter(unit)
    os.execvp("setpriv", ["setpriv", f"--bounding-set={bounding}", kept / command.name, *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
