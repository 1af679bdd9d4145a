"""The rows of `make bench`: for each, a load, Sonde and its peers over it in turn, and the figures side by side.

Whatever is compared runs in alternating order (Sonde first, then the peers; in the next round the other way round), so that a machine
that grows busier or warmer does not favour anybody; each figure is the median of the rounds."""
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from statistics import median

import measure
import stacks
from measure import Observer, median_cost, quiet, running, which

TOP = Path(__file__).resolve().parent.parent
SUBJECTS = TOP / "build/subjects"
HZ = 99
GRAPH = ("-g",)
DWARF = ("--call-graph", "dwarf")
PYTHON_LOAD = """
def walk(n): return 0 if n == 0 else 1 + walk(n - 1)
print("ready", flush=True)
while True: [walk(40) for _ in range(200)]; sorted(str(i) for i in range(2000))
"""
# Two hundred processes that wake, work a millisecond and sleep again.
SLEEPERS = """
import os, time
for _ in range(199):
    if os.fork() == 0: break
else: print("ready", flush=True)
while True:
    ends = time.process_time() + 0.001
    while time.process_time() < ends: pass
    time.sleep(0.2)
"""
WORKSHOP = f"""
echo ready
cd {TOP}
while :; do
    gcc -O2 -D_GNU_SOURCE -S -o /dev/null tests/subjects/deep.c
    python3 -c 'import json, ast; [ast.parse(open(ast.__file__).read()) for _ in range(3)]'
    openssl speed -seconds 1 sha256 2>/dev/null
    git log --stat -n 60
done >&2
"""
WORKSHOP_COMMANDS = ("gcc", "cc1", "as", "python3", "openssl", "git", "sh")


