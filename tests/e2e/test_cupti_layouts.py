"""The records, calls and numbers in lib/cuda/cupti.h are those of NVIDIA's headers of CUDA 11.8, 12 and 13, which are in wheels of PyPI."""
import re
import subprocess
import sys

import pypi
import pytest
from harness.machine import need_command
from harness.paths import TOP

pytestmark = pytest.mark.peer
# Headers of CUPTI, and cuda.h, which they include.
WHEELS = {
    "cupti-11": ["nvidia-cuda-cupti-cu11==11.8.87", "nvidia-cuda-runtime-cu12==12.9.79"],
    "cupti-12": ["nvidia-cuda-cupti-cu12==12.9.79", "nvidia-cuda-runtime-cu12==12.9.79"],
    "cupti-13": ["nvidia-cuda-cupti==13.5.25", "nvidia-cuda-runtime==13.5.37"],
}
HEADERS = "#include <cupti_activity.h>\n#include <cupti_runtime_cbid.h>\n#include <cupti_driver_cbid.h>"
COPY = {"direction": "copyKind", "bytes": "bytes", "start": "start", "end": "end", "device": "deviceId", "correlation": "correlationId",
        "graph_node": "graphNodeId", "graph": "graphId"}
# Ours: the first version of theirs that has all members, and the members.
RECORDS = {
    "cupti_kernel": ("CUpti_ActivityKernel", 5, {"kind": "kind", "start": "start", "end": "end", "device": "deviceId", "correlation": "correlationId",
                                                 "name": "name", "graph_node": "graphNodeId", "graph": "graphId"}),
    "cupti_copy": ("CUpti_ActivityMemcpy", 4, {"kind": "kind", **COPY}),
    "cupti_peer_copy": ("CUpti_ActivityMemcpyPtoP", 3, {"kind": "kind", **COPY}),
    "cupti_set": ("CUpti_ActivityMemset", 3, {"kind": "kind", **{ours: theirs for ours, theirs in COPY.items() if ours != "direction"}}),
}
CALL = {"site": "callbackSite", "function": "functionName", "symbol": "symbolName", "context_id": "contextUid", "correlation": "correlationId"}
NUMBERS = {
    "CUPTI_OK": "CUPTI_SUCCESS", "CUPTI_MAX_LIMIT_REACHED": "CUPTI_ERROR_MAX_LIMIT_REACHED",
    "CUPTI_MULTIPLE_SUBSCRIBERS": "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "CUPTI_DOMAIN_DRIVER": "CUPTI_CB_DOMAIN_DRIVER_API",
    "CUPTI_DOMAIN_RUNTIME": "CUPTI_CB_DOMAIN_RUNTIME_API", "CUPTI_SITE_ENTER": "CUPTI_API_ENTER", "CUPTI_SITE_EXIT": "CUPTI_API_EXIT",
    "CUPTI_FLUSH_FORCED": "CUPTI_ACTIVITY_FLAG_FLUSH_FORCED", "CUPTI_KIND_MEMCPY": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_KIND_MEMSET": "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_KIND_CONCURRENT_KERNEL": "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",
    "CUPTI_KIND_MEMCPY2": "CUPTI_ACTIVITY_KIND_MEMCPY2",
    **{f"CUPTI_COPY_{way}": f"CUPTI_ACTIVITY_MEMCPY_KIND_{way}" for way in ("HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP")},
    "CUPTI_RUNTIME_GRAPH_LAUNCH": "CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000",
    "CUPTI_RUNTIME_GRAPH_LAUNCH_PTSZ": "CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000",
    "CUPTI_DRIVER_GRAPH_LAUNCH": "CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch", "CUPTI_DRIVER_GRAPH_LAUNCH_PTSZ": "CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz",
    "CUPTI_DRIVER_LAUNCH_KERNEL": "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel",
}
# Calls that start work on a GPU; not those that start a function on the CPU, and cudaLaunch, which CUDA 10.1 dropped.
# "cuda248" keeps the number of a call that a later CUDA dropped.
STARTS_WORK = re.compile(r"cuda\d+$|_*cu(da)?(Memcpy|Memset|Launch(?!Host|_)|GraphLaunch)")
DRIVER_CALLS_SINCE_CUDA_4 = 216  # each call before has been replaced by one with a greater number



