"""Causes of latency injected one at a time into nginx and a pre-fork Python server; `sonde why --json` must report each under its kind and with its
detail. Statistical cases also compare times: the handler measures its own wait, the kernel accounts run queue and throttling, and an injected wait
starts counting only once the worker is seen waiting. Exact sums of captured records are in unit/diagnose/test_request.c."""
import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from harness.machine import need_command, skip
from harness.processes import cpu_seconds, system_call, wait_for
from real_servers import get, parts_of, start_nginx, start_prefork, stolen_ns, total, why

pytestmark = pytest.mark.usefixtures("root")
INJECTED_NS = 150_000_000
SLACK_NS = 15_000_000  # start and end of a wait (a few system calls each) on a shared machine, plus one tick of a stolen CPU
ENOUGH_NS = 150_000_000
TICKS_NS = 20_000_000  # how far the kernel's steal accounting may lag, for two CPUs


@pytest.fixture
def watch(agent):
    """An agent with an unlimited CPU budget: over budget, requests are only counted."""
    return lambda: agent("--set", "budget.one_cpu=1000%")


def find_request(sonde, agent, server, route, reply):
    """The request of that route, once the agent has the record of its complete reply."""
    def look():
        return [r for r in why(sonde, agent) if r["pid"] in server.pids and r["route"] == route and r["bytes_out"] > len(reply.body)]
    try:
        requests = wait_for(look, 20, what=f"the record of {route}")
    except AssertionError as error:
        losses = {name: value for name, value in agent.metrics().items() if value and ("losses" in name or "request_duration_seconds_count" in name)}
        raise AssertionError(f"{error} by {server.pids}; recorded: {why(sonde, agent)}; counted: {losses}; said: {agent.running.error[-1000:]}") from None
    assert len(requests) == 1, requests
    return requests[0] | {"stolen_ns": reply.stolen_ns}


def assert_kind(request, kind, detail=""):
    assert request["status"] == 200 and any(detail in part["detail"] for part in parts_of(request, kind)), json.dumps(request)


def assert_cause(request, kind, least_ns, most_ns, detail=""):
    """The injected time is under its kind: outside of it only in the run queue, and the kind has no time that was not injected."""
    slack_ns = SLACK_NS + request["stolen_ns"]
    kinds, context = {part["kind"] for part in request["parts"]}, f"at least {least_ns}, at most {most_ns}: {json.dumps(request)}"
    by_machine = {"run_queue", "steal"} - {kind}  # the machine may add any amount of the other two
    assert max(kinds - by_machine, key=lambda k: total(request, k)) == kind, context
    assert total(request, kind) <= most_ns + slack_ns, context
    assert total(request, kind) + (total(request, "run_queue") if kind != "run_queue" else 0) >= least_ns - slack_ns, context
    assert any(part["kind"] == kind and detail in part["detail"] for part in request["parts"]), context
    assert total(request, "unattributed") <= request["duration_ns"] / 10, context
    assert total(request, "steal") <= request["stolen_ns"] + TICKS_NS, context
    assert request["status"] == 200, context


def assert_found(sonde, agent, server, target, kind, detail="", reply=None):
    """Sends a request to a pre-fork worker and compares the reported components with the worker's own measurement."""
    reply = reply or get(server.port, target)
    assert reply.took_ns >= INJECTED_NS, "the injection did not work"
    request = find_request(sonde, agent, server, "/" + target.strip("/").partition("?")[0], reply)
    assert_cause(request, kind, reply.took_ns, reply.took_ns, detail)
    return request


class AccountedDuring:
    """The growth of a kernel accounting value while a request runs; least_ns() is the part that must lie within the request."""

    def __init__(self, account):
        self.account = account

    def __enter__(self):
        self.before, self.began_ns = self.account(), time.time_ns()
        return self

    def __exit__(self, *_):
        self.ended_ns = time.time_ns()
        self.all_ns = self.account() - self.before

    def least_ns(self, request):
        start = request["start_time_unix_nano"]
        return self.all_ns - max(start - self.began_ns, 0) - max(self.ended_ns - start - request["duration_ns"], 0)


# --- CPU contention ---------------------------------------------------------------------------------------------------

