"""The rows of `make bench`: for each, a load, Sonde and its peers measured on it in turn, and the results side by side.

Measurements alternate (Sonde first, then the peers; in the next round in reverse), so that a machine that gets busier or warmer favours no observer,
and each value is the median of the rounds. Short-lived programs are observed by all at once, nginx in slices."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import churn
import libraries
import losses
import measure
import servers
import packages
import protocols
import reclaims
import stacks
import trace_summary
import waits
import wire
from measure import Observer, median_cost, quiet, running, which

TOP = Path(__file__).resolve().parent.parent
WORKLOADS = TOP / "build/workloads"
HZ = 99
TIME_STEP = str(1 << 20)  # ns, of otlp.timestamp_resolution: 1ms
GRAPH = ("-g",)
DWARF = ("--call-graph", "dwarf")
PYTHON_LOAD = """
def walk(n): return 0 if n == 0 else 1 + walk(n - 1)
print("ready", flush=True)
while True: [walk(40) for _ in range(200)]; sorted(str(i) for i in range(2000))
"""
# Two hundred processes that wake up, work for a millisecond and sleep again.
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
# The same, each in a library of its own, deep in its functions.
MAPPERS = """
import ctypes, os, random, sys, time
for i in range(199):
    if os.fork() == 0: break
else: i = 199
library = ctypes.CDLL(f"{sys.argv[1]}/library{i}.so")
functions = [library[f"f{n}"] for n in random.sample(range(int(sys.argv[2])), 200)]
if i == 199: time.sleep(2); print("ready", flush=True)
while True:
    ends = time.process_time() + 0.001
    while time.process_time() < ends: random.choice(functions)(40)
    time.sleep(0.2)
"""
WORKSHOP = f"""
echo ready
cd {TOP}
while :; do
    gcc -O2 -D_GNU_SOURCE -S -o /dev/null tests/workloads/deep.c
    python3 -c 'import json, ast; [ast.parse(open(ast.__file__).read()) for _ in range(3)]'
    openssl speed -seconds 1 sha256 2>/dev/null
    git log --stat -n 60
