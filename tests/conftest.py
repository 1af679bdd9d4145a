"""What tests in Python have in common: the built binary, programs to observe, ports, peers, and a line of result for tools/run-tests.

Everything a test starts is given a time-out and is ended with the test. A test that cannot run here says why: `skip("why")`.
"""
import gzip
import json
import os
import platform
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pprof  # noqa: E402
from packages import alone  # noqa: E402

TOP = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SONDE_BUILD", TOP / "build"))
SUBJECTS = TOP / "build/subjects"  # also of builds with sanitizers: they get none of the project's flags, and Go's are long in the making
os.environ.pop("DEBUGINFOD_URLS", None)  # no test asks anybody outside
TRACEFS = Path("/sys/kernel/tracing")


# --- results for tools/run-tests -----------------------------------------------------------------------------------------------

def pytest_addoption(parser):
    parser.addoption("--results", help="append one line of JSON per result to this file")


def pytest_configure(config):
    path = config.getoption("--results")
    config.results_file = open(path, "a", buffering=1) if path else None
    config.addinivalue_line("markers", "plain_build: of its CPU, memory or libraries, which are others with sanitizers; it has the machine to itself")
    _Results.config = config


class _Results:
    config = None
    seconds = 0  # of what was run since the last result

    @classmethod
    def add(cls, outcome, nodeid, why="", details=""):
        if cls.config is None or cls.config.results_file is None:
            return
        name = re.sub(r"^tests/", "", nodeid).replace(".py::", ".").replace("::", ".")
        line = {"outcome": outcome, "name": name, "why": " ".join(why.split())[:300], "details": details, "seconds": cls.seconds}
        cls.config.results_file.write(json.dumps(line) + "\n")
        cls.seconds = 0


def pytest_runtest_logreport(report):
    _Results.seconds += report.duration
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        why = crash.message if crash else str(report.longrepr)
        place = "" if report.when == "call" else f" ({report.when})"
        _Results.add("FAIL", report.nodeid + place, why, report.longreprtext)
    elif report.skipped:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", str(report.longrepr))
        _Results.add("skip", report.nodeid, re.sub(r"^Skipped: ", "", why))
    elif report.when == "call":
        _Results.add("pass", report.nodeid)


def pytest_collectreport(report):
    if report.failed:
        _Results.add("FAIL", report.nodeid + " (collection)", str(report.longrepr).splitlines()[-1], report.longreprtext)


# --- what this machine has -----------------------------------------------------------------------------------------------------

def skip(why):
    """Skips the test that is running; `why` is printed with its name."""
    pytest.skip(why)


def need_root():
    if os.geteuid() != 0:
        skip("needs root")


def need_command(*names):
    """The path of the first command that exists; skips when none does."""
    for name in names:
        path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if path:
            return path
    skip(f"needs the command {' or '.join(names)}")


def sanitizers():
    """What the libsonde of this build is compiled with; a program that links it must be too."""
    needed = subprocess.run([need_command("readelf"), "-d", BUILD / "lib/libsonde.so"], capture_output=True, text=True, timeout=60).stdout
    return [kind for kind, name in (("address", "libasan"), ("undefined", "libubsan"), ("thread", "libtsan")) if name in needed]


@pytest.fixture
def root():
    need_root()


@pytest.fixture(scope="session")
def tracefs():
    """tracefs mounted, as perf and bpftrace want it; taken away again if it was not there."""
    need_root()
    mounted = False
    if not (TRACEFS / "events").is_dir():
        done = subprocess.run(["mount", "-t", "tracefs", "tracefs", str(TRACEFS)], capture_output=True, text=True)
        if done.returncode != 0:
            skip("tracefs cannot be mounted: " + done.stderr.strip())
        mounted = True
    yield TRACEFS
    if mounted:
        subprocess.run(["umount", "-l", str(TRACEFS)], check=False)