@pytest.fixture
def hogs(run):
    """hogs(cpu): three processes that keep that CPU busy, each in a session of its own, so that autogroup scheduling treats them separately."""
    def start(cpu):
        started = [run(need_command("taskset"), "-c", cpu, "sh", "-c", "while :; do :; done") for _ in range(3)]
        wait_for(lambda: all(cpu_seconds(hog.pid) >= 0.05 for hog in started), what="the hogs to run")
    return start


@pytest.fixture
def words(tmp_path):
    """A text that takes long to compress into a response so small that sending it never blocks."""
    draw = random.Random(1)
    vocabulary = ["".join(draw.choices("etaoinshrdlu", k=6)) for _ in range(300)]
    (tmp_path / "words.txt").write_text(" ".join(draw.choices(vocabulary, k=100_000)))
    return tmp_path


GZIP = "location /words.txt {{ root {}; gzip on; gzip_comp_level 9; gzip_types text/plain; default_type text/plain; }}"


@pytest.mark.statistical
def test_cpu_hogs_cause_run_queue_time_in_python(sonde, watch, run, hogs):
    cpu = max(os.sched_getaffinity(0))
    watching, server = watch(), start_prefork(run, before=(need_command("taskset"), "-c", cpu))
    hogs(cpu)
    reply = get(server.port, "/cpu?0.06")
    request = find_request(sonde, watching, server, "/cpu", reply)
    assert_cause(request, "run_queue", reply.queued_ns * 0.97, request["duration_ns"] - 60_000_000)
    assert 60_000_000 - SLACK_NS <= total(request, "cpu") <= reply.took_ns - reply.queued_ns + SLACK_NS + reply.stolen_ns, json.dumps(request)


@pytest.mark.statistical
def test_cpu_hogs_cause_run_queue_time_in_nginx(sonde, watch, run, hogs, words):
    cpu = max(os.sched_getaffinity(0))
    watching = watch()
    server = start_nginx(run, words, GZIP.format(words), before=(need_command("taskset"), "-c", cpu))
    hogs(cpu)
    with AccountedDuring(server.queued_ns) as queued:
        reply = get(server.port, "/words.txt", **{"Accept-Encoding": "gzip"})
    request = find_request(sonde, watching, server, "/words.txt", reply)
    assert_cause(request, "run_queue", queued.least_ns(request) * 0.97, queued.all_ns * 1.03)


@pytest.mark.statistical
def test_steal_components_match_the_kernels_steal_time(sonde, watch, run):
    """Keeps two CPUs busy, so that a hypervisor with other guests to run takes some of their time, which the kernel accounts as steal."""
    cpus, watching = sorted(os.sched_getaffinity(0)), watch()
    servers = [start_prefork(run, before=(need_command("taskset"), "-c", str(cpu))) for cpu in cpus[:2]]
    before_ns, ends = stolen_ns(), time.monotonic() + 20

    asked = []

    def ask(server):
        while time.monotonic() < ends and (stolen_ns() < before_ns + ENOUGH_NS or len(asked) < 8):
            get(server.port, "/cpu?0.1")
            asked.append(server)
    askers = [threading.Thread(target=ask, args=(server,)) for server in servers]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    lost_ns = stolen_ns() - before_ns
    if lost_ns < ENOUGH_NS:
        skip(f"nothing to speak of was stolen from this machine in 20 s of work: {lost_ns} ns")

    wait_for(lambda: watching.metric("sonde_requests_detailed_total") >= len(asked), 20, "the requests to be reported")
    requests = [r for r in why(sonde, watching) if r["route"] == "/cpu" and any(r["pid"] in s.pids for s in servers)]
    parts_ns = sum(total(r, "steal") for r in requests)
    assert parts_ns <= lost_ns + TICKS_NS, (parts_ns, lost_ns)
    assert parts_ns >= lost_ns / 5, (parts_ns, lost_ns)  # other processes, and requests too fast to be reported, lose some of it
    assert not any(total(r, "unattributed") > r["duration_ns"] / 10 for r in requests), json.dumps(requests)


