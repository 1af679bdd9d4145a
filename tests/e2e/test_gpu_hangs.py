"""A GPU that does not finish a program's work: an event with the evidence. The GPU and the program's libcuda are fakes."""
import os
import signal

from gpu_fake import gpus, kernel_log  # noqa: F401 (fixtures)
from harness.agents import NO_REQUESTS
from harness.processes import wait_for
from test_cuda import call_libcuda
from test_gpu import events
from test_gpu_table import WAITER

LAUNCHES = 1234

# Launches, and then waits for the GPU until it is killed.
STUCK = f"""
import ctypes, os, signal, threading
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR1}})
cuda = ctypes.CDLL("libcuda.so.1")
cuda.fake_kernel.restype = ctypes.c_void_p
kernel = ctypes.c_void_p(cuda.fake_kernel(b"spin", ctypes.c_uint64(1000)))
print(f"pid {{os.getpid()}}\\nready", flush=True)
signal.sigwait({{signal.SIGUSR1}})
for _ in range({LAUNCHES}):
    cuda.cuLaunchKernel(kernel)
threading.Thread(target=cuda.cuStreamSynchronize, args=(ctypes.c_uint64(10**15),), daemon=True, name="waiter").start()
signal.sigwait({{signal.SIGUSR1}})
os._exit(0)
"""


def test_a_gpu_that_hangs_is_one_event_and_one_that_works_is_none(agent, run, gpus, kernel_log):  # noqa: F811
    stuck, works = call_libcuda(run, STUCK), call_libcuda(run, WAITER)
    gpus.write(f"process 0 {stuck.pid} 1073741824", f"process 1 {works.pid} 1073741824", "nvmlDeviceGetUtilizationRates 0 100 0",
               "nvmlDeviceGetUtilizationRates 1 100 0", devices=2)
    started = agent(*NO_REQUESTS, "--set", "cuda.enabled=true", "--set", "gpu.hang_after=8s", env=gpus.environment, preexec_fn=kernel_log.replace)

    def calls(workload, kind):
        return started.metric("sonde_gpu_process_calls_total", pid=workload.pid, call=kind)

    wait_for(lambda: calls(works, "launch") and calls(works, "synchronize"), what="the calls of the program that works to be counted")
    wait_for(lambda: any('call="graph_launch"' in name for name in started.metrics()), what="launches of graphs to be counted")
    os.kill(stuck.pid, signal.SIGUSR1)
    event = wait_for(lambda: events(started, "gpu.hang"), 60, "the event")[0]
    found = event["attributes"]
    assert found["process.pid"] == str(stuck.pid) and found["hw.id"] == "GPU-fake-0" and found["service.name"] == "trainer", event
    assert found["launches"] == str(LAUNCHES) and event["duration_ns"] >= 8e9 and "does not finish the work of python3" in event["text"], event
    threads = found["threads"].split("; ")
    assert threads[0].startswith(f"{found['thread.id']} python3 S ") and any(t.startswith(f"{stuck.pid} python3 S") for t in threads), event

    kernel_log.xid(109, stuck.pid)
    xid = wait_for(lambda: events(started, "gpu.xid"), what="the Xid")[0]
    assert f"launches counted: {LAUNCHES}, the last one about" in xid["text"] and f"thread {found['thread.id']} had waited for the GPU for" in xid["text"], xid
    assert len(events(started, "gpu.hang")) == 1
    assert started.metric("sonde_gpu_hangs_total", gpu="0") == 1 and started.metric("sonde_gpu_hangs_total", gpu="1") == 0
