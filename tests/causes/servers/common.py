"""What a request of an evaluated Python server does, by its route, and the ground truth about it.

Ground truth is a list of items {cause, tid, t0, t1}, in ns of CLOCK_MONOTONIC: thread `tid` spent [t0, t1] on `cause`. An item with `ns` spent only
that much of the interval on it, for example CPU time of a thread that was preempted several times. `holders`: the threads that had a lock. The thread's CPU clock and its run queue delay
(/proc/thread-self/schedstat) come from the kernel, so the items of a spinning thread are exact on a busy machine too.
"""
import collections
import functools
import json
import mmap
import os
import random
import re
import resource
import socket
import sys
import threading
import time
import types
from urllib.parse import parse_qsl, urlsplit

import taskstats

BLOCK, PAGE = 64 << 10, 4 << 10
MEMORY_BYTES, TOUCHES_A_MS = 64 << 20, 40
POLL_S = 0.002
STEP_NS = 100_000  # a longer one between two readings of the clock is no computation
NOTHING_NS = 200_000  # a remainder below this is the cost of measuring
MS = 1_000_000
now = time.monotonic_ns
per_thread = threading.local()


def item(cause, t0, t1, ns=None, holder=None):
    made = {"cause": cause, "tid": threading.get_native_id(), "t0": t0, "t1": t1}
    if holder and cause == "lock":
        made["holders"] = [holder]
    return made if ns is None else {**made, "ns": ns}


def run_delay_ns():
    """The time that the calling thread has spent runnable without a CPU."""
    if not hasattr(per_thread, "schedstat"):
        per_thread.schedstat = open("/proc/thread-self/schedstat", "rb", buffering=0)  # closed with the thread
    return int(os.pread(per_thread.schedstat.fileno(), 100, 0).split()[1])


def own_sleeps():
    """How often the calling thread has left its CPU to wait."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


class Account:
    """Divides the time of a `with` block into CPU, run queue and the rest, which is `rest`; None: the rest has no known cause."""

    def __init__(self, rest, run_queue="run_queue", holder=None):
        self.rest, self.run_queue, self.holder = rest, run_queue, holder

    def __enter__(self):
        self.delay_ns, self.cpu_ns, self.t0 = run_delay_ns(), time.thread_time_ns(), now()
        return self

    def __exit__(self, *_):
        t1, cpu_ns, delay_ns = now(), time.thread_time_ns() - self.cpu_ns, run_delay_ns() - self.delay_ns
        rest_ns = t1 - self.t0 - cpu_ns - delay_ns
        spent = [("cpu", cpu_ns), (self.run_queue, delay_ns), (self.rest, rest_ns)]
        self.items = [item(cause, self.t0, t1, ns, self.holder) for cause, ns in spent if cause and ns > NOTHING_NS]


def spin_until_cpu(ms):
    ends = time.thread_time_ns() + ms * MS
    while time.thread_time_ns() < ends:
        pass


def cpu(ms, **_):
    """Several Python threads share the GIL: what the scheduler does not account for is waiting for it."""
    with Account("lock" if threading.active_count() > 1 else None) as account:
        spin_until_cpu(ms)
    return account.items


def quota(ms, **_):
    """The same in a cgroup whose CPU quota is used up most of the time; run queue delay and dequeued time are both the quota's."""
    with Account("quota", run_queue="quota") as account:
        spin_until_cpu(ms)
    return account.items


def sleep(ms, **_):
    t0 = now()
    time.sleep(ms / 1000)
    return [item("sleep", t0, min(now(), t0 + int(ms * MS)))]


