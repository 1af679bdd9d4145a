"""The checks of tools/ can fail: each runs on a tree with one violation, and on one without."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"


def tree(top, files):
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)


def check(tool, top):
    return subprocess.run([TOOLS / tool, "--lines", top], capture_output=True, text=True)


GOOD = {
    "src/base/buf.h": "/* buf */\n", "src/model/sample.h": '/* sample */\n#include "base/buf.h"\n', "src/agent/agent.h": "/* agent */\n",
    "src/resolve/elf/elf.h": "/* elf */\n", "src/resolve/sample/samples.h": "/* samples */\n",
    "src/resolve/unwind/cfi.h": '/* cfi */\n#include "probes/unwind/unwind.h"\n#include "resolve/elf/elf.h"\n#include "model/sample.h"\n',
    "src/resolve/unwind/cfi.c": '/* cfi */\n#include "resolve/unwind/cfi.h"\n',
    "src/sources/cpu/cpu.c": '/* cpu */\n#include "cpu.skel.h"\n', "src/export/export.h": "/* export */\n",
    "src/cli/main.c": '/* main */\n#include "agent/agent.h"\n', "src/cli/subcommands.h": "/* verbs */\n", "src/cli/why/why.h": "/* why */\n",
    "src/signals/io/names.h": "/* names */\n", "src/cli/io/io.c": '/* io */\n#include "cli/subcommands.h"\n#include "signals/io/names.h"\n',
    "probes/unwind/unwind.h": "/* unwind table */\n", "probes/unwind/step.bpf.h": "/* step */\n", "probes/request/http.bpf.h": "/* http */\n",
    "probes/cpu.bpf.c": '/* cpu */\n#include "probes/unwind/unwind.h"\n#include "probes/unwind/step.bpf.h"\n',
    "lib/otlp/curl.c": '/* curl */\n#include "curl.h"\n', "lib/otlp/curl.h": "/* curl */\n", "src/send/send.c": '/* send */\n#include "otlp/curl.h"\n',
    "lib/otlp/sender.h": "/* sender */\n", "lib/otlp/fields.h": "/* fields */\n", "src/export/spans.c": '/* spans */\n#include "lib/otlp/fields.h"\n',
    "lib/trace/text.h": "/* text */\n", "lib/trace/sink.c": '/* sink */\n#include "../otlp/curl.h"\n',
}


def test_layers_accept_allowed_includes(tmp_path):
    tree(tmp_path, GOOD)
    done = check("check-layers", tmp_path)
    assert (done.returncode, done.stdout) == (0, "pass layers\n")


@pytest.mark.parametrize("path,include", [
    ("src/base/buf.c", "model/sample.h"),           # only lower layers
    ("src/model/other.c", "agent/agent.h"),
    ("src/export/pprof.c", "resolve/unwind/cfi.h"),  # an exporter includes the model only
    ("src/export/event.c", "probes/unwind/unwind.h"),  # event records do not reach exporters
    ("src/aggregate/event.c", "probes/unwind/unwind.h"),
    ("src/resolve/sample/skeleton.c", "cpu.skel.h"),  # only sources load BPF programs
    ("src/resolve/sample/kernel.c", "probes/unwind/step.bpf.h"),
    ("src/resolve/elf/symbols.c", "resolve/sample/samples.h"),  # sub-directories are layered too
    ("src/resolve/misc/misc.c", "resolve/elf/elf.h"),  # a sub-directory without a rule
    ("src/agent/main.c", "cli/subcommands.h"),
    ("src/cli/io/report.c", "cli/why/why.h"),        # a subcommand includes no files of another one
    ("src/cli/diff.c", "cli/why/why.h"),
    ("src/cli/why/why.c", "signals/io/names.h"),     # nor those of another one's signal
    ("probes/requests.bpf.c", "../src/base/buf.h"),
    ("probes/unwind/walk.bpf.h", "probes/request/http.bpf.h"),
    ("probes/request.h", "probes/request/http.bpf.h"),  # event records include event records only
    ("lib/otlp/sender.c", "trace/text.h"),           # lib/otlp is linked into the agent too
    ("src/export/send.c", "otlp/sender.h"),
    ("src/base/nowhere.c", "nowhere/else.h"),
    ("src/utils/misc.c", "base/buf.h"),              # a directory without a rule
])
def test_layers_reject_forbidden_includes(tmp_path, path, include):
    tree(tmp_path, GOOD | {path: f'/* x */\n#include "{include}"\n'})
    done = check("check-layers", tmp_path)
    assert done.returncode == 1 and done.stdout.count("FAIL") == 1, done.stdout
    assert path.rpartition("/")[0] in done.stdout


def test_layers_reject_cyclic_includes(tmp_path):
    tree(tmp_path, GOOD | {"src/base/a.h": '/* a */\n#include "base/b.h"\n', "src/base/b.h": '/* b */\n#include "base/a.h"\n'})
    assert check("check-layers", tmp_path).stdout == 'FAIL layers: src/base/a.h:2: "src/base/b.h" is a circle: src/base/a.h -> src/base/b.h -> src/base/a.h\n'


GUARDED = 'SEC("uprobe")\nint f(void *r)\n{\n    preemption_disable();\n    take(r);\n    preemption_enable();\n    return 0;\n}\n'


@pytest.mark.parametrize("text,why", [
    (GUARDED, None),
    (GUARDED.replace('"uprobe"', '"tp_btf/x"').replace("    preemption_disable();\n", ""), None),  # is not preempted
    (GUARDED.replace("    preemption_disable();\n", ""), "does not begin with"),
    (GUARDED.replace("    preemption_enable();\n", ""), "before it returns"),
    (GUARDED.replace("    take(r);\n", "    if (!r)\n        return 0;\n"), "another return"),
    (GUARDED.replace("uprobe", "uretprobe//x").replace("    preemption_disable();\n", ""), "does not begin with"),
    (GUARDED.replace("int f", "extern weird f"), "cannot read"),
])
def test_programs_at_uprobes_disable_preemption(tmp_path, text, why):
    tree(tmp_path, {"probes/x.bpf.c": text})
    done = check("check-preemption", tmp_path)
    assert (done.returncode, done.stdout) == (0, "pass preemption\n") if why is None else done.returncode == 1 and why in done.stdout, done.stdout


@pytest.mark.parametrize("text,why", [
    ("/* x */\nvoid f(char *a) { strcpy(a, a); }\n", "strcpy"),
    ("void f(void);\n", "no comment at the head"),
    ("/* x */\n" + "\n" * 601, "lines"),
])
def test_style_rejects_violations(tmp_path, text, why):
    tree(tmp_path, {"src/base/x.c": text})
    done = check("check-style", tmp_path)
    assert done.returncode == 1 and re.search(why, done.stdout), done.stdout


def test_style_ignores_comments_and_strings(tmp_path):
    tree(tmp_path, {"src/base/x.c": '/* strcpy(a) is banned */\nconst char *x = "sprintf(";\n'})
    assert "FAIL style: src/base/x.c:2" not in check("check-style", tmp_path).stdout


DEEP = """
#define FILL(v, n, x) volatile char v[n]; for (int i = 0; i < (n); i++) v[i] = (x)
__attribute__((noinline)) static int inner(int x) { FILL(of_inner, 200, x); return of_inner[x & 7]; }
__attribute__((noinline)) int middle(int x) { FILL(of_middle, OF_MIDDLE, x); return inner(x) + of_middle[x & 7]; }
__attribute__((section("tp"), used)) int program(int *x) { FILL(of_program, 100, *x); return middle(*x) + of_program[*x & 7]; }
"""


def built_for_bpf(path, text, *defines):
    clang = next(name for name in ("clang-19", "clang-18", "clang-17", "clang-16", "clang") if shutil.which(name))
    subprocess.run([clang, "-target", "bpf", "-O1", "-mcpu=v3", *defines, "-x", "c", "-c", "-", "-o", path], input=text, text=True, check=True)
    return path


@pytest.mark.parametrize("of_middle,depth", [(100, 224 + 128 + 128), (160, 224 + 160 + 128), (161, 224 + 192 + 128)])
def test_bpf_stack_adds_up_the_functions_of_a_chain_of_calls(tmp_path, of_middle, depth):
    built = built_for_bpf(tmp_path / "deep.bpf.o", DEEP, f"-DOF_MIDDLE={of_middle}")
    done = subprocess.run([TOOLS / "check-bpf-stack", built], capture_output=True, text=True)
    if depth <= 512:
        assert (done.returncode, done.stdout) == (0, f"deep.bpf.o: {depth} bytes\n")
    else:
        assert done.returncode == 1 and f"may have {depth} bytes" in done.stdout and "program 1" in done.stdout and " > middle 1" in done.stdout and " > inner 2" in done.stdout


AT_UPROBE = """
__attribute__((noinline, visibility(VISIBILITY))) int called(volatile int *x) { return *x + *x; }
__attribute__((noinline)) static int between(volatile int *x) { return called(x) + *x; }
__attribute__((section("uprobe"), used)) int PROGRAM(volatile int *x) { return between(x) + *x; }
"""


@pytest.mark.parametrize("visibility,program,is_refused", [("default", "program", True), ("hidden", "program", False), ("default", "tls_return_by_calls", False)])
def test_global_functions_are_not_called_by_programs_at_uprobes(tmp_path, visibility, program, is_refused):
    built = built_for_bpf(tmp_path / "uprobe.bpf.o", AT_UPROBE, f'-DVISIBILITY="{visibility}"', f"-DPROGRAM={program}")
    done = subprocess.run([TOOLS / "check-bpf-stack", built], capture_output=True, text=True)
    assert done.returncode == is_refused and (": program > between > called" in done.stdout) == is_refused, done.stdout


def test_a_name_that_two_libraries_define_is_reported(tmp_path):
    for library, text in (("one", "int twice(void) { return 1; } static int local;"), ("other", "int twice(void) { return 2; } static int local; int once;")):
        built = tmp_path / f"{library}.o"
        subprocess.run(["cc", "-x", "c", "-c", "-", "-o", built], input=text, text=True, check=True)
        subprocess.run(["ar", "rcs", tmp_path / f"lib{library}.a", built], check=True)
    done = subprocess.run([TOOLS / "check-symbols", tmp_path / "libone.a", tmp_path / "libother.a"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "twice is defined in libone.a:one.o and in libother.a:other.o\n")
    assert subprocess.run([TOOLS / "check-symbols", tmp_path / "libone.a"]).returncode == 0
