"""GPUs as the agent sees them, with a fake of NVIDIA's library whose devices are a file."""
import json
import os
import subprocess
from pathlib import Path

import pytest
from gpu_fake import gpus, kernel_log  # noqa: F401 (fixtures)
from harness.agents import NO_REQUESTS
from harness.machine import skip
from harness.processes import command_name, wait_for


def events(started, name):
    return [e for e in json.loads(started.text("/api/v1/events?seconds=300&max=1000"))["events"] if e["name"] == name]


def series(started, prefixes=("hw_", "sonde_gpu_")):
    return {name: value for name, value in started.metrics().items() if name.startswith(prefixes)}


def children_named(pid, name):
    return [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split() if command_name(child) == name]


def need_no_driver():
    if "libnvidia-ml.so.1" in subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, env={**os.environ, "PATH": os.environ["PATH"] + ":/sbin:/usr/sbin"}).stdout:
        skip("this machine has NVIDIA's library")


def test_metrics_are_what_the_driver_says_and_processes_are_joined(agent, run, gpus):  # noqa: F811
    work = run("sleep", "600", env={**os.environ, "OTEL_SERVICE_NAME": "trainer"})
    gpus.write(f"process 0 {work.pid} 12345678", f"sample 0 {work.pid} 60 0", devices=2)
    started = agent(*NO_REQUESTS, env=gpus.environment)
    wait_for(lambda: started.metric("hw_power_watts"), what="the first poll")
    expected = {("hw_gpu_utilization_ratio", "hw_gpu_task", "general"): 0.83, ("hw_gpu_memory_usage_bytes", "hw_name", "NVIDIA H100 80GB HBM3"): 41875931136,
                ("hw_power_watts", "hw_type", "gpu"): 612.5, ("hw_energy_joules_total", "hw_type", "gpu"): 123456.789,
                ("hw_temperature_celsius", "hw_sensor_location", "memory"): 72, ("sonde_gpu_clock_hertz", "clock", "sm"): 1.98e9,
                ("hw_errors_total", "error_type", "ecc_corrected"): 11, ("sonde_gpu_nvlink_bytes_total", "network_io_direction", "transmit"): 3072,
                ("hw_gpu_io_bytes_total", "network_io_direction", "receive"): 600, ("sonde_gpu_throttled", "reason", "power_cap"): 1,
                ("hw_status", "hw_state", "ok"): 1}
    for (name, label, value), number in expected.items():
        for device in ("0", "1"):
            assert started.metric(name, gpu=device, hw_id=f"GPU-fake-{device}", **{label: value}) == pytest.approx(number), name
    assert started.metric("sonde_gpu_process_memory_bytes", gpu="0", pid=work.pid, service_name="trainer") == 12345678
    assert started.metric("sonde_gpu_process_utilization_ratio", gpu="0", pid=work.pid, service_name="trainer") == 0.6
    assert started.metric("sonde_gpu_driver_responds") == 1
    gpus.write("nvmlDeviceGetUtilizationRates 0 error 999", "nvmlDeviceGetPowerUsage 0 4294967295")
    wait_for(lambda: not any("hw_power_watts" in name for name in series(started)), what="the values to be unknown")
    assert not any("hw_gpu_utilization_ratio" in name and 'task="general"' in name for name in series(started))
    lost = wait_for(lambda: events(started, "gpu.lost"), what="the device that vanished")
    assert lost[0]["attributes"]["hw.id"] == "GPU-fake-1" and started.metric("hw_status", gpu="1", hw_state="failed") == 1


