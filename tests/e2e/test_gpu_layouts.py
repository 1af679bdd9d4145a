"""The layouts and numbers in src/sources/gpu/nvml.h are those of NVIDIA's header, which is in a wheel of PyPI; the functions that are loaded exist in it."""
import re
import subprocess
import sys

import pypi
import pytest
from harness.machine import need_command
from harness.paths import TOP

pytestmark = pytest.mark.peer
NEEDED = ["nvidia-nvml-dev-cu12==12.9.79"]
# Ours: theirs. The members in the same order.
STRUCTS = {
    "nvml_utilization": ("nvmlUtilization_t", {"gpu": "gpu", "memory": "memory"}),
    "nvml_memory": ("nvmlMemory_v2_t", {"version": "version", "total": "total", "reserved": "reserved", "free": "free", "used": "used"}),
    "nvml_pci": ("nvmlPciInfo_t", {"legacy_id": "busIdLegacy", "domain": "domain", "bus": "bus", "device": "device", "id": "busId"}),
    "nvml_process": ("nvmlProcessInfo_t", {"pid": "pid", "memory": "usedGpuMemory", "gpu_instance": "gpuInstanceId", "compute_instance": "computeInstanceId"}),
    "nvml_process_sample": ("nvmlProcessUtilizationSample_t",
                            {"pid": "pid", "time_us": "timeStamp", "sm": "smUtil", "memory": "memUtil", "encoder": "encUtil", "decoder": "decUtil"}),
    "nvml_gpm_support": ("nvmlGpmSupport_t", {"version": "version", "is_supported": "isSupportedDevice"}),
    "nvml_gpm_metric": ("nvmlGpmMetric_t", {"id": "metricId", "error": "nvmlReturn", "value": "value"}),
    "nvml_field": ("nvmlFieldValue_t", {"id": "fieldId", "scope": "scopeId", "time_us": "timestamp", "latency_us": "latencyUsec", "type": "valueType",
                                        "error": "nvmlReturn", "value": "value"}),
}
NUMBERS = {
    "offsetof(struct nvml_gpm_metrics, count)": "offsetof(nvmlGpmMetricsGet_t, numMetrics)",
    "offsetof(struct nvml_gpm_metrics, samples)": "offsetof(nvmlGpmMetricsGet_t, sample1)",
    "offsetof(struct nvml_gpm_metrics, metrics)": "offsetof(nvmlGpmMetricsGet_t, metrics)",
    "NVML_GPM_METRICS_MAX >= 210": "NVML_GPM_METRIC_MAX <= 333", "NVML_GPM_VERSION": "NVML_GPM_METRICS_GET_VERSION",
    "NVML_GPM_ENGINE": "NVML_GPM_METRIC_GRAPHICS_UTIL", "NVML_GPM_SM": "NVML_GPM_METRIC_SM_UTIL",
    "NVML_GPM_TENSOR": "NVML_GPM_METRIC_ANY_TENSOR_UTIL", "NVML_GPM_DRAM": "NVML_GPM_METRIC_DRAM_BW_UTIL",
    "NVML_OK": "NVML_SUCCESS", "NVML_NOT_SUPPORTED": "NVML_ERROR_NOT_SUPPORTED", "NVML_NOT_FOUND": "NVML_ERROR_NOT_FOUND",
    "NVML_INSUFFICIENT_SIZE": "NVML_ERROR_INSUFFICIENT_SIZE", "NVML_DRIVER_NOT_LOADED": "NVML_ERROR_DRIVER_NOT_LOADED",
    "NVML_LIBRARY_NOT_FOUND": "NVML_ERROR_LIBRARY_NOT_FOUND", "NVML_FUNCTION_NOT_FOUND": "NVML_ERROR_FUNCTION_NOT_FOUND",
    "NVML_GPU_IS_LOST": "NVML_ERROR_GPU_IS_LOST", "NVML_RESET_REQUIRED": "NVML_ERROR_RESET_REQUIRED", "NVML_GPU_NOT_FOUND": "NVML_ERROR_GPU_NOT_FOUND",
    "NVML_CLOCK_SM": "NVML_CLOCK_SM", "NVML_CLOCK_MEMORY": "NVML_CLOCK_MEM", "NVML_ERRORS_CORRECTED": "NVML_MEMORY_ERROR_TYPE_CORRECTED",
    "NVML_ERRORS_UNCORRECTED": "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_SINCE_DRIVER_LOAD": "NVML_VOLATILE_ECC",
    "NVML_MEMORY_V2": "nvmlMemory_v2", "NVML_TYPE_UINT": "NVML_VALUE_TYPE_UNSIGNED_INT", "NVML_TYPE_ULONG": "NVML_VALUE_TYPE_UNSIGNED_LONG",
    "NVML_TYPE_ULONG_LONG": "NVML_VALUE_TYPE_UNSIGNED_LONG_LONG", "NVML_FIELD_NVLINK_CRC": "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "NVML_FIELD_NVLINK_REPLAY": "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "NVML_FIELD_NVLINK_RECOVERY": "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    "NVML_FIELD_MEMORY_TEMPERATURE": "NVML_FI_DEV_MEMORY_TEMP", "NVML_FIELD_NVLINK_SENT": "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
    "NVML_FIELD_NVLINK_RECEIVED": "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", "NVML_FIELD_PCIE_SENT": "NVML_FI_DEV_PCIE_COUNT_TX_BYTES",
    "NVML_FIELD_PCIE_RECEIVED": "NVML_FI_DEV_PCIE_COUNT_RX_BYTES", "NVML_FIELD_RECOVERY_ACTION": "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
    "GPU_CLOCK_SW_POWER_CAP": "nvmlClocksEventReasonSwPowerCap", "GPU_CLOCK_HW_SLOWDOWN": "nvmlClocksThrottleReasonHwSlowdown",
    "GPU_CLOCK_SW_THERMAL": "nvmlClocksEventReasonSwThermalSlowdown", "GPU_CLOCK_HW_THERMAL": "nvmlClocksThrottleReasonHwThermalSlowdown",
    "GPU_CLOCK_HW_POWER_BRAKE": "nvmlClocksThrottleReasonHwPowerBrakeSlowdown",
}


