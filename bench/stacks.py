"""How good the stacks are: the share of samples that reach the thread's entry and are named in every frame, ours and the peers'."""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import pprof  # noqa: E402

# Where threads begin: the C library's and the loader's entries, clone's other side, Go's, and the kernel's own threads.
ENTRIES = re.compile(r"(_start|_dl_start|_dl_start_user|__?clone3?|__clone_internal|start_thread|thread_start|runtime\.(goexit|mstart|rt0_go|mcall)(\.\w+)?|_rt0_\w+|"
                     r"ret_from_fork(_asm)?|kthread|vfork|__vfork)$")


def quality(stacks):
    """(samples, share whole, share whole and named) of [(frames root first, count)]."""
    total = whole = good = 0
    for frames, count in stacks:
        if not frames:
            frames = ["[truncated]"]
        total += count
        reaches = bool(ENTRIES.match(frames[0])) or all(f.startswith("[k]") for f in frames)
        named = not any(re.search(r"\+0x[0-9a-f]+$|^\[(unknown|truncated)|^0x[0-9a-f]+$|^$", f) for f in frames)
        whole += count * reaches
        good += count * (reaches and named)
    return total, whole / max(total, 1), good / max(total, 1)


def of_pprof(path, keep=lambda labels: True):
    samples, _ = pprof.read(path)
    return [(["[k]" + f if m.startswith("[") and m != "[vdso]" else f for f, m in zip(s.frames, s.mappings)], s.count) for s in samples if keep(s.labels)]


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
            frame = re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", line)
            if frame:
                kernel = frame[2].startswith("[") and frame[2] not in ("[vdso]", "[unknown]")
                frames.append(("[k]" if kernel else "") + frame[1])
        stacks.append((frames[::-1], 1))
    return stacks


def count_of_perf(text, comms):
    return sum(1 for line in text.splitlines() if line.strip() in comms)
