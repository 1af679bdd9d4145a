"""What measuring reclaim costs: the run time of the programs of Sonde's signal `reclaim` at a reclaim, compared with bpftrace's sum of the same times. The load
reads a file that is larger than the limit of its cgroup."""
import contextlib
import os
import subprocess
import time
from pathlib import Path

import losses
import measure

BEGIN, END = "mm_vmscan_memcg_reclaim_begin", "mm_vmscan_memcg_reclaim_end"
TIMES = f"tracepoint:vmscan:{BEGIN} {{ @since[tid] = nsecs; }} tracepoint:vmscan:{END} /@since[tid]/ {{ @[cgroup] = sum(nsecs - @since[tid]); }}"
LIMIT, FILE_BYTES, READS, ATTACH_S = 16 << 20, 64 << 20, 100, 3


@contextlib.contextmanager
def limited_cgroup():
    """Yields the file where a process writes its PID to enter."""
    v1 = Path("/sys/fs/cgroup/memory")
    folder = (v1 if v1.is_dir() else Path("/sys/fs/cgroup")) / f"sonde-bench-{os.getpid()}"
    folder.mkdir()
    try:
        limit = folder / ("memory.limit_in_bytes" if v1.is_dir() else "memory.max")
        if not limit.exists():
            raise measure.Ended("no memory controller")
        limit.write_text(str(LIMIT))
        yield folder / "cgroup.procs"
    finally:
        while True:
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.02)


def load(folder):
    """Reads a file of holes again and again."""
    path = folder / "reclaimed"
    with open(path, "wb") as file:
        file.truncate(FILE_BYTES)
    with limited_cgroup() as procs:
        subprocess.run(["sh", "-c", f'echo $$ > {procs}; for i in $(seq {READS}); do cat "{path}" > /dev/null; done'], check=True)
    path.unlink()


def beside(observer, folder):
    """{tracepoint: (runs, run time in ns)} of the observer's BPF programs during the load."""
    with observer:
        time.sleep(ATTACH_S)
        before = losses.runs_of(observer.pid)
        load(folder)
        after = losses.runs_of(observer.pid)
        observer.stop()
    return {name: (runs - before.get(name, (0, 0))[0], ns - before.get(name, (0, 0))[1]) for name, (runs, ns) in after.items()}


def ns_a_reclaim(runs):
    """Of the pair of programs. bpftrace's have no names."""
    pair = [runs[name] for name in ((BEGIN, END) if END in runs else ("",))]
    return 2 * sum(ns for _, ns in pair) / max(sum(count for count, _ in pair), 1)
