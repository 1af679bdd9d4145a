"""Publishes a process context by hand, following the text of OTEP 4719: `process_context_by_hand.py memfd|anonymous PAUSE_S`. SIGUSR1: another
version of it. SIGUSR2: `fire` makes 200 system calls. The child publishes nothing. Prints "named False" on a kernel without names of anonymous
memory."""
import ctypes
import mmap
import os
import signal
import struct
import sys
import time

form = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)


def field(number, data):
    size, out = len(data), b""
    while size >= 0x80:
        out, size = out + bytes([size & 0x7f | 0x80]), size >> 7
    return bytes([number << 3 | 2]) + out + bytes([size]) + data


def pair(key, value):
    return field(1, field(1, key.encode()) + field(2, value))


def text(value):
    return field(1, value.encode())


def context(version):
    return field(1, pair("service.name", text(f"{form}-shop")) + pair("service.version", text(version)) + pair("service.instance.id", text(f"{form}-instance-{version}"))
                 + pair("deployment.environment.name", text("test\u00e4")) + pair("port", b"\x18\x50") + pair("process.pid", b"\x18\x01") + pair("pid", b"\x18\x01")
                 + pair("escape", text("\x1b[31mred")) + pair("long", text("x" * 5000)) + pair("list", field(5, field(1, text("a"))))
                 ) + field(2, field(1, b"threadlocal.schema_version") + field(2, text("tlsdesc_v1_dev")))


def address_of(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


fd = os.memfd_create("OTEL_CTX") if form == "memfd" else -1
if fd >= 0:
    os.ftruncate(fd, 4096)
header = mmap.mmap(fd, 4096, flags=mmap.MAP_PRIVATE | (0 if fd >= 0 else mmap.MAP_ANONYMOUS), prot=mmap.PROT_READ | mmap.PROT_WRITE)
if fd >= 0:
    os.close(fd)
header.madvise(mmap.MADV_DONTFORK)


def payload(version):
    data = context(version)
    return ctypes.create_string_buffer(data, len(data))


now = payload("1")
struct.pack_into("=IIQQ", header, 8, 2, len(now), time.time_ns(), ctypes.addressof(now))
header[:8] = b"OTEL_CTX"
named = libc.prctl(0x53564d41, 0, ctypes.c_ulong(address_of(header)), ctypes.c_ulong(4096), b"OTEL_CTX") == 0


def update(*_):
    global now
    other = payload("2")
    struct.pack_into("=Q", header, 16, 0)
    struct.pack_into("=I", header, 12, len(other))
    struct.pack_into("=Q", header, 24, ctypes.addressof(other))
    struct.pack_into("=Q", header, 16, time.time_ns())
    now = other


def fire(*_):
    for _ in range(200):
        os.getppid()
    print("fired", flush=True)


signal.signal(signal.SIGUSR1, update)
signal.signal(signal.SIGUSR2, fire)
child = os.fork()
if child:
    print("child", child, flush=True)
    print("named", named or form == "memfd", flush=True)
    print("pid", os.getpid(), flush=True)
    print("ready", flush=True)
else:
    libc.prctl(1, signal.SIGKILL)
while True:
    sum(range(200000))
    time.sleep(float(sys.argv[2]))
