"""A shortage of memory: the limit of a cgroup, and a swap device in memory that the kernel reclaims pages to."""
import contextlib
import os
import subprocess
from pathlib import Path

import programs

SWAP_BYTES = 512 << 20
MISSING_BYTES = 52 << 20  # so much less than it has does a cgroup get
ZRAM, ACCOUNTING = Path("/sys/class/zram-control"), Path("/proc/sys/kernel/task_delayacct")


class ShortMemory:
    """The swap device and the kernel's accounts of reclaim, until `stop`. Raises packages.Missing where this kernel has none."""

    def __init__(self):
        if not (ZRAM / "hot_add").exists() or not ACCOUNTING.exists():
            raise programs.packages.Missing("this kernel has no zram, or no delay accounting")
        self.accounted = ACCOUNTING.read_text()
        self.number = (ZRAM / "hot_add").read_text().strip()
        self.device = f"/dev/zram{self.number}"
        try:
            Path(f"/sys/block/zram{self.number}/disksize").write_text(str(SWAP_BYTES))
            if not os.path.exists(self.device):
                os.mknod(self.device, 0o060600, os.makedev(*map(int, Path(f"/sys/block/zram{self.number}/dev").read_text().split(":"))))
            for command in (["mkswap", self.device], ["swapon", self.device]):
                subprocess.run(command, check=True, capture_output=True)
            ACCOUNTING.write_text("1")
        except BaseException as error:
            self.stop()
            if isinstance(error, (OSError, subprocess.CalledProcessError)):
                raise programs.packages.Missing(f"no swap in memory: {error}") from error
            raise

    def stop(self):
        ACCOUNTING.write_text(self.accounted)
        subprocess.run(["swapoff", self.device], capture_output=True)
        Path(f"/sys/block/zram{self.number}/reset").write_text("1")
        (ZRAM / "hot_remove").write_text(self.number)

    @contextlib.contextmanager
    def limit(self, cgroup):
        """Meanwhile, the cgroup has a limit below its usage."""
        folder, unified = cgroup.folders["memory"]
        limit, anonymous = folder / ("memory.max" if unified else "memory.limit_in_bytes"), "anon" if unified else "total_rss"
        used = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        limit.write_text(str(int(used[anonymous]) - MISSING_BYTES))
        try:
            yield
        finally:
            limit.write_text("max" if unified else "-1")