@pytest.fixture
def controller(tmp_path):
    """controller(name): a new cgroup in that controller's hierarchy, in either version; removed after the test."""
    created = []

    def make(name):
        roots = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        for _, path, kind, options, *_ in roots:
            if kind == "cgroup2" and name in (Path(path) / "cgroup.controllers").read_text().split():
                with_it = " +memory" if name == "io" else ""  # writeback is charged to the page's memory cgroup
                try:
                    (Path(path) / "cgroup.subtree_control").write_text(f"+{name}{with_it}")
                except OSError as error:
                    skip(f"the cgroup controller {name} cannot be used here: {error}")
            elif kind != "cgroup" or {"io": "blkio"}.get(name, name) not in options.split(","):
                continue
            created.append(Path(path) / f"sonde-test-{os.getpid()}-{name}")
            created[-1].mkdir()
            return created[-1], kind == "cgroup2"
        return skip(f"there is no cgroup controller {name}")
    yield make
    for path in created:
        def empty(path=path):
            for pid in (path / "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
            try:
                path.rmdir()
            except OSError:
                return False
            return True
        wait_for(empty, what=f"{path} to be empty")


def entering(cgroup):
    """A command prefix that starts a command in that cgroup."""
    return "sh", "-c", f"echo $$ > {cgroup}/cgroup.procs; exec \"$@\"", "sh"


def throttled_ns(cgroup):
    figures = dict(line.split() for line in (cgroup / "cpu.stat").read_text().splitlines())
    return int(figures["throttled_time"]) if "throttled_time" in figures else int(figures["throttled_usec"]) * 1000


def limit_cpu(cgroup, unified):
    """A twentieth of a CPU: less than what competing processes may leave."""
    if unified:
        (cgroup / "cpu.max").write_text("5000 100000")
    else:
        (cgroup / "cpu.cfs_period_us").write_text("100000")
        (cgroup / "cpu.cfs_quota_us").write_text("5000")


@pytest.mark.statistical
@pytest.mark.parametrize("which", ["python", "nginx"])
def test_cpu_quota_is_named_as_cause_of_run_queue_time(sonde, watch, run, controller, words, which):
    """A cgroup that has used up its quota: the time is run queue time, with the quota named in the detail."""
    cgroup, unified = controller("cpu")
    watching = watch()
    if which == "python":
        server, route, headers = start_prefork(run, before=entering(cgroup)), "/cpu?0.03", {}
    else:
        server, route = start_nginx(run, words, GZIP.format(words), before=entering(cgroup)), "/words.txt"
        headers = {"Accept-Encoding": "gzip"}
    limit_cpu(cgroup, unified)
    with AccountedDuring(lambda: throttled_ns(cgroup)) as throttled:
        reply = get(server.port, route, **headers)
    request = find_request(sonde, watching, server, route.partition("?")[0], reply)
    least_ns = throttled.least_ns(request) * 0.95
    assert throttled.all_ns >= INJECTED_NS, "the injection did not work"
    assert_cause(request, "run_queue", least_ns, request["duration_ns"] - total(request, "cpu"), "quota")
    by_quota_ns = sum(part["ns"] for part in request["parts"] if "quota" in part["detail"])
    assert by_quota_ns >= least_ns - SLACK_NS - reply.stolen_ns, f"{least_ns}: {json.dumps(request)}"


# --- slow disk -------------------------------------------------------------------------------------------------------

DISK_BYTES_PER_SECOND = 4 << 20


@pytest.fixture
def slow_disk(tmp_path, controller):
    """A file system on a block device of its own, and a command prefix that limits the command to 4 MiB/s on it."""
    for command in ("losetup", "mkfs.ext4", "mount"):
        need_command(command)
    image, folder = tmp_path / "disk.img", tmp_path / "disk"
    folder.mkdir()
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    done = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True)
    if done.returncode != 0:
        skip("no loop device: " + done.stderr.strip())
    device = done.stdout.strip()
    try:
        subprocess.run(["mount", device, folder], check=True, capture_output=True)
        try:
            (folder / "file").write_bytes(os.urandom(1 << 20))
            subprocess.run(["sync", "-f", folder], check=True)
            cgroup, unified = controller("io")
            number = os.stat(device).st_rdev
            place = f"{os.major(number)}:{os.minor(number)}"
            if unified:
                (cgroup / "io.max").write_text(f"{place} rbps={DISK_BYTES_PER_SECOND} wbps={DISK_BYTES_PER_SECOND}")
            else:
                for way in ("read", "write"):
                    (cgroup / f"blkio.throttle.{way}_bps_device").write_text(f"{place} {DISK_BYTES_PER_SECOND}")
            yield folder, entering(cgroup)
        finally:
            wait_for(lambda: subprocess.run(["umount", folder], capture_output=True).returncode == 0, what="umount")
    finally:
        subprocess.run(["losetup", "-d", device], check=False)


