#!/usr/bin/env python3
"""Creates the initial inputs of the fuzzers: `tests/fuzz/seeds.py HARNESS DIRECTORY`. A fuzzer without inputs spends its time on discovering the
ELF format; so each fuzzer gets real inputs of its kind, generated here and not kept in git. Inputs that once found a bug are kept in
tests/fuzz/found/HARNESS/: each run also starts with them."""
import gzip
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def elf_files():
    """Small programs in the relevant forms: PIE, static-like, stripped, compressed debug sections, an object file, the vdso."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "x.c"
        source.write_text("#ifdef GO\n__attribute__((section(\".go.buildinfo\"), used)) char info[] = \"\\xff Go buildinf:\\b\\2\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\bgo1.26.8\";\n"
                          "__attribute__((used)) __thread void *tlsg __asm__(\"runtime.tlsg\") = info;\n#endif\n"
                          "__thread volatile int *otel_thread_ctx_v1;\nint g(int x){volatile char b[64]; b[x & 63] = 1; return b[0] + (otel_thread_ctx_v1 != 0);}\nint main(int c, char **v){(void)v; return g(c) + g(2);}\n")
        forms = {"pie": [], "no-pie": ["-no-pie"], "debug": ["-g", "-gz"], "object": ["-c"], "shared": ["-shared", "-fPIC"], "descriptor": ["-shared", "-fPIC", "-mtls-dialect=gnu2"],
                 "frame-pointers": ["-fno-omit-frame-pointer"], "stripped": ["-s"], "go": ["-DGO"], "no-libc": ["-nostdlib", "-static", "-Wl,-e,main"],
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
                # Sections far apart are extracted with the gap between them.
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
YAML = texts("profile:\n  rate: 19\nbudget:\n  cpu: 1%\n  memory: 64MiB\npage:\n  listen: 127.0.0.1:7070\n", "profile: {enabled: true}\n", "profile:\n  sampling_rules: command=a:99, user=b:0, cgroup=/c:1\n", "a: [1, 2\n")
REQUESTS = texts(*(bytes(24) + struct.pack("<14Q", 1, 77, 10, 5_000_000, 100, 100, 0, 1000, 1000, 1000, 1000, 0, 0, 0) + bytes(24) + struct.pack("<HHBBBB", 200, 80, 2, 0, 2, len(line)) + bytes(16) +
                   b"nginx".ljust(16, b"\0") + line.ljust(160, b"\0") + (struct.pack("<QQ", 900_000, 900_000) + bytes(96 + 8) + struct.pack("<iIBBBBHBB", call, 2, thing, 0, 3, 2, 80, 0, 255) +
                                                                        bytes(16) + b"ext4".ljust(8, b"\0") + b"name".ljust(32, b"\0")) * 2 + b"\0"
                   for line, call, thing in ((b"GET /a/17?x=1 HTTP/1.1\r\n", 0, 2), (b"POST http://h/b HTTP/1.0\r\n", 202, 0), (b"GET /%41;x/0123456789abcdef", 74, 4))))
MOUNTS = texts("36 35 98:0 /mnt1 /mnt/2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n22 1 0:20 / / rw - ext4 /dev/vda rw\n\0/mnt/2/x",
               "29 22 0:26 / /sys/fs/cgroup/a\\040b rw - cgroup2 cgroup2 rw,nsdelegate\n30 22 0:27 / /m\\134 rw shared:1 - cgroup cgroup rw,memory\n\0/sys/fs/cgroup/a b/c")
MAPS = proc("maps")


def wires():
    """Recordings: a process that starts, calls exec(), is sampled, and exits; with a request (probes/*.h)."""
    def record(time_ns, kind, body, pid=0x40000000):
        body += bytes(-len(body) % 8)
        return struct.pack("<IHHQII", 24 + len(body), kind, 0, time_ns, pid, pid) + body

    def mapping(path, build_id=b""):
        text = path + b"\0"
        return struct.pack("<QQQQQIIB20sBH", 0x400000, 0x100000, 0, 0, 0, 0, 0, 0, build_id.ljust(20, b"\0"), len(build_id), len(text)) + text

    def sample(user, stack, flags=0, weight=10 ** 7):
        return struct.pack("<QQIHHBBHI5Q16s", 0, weight, 0, 0, len(user), 0, flags, 0, len(stack) * 8, 0x401234, 0x7FFFF000, 0x7FFFF040, 0, 0, b"thread") + struct.pack(f"<{len(user) + len(stack)}Q", *user, *stack)
    head, program = b"SONDEWIR" + struct.pack("<II", 2, 0), b"/usr/bin/true"
    life = [(16, struct.pack("<II", 1, 1)), (17, b"true".ljust(16, b"\0")), (20, mapping(program)), (1, sample([0x401234, 0x402345], [])), (1, sample([0x401234], [0x402345, 7, 0x403456])),
            (18, b"named".ljust(16, b"\0")), (33, sample([0x401234], [0x402345] * 8)), (19, b"")]
    yield "life", head + b"".join(record(10 ** 12 + i * 1000, kind, body) for i, (kind, body) in enumerate(life))
    event = struct.pack("<QII256s", 1, 0, 0, b"sched:sched_switch")
    yield "events", head + b"".join(record(10 ** 12 + i, kind, body) for i, (kind, body) in enumerate([(6, event), (1, sample([0x401234], [], weight=1)), (6, event), (6, event[:-1] + b"x")]))
    sums = [(193, struct.pack("<IIQQBBHI", launch, 0, 2, 100, work, graph, len(name), 0) + name) for launch, work, graph, name in ((7, 0, 0, b"_Z4gemmPf"), (7, 0, 1, b"k"), (0, 2, 0, b"copy"), (8, 1, 0, b"ncclDevKernel_X"))]
    windows = [(194, struct.pack("<Ii6Q64s", state, error, 9, 3, 8, 1, 1, 1, reason)) for state, error, reason in ((0, 0, b""), (1, 39, b"another profiler"), (2, 0, b""))]
    yield "gpu", head + b"".join(record(10 ** 12 + i, kind, body) for i, (kind, body) in enumerate([(6, struct.pack("<QII256s", 0, 2, 0, b"gpu")), *life[:3], windows[0], (192, sample([0x401234], [], weight=7)), *sums, (17, b"new".ljust(16, b"\0")), *sums, *windows, (19, b"")]))
    yield "lost", head + record(10 ** 12, 21, b"") + record(10 ** 12 + 1, 20, mapping(b"//anon", b"\1" * 20)) + record(10 ** 12 + 2, 1, sample([0x400100], []))
    waker, wait = sample([0x402345], [], weight=0x40000000 << 32 | 0x40000000), "<5QIi4BI16s"
    yield "waits", head + record(10 ** 12, 2, sample([0x401234], [])) + b"".join(record(10 ** 12 + 10 + i, 5, waker, pid) for i, pid in enumerate((0x40000001, 0))) + b"".join(
        record(10 ** 12 + 100, 3, struct.pack(wait, 0, 10 ** 12, 100, 10, 10 ** 12, 1, 202, 0, 0, 0, who, at & 0xFFFFFFFF, b"thread")) for who, at in ((3, 10 ** 12 + 11), (2, 10 ** 12 + 11), (1, 0), (5, 10 ** 12 + 10)))
    for name, request in REQUESTS():
        yield f"request-{name}", head + record(10 ** 12, 34, request[24:-1])


def go_tables():
    """Tables with a few functions each, text address in the header and in the module's record; and one generated by the compiler."""
    for name, magic, text in (("1.20", 0xFFFFFFF1, 0x400040), ("1.26", 0xFFFFFFF1, 0), ("1.18", 0xFFFFFFF0, 0x400040)):
        count, names, functions = 3, 72, 104
        table = struct.pack("<IHBBQQQQQQQQ", magic, 0, 1, 8, count, 1, text, names, 0, 0, 0, functions) + b"main.main\0main.f\0main.g\0".ljust(32, b"\0")
        table += struct.pack("<8I", 0, 32, 16, 40, 48, 48, 64, 0) + struct.pack("<6I", 0, 0, 16, 10, 48, 17)
        depths = struct.pack("<5I", 0, 10, 0, 0, 1) + bytes(28)  # a function's record, and the changes of its stack depth
        table = table[:functions + 4] + struct.pack("<I", len(table) - functions) + table[functions + 8:] + depths
        table = table[:56] + struct.pack("<Q", 96) + table[64:96] + bytes([0, 2, 4, 16, 8, 15, 4, 0]) + table[104:]
        if text:
            yield name + " among other data", struct.pack("<H", 64 + len(table) | 0x8000) + bytes(64) + table
        yield name, struct.pack("<H", len(table)) + table + bytes(176) + struct.pack("<Q", 0x400040) + bytes(72) + struct.pack("<QQQ", 0x400000 + 64 + 24, 8, 0x400040)



def pprofs():
    """The message of tests/unit/import/test_pprof_file.c in both forms, and one from Go."""
    def number(field, value):
        out = bytearray([field << 3])
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes(out) + bytes([value])

    def message(field, *parts):
        inside = b"".join(parts)
        return bytes([field << 3 | 2, len(inside)]) + inside
    tables = message(1, number(1, 1), number(2, 2)) + message(1, number(1, 3), number(2, 4)) + message(3, number(1, 9), number(5, 7))
    tables += message(4, number(1, 7), number(2, 9), message(4, number(1, 22), number(2, 12)), message(4, number(1, 11))) + message(4, number(1, 3), number(3, 0x1234))
    tables += message(5, number(1, 22), number(2, 6)) + message(5, number(1, 11), number(2, 5))
    tables += b"".join(message(6, text) for text in (b"", b"samples", b"count", b"cpu", b"nanoseconds", b"outer", b"inner", b"/bin/a", b"process"))
    yield "packed", tables + message(2, message(1, bytes([7, 3])), message(2, bytes([2, 50])), message(3, number(1, 8), number(2, 5))) + number(14, 3) + number(10, 1000000000)
    yield "plain", message(2, number(1, 3), number(2, 1), number(2, 25)) + tables


def python_codes():
    """Code objects with strings of each width and a table with each kind of location; an interpreter file has its own symbols."""
    tables = {"locations": (0, [128, 0, 216, 13, 14, 241, 3, 1, 14, 15, 240, 6, 6, 9, 29, 248, 245, 94, 9, 0, 10, 14, 232, 5, 232, 72, 3]),
              "ranges": (1, [2, 3, 4, 251, 4, 128, 0, 127, 254, 9, 166, 0]), "lnotab": (2, [0, 3, 2, 255, 12, 127, 0, 14, 255, 0, 165, 1]), "untold": (3, [])}
    texts_by_width = ((1, "na\xefve.py".encode("latin-1")), (2, "\u0433\u20ac".encode("utf-16-le")), (4, "a\U0001f40d".encode("utf-32-le")))
    for table, (kind, numbers) in tables.items():
        lines = bytes(numbers)
        for width, text in texts_by_width[:3 if kind == 0 else 1]:
            texts_of = struct.pack("<II", len(text) // width, width << 2) * 2
            head = struct.pack("<IHHQII", 0, 2, 0, 1, 5, 5) + struct.pack("<QIi", 4096, 7, 3) + texts_of + struct.pack("<IHBB", len(lines), 184, kind, 0)
            yield f"{table}-width-{width}", head + text.ljust(1024, b"\0") + text.ljust(512, b"\0") + lines
    yield from elf_files()


def v8_codes():
    """Functions with strings of each width, without a name, and with an unreadable one; a library with the symbols that Node.js publishes."""
    for label, width, text in (("latin", 1, "gr\xf6\xdfe".encode("latin-1")), ("wide", 2, "a\U0001f40d\u0433".encode("utf-16-le")), ("none", 1, b""), ("unread", 0, b"")):
        texts_of = struct.pack("<II", len(text) // width if width else 0, width) * 2
        yield label, struct.pack("<IHHQII", 0, 8, 0, 1, 5, 5) + struct.pack("<QII", 4097, 7, 3) + texts_of + text.ljust(1024, b"\0") + text.ljust(512, b"\0")
    symbols = re.findall(r'\{"(v8dbg_\w+|_ZN\w+)", (-?\d+)\}', (HERE.parent / "unit/resolve/interpreter/test_v8.c").read_text())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.c").write_text("".join(f"int {name} = {value};\n" for name, value in symbols))
        out = Path(folder) / "x.so"
        if subprocess.run(["gcc", "-shared", "-nostdlib", "-s", "-o", out, f"{folder}/x.c"], capture_output=True).returncode == 0:
            yield "published", out.read_bytes()


def hotspot_images():
    """Memory with HotSpot's tables, of 17 and of 25: strings, a word for each symbol, structs, types, numbers."""
    made = (HERE.parent / "unit/resolve/hotspot_image.h").read_text()

    def fields(function):
        """[(type, field, its type, whether it is static, offset or address)] as the unit tests have them."""
        body = made.partition(f"image_{function}(struct hotspot_memory *m)\n{{")[2].partition("\n}")[0]
        found = re.findall(r'image_field\(m, "(.*?)", "(.*?)", "(.*?)", (true|false), (\w+)\)', body)
        return [(a, b, kind, is_static == "true", int(value, 0)) for a, b, kind, is_static, value in found]
    for name in ("17", "25"):
        texts = bytearray()

        def text(word):
            at = texts.find(b"\0" + word.encode() + b"\0")
            if at < 0:
                at = len(texts) - 1
                texts.extend(word.encode() + b"\0")
            return 0x7f0000000000 + 0x800000 + at + 1
        texts.extend(b"\0")
        rows = fields("common") + fields(name) + [("Abstract_VM_Version", "_vm_major_version", "int", True, 0x7f0000000000 + 0x1000000 + 8)]
        structs = b"".join(struct.pack("<QQQQQQ", text(a), text(b), text(kind), is_static, *((0, value) if is_static else (value, 0))) for a, b, kind, is_static, value in rows) + bytes(48)
        types = b"".join(struct.pack("<QQQQQ", text(a), 0, 0, 0, size) for a, size in (("HeapBlock", 16), ("ConstantPool", 64), ("ConstMethod", 56))) + bytes(40)
        ints = b"".join(struct.pack("<Qq", text(a), value) for a, value in (("frame::interpreter_frame_sender_sp_offset", -1), ("CodeBlobKind::Nmethod", 1), ("ConstMethod::_has_linenumber_table", 1))) + bytes(16)
        start = 0x7f0000000000 + 0x1000000 + 8 * 16
        words = [start, 48, 0, 8, 16, 24, 32, 40, start + len(structs), 40, 0, 32, start + len(structs) + len(types), 16, 0, 8]
        yield name, bytes(texts).ljust(2048, b"\0") + struct.pack("<16Q", *words) + structs + types + ints


def hotspot_methods():
    for name, texts_of in (("get", (b"java/util/HashMap", b"get", b"(Ljava/lang/Object;[[IJ)Ljava/lang/Object;", b"HashMap.java")), ("stub", (b"", b"StubRoutines (1)", b"", b"")),
                           ("hidden", (b"A$$Lambda$14+0x00007f3644000a10", b"<init>", b"()V", b"\xc0\x80\n")), ("odd", (b"A", b"f", b"((L", b""))):
        yield name, bytes(24) + struct.pack("<QIHHHHI", 4096, 1, *map(len, texts_of), 0) + b"".join(t.ljust(n, b"\0") for t, n in zip(texts_of, (512, 256, 512, 256)))
    yield "cut", bytes(24) + struct.pack("<QIHHHHI", 4096, 1, 65535, 65535, 65535, 65535, 0) + b"(" * 1536
    names = b"".join(text.ljust(n, b"\0") for text, n in ((b"A", 512), (b"f", 256), (b"()V", 512), (b"A.java", 256)))
    for bias in (0, 1):
        lines = bytes((0xFF, bias, 28 + bias, 3 << 3 | 1, 0xFF, 74 + bias, 242 + bias, 27 + bias, 20 << 3, 0xFF, bias, 19 + bias, 0))
        yield f"lines-{bias}", bytes(20) + struct.pack("<IQIHHHHHBB", 40 << 12, 4096, 1, 1, 1, 3, 6, len(lines), bias, 0) + names + lines


def traces():
    """Output of a real Triton, in pieces of a few requests; plain, compressed, truncated, and with other valid JSON in between."""
    for path in sorted((HERE.parent / "e2e" / "triton").glob("trace.json.*")):
        data = path.read_bytes()[:6000]
        yield path.name, data
        yield path.name + ".gz", gzip.compress(data)
    yield "spaces", b' [ { "id" : 1 , "parent_id":0, "x" : [ { "y" : [ null , -1.5e3 , "\\u00e9\\ud83d\\ude00\\n" ] } ] , "model_name" : "m" , "model_version" : -1 } ] [ ]'
    yield "tensors", b",".join([b'[{"id":1,"timestamps":[{"name":"HTTP_RECV_START","ns":1},{"name":"own","ns":18446744073709551615}]}'] + [
        b'{"id":2,"parent_id":1,"activity":"TENSOR_QUEUE_INPUT","tensor":{"name":"x","data":"%s","shape":"%s","dtype":"%s"}}' % tensor for tensor in (
            (b"1,0", b"2", b"BOOL"), (b"-1,1e9,nan,inf,0.1", b"5", b"FP32"), (b"1e-300,2", b"1,2", b"FP64"), (b"7", b"1,1,1", b"UINT64"), (b"", b"0", b"FP16"))]) + b"]"


def otlp():
    """Exports of a real Triton, one request at a time, and a message of each kind of field."""
    for i, line in enumerate((HERE.parent / "e2e" / "triton" / "spans.jsonl").read_bytes().splitlines()[:4]):
        yield f"json-{i}", line

    def field(number, content):
        return bytes([number << 3 | 2, len(content) & 0x7F | 0x80, len(content) >> 7]) + content
    attributes = field(9, field(1, b"triton.trace_id") + field(2, b"\x18\x05")) + field(9, field(1, b"triton.model_name") + field(2, field(1, b"m")))
    span = field(1, bytes(range(16))) + field(2, b"12345678") + field(5, b"m") + b"\x39" + bytes(8) + attributes + field(11, b"\x09" + bytes(8) + field(2, b"REQUEST_START"))
    inner = field(1, bytes(range(16))) + field(2, b"87654321") + field(4, b"12345678") + field(5, b"own")
    yield "protobuf", field(1, field(2, field(2, span) + field(2, inner)))


PERF_MAPS = texts("7fd228005b80 30c JS:*inner /srv/busy.js:1:15\n7fd228005ec0 250 JS:~ /srv/busy.js:1:1\n7fd228005b90 30 Builtin:ArrayMap\n",
                  "0x00007fd8f8ec7640 0x00000000000000f8 double Busy.inner(int)\n0x00007fd8f8ec7640 0x0000000000000010 I2C/C2I adapters\n",
                  "1000 10 one\n1008 10 two\nnonsense\n1000 0 none\n1000 ffffffffffffffff all\n1010 8 half")


def jitdumps():
    """Code with lines that is moved and overwritten, and the close record; by the CPU's clock and by ours."""
    def record(kind, time_ns, body):
        return struct.pack("<IIQ", kind, 16 + len(body), time_ns) + body
    lines = struct.pack("<QQ", 4096, 2) + struct.pack("<QII", 4096, 11, 0) + b"a.js\0" + struct.pack("<QII", 4100, 12, 0) + b"\xff\0"
    loads = [struct.pack("<IIQQQQ", 5, 5, at, at, 64, at) + name + b"\0" + bytes(64) for at, name in ((4096, b"one"), (4128, b"two"), (8192, b"JS:*f /a.js:1:2"))]
    records = [record(2, 10, lines), record(4, 10, bytes(24)), record(0, 10, loads[0]), record(0, 2000, loads[2]), record(1, 2010, struct.pack("<IIQQQQQ", 5, 5, 0, 8192, 12288, 64, 8192)),
               record(0, 2020, loads[1]), record(3, 2030, b"")]
    for name, flags in (("monotonic", 0), ("ticks", 1)):
        yield name, struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, 5, 1, flags) + b"".join(records)


def probe_notes():
    """A program with static probes, and its section of notes."""
    top = HERE.parents[1]
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "x.c", Path(folder) / "x"
        source.write_text('#include <sonde/static_probe.h>\nint main(int c, char **v) { SONDE_PROBE(p, one, c, v[0]); SONDE_PROBE(p, two); return 0; }\n')
        if subprocess.run(["gcc", "-O2", f"-I{top}/include", "-s", "-o", out, source], capture_output=True).returncode == 0:
            yield "program", out.read_bytes()
            subprocess.run(["objcopy", "-O", "binary", "--only-section=.note.stapsdt", "--set-section-flags=.note.stapsdt=alloc", out, f"{out}.notes"], capture_output=True)
            yield "section", Path(f"{out}.notes").read_bytes()
    yield "declaration", struct.pack("<III", 6, 17, 0x50) + b"sonde\0\0\0" + b"p\0one\0i32 n, u8\0".ljust(20, b"\0")


# Functions of BoringSSL, which report errors.
BORINGSSL = r"""
__attribute__((noinline, noipa)) void put(int library, int zero, int reason, const char *file, unsigned line) { __asm__("" ::: "memory"); }
#define SSL(reason) put(16, 0, reason, "x/ssl/ssl_lib.cc", __LINE__)
#define BIO(reason) put(17, 0, reason, "x/crypto/bio/bio.cc", __LINE__)
__attribute__((noipa)) int inner(long *s) { if (!s[1]) SSL(226); if (!s[2]) SSL(215); return s[3]; }
__attribute__((noipa)) int peek(long *s, char *b, int n) { if (s[4]) { SSL(66); return -1; } if (inner(s) <= 0) return -1; __builtin_memcpy(b, (char *)s[5], n); return n; }
__attribute__((noipa)) int read(long *s, char *b, int n) { if (s[4]) { SSL(66); return -1; } if (inner(s) <= 0) return -1; __builtin_memcpy(b, (char *)s[5], n); s[20] -= n; return n; }
__attribute__((noipa)) int write(long *s, char *b, int n) { if (s[4]) SSL(66); if (!s[1]) SSL(226); if (!s[2]) SSL(215); if (n < 0) SSL(111); return n; }
__attribute__((noipa)) long *new(long *c) { if (!c) SSL(185); inner(c); return c; }
__attribute__((noipa)) int bio_read(long *s, char *b, int n) { if (!s) BIO(115); if (!*s) BIO(114); return n; }
__attribute__((noipa)) int bio_write(long *s, char *b, int n) { if (!s) BIO(115); if (!*s) BIO(114); return n + 1; }
__attribute__((noipa)) int flush(long *s) { if (!s) put(16, 0, 119, "x/ssl/ssl_buffer.cc", __LINE__); return bio_write(s, (char *)s, 1) + 1; }
void last(void) {}
"""


def tls_files():
    """Functions of OpenSSL, of BoringSSL and of libcuda as a compiler makes them, and their bytes as code."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "x.c", Path(folder) / "x"
        source.write_text("static __attribute__((noinline)) int internal(void *s, char *b, long n, long *r) { for (; n > 0; n--) b[n] += *(char *)s; *r = n; return 1; }\n"
                          "int SSL_read(void *s, char *b, int n) { long r; return n < 0 ? -1 : internal(s, b, n, &r) > 0 ? (int)r : 0; }\n"
                          "int SSL_write(void *s, char *b, int n) { return n < 0 ? -1 : SSL_read(s, b, n - 1); }\nvoid SSL_free(void *s) { if (s) SSL_read(s, s, 1); }\nint BIO_write(void *s, char *b, int n) { return n > 0 ? SSL_read(s, b, n) : 0; }\n"
                          "int cuMemAlloc_v2(void *s, char *b) { return SSL_read(s, b, 2); }\nint cuStreamSynchronize(void *s) { long r; return internal(s, s, 1, &r) + r; }\n")
        for name, flags in (("library", ["-shared", "-fPIC"]), ("protected", ["-shared", "-fPIC", "-fcf-protection"])):
            if subprocess.run(["gcc", "-O2", *flags, "-o", out, source], capture_output=True).returncode == 0:
                yield name, out.read_bytes()
                subprocess.run(["objcopy", "-O", "binary", "--only-section=.text", out, f"{out}.text"], capture_output=True)
                yield name + "-text", Path(f"{out}.text").read_bytes()
        source.write_text(BORINGSSL)
        if subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-s", "-w", "-fno-builtin", "-fvisibility=hidden", "-o", out, source], capture_output=True).returncode == 0:
            yield "boringssl", out.read_bytes()


# Length in words, kind, process, thread, time; each followed by the rest of its record.
LIVES = texts(b"".join(bytes([words, kind, pid, 0, 1]).ljust(8 + words * 8, b"/") for words, kind, pid in ((2, 0, 1), (3, 1, 1), (12, 4, 1), (12, 4, 1), (3, 2, 1), (1, 3, 1), (1, 5, 0))))

TRACE_PROTOCOL = texts('POST /v2/trace/setting\n{"trace_rate":"5","trace_level":["TIMESTAMPS","TENSORS"],"trace_count":null}', "GET /v2/models/m/versions/1/trace/setting\n",
                       'POST /v2/models/m/trace/setting\n{"log_frequency":"3","trace_file":"\\u00e9\\ud83d\\ude00"}', "trace_level\nTIMESTAMPS\nTENSORS",
                       "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
TRACE_TENSORS = texts(b"\x00\x01" + struct.pack("<q", 2) + b"\x02\x00\x00\x00a\xff\x00\x00\x00\x00", *(bytes([kind, 1]) + struct.pack("<q", 16 // width) + bytes(range(60, 76))
                      for kind, width in ((1, 1), (2, 1), (6, 4), (8, 8), (10, 2), (11, 2), (12, 4), (13, 8))))
TRACE_CONFIG = texts("--trace-config\nrate=5\n--trace-config=triton,file=/x\n--port\n80", "--trace-config\nmode=opentelemetry\n--trace-config\nopentelemetry,resource=a=b\n--\nx",
                     "--trace-level=max\n--trace-count\n-1\n--trace-log-frequency=7")

PARTIAL = texts(b"\x0a\x0b\x08\x02\x12\x07too old", b"\x10\x05\x1d....\x21........\x0a\x02\x08\x03", '{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too\\nold"}}',
                '{"partialSuccess":{"rejectedDataPoints":4}}')

GRPC = texts(b"HTTP/2 200\r\ncontent-type: application/grpc\r\ngrpc-encoding: gzip\r\ngrpc-status: 8\r\ngrpc-message: not%20now\r\ngrpc-status-details-bin: "
             b"CAgaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIKCggIAhCAyrXuAQ==\r\n\n\0\0\0\0\x0d\x0a\x0b\x08\x02\x12\x07too old",
             b"grpc-encoding: gzip\r\ngrpc-status: 0\r\n\n\1\0\0\0" + (lambda data: bytes([len(data)]) + data)(gzip.compress(b"\x0a\x02\x08\x03")))

def line_message(number, *lines):
    return b"\x01" + struct.pack("<IB", number, len(lines)) + b"".join(struct.pack("<IHHH", line, len(file), len(name), 0) + file + name for line, file, name in lines)


LINES = texts(line_message(0, (12, b"/src/a.c", b"main")), line_message(70000, (3, b"/src/a.h", b"_ZN4shop4TillIlE4ringEl"), (0, b"", b"")), b"\x02\x00", b"\x02\x03")

def message(number, data):
    return bytes([number << 3 | 2, len(data) & 0x7f | 0x80, len(data) >> 7]) + data


def attribute(key, value):
    return message(1, message(1, key) + message(2, value))


PROCESS_CONTEXTS = texts(message(1, attribute(b"service.name", message(1, b"shop")) + attribute(b"telemetry.sdk.language", message(1, b"python")) + attribute(b"port", b"\x18\x50"))
                         + message(2, message(1, b"threadlocal.schema_version") + message(2, message(1, b"tlsdesc_v1_dev"))),
                         message(1, attribute(b"service.instance.id", message(1, "ä".encode())) + attribute(b"list", message(5, message(1, message(1, b"a")))) + attribute(b"x", message(1, b"\x1b[0m"))))

# Results of the fake libdw (fuzz_dwarf_lines.c), arbitrary: 0 ends.
DWARF_ANSWERS = texts(bytes([9, 1, 3, 0, 7, 1, 1, 5, 2, 4, 0, 1, 0]) + bytes(range(1, 250)), b"\x40" + b"\x01\x02\x03" * 200, *(random.Random(i).randbytes(1500) for i in range(4)))


def pods():
    """Answers to both calls of CRI: pods with labels, an exited one, containers in these pods and without a pod."""
    def sandbox(digit, uid, name, *labels, state=b""):
        return message(1, message(1, digit * 64) + message(2, message(1, name) + message(2, uid) + message(3, b"shop")) + state + b"".join(
            message(5, message(1, key) + message(2, value)) for key, value in labels) + message(6, message(1, b"note") + message(2, b"a\nb")))

    def container(digit, of, name):
        return message(1, message(1, digit * 64) + message(2, of * 64) + message(3, message(1, name) + b"\x10\x02") + message(8, message(1, b"a") + message(2, b"b")))
    first = sandbox(b"a", b"0b1d3c5e-1111-2222-3333-444455556666", b"web-1", (b"app", b"web"), (b"example.org/team", b"x"), (b"secret", b"hunter2"))
    for name, sandboxes, containers in (("one", first, container(b"1", b"a", b"app")), ("none", b"", b""),
                                        ("more", first + sandbox(b"b", b"ff", b"db-0", state=b"\x18\x01") + sandbox(b"c", b"ff", b"db-0"),
                                         container(b"1", b"a", b"app") + container(b"2", b"c", b"db") + container(b"3", b"9", b"x"))):
        yield name, struct.pack("<H", len(sandboxes)) + sandboxes + containers


def flight_windows():
    """Windows of the flight recorder, as fuzz_critical_path.c reads them: threads 11 (loop), 12 (worker), 13 (other), sockets 1 (the request's), 2 and 3."""
    switch, waking, send, receive, ready = 1, 2, 3, 4, 5
    futex, epoll, recv, sendto, pread, sleep = 1, 2, 3, 4, 6, 7

    def record(kind, tid, other=0, call=0, thing=0, flags=0, after=10):
        return bytes([kind, flags, call, tid | other << 3, thing, 0, after, 10])

    def window(*records, start=1, complete=0):
        return bytes([start, 0, 0, complete, 100, 8, 1, 1]) + b"".join(records)
    run, read = record(switch, 0, 1), record(ready, 5, thing=1, flags=1) + record(receive, 1, thing=1, flags=32)
    reply = record(send, 1, thing=1, flags=32)
    lock = [record(switch, 1, call=futex, thing=128) + record(waking, 1, 3, futex, 128, after=200) + record(switch, 0, 1) for _ in range(3)]
    work = record(waking, 2, 1, futex, 130) + record(switch, 0, 2) + record(switch, 1, call=epoll)
    done = record(ready, 2, thing=2, flags=64) + record(send, 2, thing=3, flags=64) + record(waking, 1, 2, sendto) + run + record(receive, 1, thing=2)
    others = b"".join(record(ready, 5, thing=4, flags=1) + record(receive, 1, thing=4, flags=32) + record(send, 1, thing=4, flags=32) for _ in range(8))
    yield "disk", window(run, read, record(switch, 1, call=pread, thing=5, flags=12), record(waking, 1, 5, flags=1, after=200), run, reply)
    yield "sleep", window(run, read, record(switch, 1, call=sleep), record(waking, 1, 5, flags=2, after=200), run, reply)
    yield "lock", window(run, record(switch, 0, 3), read, *lock, reply, start=2)
    yield "pool", window(run, read, work, others, done, others, reply)
    yield "peer", window(run, read, record(ready, 1, thing=3, flags=129) + record(send, 1, thing=2, flags=128), record(switch, 1, call=recv), record(waking, 2, 5, flags=1),
                         record(switch, 0, 2), record(receive, 2, thing=3), record(ready, 2, thing=2, flags=129) + record(send, 2, thing=3, flags=128),
                         record(waking, 1, 5, flags=1), run, record(receive, 1, thing=2), reply)
    yield "long", window(run, read, *([work, others, *lock, done] * 40), reply)
    yield "incomplete", window(run, read, others, work, done, reply, complete=1)


# The first word that occurs in the fuzzer's name selects.
HPACK = texts(*(b"\0" + b"".join(bytes([len(block)]) + block for block in map(bytes.fromhex, blocks)) for blocks in (
    ("828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf", "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"),
    ("3f09", "44022f6144022f62", "be", "20"))))


def http2_frames():
    """As tests/fuzz/fuzz_http2.c reads them: a gRPC call and its reply, a reset stream, padding and CONTINUATION."""
    def frame(kind, flags, stream, payload, length=None):
        return len(payload if length is None else bytes(length)).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def record(sent, *frames):
        data = b"".join(frames)
        return bytes([sent, len(data)]) + data
    call = frame(1, 4, 1, b"\x83\x44\x06/a.B/C\x5f\x10application/grpc")
    yield "call", record(0, call, frame(0xf1, 0, 1, b"resnet"), frame(0, 1, 1, b"", 20)) + record(1, frame(1, 4, 1, b"\x88\x5f\x10application/grpc"), frame(0, 0, 1, b"", 9),
                                                                                         frame(1, 5, 1, b"\x40\x0bgrpc-status\x015"))
    yield "reset", record(0, call, frame(3, 0, 1, b"\0\0\0\x08")) + record(0xf0, call)
    yield "padding", record(0, frame(1, 41, 1, b"\x02\x80\0\0\0\x10\x82\x04\x03\0\0"), frame(9, 0, 1, b"/x"), frame(9, 4, 1, b"y")) + record(1, frame(1, 5, 1, b"\x89"))


def grpc_calls():
    """What a client sends after its preface: a call, one in pieces, one that it gives up."""
    def frame(kind, flags, stream, payload):
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    headers = b"\x83\x86\x44\x06/a.B/C\x5f\x10application/grpc"
    message = b"\0\0\0\0\x04abcd"
    yield "call", frame(1, 4, 1, headers) + frame(0, 1, 1, message) + frame(1, 4, 3, b"\x83\x86\xbf\xbe") + frame(0, 1, 3, message)
    yield "pieces", frame(1, 0, 1, headers[:5]) + frame(9, 4, 1, headers[5:]) + frame(0, 0, 1, message[:3]) + frame(8, 0, 0, b"\0\0\1\0") + frame(0, 1, 1, message[3:])
    yield "reset", frame(1, 4, 1, headers) + frame(3, 0, 1, b"\0\0\0\x08") + frame(6, 0, 0, bytes(8)) + frame(4, 0, 0, b"\0\4\0\0\0\0")


KINDS = [("metrics_text", texts("# TYPE a counter\na_total{pid=\"4711\",name=\"x\\\\\\n\"} 2.5\n")), ("grpc_connection", grpc_calls), ("attribute_list", texts("deployment.environment.name=prod,team=a%20b")), ("hpack", HPACK), ("http2", http2_frames), ("xid_line", texts("4,1201,99000123,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000008\n SUBSYSTEM=pci\n")), ("nccl_ras", texts('{"communicators": [{"hash": "0xabc", "secondary_hash": "0x1:0x2", "size": 3, "ranks": [{"rank": 0, "host": "10.0.0.7", "pid": 4711, "collective_counts": {"AllReduce": 100}}], "missing_ranks": [{"rank": 2, "pid": -1, "status": {"considered_dead": true}}]}]}')), ("traceparent", texts("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")), ("critical_path", flight_windows), ("hotspot_layout", hotspot_images), ("hotspot", hotspot_methods), ("dwarf_lines", DWARF_ANSWERS), ("pods", pods), ("line_answer", LINES), ("process_context", PROCESS_CONTEXTS), ("perf_map", PERF_MAPS), ("jitdump", jitdumps), ("probe_notes", probe_notes), ("tls_sites", tls_files), ("partial_success", PARTIAL), ("opamp", texts(b"\x0a\x100123456789abcdef\x10\x07\x1a\x18\x0a\x16\x0a\x09host.name\x12\x09\x0a\x07node-1.\x2a\x1a\x08\x01\x22\x02ok2\x12\x0a\x06budget\x12\x08\x1a\x01x\x22\x03low", b"\x0a\x100123456789abcdef\x12\x06\x08\x01\x12\x02no0\x01B\x12\x0a\x10fedcba9876543210", b"\x0a\x100123456789abcdefb\x12\x0a\x10sonde.capture/v1j$\x0a\x10sonde.capture/v1\x12\x05state\x1a\x09\x0a\x03abc\x10\x02 \x07", b"\x0a\x100123456789abcdefZ'\x0a\x10sonde.capture/v1\x12\x05start\x1a\x0c\x0a\x03abc\x10\x02\x18\x07*\x01s")), ("grpc", GRPC), ("trace_protocol", TRACE_PROTOCOL), ("trace_tensor", TRACE_TENSORS), ("trace_config", TRACE_CONFIG),
         ("stream_scan", texts("\0\0HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n13\r\ndata: {\"text\":\"a\"}\n\r\n0\r\n\r\n",
                               "\1\0data: {\"content\":\"a\"}\n\ndata: {\"completion_tokens\": 9}\n\n: ping\n\ndata: [DONE]\n\n", "\3\0POST / HTTP/1.1\r\n\r\n{\"a\":[{}],\"model\":\"m\"}")),
         ("eh_frame", eh_frames), ("dwarf", eh_frames), ("cfi", elf_files), ("elf", elf_files), ("symbols", elf_files), ("debug", elf_files),
         ("unwind", elf_files), ("demangle", SYMBOLS), ("kallsyms", KALLSYMS), ("kernel", KALLSYMS), ("maps", MAPS), ("cgroup", CGROUPS), ("stat", proc("stat")),
         ("environ", texts("OTEL_SERVICE_NAME=shop\0OTEL_RESOURCE_ATTRIBUTES=service.namespace=a,service.version=1%2E2\0PATH=/bin\0")),
         ("tokens", texts("# readers\nsha256:" + "0f" * 32 + " read node-7\n", "Bearer sonde_00112233", "Basic dXNlcjphYmM=")),
         ("api", texts(*(bytes([number]) + b"\n".join(lines) for number in range(9) for lines in ([b"last=15m", b"service=shop'; --", b"host=a"], [b"from=2026-11-30T18:28:18.5+01:00", b"limit=7"], [b"trace_id=" + b"0f" * 16], [b"min_duration=250ms", b"order=time", b"failed=true", b"cause=disk"], [b"kind=off_cpu", b"route=/a", b"baseline_ago=24h"])))),
         ("http", HTTP), ("request", REQUESTS), ("query", texts("a=b&c=%20", "format=json&last=60s")), ("host", texts("localhost:7070", "[::1]:80")), ("config", YAML),
         ("mounts", MOUNTS), ("pprof", pprofs), ("go_table", go_tables), ("python", python_codes), ("v8", v8_codes), ("records", wires), ("replay", wires), ("process_records", LIVES), ("otlp", otlp), ("trace", traces), ("units", texts("64MiB", "250ms", "1%")), ("script_name", texts("python3\0-W\0x\0/a/b.py\0", "java\0-jar\0a.jar\0")),
         ("sample_event", texts("page-faults", "tracepoint:sched:sched_switch", "usdt:/usr/lib/a:b.so:libc:setjmp", "usdt:python:gc__start"))]


def main(harness, folder):
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    make = next((make for word, make in KINDS if word in harness), None)
    count = 0
    for name, data in make() if make else [("zero", bytes(64)), ("text", b"some text 1234\n")]:
        (out / name).write_bytes(data)
        count += 1
        if count <= 3 and data:  # and a damaged one of the same kind
            broken = bytearray(data[:len(data) * 2 // 3])
            for _ in range(min(16, len(broken))):
                broken[random.Random(count).randrange(len(broken))] ^= 0xFF
            (out / f"{name}-broken").write_bytes(bytes(broken))
    found = HERE / "found" / harness
    for path in found.iterdir() if found.is_dir() else []:
        shutil.copy(path, out / f"found-{path.name}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
