"""On a machine with an NVIDIA GPU: `sonde gpu` and nvidia-smi agree. Skipped elsewhere."""
import shutil
import subprocess

from harness.machine import skip

QUERY = "index,name,memory.total,power.draw,temperature.gpu,driver_version"


def test_the_table_agrees_with_nvidia_smi(sonde):
    if not shutil.which("nvidia-smi"):
        skip("no nvidia-smi: this machine has no NVIDIA GPU")
    said = subprocess.run(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True, timeout=60).stdout
    done = subprocess.run([sonde, "gpu", "--agent", "127.0.0.1:1"], capture_output=True, text=True, check=True, timeout=120)
    lines = done.stdout.splitlines()
    for index, name, memory_mib, power_w, celsius, driver in (line.split(", ") for line in said.splitlines()):
        row = next(line for line in lines[3:] if line.split()[:1] == [index])
        assert lines[0] == f"NVIDIA driver {driver}"
        assert name[:20] in row, row
        assert f"/ {float(memory_mib) / 1024:.0f}" in row or f"/ {float(memory_mib) / 1024:.1f} GiB" in row, (row, memory_mib)
        numbers = dict(zip(row.split()[1::1], row.split()))  # the word before each unit
        assert abs(float(numbers["W"]) - float(power_w)) < 30 and abs(float(numbers["C"]) - float(celsius)) < 5, (row, said)
