"""Stack quality: the share of samples that reach the thread's entry and have a name in every frame, for Sonde and its peers.

A stack reaches the entry when its root is a start function of threads, or lies at its file's entry point: stripped programs have no
name for it."""
import functools
import re
import struct

import pprof

# Where threads begin: entries of the C library and the loader, clone's child side, Go's, and the kernel's own threads.
ENTRIES = re.compile(r"(_start|_dl_start|_dl_start_user|(__)?clone3?|__clone_internal|start_thread|thread_start|runtime\.(goexit|mstart|rt0_go|mcall)(\.\w+)?|_rt0_\w+|"
                     r"ret_from_fork(_asm)?|kthread|(__)?vfork)$")
UNNAMED = re.compile(r"\+0x[0-9a-f]+$|^\[(unknown|truncated)|^0x[0-9a-f]+$|^$")
ENTRY_BYTES = 64  # upper bound for the size of _start in every C library
PAGE = 4096


@functools.cache
def entry_of(path):
    """The entry point of an ELF file, as an offset within its page; None if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
    except OSError:
        return None
    return struct.unpack_from("<Q", head, 24)[0] % PAGE if head[:5] == b"\x7fELF\x02" else None


def reaches_entry(frames):
    name, file, address = frames[0]
    if ENTRIES.match(name) or all(frame[0].startswith("[k]") for frame in frames):
        return True
    entry = entry_of(file)  # mappings move a file by whole pages
    return entry is not None and (address - entry) % PAGE < ENTRY_BYTES


def quality(stacks):
    """(samples, share whole, share whole and named) of [(frames root first: (name, file, address), count)]."""
    total = whole = good = 0
    for frames, count in stacks:
        total += count
        if frames and reaches_entry(frames):
            whole += count
            good += count * (not any(UNNAMED.search(name) for name, _, _ in frames))
    return total, whole / max(total, 1), good / max(total, 1)


def of_pprof(path, keep=lambda labels: True):
    samples, _ = pprof.read(path)
    return [([("[k]" * (file.startswith("[") and file != "[vdso]") + name, file, address) for name, file, address in zip(s.frames, s.mappings, s.addresses)], s.count)
            for s in samples if keep(s.labels)]


def of_python(path, pid):
    """(samples of a process, share of them whose Python frames begin in a module) of a pprof file."""
    total = whole = 0
    for sample in pprof.read(path)[0]:
        if sample.labels.get("pid") == pid:
            frames = [name for name, mapping, (file, _) in zip(sample.frames, sample.mappings, sample.sources) if file and not mapping]
            total += sample.count
            whole += sample.count * (frames[:1] == ["<module>"])
    return total, whole / max(total, 1)


def of_raw(text):
    """The same from py-spy's raw format: lines of frames, root first, and a count."""
    total = whole = 0
    for stack, count in (line.rsplit(" ", 1) for line in text.splitlines()):
        total += int(count)
        whole += int(count) * stack.startswith("<module>")
    return total, whole / max(total, 1)


def of_perf_script(text, keep=lambda comm, pid: True):
    """perf script -F comm,pid,ip,sym,dso: blocks of a head line and frames, leaf first."""
    stacks = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip("\n").splitlines()
        head = re.match(r"\s*(.*?)\s+(\d+)\s*:?\s*$", lines[0]) if lines else None
        if not head or not keep(head[1], int(head[2])) or head[2] == "0":
            continue
        frames = []
        for line in lines[1:]:
            frame = re.match(r"\s*([0-9a-f]+) (.*) \((.*)\)$", line)
            if frame:
                kernel = frame[3].startswith("[") and frame[3] not in ("[vdso]", "[unknown]")
                frames.append(("[k]" * kernel + frame[2], frame[3], int(frame[1], 16)))
        stacks.append((frames[::-1], 1))
    return stacks


def count_of_perf(text, comms):
    return sum(1 for line in text.splitlines() if line.strip() in comms)
