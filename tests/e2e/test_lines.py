"""Source lines and inlined functions (`sonde record --lines`, `--inlines`) beside binutils' addr2line, place by place; and DWARF that
lies, which may cost the lines of its own file and nothing else."""
import array
import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import termios
import zlib
from itertools import groupby
from pathlib import Path

import pytest

import pprof
from harness.machine import need_command, skip
from harness.processes import command_name, wait_for
from harness.workloads import go_pprof

PROGRAM = """
#include <stdlib.h>
#include <time.h>
volatile unsigned long sink;
static inline __attribute__((always_inline)) void innermost(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sink += i * 7;
}
static inline __attribute__((always_inline)) void middle(unsigned n)
{
    sink++;
    innermost(n);
    sink++;
}
__attribute__((noinline)) void outer(unsigned n)
{
    sink += n;
    middle(n);
    middle(n / 2);
}
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* as many samples on a busy machine */
    return t.tv_sec + t.tv_nsec / 1e9;
}
int main(int argc, char **argv)
{
    for (double end = now() + atof(argv[argc - 1]); now() < end;)
        outer(100000);
    return 0;
}
"""
CXX = """
#include <cstdlib>
#include <ctime>
volatile unsigned long sink;
namespace shop {
template <typename T> struct Till {
    T sum{};
    __attribute__((always_inline)) void ring(T value) { for (T i = 0; i < value; i++) sum += i; sink = sum; }
};
struct Counter {
    __attribute__((noinline)) void serve(long n) { Till<long> till; till.ring(n); }
};
}
static double now() { timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int argc, char **argv)
{
    shop::Counter counter;
    for (double end = now() + atof(argv[argc - 1]); now() < end;)
        counter.serve(100000 + argc);
}
"""
FORMS = {  # compiler, flags, what is done with it then
    "dwarf-4": ("gcc", ["-gdwarf-4"], None),
    "dwarf-5": ("gcc", ["-gdwarf-5"], None),
    "compressed": ("gcc", ["-gdwarf-5", "-gz"], None),
    "split-5": ("gcc", ["-gdwarf-5", "-gsplit-dwarf"], None),
    "split-4": ("gcc", ["-gdwarf-4", "-gsplit-dwarf"], None),
    "dwz": ("gcc", ["-gdwarf-4"], "dwz"),
    "debuglink": ("gcc", ["-gdwarf-5"], "debuglink"),
    "clang": ("clang-16", ["-gdwarf-5"], None),
    "clang-split": ("clang-16", ["-gdwarf-4", "-gsplit-dwarf"], None),
    "c++": ("g++", ["-gdwarf-5"], None),
}


def build(folder, name, compiler="gcc", flags=("-gdwarf-5",), source=None):
    """An executable in `folder`, where its .dwo files are, too."""
    folder.mkdir(exist_ok=True)
    path = folder / ("program.cc" if compiler == "g++" else "program.c")
    path.write_text(source or (CXX if compiler == "g++" else PROGRAM))
    subprocess.run([need_command(compiler), "-O2", *flags, "-o", folder / name, path], check=True, cwd=folder)
    return folder / name


def dwz(program):
    """Two files share what dwz takes out of both."""
    need_command("dwz")
    twin = program.with_name("twin")
    shutil.copy(program, twin)
    done = subprocess.run(["dwz", "-m", "shared.debug", "-M", program.with_name("shared.debug"), program, twin], capture_output=True, text=True, cwd=program.parent)
    sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    assert done.returncode == 0 and ".gnu_debugaltlink" in sections, done.stderr


def debuglink(program):
    subprocess.run(["objcopy", "--only-keep-debug", program, program.with_name("program.debug")], check=True)
    subprocess.run(["objcopy", "-g", "--add-gnu-debuglink=program.debug", program], check=True, cwd=program.parent)


def has_bytes(pipe):
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0] > 0


def catches(pid, number):
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(caught[1], 16) >> (number - 1) & 1


def places(samples, program):
    """{address: [(function, file, line), ... outermost first]} of the frames of one file."""
    found = {}
    for s in samples:
        rows = zip(s.frames, s.sources, s.mappings, s.addresses)
        for (mapping, address), group in groupby(rows, key=lambda row: row[2:]):
            if mapping == str(program):
                found[address] = [(name.partition(" [clone")[0], os.path.normpath(file) if file else "", line) for name, (file, line), _, _ in group]
    return found


