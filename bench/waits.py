"""Waiting threads as seen by `sonde record --off-cpu` and by a bpftrace program that does what bcc's offcputime does, on threads that switch a
hundred thousand times per second (switches.c)."""
import re
from dataclasses import dataclass
from pathlib import Path

import pprof

SLEEPING, HANDING = "sleeping", "handing"

# For one process: records the stacks and the time when a thread leaves its CPU, and adds the elapsed time when it returns.
PROGRAM = """
tracepoint:sched:sched_switch {
    $now = nsecs;
    if (pid == PROCESS) { @from[tid] = $now; @kernel[tid] = kstack; @user[tid] = ustack; }
    $from = @from[args->next_pid];
    if ($from) {
        @off[@kernel[args->next_pid], @user[args->next_pid], args->next_comm] = sum($now - $from);
        delete(@from[args->next_pid]);
    }
}
interval:s:SECONDS { exit(); }
END { clear(@from); clear(@kernel); clear(@user); }
"""


def program(pid, seconds):
    return PROGRAM.replace("PROCESS", str(pid)).replace("SECONDS", str(seconds))


@dataclass
class Kind:
    """The kernel's accounting so far for the threads of one name."""
    threads: int = 0
    switches: int = 0
    cpu_s: float = 0

    def waited_s(self, before, seconds):
        """Waiting time within `seconds`, given the accounting `before`."""
        return self.threads * seconds - (self.cpu_s - before.cpu_s)


def account(pid):
    """{thread name: Kind}"""
    found = {SLEEPING: Kind(), HANDING: Kind()}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        kind = found.get((thread / "comm").read_text().strip())
        if kind:
            kind.threads += 1
            kind.switches += sum(map(int, re.findall(r"voluntary_ctxt_switches:\s*(\d+)", (thread / "status").read_text())))
            kind.cpu_s += int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found


def seen_by_bpftrace(text):
    """Seconds of waiting by thread name."""
    return sums(re.findall(r"([\w-]+)\]: (\d+)$", text, re.M))


def seen_by_us(path):
    return sums((sample.labels["thread"], sample.ns) for sample in pprof.read(path)[0])


def sums(waits):
    found = dict.fromkeys((SLEEPING, HANDING), 0)
    for name, ns in waits:
        if name in found:
            found[name] += int(ns) / 1e9
    return found