@pytest.fixture
def perf(tracefs):
    """A function that runs perf with arguments. Debian's perf is older than some kernels; that is fine for what is asked of it."""
    path = need_command("perf")
    probe = subprocess.run([path, "stat", "-e", "cpu-clock", "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        skip("perf does not work here: " + probe.stderr.strip()[-200:])
    return lambda *arguments, **options: subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                                                        errors="replace", **options)


_given_ports = []  # the sockets that say so


def free_port():
    """One that nobody else gets, in this process or beside it: an agent binds it a second later. Below those that the kernel gives to who asks for any."""
    first_of_kernel = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        number = random.randrange(10000, max(first_of_kernel, 20000))
        given = socket.socket(socket.AF_UNIX)
        try:
            given.bind(f"\0sonde-test-port-{number}")  # a name that lives as long as we do, where the port does
            with socket.socket() as s:
                s.bind(("127.0.0.1", number))
        except OSError:
            given.close()
            continue
        _given_ports.append(given)
        return number


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def small_disk(tmp_path):
    """small_disk(KIB) mounts a file system of that size and returns where it is."""
    place = tmp_path / "small"

    def mount(size_kib):
        need_root()
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "none", place], capture_output=True, text=True)
        if done.returncode != 0:
            skip("no tmpfs can be mounted: " + done.stderr.strip())
        return place
    yield mount
    if place.is_mount():
        subprocess.run(["umount", "-l", place], check=False)


# --- waiting -------------------------------------------------------------------------------------------------------------------

def wait_for(condition, timeout_s=30, what="the condition", seen=None):
    """Polls until `condition()` is true and returns its value. The time-out is a net, never the measure of a test. `seen`: what the
    condition keeps of what it saw, told when it was in vain."""
    ends = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > ends:
            raise AssertionError(f"waited {timeout_s} s in vain for {what}" + (f"; seen: {seen}" if seen is not None else ""))
        time.sleep(0.02)


def descriptors(pid):
    """Path of each under /proc and what it is of; without those closed while they are looked at."""
    found = {}
    for entry in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        try:
            found[f"/proc/{pid}/fd/{entry}"] = os.readlink(f"/proc/{pid}/fd/{entry}")
        except FileNotFoundError:
            pass
    return found


def command_line(pid):
    """As bytes; empty of one that has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def command_name(pid):
    """Empty of one that has gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def helper_of(pid):
    """The process that opens files for an agent or a recording."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        skip("this kernel does not tell children")
    found = [int(child) for child in children.read_text().split() if command_name(child) == "sonde-files"]
    assert len(found) == 1, found
    return found[0]


EPOLL_WAITS = {"232", "281"} if platform.machine() == "x86_64" else {"22"}


def system_call(pid):
    """The number of the one that the main thread sleeps in, as text; "running"; empty of a process that has gone."""
    try:
        return Path(f"/proc/{pid}/syscall").read_text().split()[0]
    except OSError:
        return ""


def is_recording(pid):
    """Whether a `sonde record` has all its events, of samples and of lives, one a CPU each, and waits for what they tell: they are open before they count."""
    return sum("perf_event" in kind for kind in descriptors(pid).values()) >= 2 * os.cpu_count() and system_call(pid) in EPOLL_WAITS


def cpu_seconds(pid):
    """User and system time of a process, its threads included, from /proc/PID/stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid, field="VmRSS"):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M)[1]) * 1024


def resident_bytes(pid):
    """(without, of) the pages of BPF maps, which are the kernel's: the rings are mapped twice."""
    size, maps, is_map = 0, 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if line.startswith("Rss:"):
            maps += int(line.split()[1]) * 1024 if is_map else 0
            size += 0 if is_map else int(line.split()[1]) * 1024
        elif not line[0].isupper():
            is_map = "anon_inode:bpf-map" in line
    return size, maps


