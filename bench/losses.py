"""What counting losses of the network costs: Sonde's signal `drops`, alone, compared with bpftrace's counts by the same tracepoints (losses.c)."""
import os
import re
import subprocess
import time
from pathlib import Path

import measure

PACKETS = "tracepoint:skb:kfree_skb { @[args->reason] = count(); }"
RETRANSMISSIONS = "tracepoint:tcp:tcp_retransmit_skb { @[args->dport] = count(); }"
ONLY_DROPS = [word for signal in ("profile", "requests") for word in ("--set", f"{signal}.enabled=false")]
ATTACH_S = 3


def packet_ns(program):
    done = subprocess.run(["taskset", "-c", "0", program], check=True, capture_output=True, text=True)
    return float(re.match(r"packet ([\d.]+)\n", done.stdout)[1])


def beside(observer, program):
    """(ns a dropped packet while the observer runs, {tracepoint: (runs, run time in ns)} of its BPF programs meanwhile)"""
    with observer:
        time.sleep(ATTACH_S)
        before = runs_of(observer.pid)
        ns = packet_ns(program)
        after = runs_of(observer.pid)
        observer.stop()
    return ns, {name: (runs - before.get(name, (0, 0))[0], run_ns - before.get(name, (0, 0))[1]) for name, (runs, run_ns) in after.items()}


def runs_of(pid):
    """{tracepoint: (runs, run time in ns)} of the BPF programs that a process holds; "": programs without a link that has a name."""
    programs, names = {}, {}
    for entry in os.scandir(f"/proc/{pid}/fdinfo"):
        try:
            fields = dict(re.findall(r"^(\w+):\s*(\S+)$", Path(entry.path).read_text(), re.M))
        except FileNotFoundError:  # closed meanwhile
            continue
        if "run_time_ns" in fields:
            programs[fields["prog_id"]] = int(fields["run_cnt"]), int(fields["run_time_ns"])
        if "tp_name" in fields:
            names[fields["prog_id"]] = fields["tp_name"]
    sums = {}
    for number, (runs, ns) in programs.items():
        others = sums.get(names.get(number, ""), (0, 0))
        sums[names.get(number, "")] = others[0] + runs, others[1] + ns
    return sums


def ns_a_run(runs):
    return runs[1] / max(runs[0], 1)
