"""Stacks of a running process as gdb and perf print them, in a form that can be compared with Sonde's frame by frame.

Only the peers' addresses are used: a function may have several names, and each peer prints another one. Names come from binutils: every symbol that `nm`
lists at the function's start, as spelled by `c++filt`. A frame of Sonde equals a peer's if it is in the same file, has one of the symbols
(or, without a name, the file and the address) and the same address."""
import bisect
import functools
import json
import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from harness.machine import need_command, skip
from harness.paths import TOP
from harness.processes import wait_for

KERNEL = 1 << 63


def _lines(*command, **options):
    return subprocess.run(list(map(str, command)), stdin=None if "input" in options else subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, errors="replace", **options).stdout.splitlines()


class Image:
    """An ELF file: its functions by address, and its loaded segments."""

    def __init__(self, path):
        self.loads = [tuple(int(word, 16) for word in line.split()[1:6]) for line in _lines("readelf", "-lW", path) if line.split()[:1] == ["LOAD"]]
        build_id = re.search(r"Build ID: ([0-9a-f]+)", "\n".join(_lines("readelf", "-n", path)))
        debug = Path(f"/usr/lib/debug/.build-id/{build_id[1][:2]}/{build_id[1][2:]}.debug") if build_id else None
        symbols = {}
        for command in (["nm", "-S", path], ["nm", "-SD", path], *([["nm", "-S", debug]] if debug and debug.exists() else [])):
            for line in _lines(*command):
                found = re.match(r"([0-9a-f]{16}) (?:([0-9a-f]{16}) )?[tTwWi] ([^@]+)", line)
                if found:
                    size, names = symbols.setdefault(int(found[1], 16), (0, set()))
                    symbols[int(found[1], 16)] = (max(size, int(found[2] or "0", 16)), names | {found[3]})
        self.starts = sorted(symbols)
        self.symbols = symbols

    def address_of(self, file_offset):
        for offset, virtual, _, size, _ in self.loads:
            if offset <= file_offset < offset + size:
                return file_offset - offset + virtual
        return file_offset

    def names_at(self, address):
        """All names of the function at an address, mangled; empty if none is known."""
        i = bisect.bisect_right(self.starts, address) - 1
        if i < 0:
            return frozenset()
        size, names = self.symbols[self.starts[i]]
        return frozenset(names) if address < self.starts[i] + size else frozenset()


@functools.lru_cache(maxsize=None)
def _image(path):
    """The Image of a mapping, by the kernel's path for it; None if it has no file."""
    if path == "[vdso]":  # the same in all processes: write our own to a file for binutils
        start, end = next([int(word, 16) for word in line.split()[0].split("-")] for line in open("/proc/self/maps") if line.rstrip().endswith(path))
        with open("/proc/self/mem", "rb") as memory, tempfile.NamedTemporaryFile() as copy:
            memory.seek(start)
            copy.write(memory.read(end - start))
            copy.flush()
            return Image(copy.name)
    return Image(path) if path.startswith("/") else None


def _names(path, address):
    image = _image(path)
    return _spelled(image.names_at(address)) if image else frozenset()


@functools.lru_cache(maxsize=None)
def _spelled(names):
    """c++filt keeps hashes that distinguish Rust crates and instances; they are not part of the name."""
    spelled = _lines("c++filt", "-p", input="\n".join(sorted(names)))
    return names | {re.sub(r"(?<=\w)\[[0-9a-f]{1,16}\]|::h[0-9a-f]{16}$", "", name) for name in spelled}


@dataclass(frozen=True)
class Place:
    """The location of a frame printed by a peer."""
    file: str
    address: int
    names: frozenset

    def is_named(self, name):
        name = re.sub(r" \[clone [^]]*\]$", "", name)  # `c++filt -p` drops this suffix
        if self.names:
            return name in self.names
        return name == f"{Path(self.file).name}+{self.address:#x}" or name.endswith("@plt")  # PLT entries have no symbol

    def __str__(self):
        return min(self.names, default=f"{Path(self.file).name}+{self.address:#x}")


class AddressSpace:
    """The mappings of a running process, or recorded ones: resolves addresses to places."""

    def __init__(self, pid, maps=None):
        self.mappings = []
        for line in (maps or Path(f"/proc/{pid}/maps").read_text()).splitlines():
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) \S+ +\d+ +(/.*|\[vdso\])", line)
            if found:
                self.mappings.append((int(found[1], 16), int(found[2], 16), int(found[3], 16), found[4]))

    def place(self, address):
        for start, end, offset, path in self.mappings:
            if start <= address < end:
                return self.place_in(path, address - start + offset)
        return Place("", address, frozenset())

    @staticmethod
    def place_in(path, file_offset):
        """A place as perf prints it: an offset in a mapped file."""
        at = _image(path).address_of(file_offset) if _image(path) else file_offset
        return Place(path, at, _names(path, at))

    def stack(self, frames):
        """Places, root first, of [(address, whether it is a signal frame)], leaf first. A return address follows the call: the byte before it is in
        the calling function, except in a frame interrupted by a signal."""
        places, exact = [], True
        for address, is_signal in frames:
            places.append(self.place(address if exact else address - 1))
            exact = is_signal
        return places[::-1]


