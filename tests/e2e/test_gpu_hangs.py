"""A GPU that does not finish a program's work: an event with the evidence. The GPU, the program's libcuda and NCCL's RAS service are fakes."""
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from gpu_fake import gpus, kernel_log  # noqa: F401 (fixtures)
from harness.agents import NO_REQUESTS
from harness.machine import skip
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


def test_a_gpu_that_hangs_is_one_event_and_one_that_works_is_none(agent, run, gpus, kernel_log, reads_sleeping_stacks, sonde):  # noqa: F811
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
    if reads_sleeping_stacks:
        waiting, main = found["stacks"].split("\n\n")
        assert waiting.startswith(f"{found['thread.id']} python3:\n") and "\ncuStreamSynchronize\n" in waiting and found["call"] == "cuStreamSynchronize", event
        assert re.search(r"\n(Thread\.)?run threading\.py:\d+\n", waiting) and re.search(r"\n<module> <string>:\d+\n", main), event
        report = why(sonde, stuck.pid, gpus.environment, f"127.0.0.1:{started.port}").stdout
        assert report.startswith(f"python3 (process {stuck.pid}) hangs: the GPU does not finish its work: thread {found['thread.id']} has been in "), report
        assert f"ago the agent reported: {event['text']}.\n" in report, report

    kernel_log.xid(109, stuck.pid)
    xid = wait_for(lambda: events(started, "gpu.xid"), what="the Xid")[0]
    assert f"launches counted: {LAUNCHES}, the last one about" in xid["text"] and f"thread {found['thread.id']} had waited for the GPU for" in xid["text"], xid
    assert len(events(started, "gpu.hang")) == 1
    assert started.metric("sonde_gpu_hangs_total", gpu="0") == 1 and started.metric("sonde_gpu_hangs_total", gpu="1") == 0


def why(sonde, pid, environment=None, agent="/nowhere/socket"):
    return subprocess.run([sonde, "why", "--agent", agent, "--hang", str(pid)], capture_output=True, text=True, env=environment, timeout=60)


def stacks(report):
    """The frames of each thread, innermost first, by thread ID."""
    return {int(tid): [line.strip() for line in lines.splitlines()] for tid, lines in re.findall(r"^  (\d+) .*\n((?:      .*\n)+)", report, re.M)}


def test_why_shows_where_the_threads_of_a_process_hang(run, gpus, sonde, reads_sleeping_stacks):  # noqa: F811
    stuck = call_libcuda(run, STUCK)
    gpus.write(f"process 0 {stuck.pid} 1073741824", "nvmlDeviceGetUtilizationRates 0 100 0")
    os.kill(stuck.pid, signal.SIGUSR1)
    wait_for(lambda: len(os.listdir(f"/proc/{stuck.pid}/task")) > 1, what="the thread that waits")
    report = why(sonde, stuck.pid, gpus.environment)
    assert report.returncode == 0, report.stderr
    if not reads_sleeping_stacks:
        return
    found = re.match(rf"python3 \(process {stuck.pid}\) waits for the GPU: thread (\d+) has been in cuStreamSynchronize, off its CPU, for .*, "
                     r"no kernel was launched in \d.* s, and GPU 0 was busy 100 % of the time or more. This is a hang only if it does not end", report.stdout)
    assert found, report.stdout + report.stderr
    waiting, main = stacks(report.stdout)[int(found[1])], stacks(report.stdout)[stuck.pid]
    assert "cuStreamSynchronize" in waiting and waiting[-1].startswith(("clone", "__clone")), report.stdout
    assert main[-1] == "_start" and any("sigtimedwait" in frame for frame in main), report.stdout
    # Python's functions are there although both threads slept before.
    assert any(re.fullmatch(r"<module> <string>:\d+", frame) for frame in main), report.stdout
    assert any(re.fullmatch(r"(Thread\.)?run threading\.py:\d+", frame) for frame in waiting), report.stdout


def test_why_says_with_evidence_that_nothing_hangs(run, sonde):
    idle = run("sleep", "600")
    report = why(sonde, idle.pid)
    assert re.fullmatch(rf"sleep \(process {idle.pid}\) does not hang in a call of CUDA or NCCL: in \d.* s, none of its 1 threads was found in one that "
                        r"waits(, no kernel was launched in .* s)?\.\n", report.stdout), report.stdout + report.stderr
    idle.kill()
    idle.wait()
    gone = why(sonde, idle.pid)
    assert gone.returncode == 1 and f"there is no process {idle.pid}" in gone.stderr, gone
    wrong = subprocess.run([sonde, "why", "--hang", "1", "--json"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2 and "--hang can be combined with --agent only" in wrong.stderr, wrong


def test_why_names_the_rank_that_is_behind(run, sonde, tmp_path, reads_sleeping_stacks):
    if not reads_sleeping_stacks:
        skip("this kernel does not let threads that sleep be read")
    stuck = call_libcuda(run, STUCK)
    os.kill(stuck.pid, signal.SIGUSR1)
    wait_for(lambda: len(os.listdir(f"/proc/{stuck.pid}/task")) > 1, what="the thread that waits")
    ranks = [{"rank": rank, "host": f"10.0.0.{rank}", "pid": pid, "status": {"init_state": 0}, "collective_counts": {"Broadcast": 1, "AllReduce": count}}
             for rank, (pid, count) in enumerate(((stuck.pid, 41), (812, 40), (813, 41)))]
    status = tmp_path / "status"
    status.write_text(json.dumps({"nccl_version": "2.28.7", "communicators": [
        {"hash": "0xabc", "secondary_hash": "0x1:0x2", "size": 3, "ranks": ranks, "missing_ranks": []}], "ras": {"timeouts_count": 0}}, indent=2))
    service = Path(__file__).with_name("nccl_ras_service.py")
    report = subprocess.run([sys.executable, service, status, sonde, "why", "--agent", "/nowhere/socket", "--hang", str(stuck.pid)],
                            capture_output=True, text=True, timeout=60)
    assert "; in NCCL's communicator 0xabc of 3 ranks, rank 1 (pid 812 on 10.0.0.1) has begun 41 collective operations, and others 42. " in report.stdout, report