class Holder(threading.Thread):
    """Takes a lock on request and keeps it, sleeping or spinning. It looks for jobs by itself: a thread that a request wakes works for that request,
    and to wait for it would be to wait for a result."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock, self.jobs = threading.Lock(), collections.deque()
        self.start()

    def run(self):
        while True:
            time.sleep(POLL_S)
            if not self.jobs:
                continue
            job = self.jobs.popleft()
            with self.lock:
                job.held = True
                ends = now() + job.ms * MS
                while job.spins and now() < ends:
                    pass
                if not job.spins:
                    time.sleep(job.ms / 1000)

    def wait_for_it(self, ms, spins):
        job = types.SimpleNamespace(ms=ms, spins=spins, held=False)
        self.jobs.append(job)
        t0 = now()
        while not job.held:
            time.sleep(POLL_S)
        with Account("lock", holder=self.native_id) as account:
            with self.lock:
                pass
        return [item("sleep", t0, account.t0), *account.items]


class Spinner(threading.Thread):
    """Executes Python code while a request wants it: it has the GIL, except while another thread demands it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.wanted, self.wakeup = 0, threading.Event()
        self.start()

    def run(self):
        while True:
            self.wakeup.wait()
            while self.wanted:
                pass
            self.wakeup.clear()

    def __enter__(self):
        self.wanted += 1
        self.wakeup.set()

    def __exit__(self, *_):
        self.wanted -= 1


holder, spinner = functools.cache(Holder), functools.cache(Spinner)  # created by the process that serves: a fork would lose them


def lock(ms, **_):
    return holder().wait_for_it(ms, spins=False)


def lock_spin(ms, **_):
    return holder().wait_for_it(ms, spins=True)


def gil(ms, **_):
    """Calls that release the GIL: to return, each waits until the spinner gives it up."""
    with Account("lock", holder=spinner().native_id) as account, spinner():
        while now() - account.t0 < ms * MS:
            os.stat("/")
    return account.items


def disk(ms, folder, **_):
    file = os.open(f"{folder}/direct", os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, BLOCK) as block:
        blocks = os.fstat(file).st_size // BLOCK
        with Account("disk") as account:
            while now() - account.t0 < ms * MS:
                os.preadv(file, [block], random.randrange(blocks) * BLOCK)
    os.close(file)
    return account.items


