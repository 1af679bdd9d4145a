"""libsonde's USDT probes as third-party tools see them: bpftrace, bcc's library, perf, binutils, elfutils; and the installed headers and library with
several compilers and linkers. tests/bpf/test_usdt.c tests them with libbpf."""
import ctypes
import os
import re
import struct
import subprocess
from pathlib import Path

import pytest
from harness.machine import need_command, need_root, skip
from harness.paths import BUILD, TOP
from harness.processes import descriptors, wait_for
from harness.workloads import Workload, workload_path
from probing import lines, watch  # noqa: F401 (a fixture)

EVERY_ARGUMENT = [-8, 8, -16, 16, -32, 32, -64, 2**64 - 1, 0x1234, None, 0x4004000000000000, -12]


def objects(pid):
    """Paths of a process's descriptors that are objects of its providers."""
    return [path for path, kind in descriptors(pid).items() if kind == "/memfd:workload (deleted)"]


@pytest.fixture
def bpftrace(tracefs):
    """bpftrace(program, arguments...) runs it until it exits and returns its lines."""
    path = need_command("bpftrace")

    def start(program, *arguments):
        done = subprocess.run([path, *map(str, arguments), "-e", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return [line for line in done.stdout.splitlines() if line and not line.startswith("Attaching")]
    return start


@pytest.fixture
def prober(workload):
    return workload("prober")


@pytest.mark.peer
def test_bpftrace_finds_probes_by_pid(prober, bpftrace):
    """bpftrace searches all objects of a process, including the object of a probe added later; it reads at most six arguments."""
    lines = bpftrace('usdt:*:workload:all { printf("%d %d %d %d %d %u\\n", arg0, arg1, arg2, arg3, arg4, arg5); exit(); }', "-p", prober.pid)
    assert lines[0] == "-8 8 -16 16 -32 32"
    lines = bpftrace('usdt:*:workload:late { printf("%s %d\\n", str(arg0), arg2); exit(); }', "-p", prober.pid)
    assert re.fullmatch(r"late text \d+", lines[0])


@pytest.mark.peer
def test_bpftrace_finds_probes_by_descriptor(prober, bpftrace):
    path = objects(prober.pid)[0]
    assert bpftrace(f'usdt:{path}:workload:all {{ printf("%d\\n", arg0); exit(); }}')[0] == "-8"
    listed = subprocess.run([need_command("bpftrace"), "-l", f"usdt:{path}:*"], capture_output=True, text=True, timeout=60)
    assert listed.stdout.split() == [f"usdt:{path}:workload:all"]


@pytest.mark.peer
def test_bpftrace_reads_a_double(prober, bpftrace):
    """The program of docs/probes.md."""
    text = (TOP / "docs/probes.md").read_text()
    program = re.search(r"^usdt:\*:workload:late \{.*?^\}$", text, re.M | re.S)[0]
    assert bpftrace(program, "-p", prober.pid)[0] == "-1234.567"


@pytest.mark.peer
def test_bpftrace_reads_a_static_probe(prober, bpftrace):
    path = os.readlink(f"/proc/{prober.pid}/exe")
    lines = bpftrace(f'usdt:{path}:workload:compiled {{ printf("%s %d %d\\n", str(arg1), arg2, arg3); exit(); }}', "-p", prober.pid)
    assert lines[0] == "compiled text 200 -3"


def semaphores(pid):
    """The first semaphore of each object of a process."""
    found = []
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for address in re.findall(r"^([0-9a-f]+)-\S+ rw-p \S+ \S+ \S+\s+/memfd:workload", Path(f"/proc/{pid}/maps").read_text(), re.M):
            memory.seek(int(address, 16))
            found.append(int.from_bytes(memory.read(2), "little"))
    return found


@pytest.mark.peer
def test_bpftrace_leaves_no_semaphore_raised(prober, bpftrace):
    """The semaphores return to 0 when all tracers have detached."""
    bpftrace('usdt:*:workload:all { exit(); }', "-p", prober.pid)
    wait_for(lambda: semaphores(prober.pid) == [0, 0], 30, "the semaphores to be 0")  # another tracer of this machine may attach to all processes


@pytest.mark.peer
def test_killed_tracers_are_detached_by_the_kernel(prober, run, tracefs):
    """Several tracers are killed while the probe fires: the kernel detaches each, and the program continues."""
    running = [run(need_command("bpftrace"), "-B", "line", "-p", prober.pid, "-e", 'usdt:*:workload:all { printf("hit\\n"); }', name=f"bpftrace-{i}")
               for i in range(3)]
    wait_for(lambda: all("hit" in consumer.out for consumer in running), 60, "three consumers to be attached")
    assert sorted(semaphores(prober.pid)) == [0, 1]  # the kernel increments it once for all of them
    running.pop().kill()
    assert sorted(semaphores(prober.pid)) == [0, 1]
    for consumer in running:
        consumer.kill()
    wait_for(lambda: semaphores(prober.pid) == [0, 0], 30, "the semaphores to be 0")
    assert prober.running.alive


def test_probes_of_an_unprivileged_process_fire(run, watch, tmp_path):  # noqa: F811
    """The tracer needs privileges, the traced process does not."""
    place = tmp_path / "prober"
    place.write_bytes(workload_path("prober").read_bytes())
    for folder in (place, *list(tmp_path.parents)[:2], tmp_path):
        folder.chmod(0o755)
    prober = Workload(run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--no-new-privs", place,
                         cwd="/"))
    watching = watch("workload:all", "-p", prober.pid)
    wait_for(lambda: lines(watching), 60, "a firing")
    assert {pid for pid, _, _ in lines(watching)} == {str(prober.pid)}


@pytest.fixture
def bcc(root):
    try:
        library = ctypes.CDLL("libbcc.so.0")
    except OSError as error:
        skip(str(error))
    library.bcc_usdt_new_frompid.restype, library.bcc_usdt_genargs.restype = ctypes.c_void_p, ctypes.c_char_p
    library.bcc_usdt_new_frompid.argtypes = [ctypes.c_int, ctypes.c_char_p]
    return library


@pytest.mark.peer
def test_bcc_lists_probes_and_arguments(prober, bcc):
    """Lists the process's probes with bcc's own reader, the base of bpftrace."""
    class Probe(ctypes.Structure):
        _fields_ = [("provider", ctypes.c_char_p), ("name", ctypes.c_char_p), ("path", ctypes.c_char_p), ("semaphore", ctypes.c_ulonglong),
                    ("locations", ctypes.c_int), ("arguments", ctypes.c_int)]
    found = {}
    callback = ctypes.CFUNCTYPE(None, ctypes.POINTER(Probe))(lambda p: found.update({p[0].name.decode(): (p[0].arguments, p[0].semaphore != 0)}))
    bcc.bcc_usdt_foreach.argtypes = [ctypes.c_void_p, type(callback)]
    context = bcc.bcc_usdt_new_frompid(prober.pid, None)
    bcc.bcc_usdt_foreach(context, callback)
    assert found == {"all": (12, True), "late": (3, True), "compiled": (4, True)}


def counting(map_descriptor):
    """A hand-written BPF program that increments the only element of a map: bcc's compiler would need a kernel's headers."""
    def instruction(code, to=0, source=0, offset=0, value=0):
        return struct.pack("<BBhi", code, to | source << 4, offset, value)
    return b"".join([instruction(0x62, 10, 0, -4), instruction(0xbf, 2, 10), instruction(0x07, 2, 0, 0, -4), instruction(0x18, 1, 1, 0, map_descriptor),
                     instruction(0), instruction(0x85, value=1), instruction(0x15, 0, 0, 2), instruction(0xb7, 1, 0, 0, 1), instruction(0xdb, 0, 1),
                     instruction(0xb7), instruction(0x95)])


@pytest.mark.peer
def test_bcc_attaches_and_counts(prober, bcc, sonde, tracefs):
    """USDT(pid=...).enable_probe() of bcc, step by step: it raises the semaphore itself, reports how to read each argument and where to attach,
    attaches and counts; afterwards it is detached."""
    def attached():
        lines = subprocess.run([sonde, "probes", "workload", "-p", str(prober.pid)], capture_output=True, text=True, timeout=60).stdout.splitlines()[1:]
        return {line.split()[2] for line in lines if line.split()[3] == "yes"}
    context, where = ctypes.c_void_p(bcc.bcc_usdt_new_frompid(prober.pid, None)), []
    assert bcc.bcc_usdt_enable_fully_specified_probe(context, b"workload", b"all", b"seen") == 0
    assert attached() == {"workload:all"}
    generated_code = bcc.bcc_usdt_genargs((ctypes.c_void_p * 1)(context), 1).decode()
    types = re.findall(r"_bpf_readarg_seen_\d+\(.*\n  if \(len != sizeof\((\w+)_t\)\)", generated_code)
    assert types == "int8 uint8 int16 uint16 int32 uint32 int64 uint64 uint64 uint64 uint64 int32".split()
    callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int)(lambda *place: where.append(place))
    bcc.bcc_usdt_foreach_uprobe(context, callback)
    (path, function, offset, pid), = where
    assert path.decode() in objects(prober.pid) and (function, pid) == (b"seen", prober.pid)
    counts = bcc.bcc_create_map(2, b"counts", 4, 8, 1, 0)
    program = bcc.bcc_prog_load(2, b"seen", counting(counts), 88, b"GPL", 0, 0, None, 0)
    event = bcc.bpf_attach_uprobe(program, 0, b"sonde_seen", path, ctypes.c_uint64(offset), prober.pid, 0)
    assert counts > 0 and program > 0 and event > 0

    def counted():
        key, value = ctypes.c_int(0), ctypes.c_uint64()
        assert bcc.bpf_lookup_elem(counts, ctypes.byref(key), ctypes.byref(value)) == 0
        return value.value
    wait_for(lambda: counted() >= 3, 30, "three firings")
    bcc.bpf_close_perf_event_fd(event)
    for descriptor in (program, counts):  # close before bcc 0.26 closes a descriptor a second time
        os.close(descriptor)
    bcc.bcc_usdt_close(context)
    assert attached() == set()


