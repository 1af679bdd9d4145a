"""Source lines and inlined functions (`sonde record --lines`, `--inlines`) compared with binutils' addr2line, place by place; and damaged DWARF,
which may affect only the lines of its own file. The programs fire events at known places (tests/workloads/lines)."""
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
from pathlib import Path

import pprof
import pytest
import source_lines
from harness.machine import need_command, need_root, skip
from harness.processes import command_name, wait_for
from harness.recording import FIRED
from harness.workloads import Workload, go_pprof
from source_lines import LINES, addr2line, build, eu_addr2line, places

FORMS = {  # compiler, flags, post-processing of the executable
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


def has_bytes(pipe):
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0] > 0


def catches(pid, number):
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(caught[1], 16) >> (number - 1) & 1


@pytest.fixture(scope="module")
def forms(sonde, tmp_path_factory):
    """{form: (program, the same program with plain DWARF)}, and the samples of all of them, recorded one after another."""
    need_root()
    folder, programs = tmp_path_factory.mktemp("forms"), {}
    for form, (compiler, flags, then) in FORMS.items():
        if not shutil.which(compiler) or (then == "dwz" and not shutil.which("dwz")):
            continue
        (folder / form).mkdir()
        programs[form] = build(folder / form / "form", "program", compiler, flags), build(folder / form / "plain", "program", compiler, ["-gdwarf-4"])
        if then:
            getattr(source_lines, then)(programs[form][0])
    (folder / "all.sh").write_text("\n".join(f"'{program}' 5" for program, _ in programs.values()))
    done = subprocess.run([sonde, "record", "--event", FIRED, "--inlines", "-o", folder / "all.pb.gz", "--", "sh", folder / "all.sh"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return programs, pprof.read(folder / "all.pb.gz")[0], done.stderr


@pytest.mark.sanitized
@pytest.mark.parametrize("form", FORMS)
def test_lines_match_addr2line(forms, form):
    """Compared with the same program with plain DWARF, because binutils does not resolve everything in every form."""
    programs, samples, said = forms
    if form not in programs:
        skip(f"needs {FORMS[form][0]} and {FORMS[form][2] or 'nothing else'}")
    program, plain = programs[form]
    ours = places(samples, program)
    theirs = addr2line(plain, ours)
    with_lines = {address: chain for address, chain in theirs.items() if chain[0][1]}
    moved = {address: in_folder(chain, plain, program) for address, chain in with_lines.items()}
    # For a function split in two, binutils may give an inlined function the outer one's name; elfutils does not.
    moved = {address: chain if ours[address] == chain else in_folder(eu_addr2line(plain, address), plain, program) for address, chain in moved.items()}
    assert {address: ours[address] for address in moved} == moved, said
    inlined = [name for name, _, _ in max(ours.values(), key=len)]
    assert inlined == (["shop::Counter::serve", "shop::Till<long>::ring"] if form == "c++" else ["outer", "middle", "innermost"]), ours


def in_folder(chain, plain, program):
    return [(name, file.replace(str(plain.parent), str(program.parent)), line) for name, file, line in chain]


def test_without_inlines_a_frame_has_the_line_of_the_call(record, tmp_path):
    """The frame has the line of the call where its code comes from an inlined function."""
    program = build(tmp_path / "form", "program")
    profile = record("--event", FIRED, "--lines", "--", program)
    ours = places(profile.samples, program)
    theirs = addr2line(program, ours)
    assert {address: chain[:1] for address, chain in theirs.items() if chain[0][1]} == \
        {address: chain for address, chain in ours.items() if theirs[address][0][1]}


@pytest.mark.peer
def test_go_tool_pprof_lists_lines(record, tmp_path):
    need_command("go")
    program = build(tmp_path / "form", "program")
    record("--event", FIRED, "--lines", "--", program)
    listed = go_pprof("-list", "outer", tmp_path / "record-1.pb.gz")
    assert re.search(r"[.\d]+ +\d+ +\d+: +middle\(n", listed), listed


@pytest.fixture(scope="module")
def event_records(sonde, tmp_path_factory):
    """(the program's file, its bytes, the recording) of a program recorded once."""
    need_root()
    folder = tmp_path_factory.mktemp("event_records")
    program = build(folder / "form", "program")
    done = subprocess.run([sonde, "record", "--event", FIRED, "--record-events", folder / "event_records", "-o", folder / "live.folded", "--", program], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return program, program.read_bytes(), folder / "event_records"


@pytest.fixture
def recorded(sonde, event_records):
    """(program, replay): replays the recording with the program's file as it is by then; replay(options...) returns the finished process, its output
    and its messages. The file is restored before each test."""
    program, content, recording = event_records
    program.write_bytes(content)

    def replay(*options, output="-"):
        done = subprocess.run([sonde, "record", "--replay", recording, "-o", output, *options], capture_output=True, timeout=120)
        of_program = [line for line in done.stdout.decode(errors="replace").splitlines(True) if line.startswith("program;")]
        return done, "".join(of_program), done.stderr.decode(errors="replace")  # without samples from before its exec
    return program, replay


def without_inlined(folded):
    """{stack: count} without the inlined frames."""
    counts = {}
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        stack = ";".join(frame for frame in stack.split(";") if not frame.endswith("_[i]"))
        counts[stack] = counts.get(stack, 0) + int(count)
    return counts


def test_formats_mark_inlined_frames(recorded, tmp_path):
    program, replay = recorded
    _, plain, _ = replay()
    _, folded, said = replay("--inlines")
    assert "outer;middle_[i];innermost_[i]" in folded and "_[i]" not in plain
    assert without_inlined(folded) == without_inlined(plain) != {}
    replay("--inlines", output=tmp_path / "a.json")
    assert '"inlined":true' in (tmp_path / "a.json").read_text()
    assert "native frames without lines" in said  # _start has no source


def test_missing_dwarf_is_no_error(recorded, tmp_path):
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


@pytest.mark.thorough
def test_damaged_dwarf_affects_only_its_own_lines(recorded):
    """Flipped bits, truncated sections: names and stacks stay the same, whatever happens to the lines."""
    program, replay = recorded
    whole, found = program.read_bytes(), sections_of(program)
    stacks = without_inlined(replay()[1])
    dwarf = [span for name, span in found.items() if name.startswith(".debug_")]
    state, lost = 1, 0
    for turn in range(5):
        data = bytearray(whole)
        for offset, size in dwarf:
            for _ in range(1 + turn % 8):
                state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
                data[offset + (state >> 33) % size] ^= 1 << (state >> 30) % 8
            if turn % 5 == 4:  # truncate: zeros from there on
                data[offset + size // 2:offset + size] = bytes(size - size // 2)
        program.write_bytes(data)
        done, folded, said = replay("--inlines")
        assert done.returncode == 0, f"turn {turn}: {said}"
        assert without_inlined(folded) == stacks, f"turn {turn}: {said}"
        lost += "outer;middle_[i];innermost_[i]" not in folded
    assert lost > 0  # otherwise the damage had no effect
    program.write_bytes(whole)
    assert "outer;middle_[i];innermost_[i]" in replay("--inlines")[1]


def test_decompression_bombs_are_refused(recorded):
    """A section that claims to be a terabyte, and one that expands to a quarter of a gigabyte of zeros."""
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


def test_split_dwarf_must_be_a_regular_file(sonde, root, record, tmp_path):
    """A FIFO or a directory in place of a .dwo file must not block the recorder; and a .dwo file of another program."""
    program = build(tmp_path / "form", "program", flags=["-gdwarf-5", "-gsplit-dwarf"])
    record("--event", FIRED, "--record-events", tmp_path / "event_records", "--", program)
    split = next(program.parent.glob("*.dwo"))
    content = split.read_bytes()

    def replay():
        done = subprocess.run([sonde, "record", "--replay", tmp_path / "event_records", "-o", "-", "--inlines"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and ";outer" in done.stdout, done.stderr
        return "outer;middle_[i];innermost_[i]" in done.stdout, done.stderr
    assert replay()[0]
    split.unlink()
    for make in (lambda: os.mkfifo(split), lambda: split.mkdir(), lambda: split.symlink_to("/dev/zero"), lambda: split.write_bytes(content[:len(content) // 2])):
        make()
        found, said = replay()
        assert not found and "damaged or incomplete" in said, said
        split.rmdir() if split.is_dir() else split.unlink()


def test_cyclic_dwarf_references_terminate(record, tmp_path):
    """An origin that refers to itself through another one, and a sibling that is its own sibling."""
    program = build(tmp_path / "form", "program", flags=[LINES / "loops.s"])
    profile = record("--event", FIRED, "--inlines", "--", program)
    own = profile.where(lambda s: str(program) in s.mappings)
    assert own.count > 0 and own.share("main;outer") == 1, own.top()


@pytest.fixture
def replay_command(sonde, recorded, event_records):
    """Returns the command that replays the recording and writes to a path."""
    return lambda output: [sonde, "record", "--replay", event_records[2], "--inlines", "-o", output]


def test_ctrl_c_keeps_the_profile(run, replay_command, tmp_path):
    """Also when it arrives during the line lookup, which does not end here because libdw blocks forever."""
    subprocess.run([need_command("gcc"), "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", "endless.so", LINES / "endless.c"], check=True, cwd=tmp_path)
    recording = run(*replay_command(tmp_path / "a.pb.gz"), env=dict(os.environ, LD_PRELOAD=str(tmp_path / "endless.so")))
    children = Path(f"/proc/{recording.pid}/task/{recording.pid}/children")

    def looks():
        assert recording.alive, recording.error
        return any(command_name(child) == "sonde-lines" for child in children.read_text().split())
    wait_for(looks, 60, "lines to be looked for")
    recording.process.send_signal(signal.SIGINT)
    assert recording.wait() == 0, recording.error
    samples, _ = pprof.read(tmp_path / "a.pb.gz")
    assert any("outer" in s.frames for s in samples) and not any("inner" in s.frames for s in samples), recording.error


def test_ctrl_c_after_line_lookup_keeps_the_profile(run, replay_command, tmp_path):
    """The line lookup has ended and no process reads the output pipe. The second Ctrl-C ends the write."""
    fifo = tmp_path / "late.html"
    os.mkfifo(fifo)
    for signals in (1, 2):
        with open(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
            recording = run(*replay_command(fifo))
            wait_for(lambda: has_bytes(reader) or not recording.alive, 60, "the profile to be written")
            recording.process.send_signal(signal.SIGINT)
            if signals == 2:
                wait_for(lambda: not catches(recording.pid, signal.SIGINT), 60, "the first one to be taken")
                recording.process.send_signal(signal.SIGINT)
                assert recording.wait() == -signal.SIGINT, recording.error
            else:
                os.set_blocking(reader.fileno(), True)
                assert b"innermost" in reader.read() and recording.wait() == 0, recording.error


def test_split_dwarf_package_is_not_called_damaged(sonde, root, record, tmp_path):
    """A DWARF package that libdw cannot read is not reported as damaged; if libdw reads it (from elfutils 0.192 on), lines are complete."""
    program = build(tmp_path / "form", "program", flags=["-gdwarf-4", "-gsplit-dwarf"])
    # With DWARF 5 from gcc 12, binutils 2.40's dwp crashes and LLVM 16's does not terminate.
    subprocess.run([need_command("dwp"), "-e", program, "-o", f"{program}.dwp"], check=True, timeout=60)
    for split in program.parent.glob("*.dwo"):
        split.unlink()
    profile = record("--event", FIRED, "--inlines", "--", program)
    own = profile.where(lambda s: str(program) in s.mappings)
    assert "damaged" not in profile.messages and own.count > 0 and own.share("main") == 1, profile.messages + profile.top()
    if "in a package" not in profile.messages:
        assert own.share("outer;middle;innermost") > 0, profile.top()
        skip("this libdw reads packages")
    assert "outer" in {name for chain in places(profile.samples, program).values() for name, _, _ in chain}


def test_code_of_no_function_keeps_its_name(record, sonde, tmp_path):
    """Code of a unit in none of its functions: the line comes from DWARF, the name from the symbol table, in all formats."""
    program = build(tmp_path / "form", "program", "clang-16", ["-gdwarf-4"], "nameless.c")
    listed = subprocess.run([need_command("llvm-dwarfdump", "llvm-dwarfdump-16"), program], capture_output=True, text=True, check=True).stdout
    assert '("before")' in listed and '("hot")' not in listed
    profile = record("--event", FIRED, "--inlines", "--record-events", tmp_path / "event_records", "--", program)
    own = profile.where(lambda s: str(program) in s.mappings)
    assert own.count > 0 and own.share("main;hot") == 1, profile.top()
    ours = places(profile.samples, program)
    theirs = addr2line(program, ours)
    hot = {address: chain for address, chain in ours.items() if chain[0][0] == "hot"}
    assert hot and {address: chain[0][1:] for address, chain in hot.items()} == {address: theirs[address][0][1:] for address in hot}
    for suffix in ("folded", "json", "html"):
        output = tmp_path / f"again.{suffix}"
        subprocess.run([sonde, "record", "--replay", tmp_path / "event_records", "--inlines", "-o", output], check=True, capture_output=True, timeout=120)
        text = output.read_text()
        assert (";main;hot" if suffix == "folded" else '"hot"') in text, suffix
    assert all(name for sample in profile.samples for name in sample.frames), profile.top()


def test_deleted_program_has_lines(run, fire, tmp_path):
    program = build(tmp_path / "form", "program")
    workload = Workload(run(program, 5, "wait"))
    program.unlink()
    profile = fire(workload, "--inlines")
    assert profile.share("outer;middle;innermost") > 0, profile.messages + profile.top()


def test_without_libdw_it_says_what_to_install(sonde, root, tmp_path):
    """An empty file replaces libdw in a mount namespace of its own."""
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
