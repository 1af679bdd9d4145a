"""The workload `waits` (tests/workloads/waits.c): threads that wait for known reasons and report their lifetime; and an agent's off-CPU profiles."""
import re
import tempfile

import pprof
from harness.recording import Profile

LEAVES = {  # expected leaf frames by thread name
    "sleep": {"[sleep: nanosleep]", "[sleep: clock_nanosleep]"},
    "lock": {"[lock: futex]"},
    "pipe": {"[ipc: read]"},
    "unix": {"[ipc: read]"},
    "socket": {"[network: recvfrom]"},
    "poll": {"[events: poll]", "[events: ppoll]"},
    "child": {"[child: wait4]"},
    "disk": {"[disk: fsync]", "[disk: pwrite64]", "[lock: fsync]", "[lock: pwrite64]"},  # the file system journal takes locks too
    "queue": {"[run queue]"},
    "short": {"[sleep: nanosleep]", "[sleep: clock_nanosleep]"},
    "timer": {"[sleep: read]"},
    "event": {"[events: read]"},
    "fifo": {"[ipc: open]", "[ipc: openat]", "[sleep: nanosleep]", "[sleep: clock_nanosleep]"},  # it sleeps for a tenth of the time
}
OTHER_S = 0.05  # besides its wait a thread starts up, writes its statistics and takes C library locks at exit
ROOM = ["--set", "budget.one_cpu=1000%", "--set", "budget.memory=1GiB"]  # lets an agent record all waits of a busy node


class Thread:
    """A thread's own report: its lifetime by its own clock, and `most`, an upper bound for it."""

    def __init__(self, line):
        self.name, *numbers = re.fullmatch(r"thread (\w+) (\d+) lived (\S+) at most (\S+) cpu (\S+) queued (\S+) rounds (\d+)", line).groups()
        self.tid = int(numbers[0])
        self.lived, self.most, self.cpu, self.queued, self.rounds = map(float, numbers[1:])
        self.unseen = self.most - self.lived  # its start and exit, which it cannot measure
        self.stolen = 0

    def lived_for(self, time):
        """Time stolen by a hypervisor is neither wait time nor, in the scheduler's accounting, CPU time."""
        return 0.98 * self.lived - OTHER_S <= time + 1.5 * self.stolen and time <= 1.02 * self.most + OTHER_S


def threads_of(text):
    threads = [Thread(line) for line in text.splitlines() if line.startswith("thread ")]
    assert len(threads) == len(LEAVES) + 1, text  # two of them are named "queue"
    return threads


def cpu_ticks():
    """(stolen, busy) ticks of each CPU."""
    found = []
    with open("/proc/stat") as file:
        for user, nice, system, _, _, irq, softirq, steal, *_ in [map(int, line.split()[1:]) for line in file if re.match(r"cpu\d", line)]:
            found.append((steal, user + nice + system + irq + softirq))
    return found


def stolen_share(before):
    """The largest ratio over all CPUs of stolen time to CPU time used since `before`."""
    return max((steal - old_steal) / max(busy - old_busy, 1) for (steal, busy), (old_steal, old_busy) in zip(cpu_ticks(), before))


def seconds(profile):
    return profile.ns / 1e9


def alive(profile):
    """Excludes waits after a thread's last instruction: its joiner continues before they end."""
    return profile.where(lambda s: "do_exit" not in s.frames)


def queued(profile):
    return profile.where(lambda s: s.frames[-1] == "[run queue]")


def reason_of(sample):
    return re.match(r"\[(\w+ ?\w*)", sample.frames[-1])[1].replace(" ", "_")


def profile_of(started, time, **parameters):
    """An agent's profile of the last two minutes."""
    query = "".join(f"&{name}={value}" for name, value in parameters.items())
    status, _, body = started.get(f"/api/v1/profile?format=pprof&seconds=120&time={time}{query}", timeout_s=60)
    assert status == 200, body
    with tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        return Profile(pprof.read(file.name)[0])