done >&2
"""
WORKSHOP_COMMANDS = ("gcc", "cc1", "as", "python3", "openssl", "git", "sh")


class Bench:
    def __init__(self, options):
        self.options, self.seconds, self.rows, self.folder = options, options.seconds, [], Path(tempfile.mkdtemp(prefix="sonde-bench-"))
        self.missed, self.subject = [], ""  # rows that missed their target; the last row that names its subject
        self.sonde = Path(options.sonde)
        self.lock = self.folder / "lock"
        self.lock.touch()

    def row(self, what, sonde, *peers, target="", met=True, ratio=None):
        """One line of the table; `ratio` is Sonde's value divided by the first peer's, `met` whether the target was reached."""
        about = self.subject + what.replace("  ...", ":") if what.startswith("  ...") else what
        if not what.startswith("  ..."):
            self.subject = what
        if target and not met:
            self.missed.append(f"{about}: {sonde}{f', {ratio:.2f} of the first peer' if ratio is not None else ''}; to reach {target}")
        self.rows.append((what, sonde, *peers, *[""] * (3 - len(peers)), f"{ratio:.2f}" if ratio is not None else "", target))
        print("  " + " | ".join(filter(None, map(str, self.rows[-1]))), flush=True)

    def in_turn(self, ways):
        """Calls the functions of {name: function} in alternating order; returns {name: [their results]}."""
        found = {name: [] for name in ways}
        for number in range(self.options.rounds):
            for name in list(ways)[::-1 if number % 2 else 1]:
                found[name].append(ways[name]())
        return found

    # --- the observers; each observes the whole node for the same time -------------------------------------------------------------

    def record(self, hz=HZ, scope=("-a",), seconds=None, ours=lambda name: True):
        path = self.folder / "sonde.pb.gz"
        path.unlink(missing_ok=True)
        with Observer([self.sonde, "record", *scope, "-F", hz, "-d", seconds or self.seconds, "-o", path], path) as observer:
            cost = observer.wait()
        raise_if_failed("sonde record", cost)
        cost.samples, cost.whole, cost.good = stacks.quality(stacks.of_pprof(path, lambda labels: ours(labels.get("process", ""))))
        return cost

    def perf(self, graph, hz=HZ, scope=("-a",), seconds=None, ours=lambda name: True):
        """perf record and then perf script: the sum of both. Without build ids and BPF programs: that saves perf work, and Debian 12's perf 6.1
        overflows its stack when BPF programs are loaded while it records; then it is retried."""
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
        raise_if_failed("perf record", cost)
        cost.script_s, text = quiet([which("perf"), "script", "--no-inline", "--max-stack", "1024", "-i", path, "-F", "comm,pid,ip,sym,dso"])
        cost.cpu_s += cost.script_s
        cost.samples, cost.whole, cost.good = stacks.quality(stacks.of_perf_script(text, lambda comm, pid: ours(comm)))
        return cost

    def bpftrace(self, hz=HZ, seconds=None):
        program = f"profile:hz:{hz} {{ @[kstack, ustack, comm] = count(); }} interval:s:{seconds or self.seconds} {{ exit(); }}"
        with Observer([which("bpftrace"), "-e", program]) as observer:
            return observer.wait()

    def py_spy(self, command, pid, seconds):
        path = self.folder / "py-spy.raw"
        with Observer([command, "record", "-r", HZ, "-d", seconds, "-p", pid, "-f", "raw", "-o", path], path) as observer:
            cost = observer.wait()
        raise_if_failed("py-spy", cost)
        cost.samples, cost.whole = stacks.of_raw(path.read_text())
        return cost

    def up(self, *options, lock=None):
        """A started `sonde up`, and its port."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        return Observer(measure.with_own_lock([self.sonde, "up", "--listen", f"127.0.0.1:{port}", *options], lock or self.lock)), port

    # --- rows ------------------------------------------------------------------------------------------------------------------

    def loads(self):
        """(name, command, whether its files have symbols (Debian's programs have none), a predicate on the names of its processes)."""
        python = ["python3", "-c", PYTHON_LOAD]
        yield "a busy Python", python, True, lambda name: name.startswith("python")
        yield "C, 300 frames deep, no frame pointers", [WORKLOADS / "deep", 300, 600], True, lambda name: name == "deep"
        yield "200 processes that wake and sleep", ["python3", "-c", SLEEPERS], True, lambda name: name.startswith("python")
        yield "gcc, Python, OpenSSL, git in turn", ["sh", "-c", WORKSHOP], False, lambda name: name in WORKSHOP_COMMANDS

    def costs(self):
        """CPU, memory, bytes and quality while profiling loads at 99 Hz."""
        for name, command, has_symbols, ours in self.loads():
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
                     f"{trace.cpu_s:.2f} + {trace.bpf_s:.2f} BPF", ratio=sonde.total_s / record_s, target="<= 1 (without script)", met=sonde.total_s <= record_s)
            self.row("  ... with perf's script", f"{sonde.total_s:.2f}", f"{graph.cpu_s:.2f}", f"{dwarf.cpu_s:.2f}", f"{trace.total_s:.2f}",
                     ratio=sonde.total_s / max(graph.cpu_s, 1e-3))
            self.row("  ... resident + BPF, MiB", *map(memory, (sonde, graph, dwarf, trace)), ratio=(sonde.resident + sonde.bpf_bytes) / max(graph.resident, 1))
            self.row("  ... bytes written, KiB", *(f"{cost.out_bytes / 1024:.0f}" for cost in (sonde, graph, dwarf)), ratio=sonde.out_bytes / max(graph.out_bytes, 1))
            self.row("  ... samples of the load", *(f"{cost.samples:.0f}" for cost in (sonde, graph, dwarf)), ratio=sonde.samples / max(graph.samples, 1))
            self.row("  ... whole (reach the thread's entry)", *(f"{cost.whole:.1%}" for cost in (sonde, graph, dwarf)), target=">= 99 %", met=sonde.whole >= 0.99)
            self.row("  ... whole and named in every frame" + ("" if has_symbols else " (most files have no symbols)"),
                     *(f"{cost.good:.1%}" for cost in (sonde, graph, dwarf)), target=">= 99 %" if has_symbols else "", met=sonde.good >= 0.99)

    def python(self):
        """The whole cost of profiling one busy Python at 99 Hz for 20 s (twice --seconds), compared with py-spy."""
        seconds = 2 * self.seconds
        command = packages.environment("py-spy", packages.PY_SPY, ["/usr/bin/python3", sys.executable]) / "py-spy"
        with running("python3", "-c", PYTHON_LOAD, ready="ready") as load:
            scope = ("-p", str(load.pid))

            def ours():
                cost = self.record(scope=scope, seconds=seconds)
                cost.samples, cost.whole = stacks.of_python(self.folder / "sonde.pb.gz", load.pid)
                return cost
            found = self.in_turn({"sonde": ours, "py-spy": lambda: self.py_spy(command, load.pid, seconds), "graph": lambda: self.perf(GRAPH, scope=scope, seconds=seconds)})
        sonde, py_spy, graph = (median_cost(costs) for costs in found.values())
        most_s = 0.1 * seconds / 20
        self.row(f"CPU s of {seconds}, one busy Python at {HZ} Hz", f"{sonde.cpu_s:.2f} + {sonde.bpf_s:.2f} BPF", f"{py_spy.cpu_s:.2f} py-spy",
                 f"{graph.cpu_s - graph.script_s:.2f} + {graph.script_s:.2f} script perf -g", ratio=sonde.total_s / py_spy.cpu_s, target=f"<= {most_s:.2f} s", met=sonde.total_s <= most_s)
        self.row("  ... resident + BPF, MiB", memory(sonde), f"{memory(py_spy)} py-spy", f"{memory(graph)} perf -g", ratio=(sonde.resident + sonde.bpf_bytes) / max(py_spy.resident, 1))
        self.row("  ... samples", f"{sonde.samples:.0f}", f"{py_spy.samples:.0f} py-spy", f"{graph.samples:.0f} perf -g", ratio=sonde.samples / max(py_spy.samples, 1))
        self.row("  ... whole in Python (reach the module)", f"{sonde.whole:.1%}", f"{py_spy.whole:.1%} py-spy", "none perf -g", target=">= 99 %", met=sonde.whole >= 0.99)

    def python_processes(self):
        """`sonde up`, settled, with 200 Python processes that wake and sleep, each in a library of its own, 1 GiB in total: with an unlimited CPU
        budget and the default memory budget; and with the default CPU budget."""
        files = libraries.make(self.folder, 200, 1 << 30)
        mib = sum(path.stat().st_size for path in files) >> 20
        with running("python3", "-c", MAPPERS, self.folder, libraries.FUNCTIONS, ready="ready"):
            for hz in (19, HZ):
                found = self.in_turn({"sonde": lambda: self.settled("-F", hz, "--set", "budget.one_cpu=1000%", after_s=15), "perf": lambda: self.perf(GRAPH, hz)})
                sonde, perf = median_cost([cost for cost, _ in found["sonde"]]), median_cost(found["perf"])
                share, total = sonde.cpu_s / self.seconds, sonde.resident + sonde.bpf_bytes
                most = max(0.05, min(0.5, 0.01 * os.cpu_count()))  # budget_default_one_cpu_share
                self.row(f"% of one CPU, up, 200 Python processes, {mib} MiB of libraries, {hz} Hz", f"{share:.2%}", f"{perf.cpu_s / self.seconds:.2%} with script",
                         target=f"<= {most:.0%}, its budget", met=share <= most, ratio=sonde.cpu_s / max(perf.cpu_s, 1e-3))
                self.row("  ... resident + BPF, MiB", f"{memory(sonde)} = {total / 2**20:.1f}", memory(perf), target="<= 64", met=total <= 64 << 20, ratio=total / max(perf.resident, 1))
            cost, detail = self.settled(after_s=90)  # the agent averages for a long time before it sheds detail
            self.row("% of one CPU, up with default settings, the same processes, after 90 s", f"{cost.cpu_s / self.seconds:.2%}", target=f"<= {most:.0%}, its budget",
                     met=cost.cpu_s / self.seconds <= most)
            self.row("  ... detail that its budget allows", detail)

    def off_cpu(self):
        """`sonde record --off-cpu` compared with bpftrace's offcputime (waits.py), on threads that switch a hundred thousand times per second."""
        watched = self.seconds + 4  # the observers run for longer than the measurement
        path, text = self.folder / "waits.pb.gz", self.folder / "bpftrace.txt"
        with running(measure.compile_program("switches.c", self.folder, "-pthread"), ready="ready") as load:
            def alone():
                """Switches per second by kind of thread; {kind: seconds of waiting per second}."""
                before = waits.account(load.pid)
                time.sleep(self.seconds)
                after = waits.account(load.pid)
                rates = {name: (kind.switches - before[name].switches) / self.seconds for name, kind in after.items()}
                return rates, {name: kind.waited_s(before[name], self.seconds) / self.seconds for name, kind in after.items()}

            def beside(command, seen):
                with Observer(command) as observer:
                    time.sleep(2.5)
                    rates, waited = alone()
                    cost = observer.wait()
                raise_if_failed(Path(command[0]).name, cost)
                return cost, rates, {name: s / watched / waited[name] for name, s in seen().items()}

            def ours(*options):
                return beside([self.sonde, "record", "--off-cpu", *options, "-p", load.pid, "-d", watched, "-o", path], lambda: waits.seen_by_us(path))

            found = self.in_turn({
                "alone": lambda: (None, *alone()),
                "sonde": ours,
                "chance": lambda: ours("--sample-waits", "1ms"),
                "trace": lambda: beside([which("bpftrace"), "-o", text, "-e", waits.program(load.pid, watched)], lambda: waits.seen_by_bpftrace(text.read_text())),
            })
        kinds = (waits.SLEEPING, waits.HANDING)
        rates, seen = ({name: {kind: median(run[i][kind] for run in runs) for kind in kinds} for name, runs in found.items()} for i in (1, 2))
        cost = {name: median_cost([run[0] for run in runs]) for name, runs in found.items() if name != "alone"}
        lost = {name: 1 - rates[name][waits.HANDING] / rates["alone"][waits.HANDING] for name in cost}
        switch_us = {name: cost[name].total_s / watched / sum(rates[name].values()) * 1e6 for name in cost}

        def compare(what, figures, form, **target):
            self.row(what, form(figures["sonde"]), f"{form(figures['trace'])} bpftrace", f"{form(figures['chance'])} --sample-waits 1ms", **target)
        thousands = sum(rates["alone"].values()) / 1000
        compare(f"CPU s of {watched}, off-CPU, {thousands:.0f} thousand switches a second", cost, lambda c: f"{c.cpu_s:.2f} + {c.bpf_s:.2f} BPF")
        compare("  ... us of CPU a switch, BPF included", switch_us, "{:.2f}".format, ratio=switch_us["sonde"] / switch_us["trace"], target="<= bpftrace's",
                met=switch_us["sonde"] <= switch_us["trace"])
        compare("  ... switches lost, of threads that keep a CPU busy", lost, "{:.1%}".format, ratio=lost["sonde"] / max(lost["trace"], 1e-3), target="<= bpftrace's",
                met=lost["sonde"] <= lost["trace"])
        compare("  ... resident + BPF, MiB", cost, memory, ratio=(cost["sonde"].resident + cost["sonde"].bpf_bytes) / (cost["trace"].resident + cost["trace"].bpf_bytes))
        for threads in kinds:
            share = {name: seen[name][threads] for name in cost}
            compare(f"  ... share of the waiting time in the kernel's accounting, threads that are {threads}", share, "{:.1%}".format, ratio=share["sonde"] / share["trace"],
                    target="98 to 102 %", met=0.98 <= share["sonde"] <= 1.02)

    def record_sizes(self):
        """Bytes sent for the samples that `sonde up` takes at 99 Hz of several programs in turn, compared with the reporter of OpenTelemetry's eBPF
        profiler on the same samples (tests/opentelemetry/profiler-wire)."""
        subprocess.run([TOP / "tests/opentelemetry/build", "profiler-wire"], check=True, stdout=subprocess.DEVNULL)

        lock = self.folder / "lock-beside"
        lock.touch()

        def agent(url, *options, **named):
            return self.up("-F", HZ, f"--set=otlp.profiles_endpoint={url}", *options, **named)[0]

        def smallest(url):
            return agent(url, "--set=otlp.timestamp_resolution=none", "--set=otlp.system_names=false", "--set=otlp.compression=zstd", lock=lock)

        for name, command, *_ in self.loads():
            with running(*command, ready="ready"):
                cost, packets, cost_of_smallest = wire.record(agent, smallest, 6 * self.seconds)
            raise_if_failed("sonde up", cost)
            raise_if_failed("sonde up", cost_of_smallest)
            named, nameless, often, exact, default, bare = (wire.measured(self.folder, packets, *options) for options in (
                ("-names",), (), ("-names", "-window", "5s"), ("-names", "-step", TIME_STEP), ("-window", "5s", "-step", TIME_STEP), ("-bare",)))
            ours = wire.of_ours(packets, named.samples)

            def compare(about, what, left, right, *others, **target):
                ratio = left.each(what) / right.each(what)
                self.row(about, left.format(what), f"{right.format(what)} ebpf-profiler", *others, ratio=ratio, **target, met=not target or ratio <= 0.5)
            compare(f"MB by gzip for a million samples, {name} ({ours.samples} of the node)", "gzip", ours, named,
                    f"{often.format('gzip')} ... in windows of its 5 s", target="<= 0.5")
            compare("  ... not compressed", "plain", ours, named, f"{often.format('plain')} ... in windows of its 5 s", target="<= 0.5")
            compare("  ... by gzip, both without names of native functions, which the peer leaves to its backend", "gzip", bare, nameless)
            compare("  ... by gzip, each with its own timestamps: Sonde's in steps of a millisecond, the peer's in nanoseconds", "gzip", ours, exact)
            compare("  ... by gzip, each with its defaults: Sonde in windows of 60 s, with names; the peer in 5 s, without, in nanoseconds", "gzip", ours, default)
            compare("  ... Sonde's smallest settings: zstd, no timestamps, no system names; the peer as in the first row", "gzip", wire.sent_sizes(cost_of_smallest), named)
            compare("  ... the same; the peer with its defaults", "gzip", wire.sent_sizes(cost_of_smallest), default)

    def short_lived(self):
        """650 processes of 10 ms each: the number of their samples taken by each observer of the same run."""
        names = ("storm-child", "exe")
        data, ours, text = self.folder / "storm.data", self.folder / "storm.pb.gz", self.folder / "bpftrace.txt"
        program = f"profile:hz:{HZ} /comm == \"exe\" || comm == \"storm-child\"/ {{ @[comm] = count(); }}"
        with Observer([*perf_record(data, HZ, ("-a",), GRAPH), "--", "sleep", 600]) as perf, \
                Observer([self.sonde, "record", "-a", "-F", HZ, "-o", ours]) as sonde, \
                Observer([which("bpftrace"), "-o", text, "-e", program]) as trace:
            time.sleep(3)
            storm = subprocess.run([WORKLOADS / "storm", "650", "10"], capture_output=True, text=True, timeout=300)
            time.sleep(1)
            trace.stop()
            raise_if_failed("sonde record", sonde.stop())
            perf.stop()
        cpu_s = int(re.search(r"cpu_ns (\d+)", storm.stdout)[1]) / 1e9
        try:
            theirs = stacks.count_of_perf(quiet([which("perf"), "script", "-i", data, "-F", "comm"])[1], names)
        except measure.Ended:
            theirs = None
        seen = sum(map(int, re.findall(r"@\[[^]]*\]: (\d+)", text.read_text())))
        count, _, good = stacks.quality(stacks.of_pprof(ours, lambda labels: labels.get("process") in names))
        share = count / max(seen if theirs is None else theirs, 1)
        self.row(f"samples of 650 processes of 10 ms ({cpu_s:.1f} s of CPU)", count, "its script crashed" if theirs is None else theirs, "", seen,
                 ratio=share, target=">= 99 % of perf's", met=share >= 0.99)
        self.row("  ... whole and named", f"{good:.1%}", target=">= 99 %", met=good >= 0.99)

    def start(self):
        """Time from the start of `sonde up` to the first profile with samples, and the CPU time until then."""
        def ours():
            began = time.monotonic()
            observer, port = self.up()
            with observer:
                if not observer.until(lambda: "deep_leaf" in (measure.get(port, "/api/v1/profile?format=folded") or ""), 30):
                    raise RuntimeError("no profile within 30 s")
                took, used = time.monotonic() - began, observer.used_s()
                raise_if_failed("sonde up", observer.stop())
            return took, used

        def peer(observe):
            began = time.monotonic()
            cost = observe()
            return time.monotonic() - began, cost.total_s

        with running(WORKLOADS / "deep", 30, 600, ready="ready"):
            found = self.in_turn({"sonde": ours, "perf": lambda: peer(lambda: self.perf(GRAPH, seconds=1)), "trace": lambda: peer(lambda: self.bpftrace(seconds=1))})
        took, used = ([median(run[i] for run in runs) for runs in found.values()] for i in range(2))
        self.row("s to the first profile (peers: of one second)", f"{took[0]:.2f}", f"{took[1]:.2f}", "", f"{took[2]:.2f}", target="<= 2", met=took[0] <= 2)
        self.row("CPU s until then", f"{used[0]:.2f}", f"{used[1]:.2f}", "", f"{used[2]:.2f}", target="<= 0.3", met=used[0] <= 0.3, ratio=used[0] / max(used[1], 1e-3))

    def depth(self):
        """The cost per sample for 10 to 500 frames. perf -g gets a program with frame pointers: without them it has no stacks."""
        seconds = max(3, self.seconds // 3)
        for frames in (10, 100, 300, 500):
            with running(WORKLOADS / "deep", frames, 600, ready="ready") as load, running(WORKLOADS / "deep-frame-pointers", frames, 600, ready="ready") as framed:
                scope, framed_scope = ("-p", str(load.pid)), ("-p", str(framed.pid))
                found = self.in_turn({
                    "sonde": lambda: self.record(999, scope, seconds),
                    "graph": lambda: self.perf(GRAPH, 999, framed_scope, seconds),
                    "dwarf": lambda: self.perf(("--call-graph", "dwarf,32768"), 999, scope, seconds),
                })
            us, bpf_us = ({name: median(getattr(cost, what) / max(cost.samples, 1) * 1e6 for cost in costs) for name, costs in found.items()} for what in ("total_s", "bpf_s"))
            self.row(f"us a sample, {frames} frames", f"{us['sonde']:.1f} ({bpf_us['sonde']:.1f} BPF)", f"{us['graph']:.1f}", f"{us['dwarf']:.1f}",
                     ratio=us["sonde"] / max(us["graph"], 1e-9))

    def settled(self, *options, after_s=5):
        """The cost of a settled `sonde up`, which gets `after_s` to settle: CPU over --seconds, peak memory, and the detail that its budget
        allowed."""
        observer, port = self.up(*options)
        with observer:
            observer.until(lambda: measure.get(port, "/healthz"), 20)
            time.sleep(after_s)
            before = observer.used_s()
            time.sleep(self.seconds)
            used, metrics = observer.used_s() - before, measure.get(port, "/metrics") or ""
            cost = observer.stop()
            raise_if_failed("sonde up", cost)
        cost.cpu_s, cost.bpf_s = used, 0
        return cost, next(iter(re.findall(r'detail="(\w+)"\} 1$', metrics, re.M)), "?")

    def idle(self):
        """`sonde up` with default settings (19 Hz, requests on) on an otherwise idle machine, after it has settled."""
        found = self.in_turn({"sonde": lambda: self.settled()[0].cpu_s, "perf": lambda: self.perf(GRAPH, 19).cpu_s})
        sonde, perf = (median(used) for used in found.values())
        self.row("% of one CPU when idle (perf -g at 19 Hz)", f"{sonde / self.seconds:.2%}", f"{perf / self.seconds:.2%}", target="<= 0.3 %", met=sonde / self.seconds <= 0.003, ratio=sonde / max(perf, 1e-3))

    def churn(self):
        """`sonde up` with default settings beside programs that start all the time and beside requests. CPU of the agent with its BPF programs, in
        percent of one CPU, after the load has run for three times --seconds; the detail that its budget allowed; memory."""
        for name, command, allowed in churn.loads(self.folder):
            if not command:
                self.row(f"% of one CPU, {name}", "not installed")
                continue
            with running(*command):
                found = self.in_turn({"sonde": lambda: self.settled(after_s=3 * self.seconds), "perf": lambda: self.perf(GRAPH, 19)})
            costs, details = zip(*found["sonde"])
            sonde, perf = median_cost(costs), median_cost(found["perf"])
            share, total = sonde.cpu_s / self.seconds, sonde.resident + sonde.bpf_bytes
            self.row(f"% of one CPU, {name} (perf -g at 19 Hz)", f"{share:.2%}", f"{perf.cpu_s / self.seconds:.2%}", ratio=sonde.cpu_s / max(perf.cpu_s, 1e-3),
                     target=f"<= {allowed:.1%}, full detail", met=share <= allowed and set(details) == {"full"})
            self.row("  ... detail", ", ".join(sorted(set(details))))
            self.row("  ... resident + BPF, MiB", f"{memory(sonde)} = {total / 2**20:.1f}", memory(perf), target="<= 64", met=total <= 64 << 20)

    def memory(self):
        """`sonde up` with 200 processes that wake and sleep."""
        with running("python3", "-c", SLEEPERS, ready="ready"):
            observer, _ = self.up()
            with observer:
                time.sleep(max(15, self.seconds))
                cost = observer.stop()
            raise_if_failed("sonde up", cost)
            with Observer([*perf_record(self.folder / "perf.data", 19, ("-a",), GRAPH), "--", "sleep", self.seconds]) as observer:
                perf = observer.wait()
        total = cost.resident + cost.bpf_bytes
        self.row("MiB resident + BPF, up, 200 processes", f"{memory(cost)} = {total / 2**20:.1f}", memory(perf), target="<= 64", met=total <= 64 << 20, ratio=total / max(perf.resident, 1))

    def nginx(self):
        """Requests per second of one nginx worker at saturation, and its CPU per request, with the request programs attached for a fraction of a
        second and without (request_toggle.c), because machines drift. In the same slices: with the flight recorder as well and, for comparison,
        nothing attached, and an empty pair of raw system call tracepoints."""
        with measure.bpf_statistics(False), servers.saturated("nginx", self.folder) as load:
            found = servers.toggled(load, self.folder, 20 * self.options.rounds, self.sonde.parent)
        for at, what in enumerate(("requests a second", "worker's CPU a request")):
            cost = {way: servers.format_change(changes[at]) for way, changes in found.items()}
            self.row(f"nginx, {what}, nothing attached", cost["nothing"])
            for way in ("requests", "requests and recorder"):
                self.row(f"nginx, {what}, {way} attached", cost[way], "", "", f"{cost['empty pair']} empty pair",
                         ratio=found[way][at][0] / (found["empty pair"][at][0] or 1e-3), **({"target": "<= 5 % lost", "met": found[way][at][0] >= -5} if at == 0 else {}))

    def protocols(self):
        """Requests per second of busy servers, for each protocol, and the time of a pair of TLS calls, with `sonde up` and without it (protocols.py)."""
        changes, pair = protocols.compare(self.up, self.folder, max(1, self.seconds // 5), self.options.rounds)
        for case, rate, cpu_us in changes:
            what = f"requests a second, {case.name}"
            if case.missing:
                self.row(what, f"not measured: {case.missing}")
                continue
            self.row(what, f"{rate.observed:.0f}", f"{rate.without:.0f} without", rate.spread(), ratio=rate.ratio, target=f"<= {case.lost} % lost",
                     met=rate.ratio >= 1 - case.lost / 100)
            self.row("  ... the server's CPU, us", f"{cpu_us.observed:.2f}", f"{cpu_us.without:.2f} without", cpu_us.spread(), ratio=cpu_us.ratio)
        self.row("ns: SSL_read and SSL_write of a request", f"{pair.observed:.0f}", f"{pair.without:.0f} without", pair.spread(), ratio=pair.ratio, target="<= 2000 added",
                 met=pair.added <= 2000)

    def drops(self):
        """The signal `drops`: its overhead for a packet that the kernel drops, and the run time of its programs, compared with bpftrace's counts by reason
        and by port."""
        load, kinds = measure.compile_program("losses.c", self.folder), {"kfree_skb": losses.PACKETS, "tcp_retransmit_skb": losses.RETRANSMISSIONS}

        def ours():
            return losses.beside(self.up(*losses.ONLY_DROPS)[0], load)

        def theirs(program):
            return lambda: losses.beside(Observer([which("bpftrace"), "-e", program]), load)
        with measure.bpf_statistics(False):
            found = self.in_turn({"nothing": lambda: (losses.packet_ns(load), {}), "sonde": ours, "trace": theirs(losses.PACKETS)})
        ns = {name: min(packet_ns for packet_ns, _ in runs) for name, runs in found.items()}
        added, peer = ns["sonde"] - ns["nothing"], ns["trace"] - ns["nothing"]
        self.row("ns: a dropped packet, added", f"{added:.0f}", f"{peer:.0f} bpftrace", f"{ns['nothing']:.0f} unobserved", ratio=added / peer if peer > 0 else None,
                 target="<= bpftrace's", met=added <= peer)
        found = self.in_turn({"sonde": ours} | {tracepoint: theirs(program) for tracepoint, program in kinds.items()})
        for tracepoint, what, most in (("kfree_skb", "a dropped packet", 500), ("tcp_retransmit_skb", "a retransmission", 1500)):
            sonde, peer = (median(losses.ns_a_run(runs[name]) for _, runs in found[way]) for way, name in (("sonde", tracepoint), (tracepoint, "")))
            self.row(f"ns: {what}, run time of the program", f"{sonde:.0f}", f"{peer:.0f} bpftrace", ratio=sonde / max(peer, 1), target=f"<= {most}", met=sonde <= most)

    def interrupts(self):
        """What the programs of `interrupts.enabled` add to a softirq, compared with an empty pair at the same tracepoints (interrupts.c)."""
        build = self.sonde.parent
        program = measure.compile_program("interrupts.c", self.folder, f"-I{build.parent}", f"-I{build}/probes", "-lbpf")
        with measure.bpf_statistics(False):
            done = subprocess.run([program, str(4 * self.options.rounds)], capture_output=True, text=True, check=True, timeout=300)
        ns = {name: float(value) for name, value in re.findall(r"^(.*): ([\d.-]+)$", done.stdout, re.M)}
        self.row("ns: added to a softirq", f"{ns['interrupts']:.0f}", f"{ns['empty pair']:.0f} empty pair", f"{ns['nothing']:.0f} the datagram that causes it", ratio=ns["interrupts"] / max(ns["empty pair"], 1))

    def reclaim(self):
        """The signal `reclaim`: the run time of its two programs at a reclaim in a cgroup, compared with bpftrace's sums of its time."""
        ways = {"sonde": lambda: reclaims.beside(self.up(*losses.ONLY_DROPS)[0], self.folder),
                "bpftrace": lambda: reclaims.beside(Observer([which("bpftrace"), "-e", reclaims.TIMES]), self.folder)}
        with measure.bpf_statistics(True):
            found = self.in_turn(ways)
        ns = {way: median(map(reclaims.ns_a_reclaim, runs)) for way, runs in found.items()}
        self.row("ns: a reclaim, run time of the programs", f"{ns['sonde']:.0f}", f"{ns['bpftrace']:.0f} bpftrace", ratio=ns["sonde"] / max(ns["bpftrace"], 1), target="<= 2500", met=ns["sonde"] <= 2500)

    def probes(self):
        """libsonde's USDT probes compared with a function with a single nop, as libstapsdt generates it (probe_cost.c); getppid shows the current
        cost of a system call on this machine."""
        done = subprocess.run([self.sonde.parent / "tests/probe-cost", str(self.options.rounds)], capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise measure.Ended(f"probe-cost ended with {done.returncode}: {done.stderr}")
        lines = re.findall(r"^(.*?) +([\d.-]+) ns, the best +([\d.-]+)$", done.stdout, re.M)
        ns, best = {name.strip(): float(value) for name, value, _ in lines}, {name.strip(): float(value) for name, _, value in lines}
        attached = ns["single nop, attached"]
        # the best value: a busy sibling hyperthread doubles all times, which is not a cost of the probe
        for what, peer, target_ns in (("enabled, not attached", "enabled, static (sys/sdt.h's)", 0.5), ("enabled, handle in a register", "enabled, static (sys/sdt.h's)", 0.5),
                                      ("fire, not attached", "single nop, not attached", 2)):
            self.row(f"ns, at best: {what}", f"{best[what]:.2f}", f"{best[peer]:.2f} {peer.split(',')[0]}{' static' if 'static' in peer else ''}",
                     f"{ns[what]:.2f} its median", f"{best['the loop, with nothing in it']:.2f} the loop", target=f"<= {target_ns}", met=best[what] <= target_ns, ratio=best[what] / best[peer])
        for what in ("fire of 2 arguments, attached", "fire of 12 arguments, attached"):
            self.row(f"ns: {what}", f"{ns[what]:.0f}", f"{attached:.0f} single nop", f"{ns['getppid, for comparison']:.0f} getppid",
                     target="<= 0.5 of the single nop", met=ns[what] <= attached / 2, ratio=ns[what] / attached)
        if floor := ns.get("bare nop of 5 bytes, attached"):
            two = ns["fire of 2 arguments, attached"]
            self.row("  ... the kernel's floor: its cheapest site, bare and in the executable", f"{two:.0f} (fire of 2)", f"{floor:.0f} nop of 5 bytes", ratio=two / floor)
            self.row("  ... that floor beside the single nop", f"{floor:.0f}", f"{attached:.0f} single nop", ratio=floor / attached)

    def python_probes(self):
        """Probes of `import sonde` while no tracer is attached, compared with a nop called through ctypes (python_probe_cost.py)."""
        subprocess.run([TOP / "tools/make-wheel", self.folder / "wheel"], check=True, capture_output=True, timeout=300)
        wheel, = (self.folder / "wheel").glob("*.whl")
        shutil.unpack_archive(wheel, self.folder / "package", "zip")
        done = subprocess.run(["/usr/bin/python3", TOP / "bench/python_probe_cost.py"], env={"PYTHONPATH": str(self.folder / "package"), "PATH": "/usr/bin:/bin"},
                              capture_output=True, text=True, check=True, timeout=300)
        found = {what: float(ns) for what, ns in re.findall(r"^(.*?) {2,}([\d.]+)$", done.stdout, re.M)}
        peer = next(ns for what, ns in found.items() if what.startswith("peer"))
        for what, ns in found.items():
            if what.startswith("fire"):
                self.row(f"ns: Python, {what}", ns, f"{peer} ctypes", ratio=ns / peer, target="<= 60", met=ns <= 60)
            elif not what.startswith("peer"):
                self.row(f"ns: Python, {what}", ns)

    def traces(self):
        """What libsonde's request traces cost the thread that serves a request (trace_cost.c)."""
        done = subprocess.run([self.sonde.parent / "tests/trace-cost"], capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise measure.Ended(f"trace-cost ended with {done.returncode}: {done.stderr}")
        for what, ns, target_ns in re.findall(r"^ *(.*?) {2,}([\d.]+) *(\d*)$", done.stdout, re.M):
            self.row(f"ns: {what}", ns, **({"target": f"<= {target_ns}", "met": float(ns) <= float(target_ns)} if target_ns else {}))

    def summary(self):
        """`sonde trace summary` compared with a reader in Python (json.load and the sums, as trace_summary.py does it)."""
        (rate, used), (peer_rate, peer_used) = trace_summary.compare(self.sonde, self.folder, self.options.rounds)
        self.row("MB of trace JSON a second of CPU", f"{rate / 1e6:.0f}", f"{peer_rate / 1e6:.0f} Python", target=">= 500", met=rate >= 500e6, ratio=rate / peer_rate)
        self.row("  ... MiB of memory for 300 MB (Python: 60 MB)", f"{used:.0f}", f"{peer_used:.0f} Python", ratio=used / peer_used)

    def centre(self):
        """What `sonde server` takes, keeps and answers, with its engine, on the CPUs of the senders."""
        try:
            import server  # needs numpy and the engine, as no other row does
        except ModuleNotFoundError as error:
            raise packages.Missing(f"this Python has {error}".replace("No module", "no module")) from error
        server.measure_server(self)

    NAME_THEIR_PEERS = {"probes", "python-probes", "traces", "summary", "python", "off-cpu", "wire", "protocols", "drops", "interrupts", "reclaim"}  # rows whose cells name their peers, because they differ from the table's
    ROWS = {"probes": probes, "python-probes": python_probes, "traces": traces, "summary": summary, "costs": costs, "short-lived": short_lived, "start": start, "depth": depth, "idle": idle, "churn": churn, "memory": memory,
            "python": python, "python-processes": python_processes, "off-cpu": off_cpu, "wire": record_sizes, "nginx": nginx, "protocols": protocols, "drops": drops, "interrupts": interrupts, "reclaim": reclaim, "server": centre}


def perf_record(path, hz, scope, graph):
    return [which("perf"), "record", "-B", "-N", "--no-bpf-event", "-q", *scope, "-e", "cpu-clock", "-F", hz, *graph, "-o", path]


def raise_if_failed(what, cost):
    """Raises Ended unless the observer ended as requested or with exit status 0."""
    if cost.status not in (0, -signal.SIGINT, -signal.SIGTERM, 130):
        raise measure.Ended(f"{what} ended with {cost.status}: {cost.error}")


def memory(cost):
    return f"{cost.resident / 2**20:.1f} + {cost.bpf_bytes / 2**20:.1f}" if cost.bpf_bytes else f"{cost.resident / 2**20:.1f}"