@pytest.fixture
def systemtap(tmp_path):
    """systemtap(script) -> the C code that SystemTap generates. It requires a kernel build tree, which is not used at this stage: it gets an empty
    one."""
    path, tree = need_command("stap"), tmp_path / "kernel"
    for name, text in (("include/config/kernel.release", os.uname().release + "\n"), ("Makefile", ""), ("System.map", ""), ("Module.symvers", ""),
                       (".config", "CONFIG_TRACEPOINTS=y\nCONFIG_ARCH_SUPPORTS_UPROBES=y\nCONFIG_UPROBES=y\n")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)

    def translate(script):
        done = subprocess.run([path, "-r", tree, "-p3", "-e", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "SYSTEMTAP_DIR": str(tmp_path / "cache")})
        assert done.returncode == 0, done.stderr
        return done.stdout
    return translate


@pytest.mark.peer
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the expected registers exist on x86-64 only")
def test_systemtap_reads_every_argument(workload, systemtap, tmp_path):
    """Checks the generated C code: the locations of the probe and its semaphore, and the read of each argument. Its modules need a kernel's headers, so
    nothing is attached."""
    workload("prober", tmp_path)
    path = next(p for p in tmp_path.glob("workload-*.so") if b"all" in p.read_bytes())
    arguments = ", ".join(f"$arg{n + 1}" for n in range(12))
    generated_code = systemtap(f'probe process("{path}").provider("workload").mark("all") {{ printf("{"%d " * 12}", {arguments}) }}')
    notes = subprocess.run([need_command("readelf"), "-nW", path], capture_output=True, text=True, timeout=60).stdout
    location, semaphore = (int(re.search(rf"{what}: 0x([0-9a-f]+)", notes)[1], 16) for what in ("Location", "Semaphore"))
    assert f".offset=(loff_t)0x{location:x}ULL, .sdt_sem_offset=(loff_t)0x{semaphore:x}ULL" in generated_code  # addresses equal file offsets in these files
    rdi, rsi, rdx, rcx, r8, r9 = 5, 4, 1, 2, 8, 9  # DWARF register numbers
    assert re.findall(r"\((u?int\d+_t)\)\(\(u_fetch_register\((\d+)\)", generated_code) == [
        ("int8_t", f"{rdi}"), ("uint8_t", f"{rsi}"), ("int16_t", f"{rdx}"), ("uint16_t", f"{rcx}"), ("int32_t", f"{r8}"), ("uint32_t", f"{r9}")]
    assert re.findall(r"u_fetch_register\(7\)+ \+ \(+int64_t\)(\d+)LL", generated_code) == ["8", "16", "24", "32", "40", "48"]  # on the stack