class Bench:
    def __init__(self, options):
        self.options, self.seconds, self.rows, self.folder = options, options.seconds, [], Path(tempfile.mkdtemp(prefix="sonde-bench-"))
        self.sonde = Path(options.sonde)
        self.lock = self.folder / "lock"
        self.lock.touch()

    def row(self, what, sonde, *peers, target="", ratio=None):
        """One line of the table; `ratio` is Sonde's figure over the first peer's."""
        self.rows.append((what, sonde, *peers, *[""] * (3 - len(peers)), f"{ratio:.2f}" if ratio is not None else "", target))
        print("  " + " | ".join(filter(None, map(str, self.rows[-1]))), flush=True)

    def in_turn(self, ways, rounds=None):
        """Calls the functions of {name: function} in alternating order; {name: [what they returned]}."""
        found = {name: [] for name in ways}
        for number in range(rounds or self.options.rounds):
            for name in list(ways)[::-1 if number % 2 else 1]:
                found[name].append(ways[name]())
        return found

    # --- the observers, each over the whole node for the same time -------------------------------------------------------------

    def record(self, hz=HZ, scope=("-a",), seconds=None, ours=lambda name: True):
        path = self.folder / "sonde.pb.gz"
        path.unlink(missing_ok=True)
        with Observer([self.sonde, "record", *scope, "-F", hz, "-d", seconds or self.seconds, "-o", path], path) as observer:
            cost = observer.wait()
        complain("sonde record", cost)
        cost.samples, cost.whole, cost.good = stacks.quality(stacks.of_pprof(path, lambda labels: ours(labels.get("process", ""))))
        return cost

    def perf(self, graph, hz=HZ, scope=("-a",), seconds=None, ours=lambda name: True):
        """perf record and then perf script: the sum of both. Without build ids and BPF programs: that saves perf work, and Debian 12's
        perf 6.1 smashes its stack over BPF programs that are loaded while it records; then it gets another try."""
        for attempt in range(3):
            try:
                return self.perf_once(graph, hz, scope, seconds, ours)
            except measure.Ended:
                if attempt == 2:
                    raise

    def perf_once(self, graph, hz, scope, seconds, ours):
        path = self.folder / "perf.data"
        path.unlink(missing_ok=True)
        with Observer([*perf_record(path, hz, scope, graph), "--", "sleep", seconds or self.seconds], path) as observer:
            cost = observer.wait()
        complain("perf record", cost)
        cost.script_s, text = quiet([which("perf"), "script", "--no-inline", "--max-stack", "1024", "-i", path, "-F", "comm,pid,ip,sym,dso"])
        cost.cpu_s += cost.script_s
        cost.samples, cost.whole, cost.good = stacks.quality(stacks.of_perf_script(text, lambda comm, pid: ours(comm)))
        return cost

    def bpftrace(self, hz=HZ, seconds=None):
        program = f"profile:hz:{hz} {{ @[kstack, ustack, comm] = count(); }} interval:s:{seconds or self.seconds} {{ exit(); }}"
        with Observer([which("bpftrace"), "-e", program]) as observer:
            return observer.wait()

    def up(self, *settings):
        """A started `sonde up`, and its port."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        command = [self.sonde, "up", "--listen", f"127.0.0.1:{port}", *[word for setting in settings for word in ("--set", setting)]]
        return Observer(measure.with_own_lock(command, self.lock)), port

    @staticmethod
    def get(port, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
                return reply.read().decode(errors="replace")
        except (urllib.error.URLError, OSError):
            return None

    # --- rows ------------------------------------------------------------------------------------------------------------------

    def loads(self):
        python = ["python3", "-c", PYTHON_LOAD]
        yield "a busy Python", python, lambda name: name.startswith("python")
        yield "C, 300 frames deep, no frame pointers", [SUBJECTS / "deep", 300, 600], lambda name: name == "deep"
        yield "200 processes that wake and sleep", ["python3", "-c", SLEEPERS], lambda name: name.startswith("python")
        yield "gcc, Python, OpenSSL, git in turn", ["sh", "-c", WORKSHOP], lambda name: name in WORKSHOP_COMMANDS

    def costs(self):
        """CPU, memory, bytes and quality while profiling loads at 99 Hz."""
        for name, command, ours in self.loads():
            with running(*command, ready="ready"):
                time.sleep(0.5)
                found = self.in_turn({
                    "sonde": lambda: self.record(ours=ours),
                    "graph": lambda: self.perf(GRAPH, ours=ours),
                    "dwarf": lambda: self.perf(DWARF, ours=ours),
                    "trace": self.bpftrace,
                })
            sonde, graph, dwarf, trace = (median_cost(costs) for costs in found.values())
            peers = [f"{peer.cpu_s - peer.script_s:.2f} + {peer.script_s:.2f} script" for peer in (graph, dwarf)]
            record_s = max(graph.cpu_s - graph.script_s, 1e-3)
            self.row(f"CPU s of {self.seconds}, {name}", f"{sonde.cpu_s:.2f} + {sonde.bpf_s:.2f} BPF", *peers,
                     f"{trace.cpu_s:.2f} + {trace.bpf_s:.2f} BPF", ratio=sonde.total_s / record_s, target="<= 1 (without script)")
            self.row("  ... with perf's script", f"{sonde.total_s:.2f}", f"{graph.cpu_s:.2f}", f"{dwarf.cpu_s:.2f}", f"{trace.total_s:.2f}",
                     ratio=sonde.total_s / max(graph.cpu_s, 1e-3))
            self.row("  ... resident + BPF, MiB", *map(memory, (sonde, graph, dwarf, trace)), ratio=(sonde.resident + sonde.bpf_bytes) / max(graph.resident, 1))
            self.row("  ... bytes written, KiB", *(f"{cost.out_bytes / 1024:.0f}" for cost in (sonde, graph, dwarf)), ratio=sonde.out_bytes / max(graph.out_bytes, 1))
            self.row("  ... samples of the load", *(f"{cost.samples:.0f}" for cost in (sonde, graph, dwarf)), ratio=sonde.samples / max(graph.samples, 1))
            self.row("  ... whole (reach the thread's entry)", *(f"{cost.whole:.1%}" for cost in (sonde, graph, dwarf)))
            self.row("  ... whole and named in every frame", *(f"{cost.good:.1%}" for cost in (sonde, graph, dwarf)), target=">= 99 %")

    def short_lived(self):
        """650 processes of 10 ms each: the samples of them that each observer saw of the same storm."""
        names = ("storm-child", "exe")
        data, ours, text = self.folder / "storm.data", self.folder / "storm.pb.gz", self.folder / "bpftrace.txt"
        program = f"profile:hz:{HZ} /comm == \"exe\" || comm == \"storm-child\"/ {{ @[comm] = count(); }}"
        with Observer([*perf_record(data, HZ, ("-a",), GRAPH), "--", "sleep", 600]) as perf, \
                Observer([self.sonde, "record", "-a", "-F", HZ, "-o", ours]) as sonde, \
                Observer([which("bpftrace"), "-o", text, "-e", program]) as trace:
            time.sleep(3)
            storm = subprocess.run([SUBJECTS / "storm", "650", "10"], capture_output=True, text=True, timeout=300)
            time.sleep(1)
            trace.stop()
            complain("sonde record", sonde.stop())
            perf.stop()
        cpu_s = int(re.search(r"cpu_ns (\d+)", storm.stdout)[1]) / 1e9
        try:
            theirs = stacks.count_of_perf(quiet([which("perf"), "script", "-i", data, "-F", "comm"])[1], names)
        except measure.Ended:
            theirs = None
        seen = sum(map(int, re.findall(r"@\[[^]]*\]: (\d+)", text.read_text())))
        count, _, good = stacks.quality(stacks.of_pprof(ours, lambda labels: labels.get("process") in names))
        self.row(f"samples of 650 processes of 10 ms ({cpu_s:.1f} s of CPU)", count, "its script crashed" if theirs is None else theirs, "", seen,
                 ratio=count / max(seen if theirs is None else theirs, 1), target=">= 99 % of perf's")
        self.row("  ... whole and named", f"{good:.1%}", target=">= 99 %")

    def start(self):
        """From the start of `sonde up` to the first profile that holds samples, and the CPU spent until then."""
        def ours():
            began = time.monotonic()
            observer, port = self.up()
            with observer:
                if not observer.until(lambda: "deep_leaf" in (self.get(port, "/api/v1/profile?format=folded") or ""), 30):
                    raise RuntimeError("no profile within 30 s")
                took, used = time.monotonic() - began, observer.used_s()
                complain("sonde up", observer.stop())
            return took, used

        def peer(observe):
            began = time.monotonic()
            cost = observe()
            return time.monotonic() - began, cost.total_s

        with running(SUBJECTS / "deep", 30, 600, ready="ready"):
            found = self.in_turn({"sonde": ours, "perf": lambda: peer(lambda: self.perf(GRAPH, seconds=1)), "trace": lambda: peer(lambda: self.bpftrace(seconds=1))})
        took, used = ([median(run[i] for run in runs) for runs in found.values()] for i in range(2))
        self.row("s to the first profile (peers: of one second)", f"{took[0]:.2f}", f"{took[1]:.2f}", "", f"{took[2]:.2f}", target="<= 2")
        self.row("CPU s until then", f"{used[0]:.2f}", f"{used[1]:.2f}", "", f"{used[2]:.2f}", target="<= 0.3", ratio=used[0] / max(used[1], 1e-3))

    def depth(self):
        """The cost of a sample as frames grow from 10 to 500. perf -g gets a program with frame pointers: without, it has no stack."""
        seconds = max(3, self.seconds // 3)
        for frames in (10, 100, 300, 500):
            with running(SUBJECTS / "deep", frames, 600, ready="ready") as load, running(SUBJECTS / "deep-frame-pointers", frames, 600, ready="ready") as framed:
                scope, framed_scope = ("-p", str(load.pid)), ("-p", str(framed.pid))
                found = self.in_turn({
                    "sonde": lambda: self.record(999, scope, seconds),
                    "graph": lambda: self.perf(GRAPH, 999, framed_scope, seconds),
                    "dwarf": lambda: self.perf(("--call-graph", "dwarf,32768"), 999, scope, seconds),
                })
            us, bpf_us = ({name: median(getattr(cost, what) / max(cost.samples, 1) * 1e6 for cost in costs) for name, costs in found.items()} for what in ("total_s", "bpf_s"))
            self.row(f"us a sample, {frames} frames", f"{us['sonde']:.1f} ({bpf_us['sonde']:.1f} BPF)", f"{us['graph']:.1f}", f"{us['dwarf']:.1f}",
                     ratio=us["sonde"] / max(us["graph"], 1e-9))

    def idle(self):
        """`sonde up` as it is by default (19 Hz, requests on) on a machine that does nothing else, after it has settled."""
        def ours():
            observer, port = self.up()
            with observer:
                observer.until(lambda: self.get(port, "/healthz"), 20)
                time.sleep(5)
                before = observer.used_s()
                time.sleep(self.seconds)
                used = observer.used_s() - before
                complain("sonde up", observer.stop())
            return used

        found = self.in_turn({"sonde": ours, "perf": lambda: self.perf(GRAPH, 19).cpu_s})
        sonde, perf = (median(used) for used in found.values())
        self.row("% of one CPU when idle (perf -g at 19 Hz)", f"{sonde / self.seconds:.2%}", f"{perf / self.seconds:.2%}", target="<= 0.3 %", ratio=sonde / max(perf, 1e-3))

    def memory(self):
        """`sonde up` with 200 processes that wake and sleep."""
        with running("python3", "-c", SLEEPERS, ready="ready"):
            observer, _ = self.up()
            with observer:
                time.sleep(max(15, self.seconds))
                cost = observer.stop()
            complain("sonde up", cost)
            with Observer([*perf_record(self.folder / "perf.data", 19, ("-a",), GRAPH), "--", "sleep", self.seconds]) as observer:
                perf = observer.wait()
        total = cost.resident + cost.bpf_bytes
        self.row("MiB resident + BPF, up, 200 processes", f"{memory(cost)} = {total / 2**20:.1f}", memory(perf), target="<= 64", ratio=total / max(perf.resident, 1))

    def nginx(self):
        """Requests a second of one nginx worker at saturation, rounds alternating; the median of each."""
        configuration = self.nginx_files()
        pair = ["-e", "tracepoint:raw_syscalls:sys_enter /0/ { } tracepoint:raw_syscalls:sys_exit /0/ { }"]

        def load(seconds):
            done = subprocess.run([which("wrk"), "-t1", "-c16", "-d", f"{seconds}s", "http://127.0.0.1:18080/"], capture_output=True, text=True)
            return float(re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)[1])

        def watched(observer, port=None):
            with observer:
                if port:
                    observer.until(lambda: self.get(port, "/healthz"), 20)
                time.sleep(8 if port else 2)  # what starting costs is another row
                rate = load(max(3, self.seconds // 4))
                complain(observer.command[0], observer.stop())
            return rate

        # As users have it: counting takes two looks at the clock for every run of a program.
        with measure.bpf_statistics(False), running(which("nginx"), "-c", configuration):
            if not measure.wait_until(lambda: self.get(18080, "/"), 10):
                raise RuntimeError("nginx does not answer: " + (configuration.parent / "error.log").read_text()[-300:])
            load(1)
            found = self.in_turn({
                "off": lambda: load(max(3, self.seconds // 4)),
                "requests": lambda: watched(*self.up()),
                "profile only": lambda: watched(*self.up("requests.enabled=false")),
                "bare system-call tracepoints": lambda: watched(Observer([which("bpftrace"), *pair])),
            })
        off = median(found["off"])
        for way, rates in list(found.items())[1:]:
            figure = f"{median(rates):.0f} of {off:.0f}, {1 - median(rates) / off:+.1%} lost"
            bare = way.startswith("bare")
            self.row(f"nginx requests/s, {way}", "" if bare else figure, *(["", "", figure] if bare else []), target="<= 5 % lost" if way == "requests" else "")
        self.row("  ... spread of the rounds with nothing attached", f"{min(found['off']):.0f} to {max(found['off']):.0f}")

    def nginx_files(self):
        folder = self.folder / "nginx"
        (folder / "html").mkdir(parents=True)
        (folder / "html/index.html").write_text("hello\n")
        folder.chmod(0o755)
        self.folder.chmod(0o755)
        temporary = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        path = folder / "nginx.conf"
        path.write_text(f"""
            daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{ worker_connections 256; }}
            http {{ access_log off; keepalive_requests 100000000; {temporary}
                    server {{ listen 127.0.0.1:18080; location / {{ root {folder}/html; }} }} }}""")
        return path

    ROWS = {"costs": costs, "short-lived": short_lived, "start": start, "depth": depth, "idle": idle, "memory": memory, "nginx": nginx}


def perf_record(path, hz, scope, graph):
    return [which("perf"), "record", "-B", "-N", "--no-bpf-event", "-q", *scope, "-e", "cpu-clock", "-F", hz, *graph, "-o", path]


def complain(what, cost):
    """Ended as it was asked to, or by itself and well?"""
    if cost.status not in (0, -signal.SIGINT, -signal.SIGTERM, 130):
        raise measure.Ended(f"{what} ended with {cost.status}: {cost.error}")


def memory(cost):
    return f"{cost.resident / 2**20:.1f} + {cost.bpf_bytes / 2**20:.1f}" if cost.bpf_bytes else f"{cost.resident / 2**20:.1f}"
