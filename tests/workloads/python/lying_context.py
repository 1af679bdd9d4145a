"""Publishes a process context (OTEP 4719) located in a mapping of another file, and works: `lying_context.py FILE`."""
import ctypes
import mmap
import os
import struct
import sys

program = os.open(sys.argv[1], os.O_RDONLY)
dead = mmap.mmap(program, 8192, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
context = os.memfd_create("OTEL_CTX")
os.ftruncate(context, 4096)
header = mmap.mmap(context, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
header[:32] = struct.pack("=8sIIQQ", b"OTEL_CTX", 2, 4096, 1, ctypes.addressof(ctypes.c_char.from_buffer(dead)) + 4096)
print("ready", flush=True)
while True:
    sum(range(100000))
