"""A program that uses a GPU, through the fake libcuda (fake_cuda.h): `workload.py once` launches its work and ends; `workload.py attached` waits for
a recorder to attach before, and for its end after. What it launches is in EXPECTED."""
import ctypes
import os
import signal
import sys
import time

GEMM, REDUCE, NORM = b"_Z4gemmPfS_i", b"ncclDevKernel_AllReduce_Sum_f32_RING_LL", b"layer_norm"
STEPS = 20
# {(name, Python functions from the root): (executions, nanoseconds)}
EXPECTED = {
    ("gemm", ("main", "step", "forward")): (STEPS * 2, STEPS * 2 * 1_000_000),
    ("layer_norm", ("main", "step", "forward")): (STEPS, STEPS * 30_000),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", ("main", "step", "exchange")): (STEPS, STEPS * 500_000),
    ("[copy host to device]", ("main", "step", "load")): (STEPS, STEPS * 70_000),
    ("[copy device to host]", ("main", "save")): (1, 90_000),
    ("[memset]", ("main",)): (1, 2_000),
    ("gemm", ("main", "replay")): (4, 4_000_000),  # of a graph
    ("layer_norm", ("main", "replay")): (2, 60_000),
}


class Gpu:
    def __init__(self):
        self.cuda, cupti = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcupti.so.12")
        self.is_recorded = cupti.fake_cupti_is_subscribed
        self.cuda.cuInit(0)
        for name in ("fake_kernel", "fake_graph"):
            getattr(self.cuda, name).restype = ctypes.c_void_p
        self.gemm, self.reduce, self.norm = self.kernel(GEMM, 1_000_000), self.kernel(REDUCE, 500_000), self.kernel(NORM, 30_000)
        self.graph = ctypes.c_void_p(self.cuda.fake_graph((ctypes.c_void_p * 3)(self.gemm, self.norm, self.gemm), ctypes.c_size_t(3)))

    def kernel(self, name, ns):
        return ctypes.c_void_p(self.cuda.fake_kernel(name, ctypes.c_uint64(ns)))


def load(gpu):
    gpu.cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(70_000))


def forward(gpu):
    gpu.cuda.cuLaunchKernel(gpu.gemm)
    gpu.cuda.cuLaunchKernel(gpu.norm)
    gpu.cuda.cudaLaunchKernel(gpu.gemm)


def exchange(gpu):
    gpu.cuda.cuLaunchKernel(gpu.reduce)


def step(gpu):
    load(gpu)
    forward(gpu)
    exchange(gpu)


def replay(gpu):
    gpu.cuda.cuGraphLaunch(gpu.graph)


def save(gpu):
    gpu.cuda.cuMemcpyDtoH_v2(ctypes.c_uint64(90_000))


def main(how):
    gpu = Gpu()
    if how == "attached":
        print(f"pid {os.getpid()}\nready", flush=True)
        while not gpu.is_recorded():
            time.sleep(0.01)
    gpu.cuda.cuMemsetD8_v2(ctypes.c_uint64(2_000))
    for _ in range(STEPS):
        step(gpu)
    replay(gpu)
    replay(gpu)
    save(gpu)
    if how == "attached":
        print("launched", flush=True)
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
