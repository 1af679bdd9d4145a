"""`cuda.enabled` on a program that uses a fake libcuda (tests/gpu/cupti): the counts are those of the program's calls, and the time is that of its waits."""
import os
import signal
import sys

import pytest
from harness.agents import NO_REQUESTS
from harness.paths import BUILD
from harness.processes import wait_for
from harness.workloads import Workload

FAKES = BUILD / "tests/gpu/cupti"
LAUNCHES, GRAPHS, COPIES, ALLOCATIONS, WAITS = 3001, 40, 500, 7, 20  # of each thread; half of the copies in each direction, likewise the waits
KINDS, THREADS, WAIT_NS, FOREVER_NS = 5, 2, 5_000_000, 10**15

# Works and waits each time that it is told so.
PROGRAM = f"""
import ctypes, os, signal, threading, time
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR1}})
cuda = ctypes.CDLL("libcuda.so.1")
cuda.fake_kernel.restype = cuda.fake_graph.restype = ctypes.c_void_p
kernel = ctypes.c_void_p(cuda.fake_kernel(b"gemm", ctypes.c_uint64(1000)))
graph = ctypes.c_void_p(cuda.fake_graph((ctypes.c_void_p * 1)(kernel), ctypes.c_size_t(1)))
waited_ns = []

def wait(synchronize, ns):
    before = time.monotonic_ns()
    synchronize(ctypes.c_uint64(ns))
    waited_ns.append(time.monotonic_ns() - before)

def work():
    for _ in range({LAUNCHES} - 1):
        cuda.cuLaunchKernel(kernel)
    cuda.cudaLaunchKernel(kernel)
    for _ in range({GRAPHS}):
        cuda.cuGraphLaunch(graph)
    for _ in range({COPIES} // 2):
        cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(0))
        cuda.cuMemcpyDtoH_v2(ctypes.c_uint64(0))
    for _ in range({ALLOCATIONS}):
        cuda.cuMemAlloc_v2()
    for _ in range({WAITS} // 2):
        wait(cuda.cuStreamSynchronize, {WAIT_NS})
        wait(cuda.cuStreamSynchronize_ptsz, {WAIT_NS})

print(f"pid {{os.getpid()}}\\nready", flush=True)
signal.sigwait({{signal.SIGUSR1}})
threads = [threading.Thread(target=work) for _ in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("waited_ns", sum(waited_ns), flush=True)
signal.sigwait({{signal.SIGUSR1}})
threading.Thread(target=wait, args=(cuda.cuStreamSynchronize, {FOREVER_NS}), daemon=True).start()
signal.sigwait({{signal.SIGUSR1}})
os._exit(0)
"""


# Calls one function all the time: when that is counted, the library is attached to, in all processes.
CALLER = """
import ctypes, os, time
cuda = ctypes.CDLL("libcuda.so.1")
print(f"pid {os.getpid()}\\nready", flush=True)
while True:
    cuda.cuMemAlloc_v2()
    time.sleep(0.02)
"""


ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": str(FAKES), "OTEL_SERVICE_NAME": "trainer"}


def call_libcuda(run, program=CALLER):
    return Workload(run(sys.executable, "-c", program, env=ENVIRONMENT))


def step(workload):
    os.kill(workload.pid, signal.SIGUSR1)


def test_calls_and_waits_of_a_process_are_counted(agent, run):
    started, workload, caller = agent("--set", "cuda.enabled=true", *NO_REQUESTS), call_libcuda(run, PROGRAM), call_libcuda(run)

    def series(process):
        return [name for name in started.metrics() if name.startswith("sonde_gpu_process_") and f'pid="{process.pid}"' in name]

    wait_for(lambda: len(series(caller)) == KINDS + 1, what="the functions to be attached to")
    assert not series(workload)
    step(workload)
    waited_ns = int(wait_for(lambda: workload.facts().get("waited_ns"), 60, "the calls"))

    def calls(kind):
        return started.metric("sonde_gpu_process_calls_total", call=kind, pid=workload.pid, service_name="trainer")

    def waited_s():
        return started.metric("sonde_gpu_process_synchronize_seconds_total", pid=workload.pid, service_name="trainer")

    expected = {"launch": LAUNCHES, "graph_launch": GRAPHS, "copy": COPIES, "allocation": ALLOCATIONS, "synchronize": WAITS}
    wait_for(lambda: calls("synchronize") == THREADS * WAITS, what="the waits")
    assert {kind: calls(kind) for kind in expected} == {kind: THREADS * count for kind, count in expected.items()}
    assert THREADS * WAITS * WAIT_NS <= waited_s() * 1e9 <= waited_ns
    assert started.metric("sonde_cuda_files_declined") == 0

    before = waited_s()
    step(workload)
    wait_for(lambda: waited_s() > before + 1, what="the wait that has not ended")
    assert calls("synchronize") == THREADS * WAITS + 1
    step(workload)
    wait_for(lambda: not series(workload), what="the process to be forgotten")
