"""Without capabilities, and without BTF: missing ones are named, everything that needs none works, and nothing crashes."""
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness.machine import need_command, need_root, skip


@pytest.fixture
def public_sonde(sonde):
    """A copy of the binary that every user may read."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o777)
        yield Path(shutil.copy(sonde, folder))


def run_unprivileged(*command, keep=""):
    need_root()
    setpriv = need_command("setpriv")
    if keep:
        rights = [f"--inh-caps=-all,{keep}", f"--ambient-caps=-all,{keep}", f"--bounding-set=-all,{keep}"]
    else:
        rights = ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
    return subprocess.run([setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", *rights, *map(str, command)], cwd="/var/tmp",
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, errors="replace")


@pytest.mark.parametrize("subcommand", [["up", "--listen", "127.0.0.1:0"], ["agent", "--listen", "127.0.0.1:0"], ["record", "-d", "1", "-o", "p.folded"]], ids=lambda v: v[0])
def test_missing_capabilities_are_named(public_sonde, subcommand):
    done = run_unprivileged(public_sonde, *subcommand[:-1], str(public_sonde.parent / subcommand[-1]) if subcommand[0] == "record" else subcommand[-1])
    assert done.returncode == 1, done
    assert "CAP_BPF" in done.stderr and "CAP_PERFMON" in done.stderr, done.stderr
    assert not (public_sonde.parent / "p.folded").exists()


def test_doctor_needs_no_capabilities(public_sonde):
    """Doctor succeeds, lists every capability as missing, and reports for every probe that it is not attached and why."""
    done = run_unprivileged(public_sonde, "doctor", "--json")
    assert done.returncode == 0 and done.stderr == "", done
    output = json.loads(done.stdout)
    missing = {fact["value"] for fact in output["facts"] if fact["name"] == "capabilities" and not fact["good"] and fact["cost"]}
    assert missing == {f"missing CAP_{name}" for name in ("BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", "CHECKPOINT_RESTORE", "SYSLOG", "SYS_ADMIN")}, output["facts"]
    probes = {p["probe"]: p for p in output["probes"]}
    for name in ("CPU samples", "requests", "process lifecycle"):
        assert not probes[name]["attached"] and re.search("not permitted|Permission denied", probes[name]["fallback_reason"]) and probes[name]["limitation"], probes[name]
    words = run_unprivileged(public_sonde, "doctor")
    assert words.returncode == 0 and words.stdout.count("missing CAP_") == len(missing) and words.stdout.count("NOT ATTACHED") >= 3, words


def test_single_missing_capability_is_named(public_sonde):
    done = run_unprivileged(public_sonde, "doctor", keep="+perfmon,+sys_ptrace,+dac_read_search")
    assert re.search(r"CAP_BPF", done.stdout), done
    assert not re.search(r"missing[^\n]*CAP_PERFMON", done.stdout), done.stdout


@pytest.mark.thorough
def test_missing_capabilities_have_their_limitation(public_sonde):
    """With the capabilities for sampling, doctor must not report that nothing attaches; CAP_SYS_ADMIN implies CAP_BPF and CAP_PERFMON."""
    done = run_unprivileged(public_sonde, "doctor", keep="+bpf,+perfmon")
    costs = dict(re.findall(r"missing (CAP_\w+) +<- (.*)", done.stdout))
    assert set(costs) == {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_CHECKPOINT_RESTORE", "CAP_SYSLOG", "CAP_SYS_ADMIN"}, done.stdout
    assert "kernel functions have no names" in costs["CAP_SYSLOG"], done.stdout
    done = run_unprivileged(public_sonde, "doctor", keep="+sys_admin")
    assert not re.search(r"missing CAP_(BPF|PERFMON)", done.stdout), done.stdout


def test_help_needs_no_capabilities(public_sonde):
    for words in (["--help"], ["--version"], ["record", "--help"]):
        assert run_unprivileged(public_sonde, *words).returncode == 0


def test_missing_btf_is_reported(sonde, root, tmp_path):
    """With the kernel's BTF hidden nothing attaches, the reason is reported, and no file is written."""
    if not Path("/sys/kernel/btf/vmlinux").exists():
        skip("this kernel has no BTF to hide")
    script = f"mount --bind /dev/null /sys/kernel/btf/vmlinux && '{sonde}' record -d 1 -o {tmp_path}/p.folded; echo status $?; '{sonde}' doctor --json; echo doctor $?"
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
    if "status" not in done.stdout:
        skip("BTF cannot be hidden: " + done.stderr.strip()[-200:])
    status = int(re.search(r"^status (\d+)$", done.stdout, re.M)[1])
    if Path(f"/boot/vmlinux-{os.uname().release}").exists():
        skip("the kernel's types are in /boot too")
    assert status == 1 and "BTF" in done.stderr and not (tmp_path / "p.folded").exists(), done
    output = json.loads(done.stdout.partition("\n")[2].partition("\ndoctor")[0])
    attached = {probe["probe"]: probe["attached"] for probe in output["probes"]}
    assert not attached["CPU samples"] and not attached["requests"] and attached["process lifecycle"], attached  # the last needs no types
    assert done.stdout.endswith("doctor 0\n"), done.stdout[-200:]


@pytest.mark.parametrize("arguments", ["record -a -d 1 -o {file}", "io report -o {file} -- true", "io --by process"])
def test_another_pid_namespace_is_refused(sonde, root, tmp_path, arguments):
    """In the namespace, /proc has other pids than the kernel's event records: names would be wrong."""
    done = subprocess.run(["unshare", "-p", "-f", "--mount-proc", sonde, *arguments.format(file=tmp_path / "p.folded").split()], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    if "unshare" in done.stderr:
        skip("no PID namespace can be made: " + done.stderr.strip())
    assert done.returncode == 1 and "PID namespace" in done.stderr, done
    assert not (tmp_path / "p.folded").exists()