def addr2line(program, addresses):
    """The same, by binutils, which where there is no DWARF (crtstuff.c) names the file of the symbol table: without a folder."""
    said = subprocess.run([need_command("addr2line"), "-a", "-i", "-f", "-e", program, *map(hex, addresses)], capture_output=True, text=True, check=True).stdout
    found, address = {}, None
    lines = iter(said.splitlines())
    for line in lines:
        if line.startswith("0x"):
            address = int(line, 16)
            found[address] = []
            continue
        file, _, number = re.sub(r" \(.*", "", next(lines)).rpartition(":")
        name = subprocess.run(["c++filt", "-p", line], capture_output=True, text=True, check=True).stdout.strip()
        found[address].insert(0, (name, os.path.normpath(file) if "/" in file else "", 0 if number == "?" else int(number)))
    return found


def eu_addr2line(program, address):
    """The same of one address, by elfutils."""
    said = subprocess.run([need_command("eu-addr2line"), "-i", "-f", "-C", "-e", program, hex(address)], capture_output=True, text=True, check=True).stdout
    lines = said.splitlines()
    places = [(re.sub(r" inlined at .*", "", name), *re.match(r"(.*?):(\d+)", place).groups()) for name, place in zip(lines[::2], lines[1::2])]
    return [(name, os.path.normpath(file), int(line)) for name, file, line in reversed(places)]


@pytest.mark.parametrize("form", FORMS)
def test_lines_are_those_of_addr2line(record, tmp_path, form):
    """Of the same program with plain DWARF, for binutils does not find everything in all the forms."""
    compiler, flags, then = FORMS[form]
    plain = build(tmp_path / "plain", "program", compiler, ["-gdwarf-4"])
    program = build(tmp_path / "form", "program", compiler, flags)
    if then:
        globals()[then](program)
    profile = record("-F", 499, "--inlines", "--", program, 0.4)
    ours = places(profile.samples, program)
    theirs = addr2line(plain, ours)
    moved = {str(plain.parent): str(program.parent)}
    theirs = {address: [(name, next((file.replace(a, b) for a, b in moved.items()), file), line) for name, file, line in chain]
              for address, chain in theirs.items()}
    with_lines = {address: chain for address, chain in theirs.items() if chain[0][1]}
    # Of a function in two parts binutils may give what is inlined the outer one's name; elfutils does not.
    with_lines = {address: chain if ours[address] == chain else eu_addr2line(plain, address) for address, chain in with_lines.items()}
    with_lines = {address: [(name, file.replace(str(plain.parent), str(program.parent)), line) for name, file, line in chain] for address, chain in with_lines.items()}
    assert {address: ours[address] for address in with_lines} == with_lines, profile.said
    assert any(len(chain) > 1 for chain in ours.values()), ours


def test_without_inlines_a_frame_has_its_own_line(record, tmp_path):
    """That of the call, where the code is another function's."""
    program = build(tmp_path / "form", "program")
    profile = record("-F", 499, "--lines", "--", program, 0.4)
    ours = places(profile.samples, program)
    theirs = addr2line(program, ours)
    assert {address: chain[:1] for address, chain in theirs.items() if chain[0][1]} == \
        {address: chain for address, chain in ours.items() if theirs[address][0][1]}
    if shutil.which("go"):
        listed = go_pprof("-list", "outer", tmp_path / "record-1.pb.gz")
        assert re.search(r"[\d.]+\w+ +[\d.]+\w+ +\d+: +middle\(n", listed), listed


@pytest.fixture
def recorded(sonde, root, record, tmp_path):
    """(program, replay): what was recorded of the program, looked at again as its file is by then; replay(options...) gives the done
    process and its output."""
    program = build(tmp_path / "form", "program")
    record("-F", 499, "--record-wire", tmp_path / "wire", "--", program, 0.4)

    def replay(*options, output="-"):
        done = subprocess.run([sonde, "record", "--replay", tmp_path / "wire", "-o", output, *options], capture_output=True, timeout=120)
        of_program = [line for line in done.stdout.decode(errors="replace").splitlines(True) if line.startswith("program;")]
        return done, "".join(of_program), done.stderr.decode(errors="replace")  # without what was there before its exec
    return program, replay