@pytest.mark.peer
def test_perf_reads_every_argument(workload, perf, tmp_path):
    """perf wants a file with a build id, so the provider's objects go into a directory."""
    prober = workload("prober", tmp_path)
    path = next(p for p in tmp_path.glob("workload-*.so") if b"all" in p.read_bytes())
    cache = ("--buildid-dir", tmp_path / "cache")
    assert perf(*cache, "buildid-cache", "--add", path).returncode == 0
    done = perf(*cache, "probe", "sdt_workload:all")
    assert done.returncode == 0, done.stderr
    try:
        for _ in range(5):  # Debian 12's perf cannot read a recording made while BPF programs were loaded and unloaded
            done = perf("record", "-q", "-B", "-N", "--no-bpf-event", "-o", tmp_path / "data", "-e", "sdt_workload:all", "-p", prober.pid, "sleep", "1")
            assert done.returncode == 0, done.stderr
            said = perf("script", "-i", tmp_path / "data")
            if said.returncode == 0 and said.stdout:
                break
        else:
            skip(f"perf script cannot read what perf recorded (status {said.returncode}): {said.stderr.strip()[-200:]}")
    finally:
        perf("probe", "-q", "-d", "sdt_workload:all")
    values = [int(value) for value in re.findall(r"arg\d+=(-?\d+)", said.stdout.splitlines()[0])]
    assert len(values) == 12
    for value, expected, bits in zip(values, EVERY_ARGUMENT, [8, 8, 16, 16, 32, 32, 64, 64, 64, 64, 64, 32]):
        assert expected is None or value % 2**bits == expected % 2**bits  # perf prints small negative numbers as unsigned


