"""Bytes of trace JSON per second that `sonde trace summary` reads, and its memory, compared with a reader in Python (json.load and the sums, which is
what trace_summary.py does) in the same run, on generated files. CPU time of one process, with the file in the page cache; the best of
the rounds, in alternating order."""
import os
import random
import subprocess
import sys
from pathlib import Path

PEER = """
import json, sys
sums, traces = {}, {}
for item in json.load(open(sys.argv[1])):
    trace = traces.setdefault(item["id"], {})
    trace.update((stamp["name"], stamp["ns"]) for stamp in item.get("timestamps", ()))
    if "model_name" in item:
        trace["key"] = item["model_name"], item["model_version"]
for trace in traces.values():
    total = sums.setdefault(trace["key"], {})
    for begin, end in (("REQUEST_START", "REQUEST_END"), ("QUEUE_START", "COMPUTE_START"), ("COMPUTE_START", "COMPUTE_END")):
        total[begin] = total.get(begin, 0) + trace[end] - trace[begin]
print(sums)
"""


def make(path, megabytes):
    """Requests over HTTP as Triton writes them; every tenth one is an ensemble of two."""
    names = ("REQUEST_START", "QUEUE_START", "INFER_RESPONSE_COMPLETE", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END")
    dice, clock, number, size = random.Random(4), 59_509_292_477_966, 0, megabytes * 1_000_000

    def stamps(number, names):
        nonlocal clock
        parts = []
        for name in names:
            clock += dice.randrange(90_000)
            parts.append(f'{{"id":{number},"timestamps":[{{"name":"{name}","ns":{clock}}}]}}')
        return ",".join(parts)
    with open(path, "w") as out:
        comma = "["
        while out.tell() < size:
            number += 1
            root = number
            text = stamps(root, ("HTTP_RECV_START", "HTTP_RECV_END")) + f',{{"id":{root},"model_name":"resnet50","model_version":1,"request_id":"r{root}"}},' + stamps(root, names)
            if root % 10 == 0:
                number += 1
                text = f'{{"id":{number},"model_name":"inside","model_version":1,"parent_id":{root}}},' + stamps(number, names) + "," + text
            out.write(comma + text + "," + stamps(root, ("HTTP_SEND_START", "HTTP_SEND_END")))
            comma = ","
        out.write("]")


def measure(command):
    """CPU seconds and peak memory in MiB."""
    pid = subprocess.Popen(command, stdout=subprocess.DEVNULL).pid
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def compare(sonde, folder, rounds, megabytes=300, peer_megabytes=60):
    """(bytes per CPU second, MiB) of Sonde and of the peer, which gets a smaller file because its memory is nine times the file."""
    large, small = Path(folder) / "large.json", Path(folder) / "small.json"
    make(large, megabytes)
    make(small, peer_megabytes)
    ours, theirs = [], []
    for number in range(rounds):
        for found, file, command in ((ours, large, [sonde, "trace", "summary"]), (theirs, small, [sys.executable, "-c", PEER]))[::1 if number % 2 else -1]:
            found.append(measure([*command, file]))
    return [(file.stat().st_size / min(seconds for seconds, _ in found), max(memory for _, memory in found)) for found, file in ((ours, large), (theirs, small))]