def bpf_objects(pid):
    """{("map" or "prog", its number): bytes} of the BPF maps and programs that a process has descriptors of."""
    found = {}
    for entry in os.scandir(f"/proc/{pid}/fdinfo"):
        try:
            fields = dict(re.findall(r"^(\w+):\s*(\S+)$", Path(entry.path).read_text(), re.M))
        except OSError:  # closed since
            continue
        found.update({(kind, int(fields[kind + "_id"])): int(fields.get("memlock", 0)) for kind in ("map", "prog") if kind + "_id" in fields})
    return found


class Running:
    """A started program, its output in files so that no pipe can fill up. Ends with the test."""

    def __init__(self, command, folder, name, **options):
        self.out_path, self.error_path = Path(folder) / f"{name}.out", Path(folder) / f"{name}.err"
        with open(self.out_path, "wb") as out, open(self.error_path, "wb") as error:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=error,
                                            start_new_session=True, **options)
        self.pid = self.process.pid

    @property
    def out(self):
        return self.out_path.read_text(errors="replace")

    @property
    def error(self):
        return self.error_path.read_text(errors="replace")

    @property
    def alive(self):
        return self.process.poll() is None

    def wait(self, timeout_s=60):
        """The exit status; negative: the signal. Kills and fails after `timeout_s`."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.process.args[0]} still ran after {timeout_s} s; it said: {self.error[-2000:]}") from None

    def stop(self, signal_number=signal.SIGTERM, timeout_s=30):
        if self.alive:
            self.process.send_signal(signal_number)
        return self.wait(timeout_s)

    def kill(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


@pytest.fixture
def run(tmp_path):
    """run(command...) -> Running, ended with the test, children included."""
    started = []

    def start(*command, name=None, **options):
        running = Running(command, tmp_path, name or f"{Path(str(command[0])).name}-{len(started)}", **options)
        started.append(running)
        return running
    yield start
    for running in started:
        running.kill()


# --- Sonde ---------------------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="session")
def sonde():
    """The path of the built binary."""
    path = BUILD / "sonde"
    if not path.exists():
        pytest.fail(f"{path} has not been built")
    return path


EARLY = ("[truncated: unwinding rows not ready]", "[truncated: mappings not known yet]")


class Profile:
    """What `sonde record` wrote, as pprof's samples (tests/pprof.py)."""

    def __init__(self, samples=(), period_ns=0, said=""):
        self.samples, self.period_ns, self.said = list(samples), period_ns, said

    @property
    def ns(self):
        return sum(sample.ns for sample in self.samples)

    @property
    def count(self):
        return sum(sample.count for sample in self.samples)

    def where(self, condition):
        return Profile(filter(condition, self.samples), self.period_ns, self.said)

    def of(self, **labels):
        """The samples with these labels; dots in their names are written __ here: of(pid=1, container__id=...)."""
        wanted = {key.replace("__", "."): value for key, value in labels.items()}
        return self.where(lambda s: all(s.labels.get(key) == value for key, value in wanted.items()))

    def share(self, pattern):
        """The share of the samples whose stack matches a subject's expected stack; see stack_matches."""
        return self.where(lambda s: stack_matches(s.frames, pattern)).count / max(self.count, 1)

    @property
    def cut(self):
        """The samples that say of themselves that they are not whole."""
        return self.where(lambda s: any(f.startswith("[truncated") for f in s.frames))

    @property
    def truncated(self):
        """Their share."""
        return self.cut.count / max(self.count, 1)

    @property
    def early(self):
        """The share of those that came before what they are walked by: on a busy machine that takes its time."""
        return self.where(lambda s: any(f in EARLY for f in s.frames)).count / max(self.count, 1)

    @property
    def overwritten(self):
        """The share of those cut in the last steps of a C++ throw, which write the handler over who threw (docs/decisions/0003): 2 to 3 % of
        a program that does nothing else, as the processor has it."""
        return self.cut.where(lambda s: stack_matches(s.frames, "shop::throw_and_catch;_Unwind_RaiseException")).count / max(self.count, 1)

    def top(self, count=6):
        """For messages."""
        most = sorted(self.samples, key=lambda s: -s.count)[:count]
        return f"{self.count} samples, most of them:\n" + "\n".join(f"{s.count} {s.labels.get('process')};{';'.join(s.frames)}" for s in most)


