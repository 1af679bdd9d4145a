"""`sonde gpu`: its tables and JSON, with a fake of NVIDIA's library, and with the calls of libcuda that an agent counts."""
import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from gpu_fake import gpus  # noqa: F401 (a fixture)
from harness.agents import NO_REQUESTS
from harness.processes import wait_for
from terminal import Terminal
from test_cuda import call_libcuda

NO_AGENT = ("--agent", "127.0.0.1:1")

# Launches now and then, and waits for the GPU else.
WAITER = """
import ctypes, os
cuda = ctypes.CDLL("libcuda.so.1")
cuda.fake_kernel.restype = ctypes.c_void_p
kernel = ctypes.c_void_p(cuda.fake_kernel(b"gemm", ctypes.c_uint64(1000)))
print(f"pid {os.getpid()}\\nready", flush=True)
while True:
    cuda.cuLaunchKernel(kernel)
    cuda.cuStreamSynchronize(ctypes.c_uint64(50_000_000))
"""


def show(sonde, fake, *arguments):
    return subprocess.run([sonde, "gpu", *arguments], capture_output=True, text=True, env=fake.environment, timeout=60, check=True).stdout


def test_the_table_has_devices_and_processes(run, gpus, sonde):  # noqa: F811
    work = run("sleep", "600")
    gpus.write(f"process 0 {work.pid} 1073741824", f"sample 0 {work.pid} 60 0", "nvmlDeviceGetUtilizationRates 1 error 3",
               "nvmlDeviceGetHandleByIndex_v2 2 error 15", devices=3)
    shown = show(sonde, gpus, *NO_AGENT)
    lines = [line.split() for line in shown.splitlines()]
    assert lines[0] == ["NVIDIA", "driver", "575.57.08"]
    assert "0 NVIDIA H100 80GB HBM3 83 % 39.0 GiB / 80.0 GiB 612 W 64 C 1980 MHz ok".split() in lines, shown
    assert "1 NVIDIA H100 80GB HBM3 - 39.0 GiB / 80.0 GiB 612 W 64 C 1980 MHz ok".split() in lines, shown
    assert any(line[0] == "2" and line[-1] == "lost" for line in lines if line), shown
    assert f"0 {work.pid} 60 % 1.00 GiB - - - sleep -".split() in lines, shown
    assert "Launches, copies and waits are not known: no agent runs; start one with `sonde up --set cuda.enabled=true`" in shown
    assert shown.splitlines()[-3:] == ["GPU 0: busy 83 % of the time; whether programs wait for it is not known",
                                       "GPU 1: its driver does not report its use", "GPU 2: lost"]


def test_json_is_an_object_for_each_table(gpus, sonde):  # noqa: F811
    gpus.write("nvmlDeviceGetPowerUsage 0 error 3")
    first, *others = [json.loads(line) for line in show(sonde, gpus, *NO_AGENT, "--json", "-i", "1s", "-d", "3s").splitlines()]
    assert 1 <= len(others) <= 2 and all(o["interval_ns"] >= 9e8 and o["devices"] == first["devices"] for o in others)
    assert first["devices"] == [{"gpu": 0, "hw_id": "GPU-fake-0", "name": "NVIDIA H100 80GB HBM3", "pci_address": "0000:10:00.0", "utilization": 0.83,
                                 "memory_used_bytes": 41875931136, "memory_total_bytes": 85899345920, "temperature_celsius": 64, "sm_clock_hertz": 1.98e9,
                                 "state": "ok", "verdict": "unknown", "verdict_text": "busy 83 % of the time; the driver lists no process on it"}]
    assert first["processes"] == [] and first["calls_missing"].startswith("no agent runs")


def test_a_library_without_a_driver_is_not_a_failure(gpus, sonde):  # noqa: F811
    gpus.write("nvmlInit_v2 - error 9")
    assert show(sonde, gpus) == "No NVIDIA GPU: its driver is not loaded\n"
    assert json.loads(show(sonde, gpus, "--json")) == {"nothing": "No NVIDIA GPU: its driver is not loaded", "devices": [], "processes": []}