def test_formats_mark_what_was_inlined(recorded, tmp_path):
    program, replay = recorded
    _, plain, _ = replay()
    _, folded, said = replay("--inlines")
    assert "outer;middle_[i];innermost_[i]" in folded and "_[i]" not in plain
    assert re.sub(r";\w+_\[i\]", "", folded.split(" ")[0]) == plain.split(" ")[0]
    count = [sum(int(line.rpartition(" ")[2]) for line in text.splitlines()) for text in (plain, folded)]
    assert count[0] == count[1] > 0
    replay("--inlines", output=tmp_path / "a.json")
    assert '"inlined":true' in (tmp_path / "a.json").read_text()
    assert "native frames without lines" in said  # _start is nobody's source


def test_no_dwarf_is_nothing_wrong(recorded, tmp_path):
    program, replay = recorded
    subprocess.run(["strip", "-g", program], check=True)
    done, folded, said = replay("--inlines")
    assert done.returncode == 0 and not re.search(r"(middle|innermost)_\[i\]", folded) and ";outer" in folded
    assert re.search(r"\d+ without debug information", said), said


def sections_of(program):
    """{name: (offset, size)}"""
    said = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ +\[ *\d+\] (\S+) +\S+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)", said, re.M)
    return {name: (int(offset, 16), int(size, 16)) for name, offset, size in found}


def test_damaged_dwarf_costs_its_lines_alone(recorded):
    """Bits turned over, sections cut: names and stacks are those of before, whatever becomes of the lines."""
    program, replay = recorded
    whole, found = program.read_bytes(), sections_of(program)
    stacks = sorted(replay()[1].splitlines())
    dwarf = [span for name, span in found.items() if name.startswith(".debug_")]
    state, lost = 1, 0
    for turn in range(10):
        data = bytearray(whole)
        for offset, size in dwarf:
            for _ in range(1 + turn % 8):
                state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
                data[offset + (state >> 33) % size] ^= 1 << (state >> 30) % 8
            if turn % 5 == 4:  # ends early: zeros from there on
                data[offset + size // 2:offset + size] = bytes(size - size // 2)
        program.write_bytes(data)
        done, folded, said = replay("--inlines")
        assert done.returncode == 0, f"turn {turn}: {said}"
        counts = {}
        for line in folded.splitlines():
            stack, _, count = line.rpartition(" ")
            stack = ";".join(frame for frame in stack.split(";") if not frame.endswith("_[i]"))
            counts[stack] = counts.get(stack, 0) + int(count)
        assert sorted(f"{stack} {count}" for stack, count in counts.items()) == stacks, f"turn {turn}: {said}"
        lost += "outer;middle_[i];innermost_[i]" not in folded
    assert lost > 0  # else nothing was damaged
    program.write_bytes(whole)
    assert "outer;middle_[i];innermost_[i]" in replay("--inlines")[1]


def test_bombs_in_compressed_sections(recorded):
    """One that says to be a terabyte, and one that is a quarter of a gigabyte of nothing and says so."""
    program, replay = recorded
    subprocess.run(["objcopy", "--compress-debug-sections", program], check=True)
    whole, (offset, size) = program.read_bytes(), sections_of(program)[".debug_info"]
    assert "outer;middle_[i];innermost_[i]" in replay("--inlines")[1]
    program.write_bytes(whole[:offset + 8] + struct.pack("<Q", 1 << 40) + whole[offset + 16:])
    done, folded, said = replay("--inlines")
    assert done.returncode == 0 and ";outer" in folded and "middle_[i]" not in folded
    assert "debug information is damaged" in said, said
    packer = zlib.compressobj(1)
    zeros = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1 << 8)) + packer.flush()
    bomb = struct.pack("<IIQQ", 1, 0, 1 << 28, 1) + zeros
    raw = program.with_name("bomb")
    raw.write_bytes(whole + bomb)
    headers = struct.unpack_from("<Q", whole, 0x28)[0]
    names = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True).stdout
    number = int(re.search(r"\[ *(\d+)\] \.debug_info", names)[1])
    data = bytearray(raw.read_bytes())
    struct.pack_into("<QQ", data, headers + 64 * number + 24, len(whole), len(bomb))
    program.write_bytes(data)
    done, folded, said = replay("--inlines")
    assert done.returncode == 0 and ";outer" in folded and "middle_[i]" not in folded
    assert "debug information" in said or "crashed" in said, said


