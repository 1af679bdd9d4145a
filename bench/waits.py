"""Who waits, seen by `sonde record --off-cpu` and by a bpftrace program that does what bcc's offcputime does, over threads that switch a
hundred thousand times a second (switches.c)."""
import re
from dataclasses import dataclass
from pathlib import Path

import pprof

SLEEPING, HANDING = "sleeping", "handing"

# Of one process: its stacks and the moment when a thread leaves its CPU, the time added to them when it comes back.
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
    """What the kernel accounts to the threads of a name until now."""
    threads: int = 0
    switches: int = 0
    cpu_s: float = 0

    def waited_s(self, before, seconds):
        """Of so many seconds, after what was `before`."""
        return self.threads * seconds - (self.cpu_s - before.cpu_s)


def account(pid):
    """{name of threads: Kind}"""
    found = {SLEEPING: Kind(), HANDING: Kind()}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        kind = found.get((thread / "comm").read_text().strip())
        if kind:
            kind.threads += 1
            kind.switches += sum(map(int, re.findall(r"voluntary_ctxt_switches:\s*(\d+)", (thread / "status").read_text())))
            kind.cpu_s += int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found


def seen_by_bpftrace(text):
    """Seconds of waiting, by the name of the threads."""
    return sums(re.findall(r"([\w-]+)\]: (\d+)$", text, re.M))


def seen_by_us(path):
    return sums((sample.labels["thread"], sample.ns) for sample in pprof.read(path)[0])


def sums(waits):
    found = dict.fromkeys((SLEEPING, HANDING), 0)
    for name, ns in waits:
        if name in found:
            found[name] += int(ns) / 1e9
    return found
