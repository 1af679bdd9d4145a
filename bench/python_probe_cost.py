#!/usr/bin/env python3
"""The cost in nanoseconds of a probe of `import sonde` while no tracer is attached: the best of several rounds, without the loop:
`PYTHONPATH=WHEEL_UNPACKED bench/python_probe_cost.py`. The peer fires as python-stapsdt does, by ctypes into a function with one nop
(python-stapsdt itself needs libstapsdt, which no package provides)."""
import ctypes
import subprocess
import tempfile
from pathlib import Path

import sonde

from python_trace_cost import best, nothing


def peer(folder):
    source, library = folder / "nop.c", folder / "nop.so"
    source.write_text('__attribute__((noinline)) void fire(unsigned long a, unsigned long b) { __asm__ volatile("nop" ::"r"(a), "r"(b)); }\n')
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(str(library)).fire


def main(folder):
    provider = sonde.Provider("bench")
    none, two = provider.add("none", ""), provider.add("two", "str model, u64 number")
    pair = sonde.Pair(provider, "pair", "str model")
    assert provider.load() and sonde.native
    fire = peer(folder)

    def by_ctypes(count):
        for _ in range(count):
            fire(7, 8)

    def enabled(count):
        for _ in range(count):
            if two.enabled:
                pass

    def no_arguments(count):
        for _ in range(count):
            none.fire()

    def arguments(count):
        for _ in range(count):
            two.fire("model", 1)

    def lazy(count):
        for _ in range(count):
            two.fire("model", len)  # called only while a tracer is attached

    def block(count):
        for _ in range(count):
            with pair("model"):
                pass
    loop = best(nothing, 100000)
    for name, work, count in (("the check `enabled`", enabled, 100000), ("fire", no_arguments, 100000), ("fire of 2 arguments", arguments, 100000),
                              ("fire of 2 arguments, one by a callable", lazy, 100000), ("a pair around a block", block, 20000),
                              ("peer: a nop by ctypes, as python-stapsdt", by_ctypes, 50000)):
        print(f"{name:48}{best(work, count) - loop:10.1f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