def gdb(*arguments):
    """The gdb command line that prints stacks (gdb_frames.py)."""
    return [need_command("gdb"), "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set backtrace past-main on",
            "-ex", "set backtrace past-entry on", *arguments[:-1], "-x", str(TOP / "tests/gdb_frames.py"), *arguments[-1]]


def gdb_stacks(pid):
    """The stack of each thread as a list of Place, root first."""
    done = subprocess.run(gdb(["-p", str(pid)]), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, errors="replace")
    threads = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("frames ")]
    if not threads:
        skip("gdb sees no stack here: " + done.stderr.strip()[-200:])
    space = AddressSpace(pid)
    # At the end of a stack whose return address is 0 gdb shows one more frame at address 0, where there is no code.
    return [space.stack([frame for frame in frames if frame[0]]) for frames in threads]


def perf_stacks(perf, data, pid, by_copies):
    """[tuple of Place, root first] of perf's user-space samples of a running process; `by_copies`: perf unwound them itself, from copies of the
    stack (--call-graph dwarf)."""
    done = perf("script", "--no-inline", "-i", data, "--pid", pid, "-F", "tid,ip,sym,dso")
    if done.returncode != 0:  # Debian 12's perf crashes when BPF programs are loaded or unloaded while it records
        skip(f"perf script cannot read what perf recorded (status {done.returncode}): {done.stderr.strip()[-200:]}")
    space, stacks = AddressSpace(pid), []
    for block in done.stdout.split("\n\n"):
        frames = [(int(line.split()[0], 16), line[line.rindex("(") + 1:-1]) for line in block.strip().splitlines()[1:]]
        # In copies perf looks up the byte before a return address, as Sonde does; the kernel's own call chains have the return address.
        places = [space.place_in(file, at - (i > 0 and not by_copies)) for i, (at, file) in enumerate(frames) if at < KERNEL]
        if places:
            stacks.append(tuple(places[::-1]))
    return stacks


def places_of(sample):
    """The user-space frames of a sample of Sonde, from files and addresses only."""
    return tuple(Place(file, at, _names(file, at)) for file, at in zip(sample.mappings, sample.addresses) if at < KERNEL)


EVALUATOR = "_PyEval_EvalFrameDefault"


@functools.lru_cache(maxsize=None)
def _address_of(path, function):
    return next((at for at, (_, names) in _image(path).symbols.items() if function in names), None)


def with_evaluators(sample):
    """The sample as a tool without Python support shows it: each run of Python frames becomes the evaluator function, at any address."""
    frames, mappings, addresses = [], [], []
    homes = {file: _address_of(file, EVALUATOR) for file in sample.mappings if re.search(r"/(lib)?python3[^/]*$", file)}
    home, start = next(((file, at) for file, at in homes.items() if at), ("", 0))
    for name, file, at, (source, _) in zip(sample.frames, sample.mappings, sample.addresses, sample.sources):
        if not source or file:
            frames, mappings, addresses = [*frames, name], [*mappings, file], [*addresses, at]
        elif not frames or frames[-1] is not EVALUATOR:
            frames, mappings, addresses = [*frames, EVALUATOR], [*mappings, home], [*addresses, start]
    return replace(sample, frames=frames, mappings=mappings, addresses=addresses)


def functions(places):
    """The key for comparing stacks: function names, or the place of the call where a function has no name."""
    return tuple((place.file, str(place) if place.names or i < len(places) - 1 else "") for i, place in enumerate(places))


def same_frames(sample, places):
    """Whether a sample of Sonde (pprof.py) begins with these frames; for the last one only the function is compared."""
    if len(sample.frames) < len(places):
        return False
    ours = zip(sample.frames, sample.mappings, sample.addresses)
    return all(place.file == file and place.is_named(name) and (i == len(places) - 1 or place.address == address or name is EVALUATOR)
               for i, (place, (name, file, address)) in enumerate(zip(places, ours)))


def up_to(places, function):
    """The frames up to the last one of that function, the innermost that stays the same; None if it is not on the stack."""
    at = [i for i, place in enumerate(places) if function in place.names]
    return places[:at[-1] + 1] if at else None


def jstack(pid, names, innermost):
    """The stacks of threads by name, outermost method first, taken when all of them are in `innermost`."""
    seen = {}

    def is_seen():
        said = subprocess.run([need_command("jstack"), str(pid)], capture_output=True, text=True, timeout=120).stdout
        for part in said.split("\n\n"):
            frames = re.findall(r"^\s+at (?:[\w.]+@[^/]+/)?([^(]+)\(", part, re.M)[::-1]
            if frames[-1:] == [innermost]:
                seen.setdefault(part.partition('"')[2].partition('"')[0], frames)
        return names <= seen.keys()
    wait_for(is_seen, 200, "jstack to see the innermost method")
    return {name: seen[name] for name in names}