def test_calls_that_an_agent_counts_make_a_verdict(agent, run, gpus, sonde):  # noqa: F811
    work = call_libcuda(run, WAITER)
    gpus.write(f"process 0 {work.pid} 1073741824", "nvmlDeviceGetUtilizationRates 0 97 10")
    started = agent(*NO_REQUESTS, "--set", "cuda.enabled=true", env=gpus.environment)
    address = ("--agent", f"127.0.0.1:{started.port}")
    wait_for(lambda: started.metric("sonde_gpu_process_synchronize_seconds_total", pid=work.pid), what="the waits")
    wait_for(lambda: started.metric("sonde_gpu_process_calls_total", pid=work.pid, call="launch"), what="the launches")
    wait_for(lambda: any('call="graph_launch"' in name for name in started.metrics()), what="graphs to be counted")
    found = json.loads(show(sonde, gpus, *address, "--json"))
    assert "calls_missing" not in found and found["interval_ns"] > 1e9
    process, device = found["processes"][0], found["devices"][0]
    # 20 waits of 50 ms fit a second; an interval of two seconds can begin just before a launch and end just behind another one.
    assert 1 <= process["launches_per_second"] <= 21 and process["graph_launches_per_second"] == process["copies_per_second"] == 0, found
    assert 0.5 <= process["waiting_threads"] <= 1.001 and process["service_name"] == "trainer", found
    assert device["verdict"] == "gpu_bound" and f"({work.pid}) waits for it" in device["verdict_text"], found


@pytest.mark.thorough
def test_an_agent_that_counts_no_calls_is_the_reason(agent, run, gpus, sonde):  # noqa: F811
    gpus.write(f"process 0 {run('sleep', '600').pid} 1073741824")
    started = agent(*NO_REQUESTS, env=gpus.environment)
    shown = show(sonde, gpus, "--agent", f"127.0.0.1:{started.port}")
    assert "not known: the agent does not count them; start it with `--set cuda.enabled=true`" in shown
    shown = show(sonde, gpus, "--agent", "/nowhere/socket")
    assert "not known: no agent runs" in shown or "not known: the agent at /nowhere/socket does not answer" in shown


class OldCounts(BaseHTTPRequestHandler):
    """An agent whose main thread hangs serves the same metrics for ever."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"sonde_build_info 1\nsonde_cuda_timestamp_seconds 1796055000.5\nsonde_cuda_attachments 5\n")

    def log_message(self, *_):
        pass


def test_counts_that_an_agent_does_not_renew_are_not_waited_for(run, gpus, sonde):  # noqa: F811
    gpus.write(f"process 0 {run('sleep', '600').pid} 1073741824")
    with ThreadingHTTPServer(("127.0.0.1", 0), OldCounts) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        shown = show(sonde, gpus, "-i", "1s", "--agent", f"127.0.0.1:{server.server_port}")
        server.shutdown()
    assert "not known: the agent has not yet counted for an interval" in shown


def test_the_tables_are_live_on_a_terminal(gpus, sonde):  # noqa: F811
    terminal = Terminal(sonde, "gpu", "-i", "1s", *NO_AGENT, LD_LIBRARY_PATH=gpus.environment["LD_LIBRARY_PATH"], SONDE_FAKE_NVML=str(gpus.path))
    try:
        terminal.wait_for(lambda seen: "83 %" in seen, what="the first table")
        gpus.write("nvmlDeviceGetUtilizationRates 0 17 1")
        terminal.wait_for(lambda seen: "busy 17 %" in seen.rpartition("\033[2J")[2], what="a later table")
        terminal.type("\x03")
        assert terminal.end() == 0, terminal.seen
    finally:
        terminal.kill()