def faults(ms, folder, **_):
    """Page faults of a mapped file that is not in the page cache."""
    file = os.open(f"{folder}/mapped", os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    with mmap.mmap(file, 0, prot=mmap.PROT_READ) as mapped:
        mapped.madvise(mmap.MADV_RANDOM)
        with Account("disk") as account:
            while now() - account.t0 < ms * MS:
                mapped[random.randrange(len(mapped) // PAGE) * PAGE]
    os.close(file)
    return account.items


def downstream(ms, service, **_):
    with Account("downstream") as account, socket.create_connection(("127.0.0.1", int(service))) as connection:
        connection.sendall(f"GET /slow?ms={ms} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        while connection.recv(4096):
            pass
    return account.items


def retransmission(ms, remote, **_):
    """The request to another node is lost, and TCP sends it again: the node says when it had it."""
    address, _, port = remote.rpartition(":")
    with socket.create_connection((address, int(port))) as connection:
        t0 = now()
        connection.sendall(f"GET /slow?ms={ms} HTTP/1.1\r\nHost: remote\r\nConnection: close\r\n\r\n".encode())
        reply = b""
        while more := connection.recv(4096):
            reply += more
        t1 = now()
    arrived = int(re.search(rb"Times: (\d+)", reply)[1])
    return [item("retransmission", t0, arrived), item("downstream", arrived, t1)]


@functools.cache
def memory():
    """Its pages cannot be compressed: the kernel tries for longer than it takes to read them back."""
    made = mmap.mmap(-1, MEMORY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    made.write(os.urandom(MEMORY_BYTES))
    return made


def reclaim(ms, **_):
    """Writes to pages at random. Where the cgroup may not have them all, the kernel reclaims others, and accounts that to the thread: from begin to end, with
    the time in between that it had no CPU, which is taken to be spread evenly."""
    pages = memory()
    with Account(None) as account:
        before = taskstats.reclaim_ns()
        for _ in range(int(ms * TOUCHES_A_MS)):
            pages[random.randrange(MEMORY_BYTES // PAGE) * PAGE] = 1
        ns = taskstats.reclaim_ns() - before
        t1 = now()
    queued_ns = sum(one["ns"] for one in account.items if one["cause"] == "run_queue")
    ns -= ns * queued_ns // (t1 - account.t0)
    own = [{**one, "ns": max(0, one["ns"] - ns)} if one["cause"] == "cpu" else one for one in account.items]
    return [*own, item("reclaim", account.t0, t1, ns)] if ns > NOTHING_NS else own


def interrupts(ms, **_):
    """Computes for `ms`, and reads the clock all the time. In a step that takes long, the thread waited for a CPU, or its CPU ran interrupts."""
    items, left, delay_ns, sleeps = [], ms * MS, run_delay_ns(), own_sleeps()
    began = last = now()
    while left > 0:
        at = now()
        if at - last < STEP_NS:
            left -= at - last
        else:
            waited_ns, slept = min(run_delay_ns() - delay_ns, at - last), own_sleeps() - sleeps
            delay_ns, sleeps = delay_ns + waited_ns, sleeps + slept  # a wait that began after the step is part of the next one
            items.append(item("run_queue", last, at, waited_ns))
            if not slept:
                items.append(item("interrupts", last, at, at - last - waited_ns))
        last = at
    return [*items, item("cpu", began, last, int(ms * MS))]


def lock_disk(ms, **parameters):
    return [*lock(ms), *disk(1.2 * ms, **parameters)]


def gil_downstream(ms, **parameters):
    return [*gil(ms), *downstream(1.2 * ms, **parameters)]


def cpu_downstream(ms, **parameters):
    return [*cpu(ms), *downstream(1.2 * ms, **parameters)]


def cpu_sleep(ms, **_):
    return [*cpu(ms), *sleep(2 * ms)]


contended, contending = threading.Lock(), threading.Event()


def contend():
    while contending.is_set():
        with contended:
            time.sleep(0.02)


def decoy_lock(on, **_):
    """Starts or ends threads that contend for a lock that no request needs."""
    if on == "1":
        contending.set()
        for _ in range(3):
            threading.Thread(target=contend, daemon=True).start()
    else:
        contending.clear()
    return []


def clean(**_):
    return []


WORK = {work.__name__: work for work in (
    cpu, quota, sleep, lock, lock_spin, gil, disk, faults, downstream, retransmission, reclaim, interrupts, lock_disk, gil_downstream, cpu_downstream, cpu_sleep, decoy_lock, clean)}


def parse(target):
    """(route, parameters, id) of a request's target: /ROUTE?id=N&ms=MS..."""
    url = urlsplit(target)
    parameters = dict(parse_qsl(url.query))
    number = int(parameters.pop("id", -1))
    if "ms" in parameters:
        parameters["ms"] = float(parameters["ms"])
    return url.path.split("/")[1], parameters, number


CERTIFICATE = os.environ.get("CERTIFICATE")  # the file with certificate and key; None: without TLS


class Server:
    """Options of the command line, PORT LOG FOLDER, and the log: one JSON line per request."""

    def __init__(self, arguments=sys.argv):
        self.port, self.log, self.folder = int(arguments[1]), os.open(arguments[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), arguments[3]

    def work(self, route, parameters):
        return WORK[route](folder=self.folder, **parameters)

    def serve(self, target):
        """A whole request, which occupies its thread."""
        t0 = now()
        route, parameters, number = parse(target)
        truth = self.work(route, parameters)
        self.record(number, route, t0, now(), truth, occupied_thread=True)

    def record(self, number, route, t0, t1, truth, occupied_thread=False):
        """`occupied_thread`: no other request of this event loop or worker could go on in [t0, t1]."""
        line = {"id": number, "route": route, "tid": threading.get_native_id(), "t0": t0, "t1": t1, "truth": truth, "occupied_thread": occupied_thread}
        os.write(self.log, json.dumps(line).encode() + b"\n")  # one write: lines of several processes do not mix