def stack_matches(frames, pattern):
    """Whether `pattern` (root first, "..." for up to eight frames of any name) occurs in the stack as one run of frames. What
    stands before is the C library's start, what stands after is the leaf's own business (the kernel, a libc call). Names are without
    parameters, as we and perf print them; what the compiler made of a function ("[clone .constprop.0]") is left aside."""
    wanted = pattern.split(";")
    frames = [re.sub(r" \[clone [^]]*\]", "", frame) for frame in frames]
    wanted = wanted[1:] if wanted[0] == "..." else wanted

    def at(i, j):
        if j == len(wanted):
            return True
        if wanted[j] == "...":
            return any(at(i + gap, j + 1) for gap in range(9))
        return i < len(frames) and frames[i] == wanted[j] and at(i + 1, j + 1)
    return any(at(start, 0) for start in range(len(frames)))


@pytest.fixture(scope="session")
def reads_sleepers(sonde):
    """Whether the user stack of a thread that waited before anybody looked is read (Linux 5.18 and later)."""
    said = subprocess.run([str(sonde), "doctor"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60).stdout
    return re.search(r"^ *stacks of earlier waits +iterator that may sleep$", said, re.M) is not None


@pytest.fixture
def record(sonde, tmp_path, root):
    """record(arguments...) runs `sonde record` to its end and returns its Profile."""
    count = 0

    def start(*arguments, timeout_s=90, status=0):
        nonlocal count
        count += 1
        path = tmp_path / f"record-{count}.pb.gz"
        before = [str(a) for a in arguments]
        split = before.index("--") if "--" in before else len(before)
        done = subprocess.run([str(sonde), "record", *before[:split], "-o", str(path), *before[split:]], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout_s, errors="replace", cwd=tmp_path)
        said = done.stdout + done.stderr
        assert done.returncode == status, f"sonde record: {done.returncode}\n{said[-4000:]}"
        return Profile(*(pprof.read(path) if path.exists() else ([], 0)), said)
    return start


@pytest.fixture
def record_busy(run, sonde, tmp_path):
    """record_busy(subject, seconds, options...) -> samples of that much of its CPU time, what was said"""
    def start(subject, seconds=1.5, *options):
        path = tmp_path / "profile.pb.gz"
        recording = run(sonde, "record", "-F", "499", *options, "-p", subject.pid, "-o", path)
        wait_for(lambda: is_recording(recording.pid) or not recording.alive, 60, "the recording")
        since = cpu_seconds(subject.pid)
        wait_for(lambda: cpu_seconds(subject.pid) > since + seconds, 120, "some CPU time")
        assert recording.stop(signal.SIGINT) == 0, recording.error
        return pprof.read(path)[0], recording.error
    return start


class Agent:
    """A running `sonde up` or `sonde agent` and its page."""

    def __init__(self, running, port):
        self.running, self.port, self.pid = running, port, running.pid

    def get(self, path, headers=None, timeout_s=10):
        """(status, headers, body) of a GET; does not follow redirects. Asks again where the page has no room for another connection."""
        import http.client
        ends = time.monotonic() + 30
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
            try:
                connection.request("GET", path, headers=headers or {})
                reply = connection.getresponse()
                body = reply.read()
                break
            except ConnectionResetError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.05)
            finally:
                connection.close()
        if reply.getheader("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        return reply.status, dict(reply.getheaders()), body

    def text(self, path):
        status, _, body = self.get(path)
        assert status == 200, f"GET {path}: {status} {body[:300]!r}"
        return body.decode()

    def metrics(self):
        """{"name{labels}": value} of /metrics."""
        found = {}
        for line in self.text("/metrics").splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found

    def metric(self, name, **labels):
        """The sum over all series of a name that carry the labels; 0 when there is none."""
        total = 0
        for key, value in self.metrics().items():
            base, _, rest = key.partition("{")
            if base == name and all(f'{label}="{wanted}"' in rest for label, wanted in labels.items()):
                total += value
        return total

    def used_bytes(self):
        """As the kernel says; but of unwinding tables, which lie in maps inside of a map, only the agent can."""
        return resident_bytes(self.pid)[0] + sum(bpf_objects(self.pid).values()) + self.metric("sonde_self_unwind_table_bytes")

    def stop(self, signal_number=signal.SIGTERM):
        return self.running.stop(signal_number)


@pytest.fixture
def agent(sonde, run, root):
    """agent(arguments..., verb="up", environment=...) starts the agent on a free port and waits until /healthz answers. One that still
    runs when the test ends has to end well."""
    all_started = []

    def start(*arguments, verb="up", wait=True, **options):
        number = free_port()
        listen = ["--listen", f"127.0.0.1:{number}"]
        started = Agent(run(sonde, verb, *listen, *arguments, name=f"sonde-{number}", **options), number)
        if wait:
            def healthy():
                assert started.running.alive, f"sonde {verb} ended: {started.running.error[-3000:]}"
                try:
                    return started.get("/healthz", timeout_s=5)[0] == 200
                except OSError:
                    return False
            wait_for(healthy, 30, "/healthz to answer")
        all_started.append(started)
        return started
    yield start
    for started in all_started:
        if started.running.alive:
            assert started.stop() == 0, started.running.error[-3000:]
        assert "Sanitizer" not in started.running.error, started.running.error[-6000:]


# --- programs to observe -------------------------------------------------------------------------------------------------------

def subject_path(name):
    """Builds a program of tests/subjects if need be; skips when its compiler is missing."""
    compiler = {"rusty": "rustc", "gopher": "go", "labelled": "go", "cxx": "g++"}.get(name.partition("-")[0])
    if compiler:
        need_command(compiler)
    with alone(SUBJECTS):
        done = subprocess.run(["make", "-s", "-C", str(TOP / "tests/subjects"), f"OUT={SUBJECTS}", name], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{name} does not build:\n{done.stdout}{done.stderr}"
    return SUBJECTS / name


def go_pprof(*arguments):
    """What `go tool pprof` prints."""
    # Newer Go compiles its pprof when it is first used: kept with the subjects' own. A busy machine takes minutes for it.
    done = subprocess.run([need_command("go"), "tool", "pprof", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500,
                          errors="replace", env=dict(os.environ, GOCACHE=str(SUBJECTS / ".go"), GOTOOLCHAIN="local", PPROF_TMPDIR=tempfile.gettempdir()))
    if done.returncode != 0 and "no such tool" in done.stderr:
        skip("this Go comes without pprof")
    assert done.returncode == 0, done.stderr
    return done.stdout


class Subject:
    def __init__(self, running):
        self.running = running
        wait_for(lambda: "ready" in self.facts() or not running.alive, 30, "the subject to be ready")
        assert "ready" in self.facts(), f"{running.process.args}: {running.out}{running.error}"
        self.pid, self.stack = int(self.facts()["pid"]), self.facts().get("stack")

    def facts(self):
        return {line.partition(" ")[0]: line.partition(" ")[2] for line in self.running.out.splitlines()}

    def threads(self):
        """[(thread's name, its stack)] of a subject that prints them."""
        lines = [line.split(" ", 1)[1].rpartition(" ") for line in self.running.out.splitlines() if line.startswith("thread ")]
        return [(name, stack) for name, _, stack in lines]

    def end(self):
        """Waits for its end; the CPU it used, in nanoseconds, if it says so."""
        assert self.running.wait(60) == 0, self.running.error
        return int(self.facts().get("cpu_ns", 0))


@pytest.fixture
def subject(run):
    """subject(name, arguments...) builds a program of tests/subjects, starts it and waits until its stack stands."""
    def start(name, *arguments, path=None, **options):
        return Subject(run(path or subject_path(name), *arguments, name=name, **options))
    return start