def numbers(tmp_path, name, includes, header_flags, expressions):
    """The values of C expressions, as a program with these headers computes them."""
    source, program = tmp_path / f"{name}.c", tmp_path / name
    prints = "\n".join(f'    printf("%llu\\n", (unsigned long long)({expression}));' for expression in expressions)
    source.write_text(f"#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <linux/types.h>\n{includes}\nint main(void)\n{{\n{prints}\n}}\n")
    subprocess.run([need_command("gcc"), "-Wno-pedantic", *header_flags, source, "-o", program], check=True)
    return list(map(int, subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()))


def test_layouts_and_numbers_are_those_of_the_header(tmp_path):
    place = pypi.environment("nvml-header", NEEDED, [sys.executable, "/usr/bin/python3"], "True").parent
    header = next(place.glob("lib/python*/site-packages/nvidia/nvml_dev/include/nvml.h"))
    ours, theirs = [], []
    for struct, (their_struct, members) in STRUCTS.items():
        ours.append(f"sizeof(struct {struct})")
        theirs.append(f"sizeof({their_struct})")
        for member, their_member in members.items():
            ours += [f"offsetof(struct {struct}, {member})", f"sizeof(((struct {struct} *)0)->{member})"]
            theirs += [f"offsetof({their_struct}, {their_member})", f"sizeof((({their_struct} *)0)->{their_member})"]
    ours += NUMBERS
    theirs += NUMBERS.values()
    found = numbers(tmp_path, "ours", '#include "sources/gpu/nvml.h"\n#include "probes/gpu.h"', ["-I", TOP / "src", "-I", TOP], ours)
    wanted = numbers(tmp_path, "theirs", "#include <nvml.h>", ["-I", header.parent], theirs)
    assert [(o, t) for o, f, t, w in zip(ours, found, theirs, wanted) if f != w] == []
    functions = re.findall(r'X\(\w+, "(\w+)"', (TOP / "src/sources/gpu/nvml.h").read_text())
    assert len(functions) == 35 and [name for name in functions if not re.search(rf"\b{name}\(", header.read_text())] == []