@pytest.mark.peer
def test_readelf_and_elflint_accept_the_object(prober, tmp_path):
    """The object is valid: the only complaint is eu-elflint's, that it does not know probe notes, which applies to sdt.h's as well."""
    for number, path in enumerate(objects(prober.pid)):
        copy = tmp_path / f"{number}.so"
        copy.write_bytes(Path(path).read_bytes())
        readelf = subprocess.run([need_command("readelf"), "-aW", "--debug-dump=frames", copy], capture_output=True, text=True)
        assert readelf.returncode == 0 and "arning" not in readelf.stderr and "rror" not in readelf.stderr, readelf.stderr
        assert "NT_STAPSDT" in readelf.stdout and "Build ID: " in readelf.stdout
        lint = subprocess.run([need_command("eu-elflint"), "--gnu-ld", copy], capture_output=True, text=True)
        assert all("unknown object file note type" in line for line in lint.stdout.splitlines()), lint.stdout
        assert subprocess.run([need_command("eu-readelf"), "-a", copy], capture_output=True).returncode == 0
        disassembled = subprocess.run([need_command("objdump"), "-d", copy], capture_output=True, text=True).stdout
        assert re.search(r"<(all|late)>:\n.*(nop|ret)", disassembled)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The files that `make install` installs, and a pkg-config environment for them."""
    place = tmp_path_factory.mktemp("installed")
    done = subprocess.run([need_command("meson"), "install", "-C", str(BUILD), "--no-rebuild", "--destdir", str(place)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    file = next(place.rglob("sonde.pc"))
    return {**os.environ, "PKG_CONFIG_PATH": str(file.parent), "PKG_CONFIG_SYSROOT_DIR": str(place), "LD_LIBRARY_PATH": str(file.parent.parent)}


@pytest.mark.parametrize("compiler", ["gcc -std=c11", "gcc -std=gnu17 -O2 -Wconversion -Wshadow -Wundef", "gcc -O2 -flto", "clang-16 -std=c11 -O0",
                                      "gcc -O2 -ffunction-sections -Wl,--gc-sections", "g++ -std=c++98", "g++ -std=c++20 -O2 -Wconversion",
                                      "clang-16 -x c++ -O2"])
def test_installed_headers_compile_in_c_and_cxx(installed, tmp_path, compiler):
    """Headers of an installed libsonde compile without warnings as C and C++, the program runs, and all of its static probes exist."""
    need_command(compiler.split()[0])
    need_command("pkg-config")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "sonde"], env=installed, capture_output=True, text=True, check=True).stdout.split()
    language = [] if "-x" in compiler else ["-x", "c++" if "++" in compiler else "c"]
    done = subprocess.run([*compiler.split(), *language, "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", TOP / "tests/workloads/probe_compilers.c", *flags, "-o", str(tmp_path / "check")],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "check"], env=installed, timeout=30).returncode == 0
    notes = subprocess.run(["readelf", "-nW", tmp_path / "check"], capture_output=True, text=True).stdout
    assert notes.count("Name: templated") >= 3 and notes.count("Name: other") >= 1
    assert re.search(r"Arguments: -4@\S+ 8@", notes) and len(re.search(r"Name: other\n.*\n\s+Arguments: (.*)", notes)[1].split("@")) == 13


@pytest.mark.parametrize("compiler", ["gcc", "g++ -x c++"])
@pytest.mark.parametrize("count,refused", [(12, False), (13, True), (24, True)])
def test_too_many_arguments_are_a_clear_compile_error(tmp_path, compiler, count, refused):
    (tmp_path / "many.c").write_text(f"#include <sonde/static_probe.h>\nvoid f(int x) {{ SONDE_PROBE(a, b, {', '.join(['x'] * count)}); }}\n")
    done = subprocess.run([need_command(compiler.split()[0]), *compiler.split()[1:], "-fsyntax-only", f"-I{TOP}/include", "many.c"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode != 0) == refused and ("a_probe_takes_at_most_12_arguments" in done.stderr) == refused, done.stderr


@pytest.fixture(params=["gcc -O2", "g++ -O0 -x c++"])
def static_probe(request, run, tmp_path, root):
    """The running program of tests/workloads/static_probe.c, which needs only the header, and its path."""
    compiler, *flags = request.param.split()
    done = subprocess.run([need_command(compiler), *flags, "-Wall", "-Wextra", "-Werror", f"-I{TOP}/include", TOP / "tests/workloads/static_probe.c", "-o", tmp_path / "alone"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "sonde" not in subprocess.run(["readelf", "-dW", tmp_path / "alone"], capture_output=True, text=True, check=True).stdout
    return Workload(run(tmp_path / "alone", name="alone")), tmp_path / "alone"


def test_static_probe_needs_only_the_header(sonde, watch, static_probe):  # noqa: F811
    """The probe is listed and watched; its arguments are evaluated only while a tracer is attached."""
    alone, _ = static_probe

    def listed():
        found = subprocess.run([sonde, "probes", "alone:here", "-p", str(alone.pid)], capture_output=True, text=True, timeout=60).stdout.splitlines()
        return [line.split()[2:4] for line in found[1:]]
    assert listed() == [["alone:here", "no"]]
    watching = watch("alone:here", "-p", alone.pid)
    wait_for(lambda: lines(watching), 60, "a firing")
    assert watching.stop() == 0, watching.error
    found = [re.fullmatch(r"arg0=(\d+) arg1=-1 arg2=200 arg3=\d+ arg4=(\d+)", arguments) for _, _, arguments in lines(watching)]
    assert all(int(match[1]) - int(match[2]) >= 99 for match in found)
    wait_for(lambda: listed() == [["alone:here", "no"]], 30, "no tracer to be attached")


@pytest.mark.peer
def test_bpftrace_reads_a_static_probe_of_the_header(bpftrace, static_probe):
    alone, path = static_probe
    found = bpftrace(f'usdt:{path}:alone:here {{ printf("%d %d %s %d\\n", arg1, arg2, str(arg3), arg0 > arg4); exit(); }}', "-p", alone.pid)
    assert found[0] == "-1 200 no library 1"


def test_library_depends_on_libc_only_and_versions_its_symbols(installed):
    """Only libc; no constructor but the compiler's own; every symbol has a version."""
    library = str(next(Path(installed["LD_LIBRARY_PATH"]).glob("libsonde.so.1")))
    dynamic = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"NEEDED.*\[(.*?)\]", dynamic) in (["libc.so.6"], ["libc.so.6", "ld-linux-aarch64.so.1"])
    assert re.search(r"INIT_ARRAYSZ\)\s+8 ", dynamic)
    symbols = subprocess.run(["readelf", "--dyn-syms", "-W", library], capture_output=True, text=True, check=True).stdout
    exported = re.findall(r"GLOBAL DEFAULT\s+\d+ (\S+)", symbols)
    assert exported and all(re.fullmatch(r"(sonde_\w+|otel_thread_ctx_v1)@@SONDE_1", name) for name in exported)


