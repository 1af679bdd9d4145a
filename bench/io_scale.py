"""What an agent that counts I/O needs where there are many jobs: memory and CPU with 10,000 cgroups that each did some I/O, and the time of a scrape of
50,000 series. The cgroups are real ones, in the hierarchy that jobs are found in, each with a process in it that creates, writes, reads and closes a file."""
import re
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import measure

CONTROLLERS = ("memory", "cpuacct", "cpu", "pids", "devices")  # the first one that is mounted (src/sources/sampling/task_filters.c); else cgroup v2
JOBS = 10000
SERIES = 50000
SCRAPES = 9
MAP_FULL = 'sonde_self_losses_total{reason="map_full"}'
WORK = """
import os, sys
top, first, last, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
for i in range(first, last):
    os.mkdir(f"{top}/job_{i}")
    with open(f"{top}/job_{i}/cgroup.procs", "w") as procs:
        procs.write("0")
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * 4096)
    os.pread(fd, 4096, 0)
    os.close(fd)
    os.unlink(path)
open(f"{top}/cgroup.procs", "w").write("0")
"""


def hierarchy():
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    for controller in CONTROLLERS:
        for _, point, kind, options, *_ in mounts:
            if kind == "cgroup" and controller in options.split(","):
                return Path(point)
    return next(Path(point) for _, point, kind, *_ in mounts if kind == "cgroup2")


class Jobs:
    """The cgroups of jobs 0 to `count`, made by `grow`."""

    def __init__(self, data):
        self.data, self.count = data, 0
        self.top = hierarchy() / "slurm-sonde-bench/uid_0"

    def __enter__(self):
        self.top.mkdir(parents=True)
        return self

    def grow(self, count):
        subprocess.run([sys.executable, "-c", WORK, self.top, str(self.count), str(count), self.data], check=True)
        self.count = count

    def __exit__(self, *_):
        for folder in [*self.top.glob("job_*"), self.top, self.top.parent]:
            for _ in range(100):  # until the process in it is gone
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.02)


class Agent:
    def __init__(self, observer, port):
        self.observer, self.port = observer, port

    def page(self):
        """(ms, text) of a scrape."""
        start = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as reply:
            body = reply.read()
        return 1000 * (time.monotonic() - start), body.decode()

    def newest_page(self):
        """When it no longer changes in size: the agent collects less often where that takes long."""
        sizes = [-1]
        while len(sizes) < 30:
            _, text = self.page()
            sizes.append(series_of_io(text))
            if sizes[-1] == sizes[-2] and len(sizes) > 11:
                break
            time.sleep(1)
        return text


@contextmanager
def agent(sonde, folder):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    lock = folder / "lock"
    lock.touch()
    command = [sonde, "agent", "--listen", f"127.0.0.1:{port}", "--set", "io.enabled=true", "--set", "budget.one_cpu=1000%"]
    with measure.Observer(measure.with_own_lock(command, lock)) as observer:
        if not observer.until(lambda: measure.get(port, "/healthz"), 20):
            raise measure.Ended("the agent is not ready after 20 s")
        yield Agent(observer, port)


def value(page, name):
    return float(re.search(rf"^{re.escape(name)} (\S+)$", page, re.M)[1])


def series_of_io(page):
    return len(re.findall(r"^sonde_io_", page, re.M))


def mib(observer):
    resident, bpf = measure.resident_of(observer.pid), measure.bpf_of(observer.pid)[1]
    return f"{resident / 2**20:.1f} + {bpf / 2**20:.1f}"


def cpu_share(observer, seconds=20):
    before = measure.cpu_of(observer.pid)
    time.sleep(seconds)
    return f"{100 * (measure.cpu_of(observer.pid) - before) / seconds:.1f} %"


def of_scrapes(agent):
    """The least time of some scrapes, and the series of the last one."""
    pages = [agent.page() for _ in range(SCRAPES)]
    return min(ms for ms, _ in pages), series_of_io(pages[-1][1])


def of_agent(sonde, folder):
    """Rows (what, measured, to reach)."""
    with Jobs(folder / "file") as jobs, agent(sonde, folder) as a:
        time.sleep(3)
        yield "MiB of the agent + BPF maps, no jobs", mib(a.observer), ""
        yield "CPU of the agent, of one CPU, no jobs", cpu_share(a.observer, 10), ""
        before = series_of_io(a.newest_page())
        jobs.grow(100)
        of_job = (series_of_io(a.newest_page()) - before) / jobs.count
        jobs.grow(int((SERIES - before) / of_job) + 1)
        a.newest_page()
        ms, series = of_scrapes(a)
        yield f"a scrape of {series} series of {jobs.count} jobs, through HTTP", f"{ms:.0f} ms", "50 ms" if series < 1.1 * SERIES else ""
        yield f"MiB of the agent + BPF maps, {jobs.count} jobs", mib(a.observer), ""
        yield f"CPU of the agent, of one CPU, {jobs.count} jobs", cpu_share(a.observer), ""
        jobs.grow(JOBS)
        page = a.newest_page()
        yield f"MiB of the agent + BPF maps, {JOBS} cgroups", mib(a.observer), ""
        yield f"CPU of the agent, of one CPU, {JOBS} cgroups", cpu_share(a.observer), ""
        ms, series = of_scrapes(a)
        yield f"a scrape of {series} series of {JOBS} cgroups, through HTTP", f"{ms:.0f} ms", ""
        a.observer.look()
        yield "  ... the highest MiB of the agent + BPF maps", f"{a.observer.cost.resident / 2**20:.1f} + {a.observer.cost.bpf_bytes / 2**20:.1f}", ""
        yield "  ... entries that did not fit the kernel's tables, as reported", f"{value(page, MAP_FULL):.0f}", "> 0"
        yield "  ... series by job, mount and operation", f"{value(page, 'sonde_io_series'):.0f}", ""


def of_top(sonde, folder):
    """`sonde io`, which needs no agent."""
    with Jobs(folder / "file") as jobs, measure.Observer([sonde, "io", "--json", "-i", "1s", "-d", "1h"]) as observer:
        time.sleep(3)
        yield "MiB of `sonde io` + BPF maps, no jobs", mib(observer), ""
        jobs.grow(JOBS)
        time.sleep(3)
        yield f"MiB of `sonde io` + BPF maps, {JOBS} cgroups", mib(observer), ""
        yield f"CPU of `sonde io`, of one CPU, {JOBS} cgroups", cpu_share(observer), ""


def of_page(program):
    """The page alone, by the same code in a C program (io_scrape.c)."""
    for keys in (2128, 50000):
        said = subprocess.run([program, str(keys)], check=True, capture_output=True, text=True).stdout.split()
        found = dict(zip(said[::2], map(float, said[1::2])))
        parts = [found[part] for part in ("fill_ms", "copy_ms", "text_ms")]
        yield (f"a page of {found['series']:.0f} series, {found['bytes'] / 1e6:.0f} MB, without HTTP: collected + copied + written",
               " + ".join(f"{ms:.0f}" for ms in parts) + f" = {sum(parts):.0f} ms", "50 ms" if found["series"] < 1.1 * SERIES else "")