def headers(name):
    """The folders with NVIDIA's headers, and a folder with what stands for those of the compiler nvcc."""
    place = pypi.environment(name, WHEELS[name], [sys.executable, "/usr/bin/python3"], "True").parent
    return next(place.glob("lib/python*/site-packages/nvidia/*/include/cupti.h")).parent, next(place.glob("lib/python*/site-packages/nvidia/*/include/cuda.h")).parent


def values(tmp_path, name, includes, folders, expressions):
    """The values of C expressions, as a program with these headers computes them."""
    source, program = tmp_path / f"{name}.c", tmp_path / name
    prints = "\n".join(f'    printf("%llu\\n", (unsigned long long)({expression}));' for expression in expressions)
    source.write_text(f"#include <stddef.h>\n#include <stdio.h>\n{includes}\nint main(void)\n{{\n{prints}\n}}\n")
    flags = [flag for folder in folders for flag in ("-I", folder)]
    subprocess.run([need_command("gcc"), *flags, source, "-o", program], check=True)
    return list(map(int, subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()))


def members(struct, names):
    return [text for name in names for text in (f"offsetof({struct}, {name})", f"sizeof((({struct} *)0)->{name})")]


@pytest.mark.parametrize("wheels", list(WHEELS))
def test_layouts_and_numbers_are_those_of_the_header(wheels, tmp_path):
    cupti, cuda = headers(wheels)
    (tmp_path / "builtin_types.h").write_text("typedef int cudaError_t;\n")
    text = "".join(path.read_text() for path in cupti.glob("cupti_activity*.h"))
    ours, theirs = members("struct cupti_call", CALL), members("CUpti_CallbackData", CALL.values())
    for struct, (base, first, names) in RECORDS.items():
        versions = [int(n) for n in re.findall(rf"}} {base}(\d+);", text) if int(n) >= first]
        assert versions, base
        for version in versions:
            ours += members(f"struct {struct}", names)
            theirs += members(f"{base}{version}", names.values())
    ours += NUMBERS
    theirs += NUMBERS.values()
    found = values(tmp_path, "ours", '#include "cuda/cupti.h"', [TOP / "lib"], ours)
    wanted = values(tmp_path, "theirs", HEADERS, [tmp_path, cupti, cuda], theirs)
    assert [(o, t, f, w) for o, t, f, w in zip(ours, theirs, found, wanted) if f != w] == []
    declared = "".join(path.read_text() for path in cupti.glob("cupti_*.h"))
    functions = re.findall(r'X\(\w+, "(\w+)"', (TOP / "lib/cuda/cupti.h").read_text())
    assert len(functions) == 11 and [name for name in functions if not re.search(rf"\b{name}\s*\(", declared)] == []


@pytest.mark.parametrize("wheels", list(WHEELS))
def test_calls_are_those_that_start_work(wheels):
    cupti, _ = headers(wheels)
    ranges = re.findall(r"X\(CUPTI_DOMAIN_(\w+), (\d+), (\d+)\)", (TOP / "lib/cuda/cupti.h").read_text())
    for domain, oldest in (("RUNTIME", 0), ("DRIVER", DRIVER_CALLS_SINCE_CUDA_4)):
        text = (cupti / f"cupti_{domain.lower()}_cbid.h").read_text()
        calls = {int(number): name for name, number in re.findall(r"_CBID_(\w+)\s*=\s*(\d+)", text)}
        followed = {n for d, first, last in ranges if d == domain for n in range(int(first), int(last) + 1)}
        assert [calls[n] for n in sorted(followed) if n in calls and not STARTS_WORK.match(calls[n])] == []
        assert [name for n, name in calls.items() if STARTS_WORK.match(name) and n not in followed and n >= oldest and not name[4:].isdigit()] == []