@pytest.mark.thorough
def test_a_driver_that_hangs_is_an_event_and_never_hangs_the_agent(agent, gpus, sonde):  # noqa: F811
    gpus.write("nvmlDeviceGetPowerUsage 0 hang")
    started = agent(*NO_REQUESTS, env=gpus.environment)
    hangs = gpus.path.with_name(gpus.path.name + ".hangs")
    wait_for(hangs.exists, what="the call that hangs")
    event = wait_for(lambda: events(started, "gpu.driver_hung"), 60, "the event")[0]
    assert event["attributes"].pop("wait")[0] == "S"
    assert event["attributes"] == {"call": "nvmlDeviceGetPowerUsage", "gpu": "0"} and event["duration_ns"] > 5e9
    assert series(started) == {"sonde_gpu_driver_responds": 0}
    wait_for(lambda: not children_named(started.pid, "sonde-gpu"), what="the process to end")
    done = subprocess.run([sonde, "gpu"], capture_output=True, text=True, env=gpus.environment, timeout=60)
    assert done.returncode == 1 and "nvmlDeviceGetPowerUsage has not returned for" in done.stderr, done


def test_each_xid_is_an_event_with_its_process(agent, run, gpus, kernel_log, sonde):  # noqa: F811
    """The line of an Xid 62 is followed at once by one of an Xid 45: a gauge of the last code would have only that one."""
    work = run("sleep", "600", env={**os.environ, "OTEL_SERVICE_NAME": "trainer"})
    started = agent(*NO_REQUESTS, env=gpus.environment, preexec_fn=kernel_log.replace)
    wait_for(lambda: started.metric("hw_power_watts"), what="the first poll")
    for code in (62, 45):
        kernel_log.xid(code, work.pid)
        event = wait_for(lambda: [e for e in events(started, "gpu.xid") if e["attributes"]["xid"] == str(code)], what=f"Xid {code}")[0]  # noqa: B023
        assert event["attributes"]["process.pid"] == str(work.pid) and event["attributes"]["service.name"] == "trainer"
        assert event["attributes"]["hw.id"] == "GPU-fake-0" and f"Xid {code}, " in event["text"]
    wait_for(lambda: started.metric("sonde_gpu_xids_total", xid=62) == started.metric("sonde_gpu_xids_total", xid=45) == 1, what="both counters")
    shown = subprocess.run([sonde, "events", "--kind", "gpu", "--agent", f"127.0.0.1:{started.port}"], capture_output=True, text=True, timeout=60, check=True)
    assert "Xid 62" in shown.stdout and "What to do" in shown.stdout


@pytest.mark.thorough
def test_a_line_that_a_program_writes_to_the_kernel_log_is_no_xid(agent, gpus):  # noqa: F811
    started = agent(*NO_REQUESTS, env=gpus.environment)
    wait_for(lambda: started.metric("hw_power_watts"), what="the first poll")
    try:
        Path("/dev/kmsg").write_text("<3>NVRM: Xid (PCI:0000:10:00): 79, GPU has fallen off the bus.\n")
    except OSError as error:
        skip(f"/dev/kmsg: {error}")
    gpus.write("nvmlDeviceGetTemperature 0 99")
    wait_for(lambda: started.metric("hw_temperature_celsius", hw_sensor_location="gpu") == 99, what="a later poll")
    assert not events(started, "gpu.xid")


@pytest.mark.thorough
def test_without_a_driver_there_is_nothing_but_one_line(agent, sonde):
    need_no_driver()
    done = subprocess.run([sonde, "gpu"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "No NVIDIA GPU: libnvidia-ml.so.1 was not found\n"
    started = agent(*NO_REQUESTS)
    assert 'probe="GPUs"' not in started.text("/metrics")
    assert series(started) == {} and not children_named(started.pid, "sonde-gpu")
    assert not [e for e in json.loads(started.text("/api/v1/events?seconds=300&max=1000"))["events"] if e["name"].startswith("gpu.")]
    doctor = subprocess.run([sonde, "doctor"], capture_output=True, text=True, timeout=120)
    assert [line.split() for line in doctor.stdout.splitlines() if "NVIDIA" in line] == [["GPUs", "no", "NVIDIA", "driver"]], doctor.stdout