def test_library_can_be_loaded_and_unloaded_repeatedly(installed):
    """dlopen, a provider's whole life cycle, dlclose, a hundred times: nothing stays mapped."""
    library = next(Path(installed["LD_LIBRARY_PATH"]).glob("libsonde.so.1"))
    done = subprocess.run(["python3", TOP / "tests/workloads/python/plugin.py", library], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_works_on_a_read_only_root(run, tmp_path):
    """On a read-only root without /proc and /tmp the objects are in memory; a requested directory costs one warning."""
    need_root()
    place = tmp_path / "bare"
    place.mkdir()
    program = subprocess.run(["ldd", workload_path("prober")], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+)", program) + [str(workload_path("prober"))]:
        copy = place / library.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(Path(library).read_bytes())
        copy.chmod(0o755)
    running = run("unshare", "-m", "sh", "-c", f"mount --bind {place} {place} && mount -o remount,bind,ro {place} && "
                  f"exec chroot {place} {workload_path('prober')} /tmp", name="bare")
    wait_for(lambda: "ready" in running.out or not running.alive, 30, "the workload to be ready")
    if not running.alive and "unshare:" in running.error:
        skip(running.error.strip())
    assert running.alive, running.out + running.error
    assert len(objects(running.pid)) == 2
    assert running.error.count("sonde: probes of workload: ") == 1 and "in memory instead" in running.error