def forget_pages(path):
    """Drops a file's pages from the page cache, so that the next read comes from the device."""
    with open(path) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def ends_before_unmount(run):
    """Kills the servers before the file system is unmounted: the fixture `run` would end them only later."""
    servers = []
    yield servers.append
    for server in servers:
        server.running.kill()


@pytest.mark.statistical
@pytest.mark.parametrize("sendfile", ["off", "on"])
def test_slow_disk_is_found_in_nginx(sonde, watch, run, slow_disk, ends_before_unmount, sendfile):
    folder, before = slow_disk
    watching = watch()
    server = start_nginx(run, folder.parent, f"location / {{ root {folder}; }}", f"sendfile {sendfile};", before)
    ends_before_unmount(server)
    forget_pages(folder / "file")
    reply = get(server.port, "/file")
    assert len(reply.body) == 1 << 20
    request = find_request(sonde, watching, server, "/file", reply)
    # The throttled rate gives a quarter of a second, minus an initial burst.
    assert_cause(request, "disk", INJECTED_NS, request["duration_ns"], "sendfile" if sendfile == "on" else "file (ext4)")


@pytest.mark.statistical
@pytest.mark.parametrize("way", ["mapped", "synced"])
def test_slow_disk_is_found_in_python(sonde, watch, run, slow_disk, ends_before_unmount, way):
    """Page faults of a mapped file, and fsync."""
    folder, before = slow_disk
    watching, server = watch(), start_prefork(run, before=before)
    ends_before_unmount(server)
    forget_pages(folder / "file")
    reply = get(server.port, f"/{way}?{folder}/file")
    request = find_request(sonde, watching, server, "/" + way, reply)
    assert_cause(request, "disk", INJECTED_NS, reply.took_ns, "page fault" if way == "mapped" else "fsync of file (ext4)")


# --- slow downstream service ---------------------------------------------------------------------------------------------

class DelayingProxy:
    """Forwards connections to a port and delays the first data of each response, as netem does between two services."""

    def __init__(self, to):
        self.to, self.listener = to, socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            service = socket.create_connection(("127.0.0.1", self.to))
            threading.Thread(target=self.carry, args=(client, service, 0), daemon=True).start()
            threading.Thread(target=self.carry, args=(service, client, INJECTED_NS / 1e9), daemon=True).start()

    @staticmethod
    def carry(source, target, seconds):
        while data := source.recv(65536):
            time.sleep(seconds)
            seconds = 0
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def delaying_proxy():
    created = []

    def make(to):
        created.append(DelayingProxy(to))
        return created[-1].port
    yield make
    for way in created:
        way.listener.close()


@pytest.mark.statistical
def test_slow_downstream_service_is_found_in_python(sonde, watch, run, delaying_proxy):
    watching, service = watch(), start_prefork(run)
    port, server = delaying_proxy(service.port), start_prefork(run)
    request = assert_found(sonde, watching, server, f"/downstream?{port}", "sleep", f"of process {os.getpid()}")  # the path leads into the proxy
    assert request["upstream"], json.dumps(request)


@pytest.mark.statistical
def test_slow_downstream_service_is_found_in_nginx(sonde, watch, run, delaying_proxy, tmp_path):
    watching, service = watch(), start_prefork(run)
    port = delaying_proxy(service.port)
    server = start_nginx(run, tmp_path, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}")
    request = find_request(sonde, watching, server, "/ok", get(server.port, "/ok"))
    assert_cause(request, "sleep", INJECTED_NS, request["duration_ns"], f"of process {os.getpid()}")


# --- sleeps and locks ---------------------------------------------------------------------------------------

@pytest.mark.statistical
def test_sleep_is_found(sonde, watch, run):
    watching, server = watch(), start_prefork(run)
    assert_found(sonde, watching, server, f"/sleep?{INJECTED_NS / 1e9}", "sleep", "nanosleep")


