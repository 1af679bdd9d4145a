"""The time that threads wait for Python's GIL, compared with the threads' own measurements. Where the GIL is depends on the interpreter's version."""
import os
import subprocess
import time

import pytest
from harness.processes import wait_for
from python_programs import interpreter_of, versions

pytestmark = pytest.mark.usefixtures("root")
MINORS = (8, 9, 10, 11, 12, 13)
METRIC, SERVICE = "sonde_python_gil_wait_seconds_total", "contended"
# Two threads compute, a third one calls a function that releases the GIL. None of them ever waits for anything else than the GIL or a CPU: by its clocks, it
# waits for the GIL while it neither runs nor is runnable.
CONTENDED = """
import os, sys, threading, time
def queued_ns():
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1])
def contend(do):
    queued, cpu, began = queued_ns(), time.thread_time_ns(), time.monotonic_ns()
    while not stopped.is_set():
        do()
    waited.append(time.monotonic_ns() - began - (time.thread_time_ns() - cpu) - (queued_ns() - queued))
for line in sys.stdin:
    stopped, waited = threading.Event(), []
    threads = [threading.Thread(target=contend, args=(do,)) for do in (int, int, lambda: os.stat("/"))]
    for thread in threads:
        thread.start()
    time.sleep(float(line))
    stopped.set()
    for thread in threads:
        thread.join()
    print(sum(waited) / 1e9, flush=True)
"""


@pytest.mark.statistical  # the threads measure with their own clocks, between which they may be preempted
@pytest.mark.parametrize("version", versions(*MINORS))
def test_the_metric_is_what_the_threads_measure(agent, version):
    started, seen = agent("--set", "budget.one_cpu=1000%"), []

    def is_settled():
        """The metric is as old as a second."""
        seen.append(started.metric(METRIC, service_name=SERVICE))
        time.sleep(0.5)
        return len(seen) > 4 and len(set(seen[-4:])) == 1

    def contend(seconds):
        """(what the threads measured, what the metric counted)"""
        wait_for(is_settled, what="a metric that stays")
        before = seen[-1]
        seen.clear()
        contended.stdin.write(f"{seconds}\n")
        contended.stdin.flush()
        measured = float(contended.stdout.readline())
        wait_for(is_settled, what="a metric that stays")
        return measured, seen[-1] - before
    with subprocess.Popen([interpreter_of(version), "-c", CONTENDED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "OTEL_SERVICE_NAME": SERVICE}) as contended:
        wait_for(lambda: contend(0.5)[1], what="the agent to know the interpreter")
        measured, counted = contend(3)
        contended.stdin.close()
    assert measured > 1 and counted == pytest.approx(measured, rel=0.1), (measured, counted)
