#!/usr/bin/env python3
"""Makes the first inputs of the fuzz harnesses: `tests/fuzz/seeds.py HARNESS DIRECTORY`. A fuzzer that begins with nothing spends its
seconds on finding out what an ELF file is; so each harness gets real inputs of its kind, made here rather than kept in git. Inputs that
once broke something are kept: tests/fuzz/found/HARNESS/."""
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def elf_files():
    """Small programs in the forms that matter: PIE, static-like, stripped, compressed debug sections, an object file, the vdso."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "x.c"
        source.write_text("int g(int x){volatile char b[64]; b[x & 63] = 1; return b[0];}\nint main(int c, char **v){(void)v; return g(c) + g(2);}\n")
        forms = {"pie": [], "no-pie": ["-no-pie"], "debug": ["-g", "-gz"], "object": ["-c"], "shared": ["-shared", "-fPIC"],
                 "frame-pointers": ["-fno-omit-frame-pointer"], "stripped": ["-s"], "no-libc": ["-nostdlib", "-static", "-Wl,-e,main"],
                 "debug_frame": ["-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]}
        for name, flags in forms.items():
            out = Path(folder) / name
            if subprocess.run(["gcc", "-O2", *flags, "-o", out, source], capture_output=True).returncode == 0:
                yield name, out.read_bytes()
    memory = Path("/proc/self/maps").read_text()
    for line in memory.splitlines():
        if line.endswith("[vdso]"):
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            with open("/proc/self/mem", "rb") as mem:
                mem.seek(start)
                yield "vdso", mem.read(end - start)


def eh_frames():
    """The .eh_frame sections of those."""
    for name, data in elf_files():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "elf").write_bytes(data)
            out = Path(folder) / "out"
            for section in (".eh_frame", ".debug_frame"):
                subprocess.run(["objcopy", "-O", "binary", "--only-section", section, "--set-section-flags", f"{section}=alloc", f"{folder}/elf", out], capture_output=True)
                # Far-apart sections come out with the gap between them.
                if out.exists() and 0 < out.stat().st_size < 1 << 20:
                    yield name + section, out.read_bytes()


def proc(name):
    def read():
        for pid in ("self", "1"):
            try:
                yield pid, Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                pass
    return read


def texts(*items):
    return lambda: ((str(i), item if isinstance(item, bytes) else item.encode()) for i, item in enumerate(items))


HTTP = texts("GET / HTTP/1.1\r\nHost: 127.0.0.1:7070\r\n\r\n", "GET /api/profile?format=json&pid=12&last=60s HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n",
             "POST /x%20y?a=b&c HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
             "GET / HTTP/1.0\n\n", "HTTP/1.1 301 Moved\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n")
KALLSYMS = texts("ffffffff81000000 T _text\nffffffff81000040 t startup_64\nffffffffc0001000 t nft_do_chain\t[nf_tables]\nffffffffc0002000 t bpf_prog_6deef7357e7b4530_x\t[bpf]\n",
                 "0000000000000000 T _text\n")
SYMBOLS = texts("_ZN4shop4TillIlE4ringEl", "_RNvXNtCs5MG4p4o9T2T_5rusty5storeINtB2_5CratemENtB2_5Shelf5visitB4_", "_ZN5rusty5store5count17h766930c19850f944E",
                "main", "_ZZ4mainENKUliE_clEi", "_ZNSt8functionIFiiEEC1IZ4mainEUliE_vEEOT_")
CGROUPS = texts("0::/system.slice/docker-" + "4f" * 32 + ".scope\n", "12:pids:/docker/" + "4f" * 32 + "\n1:name=systemd:/x\n0::/\n",
                "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b1d3c5e_1111_2222_3333_444455556666.slice/cri-containerd-" + "4f" * 32 + ".scope\n",
                "3:cpu:/slurm/uid_1000/job_42/step_0/task_0\n", "0::/system.slice/nginx.service\n")
YAML = texts("profile:\n  rate: 19\nbudget:\n  cpu: 1%\n  memory: 64MiB\npage:\n  listen: 127.0.0.1:7070\n", "profile: {enabled: true}\n", "a: [1, 2\n")
REQUESTS = texts(*(bytes(24) + struct.pack("<10Q", 1, 10, 5_000_000, 100, 100, 0, 1000, 1000, 1000, 1000) + struct.pack("<HHBBBB", 200, 80, 2, 0, 2, len(line)) + bytes(16) +
                   b"nginx".ljust(16, b"\0") + line.ljust(160, b"\0") + (struct.pack("<QQ", 900_000, 900_000) + bytes(96) + struct.pack("<iIBBBBHH", call, 2, thing, 0, 3, 2, 80, 0) +
                                                                        bytes(16) + b"ext4".ljust(8, b"\0") + b"name".ljust(32, b"\0")) * 2 + b"\0"
                   for line, call, thing in ((b"GET /a/17?x=1 HTTP/1.1\r\n", 0, 2), (b"POST http://h/b HTTP/1.0\r\n", 202, 0), (b"GET /%41;x/0123456789abcdef", 74, 4))))
WIRE = texts(struct.pack("<IIQ", 1, 64, 1) + bytes(48), struct.pack("<HHI", 1, 24, 0) + bytes(24))
MAPS = proc("maps")

# The first word that occurs in the harness's name decides.
KINDS = [("eh_frame", eh_frames), ("dwarf", eh_frames), ("cfi", elf_files), ("elf", elf_files), ("symbols", elf_files), ("debug", elf_files),
         ("unwind", elf_files), ("demangle", SYMBOLS), ("kallsyms", KALLSYMS), ("kernel", KALLSYMS), ("maps", MAPS), ("cgroup", CGROUPS), ("stat", proc("stat")),
         ("environ", texts("OTEL_SERVICE_NAME=shop\0OTEL_RESOURCE_ATTRIBUTES=service.namespace=a,service.version=1%2E2\0PATH=/bin\0")),
         ("http", HTTP), ("request", REQUESTS), ("query", texts("a=b&c=%20", "format=json&last=60s")), ("host", texts("localhost:7070", "[::1]:80")), ("config", YAML),
         ("wire", WIRE), ("record", WIRE), ("units", texts("64MiB", "250ms", "1%"))]


def main(harness, folder):
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    make = next((make for word, make in KINDS if word in harness), None)
    count = 0
    for name, data in make() if make else [("zero", bytes(64)), ("text", b"some text 1234\n")]:
        (out / name).write_bytes(data)
        count += 1
        if count <= 3 and data:  # and a broken one of the same kind
            broken = bytearray(data[:len(data) * 2 // 3])
            for _ in range(min(16, len(broken))):
                broken[random.Random(count).randrange(len(broken))] ^= 0xFF
            (out / f"{name}-broken").write_bytes(bytes(broken))
    found = HERE / "found" / harness
    for path in found.iterdir() if found.is_dir() else []:
        shutil.copy(path, out / f"found-{path.name}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
