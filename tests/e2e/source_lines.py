"""Programs with debug information in several forms, the source lines of their frames, and the lines that binutils and elfutils print."""
import os
import re
import shutil
import subprocess
from itertools import groupby

from harness.machine import need_command
from harness.paths import TOP

LINES = TOP / "tests/workloads/lines"


def build(folder, name, compiler="gcc", flags=("-gdwarf-5",), source=None):
    """An executable in `folder`, which also holds its .dwo files and a copy of its source."""
    folder.mkdir(exist_ok=True)
    source = source or ("program.cc" if compiler == "g++" else "program.c")
    for file in (source, "fire.h"):
        shutil.copy(LINES / file, folder / file)
    subprocess.run([need_command(compiler), "-O2", "-D_GNU_SOURCE", *flags, "-o", folder / name, source], check=True, cwd=folder)
    return folder / name


def dwz(program):
    """Runs dwz on two files, which then share a supplementary file."""
    need_command("dwz")
    twin = program.with_name("twin")
    shutil.copy(program, twin)
    done = subprocess.run(["dwz", "-m", "shared.debug", "-M", program.with_name("shared.debug"), program, twin], capture_output=True, text=True, cwd=program.parent)
    sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    assert done.returncode == 0 and ".gnu_debugaltlink" in sections, done.stderr


def debuglink(program):
    subprocess.run(["objcopy", "--only-keep-debug", program, program.with_name("program.debug")], check=True)
    subprocess.run(["objcopy", "-g", "--add-gnu-debuglink=program.debug", program], check=True, cwd=program.parent)


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
    """The same by binutils. Without DWARF (crtstuff.c) it prints the symbol table's file name, without a directory."""
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
    """The same for one address, by elfutils."""
    said = subprocess.run([need_command("eu-addr2line"), "-i", "-f", "-C", "-e", program, hex(address)], capture_output=True, text=True, check=True).stdout
    lines = said.splitlines()
    places = [(re.sub(r" inlined at .*", "", name), *re.match(r"(.*?):(\d+)", place).groups()) for name, place in zip(lines[::2], lines[1::2])]
    return [(name, os.path.normpath(file), int(line)) for name, file, line in reversed(places)]
