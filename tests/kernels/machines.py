"""The machine that tests/kernels/run boots a kernel on, by architecture: the emulator, and the origin of the programs that run there. Those for
x86-64 are this system's own; those for arm64 are cross-compiled, and their libraries and busybox come from Debian's sysroot of
tests/arm64/build: there only libsonde's probes and their consumers are tested."""
import os
import re
import shutil
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
MEMORY = ["-smp", "2", "-m", "1536", "-nographic", "-monitor", "none", "-no-reboot", "-net", "none"]
KERNEL = "quiet loglevel=3 panic=-1 mitigations=off"


def output(*command):
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace").stdout


class Amd64:
    name, only = "amd64", ()
    tools = ("qemu-system-x86_64", "busybox")
    # Always software emulation: KVM inside a virtual machine may exist and not work, and a test should not depend on it. Both CPUs on one thread: in
    # parallel, QEMU 7.2 occasionally runs code that the kernel has just changed in its old form (a stray int3 when tracepoints are attached), and the
    # guest crashes. It also crashes when the flags after a cmpxchg16b are corrupted, with one thread or several: so the instruction is disabled. On a
    # busy machine timer interrupts may arrive too late for the kernel's check of them: it is disabled.
    emulator = ["qemu-system-x86_64", "-accel", "tcg,thread=single", "-cpu", "max,-cx16", *MEMORY]
    arguments = f"console=ttyS0 {KERNEL} no_timer_check"

    def __init__(self, build):
        self.build = build

    def prepare(self):
        """The reason why there is nothing to run, or None."""
        if not (self.build / "sonde").exists():
            return f"{self.build} has not been built"
        done = subprocess.run(["make", "-s", "-C", TOP / "tests/workloads", f"OUT={os.path.relpath(self.build / 'workloads', TOP / 'tests/workloads')}", "deep", "server"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace")
        return "the workloads do not build: " + done.stderr.strip()[-300:] if done.returncode else None

    def busybox(self):
        return Path(shutil.which("busybox"))

    def loaded_when_needed(self):
        """Libraries that `sonde up` and `sonde why` load themselves (ARCHITECTURE.md), which ldd does not list."""
        return [Path("/usr/lib/x86_64-linux-gnu", name) for name in ("libcurl.so.4", "libmicrohttpd.so.12")]

    def libraries(self, path):
        """The shared libraries of a program, its loader included, {target path: source path}; none when it is static."""
        return {Path(found): Path(found) for found in re.findall(r"(/\S+) \(0x", output("ldd", path))}


class Arm64:
    name, only = "arm64", ("usdt", "usdt-watch", "link", "link-attachments")  # of the suite bpf
    tools = ("qemu-system-aarch64", "aarch64-linux-gnu-gcc", "qemu-aarch64")
    emulator = ["qemu-system-aarch64", "-machine", "virt", "-accel", "tcg,thread=single", "-cpu", "max", *MEMORY]
    arguments = f"console=ttyAMA0 {KERNEL}"

    def __init__(self, _):
        self.build, self.sysroot = TOP / "build-arm64-probes", TOP / "build-arm64-probes-sysroot"

    def prepare(self):
        done = subprocess.run([TOP / "tests/arm64/build", "--probes"], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        return "no build for arm64: " + " ".join((done.stdout + done.stderr).split())[-300:] if done.returncode else None

    def busybox(self):
        return self.sysroot / "bin/busybox"

    def libraries(self, path):
        """Only direct dependencies: the dependencies of the libraries are resolved when the libraries are placed."""
        said = output("readelf", "-ldW", path)
        found = {}
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]|interpreter: .*/(.*)\]", said):
            name = "".join(name)
            place = next(place for place in ("lib", "lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu") if (self.sysroot / place / name).exists())
            found[Path("/", place, name)] = self.sysroot / place / name
        return found


def machine_of(version, build):
    """And the release of Debian's kernel without the architecture: "6.1", "6.1-arm64"."""
    release, _, architecture = version.partition("-")
    return (Arm64 if architecture == "arm64" else Amd64)(build), release