def wait_for_lock(server, path, way):
    """The reply of a request that waits for a lock held by another process; the injected time starts when the worker is seen waiting."""
    path.touch()
    with open(path) as file:
        if way == "flock":
            fcntl.flock(file, fcntl.LOCK_EX)
        else:
            os.kill(server.pid, signal.SIGUSR1)
            wait_for(lambda: "locked" in server.running.out, what="the lock to be held")
        replies = []
        client = threading.Thread(target=lambda: replies.append(get(server.port, f"/{way}?{path}")))
        client.start()
        number = {"mutex": "202", "flock": "73"} if os.uname().machine == "x86_64" else {"mutex": "98", "flock": "32"}
        wait_for(lambda: system_call(server.pids[0]) == number[way], what="the worker to wait")
        time.sleep(INJECTED_NS / 1e9)
        if way == "flock":
            fcntl.flock(file, fcntl.LOCK_UN)
        else:
            os.kill(server.pid, signal.SIGUSR2)
        client.join(60)
    assert replies, "no reply"
    return replies[0]


@pytest.mark.statistical
@pytest.mark.parametrize("way", ["mutex", "flock"])
def test_contended_lock_is_found(sonde, watch, run, tmp_path, way):
    watching, server = watch(), start_prefork(run)
    reply = wait_for_lock(server, tmp_path / "lock", way)
    # The mutex is taken once, so nothing shows that it is one: the path leads on to the sender of the signal that released it.
    kind, detail = ("sleep", f"of process {os.getpid()}") if way == "mutex" else ("lock", f"flock of lock held by thread {os.getpid()}")
    assert_found(sonde, watching, server, f"/{way}?", kind, detail, reply)


# --- kind and detail, independent of machine load ----------------------------------------------------------------------

@pytest.mark.sanitized
def test_component_kinds_and_details_in_python(sonde, watch, run, delaying_proxy, tmp_path):
    watching, server, service = watch(), start_prefork(run), start_prefork(run)
    port = delaying_proxy(service.port)
    for target, kind, detail in (("/sleep?0.05", "sleep", "nanosleep"), (f"/downstream?{port}", "sleep", f"of process {os.getpid()}"), ("/cpu?0.03", "cpu", "")):
        assert_kind(find_request(sonde, watching, server, target.partition("?")[0], get(server.port, target)), kind, detail)
    for way, kind, detail in (("mutex", "sleep", f"of process {os.getpid()}"), ("flock", "lock", f"flock of lock held by thread {os.getpid()}")):
        assert_kind(find_request(sonde, watching, server, f"/{way}", wait_for_lock(server, tmp_path / "lock", way)), kind, detail)


def test_component_of_a_service_behind_nginx(sonde, watch, run, delaying_proxy, tmp_path):
    watching, service = watch(), start_prefork(run)
    port = delaying_proxy(service.port)
    server = start_nginx(run, tmp_path, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}")
    assert_kind(find_request(sonde, watching, server, "/ok", get(server.port, "/ok")), "sleep", f"of process {os.getpid()}")


def test_disk_component_and_detail_in_nginx_and_python(sonde, watch, run, slow_disk, ends_before_unmount):
    folder, before = slow_disk
    watching = watch()
    for sendfile, detail in (("off", "file (ext4)"), ("on", "sendfile")):
        server = start_nginx(run, folder.parent, f"location / {{ root {folder}; }}", f"sendfile {sendfile};", before)
        ends_before_unmount(server)
        forget_pages(folder / "file")
        assert_kind(find_request(sonde, watching, server, "/file", get(server.port, "/file")), "disk", detail)
    server = start_prefork(run, before=before)
    ends_before_unmount(server)
    for way, detail in (("mapped", "page fault"), ("synced", "fsync of file (ext4)")):
        forget_pages(folder / "file")
        assert_kind(find_request(sonde, watching, server, f"/{way}", get(server.port, f"/{way}?{folder}/file")), "disk", detail)


def test_run_queue_component_beside_cpu_hogs(sonde, watch, run, hogs):
    cpu = max(os.sched_getaffinity(0))
    watching, server = watch(), start_prefork(run, before=(need_command("taskset"), "-c", cpu))
    hogs(cpu)
    assert_kind(find_request(sonde, watching, server, "/cpu", get(server.port, "/cpu?0.06")), "run_queue")


def test_run_queue_component_names_the_quota(sonde, watch, run, controller):
    cgroup, unified = controller("cpu")
    watching, server = watch(), start_prefork(run, before=entering(cgroup))
    limit_cpu(cgroup, unified)
    assert_kind(find_request(sonde, watching, server, "/cpu", get(server.port, "/cpu?0.03")), "run_queue", "quota")