def test_split_dwarf_is_a_regular_file(sonde, root, record, tmp_path):
    """A FIFO or a directory in the place of a .dwo file, which a process must not be kept waiting by; and another program's."""
    program = build(tmp_path / "form", "program", flags=["-gdwarf-5", "-gsplit-dwarf"])
    record("-F", 499, "--record-wire", tmp_path / "wire", "--", program, 0.4)
    split = next(program.parent.glob("*.dwo"))
    content = split.read_bytes()

    def replay():
        done = subprocess.run([sonde, "record", "--replay", tmp_path / "wire", "-o", "-", "--inlines"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and ";outer" in done.stdout, done.stderr
        return "outer;middle_[i];innermost_[i]" in done.stdout, done.stderr
    assert replay()[0]
    split.unlink()
    for make in (lambda: os.mkfifo(split), lambda: split.mkdir(), lambda: split.symlink_to("/dev/zero"), lambda: split.write_bytes(content[:len(content) // 2])):
        make()
        found, said = replay()
        assert not found and "damaged or not all there" in said, said
        split.rmdir() if split.is_dir() else split.unlink()


LOOPS = """
        .section .debug_abbrev,"",@progbits
        .uleb128 1, 0x11
        .byte 1
        .uleb128 0x11, 0x01, 0x12, 0x07, 0, 0
        .uleb128 2, 0x2e
        .byte 1
        .uleb128 0x11, 0x01, 0x12, 0x07, 0x31, 0x13, 0, 0
        .uleb128 3, 0x1d
        .byte 0
        .uleb128 0x11, 0x01, 0x12, 0x07, 0x31, 0x13, 0x01, 0x13, 0, 0
        .byte 0
        .section .debug_info,"",@progbits
start:  .long end - begin
begin:  .short 4
        .long .debug_abbrev
        .byte 8
        .uleb128 1
        .quad outer, 4096
function:
        .uleb128 2
        .quad outer, 4096
        .long inlined - start
inlined:
        .uleb128 3
        .quad outer, 4096
        .long function - start, inlined - start
        .byte 0, 0
end:
"""


def test_loops_in_dwarf(sonde, root, record, tmp_path):
    """An origin that is its own origin by way of another one, a sibling that is its own sibling."""
    folder = tmp_path / "form"
    folder.mkdir()
    (folder / "loops.s").write_text(LOOPS)
    program = build(folder, "program", flags=["loops.s"])
    profile = record("-F", 499, "--inlines", "--", program, 0.4)
    assert profile.share("main;outer") > 0.5, profile.top()


ENDLESS = """
#include <dlfcn.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
void *dlopen(const char *path, int flags)
{
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    while (!strcmp(name, "sonde-lines"))
        pause();
    return ((void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen"))(path, flags);
}
"""


@pytest.fixture
def looking(sonde, recorded, tmp_path):
    """The command that looks at what was recorded and writes to a place."""
    return lambda output: [sonde, "record", "--replay", tmp_path / "wire", "--inlines", "-o", output]


def test_ctrl_c_keeps_the_profile(run, looking, tmp_path):
    """Also where it comes while lines are looked for: that has no end here, because libdw never comes."""
    (tmp_path / "endless.c").write_text(ENDLESS)
    subprocess.run([need_command("gcc"), "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", "endless.so", "endless.c"], check=True, cwd=tmp_path)
    recording = run(*looking(tmp_path / "a.pb.gz"), env=dict(os.environ, LD_PRELOAD=str(tmp_path / "endless.so")))
    children = Path(f"/proc/{recording.pid}/task/{recording.pid}/children")

    def looks():
        assert recording.alive, recording.error
        return any(command_name(child) == "sonde-lines" for child in children.read_text().split())
    wait_for(looks, 60, "lines to be looked for")
    recording.process.send_signal(signal.SIGINT)
    assert recording.wait() == 0, recording.error
    samples, _ = pprof.read(tmp_path / "a.pb.gz")
    assert any("outer" in s.frames for s in samples) and not any("inner" in s.frames for s in samples), recording.error


def test_ctrl_c_that_is_late_keeps_it_too(run, looking, tmp_path):
    """The looking has ended by itself, and nobody reads what is being written. The next one ends that, too."""
    fifo = tmp_path / "late.html"
    os.mkfifo(fifo)
    for signals in (1, 2):
        with open(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
            recording = run(*looking(fifo))
            wait_for(lambda: has_bytes(reader) or not recording.alive, 60, "the profile to be written")
            recording.process.send_signal(signal.SIGINT)
            if signals == 2:
                wait_for(lambda: not catches(recording.pid, signal.SIGINT), 60, "the first one to be taken")
                recording.process.send_signal(signal.SIGINT)
                assert recording.wait() == -signal.SIGINT, recording.error
            else:
                os.set_blocking(reader.fileno(), True)
                assert b"innermost" in reader.read() and recording.wait() == 0, recording.error


def test_split_dwarf_in_a_package(sonde, root, record, tmp_path):
    """What libdw does not read is not called damaged; where it does (elfutils 0.192 is to), lines are as ever."""
    program = build(tmp_path / "form", "program", flags=["-gdwarf-4", "-gsplit-dwarf"])
    # Of DWARF 5 by gcc 12, dwp of binutils 2.40 crashes and LLVM 16's does not end.
    subprocess.run([need_command("dwp"), "-e", program, "-o", f"{program}.dwp"], check=True, timeout=60)
    for split in program.parent.glob("*.dwo"):
        split.unlink()
    profile = record("-F", 499, "--inlines", "--", program, 1)
    assert "damaged" not in profile.said and profile.share("main") > 0.5 - profile.early, profile.said + profile.top()
    if "in a package" not in profile.said:
        assert profile.share("outer;middle;innermost") > 0.2 - profile.early, profile.top()
        skip("this libdw reads packages")
    assert "outer" in {name for chain in places(profile.samples, program).values() for name, _, _ in chain}


NAMELESS = """
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) void before(void) { sink++; }
__attribute__((noinline, nodebug)) void hot(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sink += i * 7;
}
int main(int argc, char **argv)
{
    while (clock() < 2 * CLOCKS_PER_SEC) {
        before();
        hot(100000);
    }
}
"""


def test_code_of_no_function_keeps_its_name(record, sonde, tmp_path):
    """In a unit's code, and in no function that it tells of: the line is DWARF's, the name that of the symbol, in all formats."""
    program = build(tmp_path / "form", "program", "clang-16", ["-gdwarf-4"], NAMELESS)
    listed = subprocess.run([need_command("llvm-dwarfdump", "llvm-dwarfdump-16"), program], capture_output=True, text=True, check=True).stdout
    assert '("before")' in listed and '("hot")' not in listed
    profile = record("-F", 499, "--inlines", "--record-wire", tmp_path / "wire", "--", program)
    assert profile.share("main;hot") > 0.5 - profile.early, profile.top()
    ours = places(profile.samples, program)
    theirs = addr2line(program, ours)
    hot = {address: chain for address, chain in ours.items() if chain[0][0] == "hot"}
    assert hot and {address: chain[0][1:] for address, chain in hot.items()} == {address: theirs[address][0][1:] for address in hot}
    for suffix in ("folded", "json", "html"):
        output = tmp_path / f"again.{suffix}"
        subprocess.run([sonde, "record", "--replay", tmp_path / "wire", "--inlines", "-o", output], check=True, capture_output=True, timeout=120)
        text = output.read_text()
        assert (";main;hot" if suffix == "folded" else '"hot"') in text, suffix
    assert all(name for sample in profile.samples for name in sample.frames), profile.top()


def test_deleted_program_has_lines(run, sonde, record, tmp_path):
    program = build(tmp_path / "form", "program")
    subject = run(program, 60)
    program.unlink()
    profile = record("-F", 199, "--inlines", "-p", subject.pid, "-d", 1)
    assert profile.where(lambda s: ("innermost" in s.frames and "middle" in s.frames)).count > 0, profile.said


def test_without_libdw_it_says_what_to_install(sonde, root, tmp_path):
    """An empty file in its place, in a mount namespace of its own."""
    library = Path("/usr/lib/x86_64-linux-gnu/libdw.so.1")
    if not library.exists():
        skip(f"there is no {library}")
    (tmp_path / "empty").touch()
    done = subprocess.run(["unshare", "-m", "sh", "-c", f'mount --bind {tmp_path}/empty "$(readlink -f {library})" && exec "$@"', "sh",
                           sonde, "record", "--lines", "-d", "1", "-o", tmp_path / "a.pb.gz"], capture_output=True, text=True, timeout=60)
    if done.stderr.startswith("unshare:"):
        skip("unshare -m: " + done.stderr.strip())
    assert done.returncode == 1 and "libdw1" in done.stderr, done.stderr
    assert not (tmp_path / "a.pb.gz").exists()
