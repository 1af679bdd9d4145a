"""The fake of NVIDIA's library (tests/gpu/fake_nvml.c) and of the kernel log, for tests of programs that load the one and read the other."""
import ctypes
import os

import pytest
from harness.paths import BUILD

# A device under load, in the driver's units.
DEVICE = """nvmlDeviceGetName {i} NVIDIA H100 80GB HBM3
nvmlDeviceGetUtilizationRates {i} 83 41
nvmlDeviceGetEncoderUtilization {i} 0
nvmlDeviceGetDecoderUtilization {i} 0
nvmlDeviceGetMemoryInfo_v2 {i} 85899345920 1073741824 42949672960 41875931136
nvmlDeviceGetPowerUsage {i} 612500
nvmlDeviceGetEnforcedPowerLimit {i} 700000
nvmlDeviceGetTotalEnergyConsumption {i} 123456789
nvmlDeviceGetTemperature {i} 64
nvmlDeviceGetClockInfo {i} 1 1980
nvmlDeviceGetClockInfo {i} 2 2619
nvmlDeviceGetCurrentClocksEventReasons {i} 4
nvmlDeviceGetCurrPcieLinkGeneration {i} 5
nvmlDeviceGetCurrPcieLinkWidth {i} 16
nvmlDeviceGetPcieReplayCounter {i} 7
nvmlDeviceGetTotalEccErrors {i} 0 11
nvmlDeviceGetTotalEccErrors {i} 1 0
nvmlDeviceGetRemappedRows {i} 1 0 0 0
nvmlDeviceGetFieldValues {i} 82 72
nvmlDeviceGetFieldValues {i} 138 3
nvmlDeviceGetFieldValues {i} 139 4
nvmlDeviceGetFieldValues {i} 38 0
nvmlDeviceGetFieldValues {i} 52 0
nvmlDeviceGetFieldValues {i} 59 0
nvmlDeviceGetFieldValues {i} 197 500
nvmlDeviceGetFieldValues {i} 198 600
nvmlDeviceGetFieldValues {i} 230 0
"""


XID = "4,{number},123,-;NVRM: Xid (PCI:0000:10:00): {code}, pid={pid}, name=train, Ch 00000008\n"
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000


class Fake:
    def __init__(self, path):
        self.path = path
        self.environment = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "tests/gpu"), "SONDE_FAKE_NVML": str(path)}

    def write(self, *lines, devices=1):
        """Replaces the devices. `lines` go before those of DEVICE, so that they count."""
        text = f"nvmlDeviceGetCount_v2 - {devices}\n" + "".join(line + "\n" for line in lines) + "".join(DEVICE.format(i=i) for i in range(devices))
        new = self.path.with_suffix(".next")
        new.write_text(text)
        new.rename(self.path)


@pytest.fixture
def gpus(tmp_path):
    """The fake library with one device, as a file that the test can change; `environment` is for programs that are to load it."""
    fake = Fake(tmp_path / "gpus")
    fake.write()
    return fake


class KernelLog:
    """A FIFO in place of /dev/kmsg: a line that a program writes to the real one does not count."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path, self.writer, self.number = path, os.open(path, os.O_RDWR), 0

    def replace(self):
        """For a child process (preexec_fn): a mount namespace of its own, in which the FIFO is /dev/kmsg."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) or libc.mount(bytes(self.path), b"/dev/kmsg", None, MS_BIND, None):
            raise OSError(ctypes.get_errno(), "mount")

    def xid(self, code, pid):
        self.number += 1
        os.write(self.writer, XID.format(number=self.number, code=code, pid=pid).encode())


@pytest.fixture
def kernel_log(tmp_path):
    log = KernelLog(tmp_path / "kmsg")
    yield log
    os.close(log.writer)
