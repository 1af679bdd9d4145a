"""Without rights, without BTF: what is missing is named, what needs no rights still works, and nothing crashes."""
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
    """The binary where everybody may read it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o777)
        yield Path(shutil.copy(sonde, folder))


def as_nobody(*command, keep=""):
    need_root()
    setpriv = need_command("setpriv")
    if keep:
        rights = [f"--inh-caps=-all,{keep}", f"--ambient-caps=-all,{keep}", f"--bounding-set=-all,{keep}"]
    else:
        rights = ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
    return subprocess.run([setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", *rights, *map(str, command)], cwd="/var/tmp",
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, errors="replace")


@pytest.mark.parametrize("verb", [["up", "--listen", "127.0.0.1:0"], ["agent", "--listen", "127.0.0.1:0"], ["record", "-d", "1", "-o", "p.folded"]], ids=lambda v: v[0])
def test_no_rights_names_what_is_missing(public_sonde, verb):
    done = as_nobody(public_sonde, *verb[:-1], str(public_sonde.parent / verb[-1]) if verb[0] == "record" else verb[-1])
    assert done.returncode == 1, done
    assert "CAP_BPF" in done.stderr and "CAP_PERFMON" in done.stderr, done.stderr
    assert not (public_sonde.parent / "p.folded").exists()


def test_doctor_needs_no_rights(public_sonde):
    """It ends well, misses every capability, and says of every probe that it is not attached and why."""
    done = as_nobody(public_sonde, "doctor", "--json")
    assert done.returncode == 0 and done.stderr == "", done
    told = json.loads(done.stdout)
    missing = {fact["value"] for fact in told["facts"] if fact["name"] == "capabilities" and not fact["good"] and fact["cost"]}
    assert missing == {f"missing CAP_{name}" for name in ("BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", "SYSLOG", "SYS_ADMIN")}, told["facts"]
    probes = {p["probe"]: p for p in told["probes"]}
    for name in ("cpu samples", "requests", "lives of processes"):
        assert not probes[name]["attached"] and re.search("not permitted|Permission denied", probes[name]["fallback_reason"]) and probes[name]["limitation"], probes[name]
    words = as_nobody(public_sonde, "doctor")
    assert words.returncode == 0 and words.stdout.count("missing CAP_") == len(missing) and words.stdout.count("NOT ATTACHED") >= 3, words


def test_one_capability_short_names_that_one(public_sonde):
    done = as_nobody(public_sonde, "doctor", keep="+perfmon,+sys_ptrace,+dac_read_search")
    assert re.search(r"CAP_BPF", done.stdout), done
    assert not re.search(r"missing[^\n]*CAP_PERFMON", done.stdout), done.stdout


def test_what_is_missing_says_what_it_costs(public_sonde):
    """With what sampling needs, it must not say that nothing attaches; CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON."""
    done = as_nobody(public_sonde, "doctor", keep="+bpf,+perfmon")
    costs = dict(re.findall(r"missing (CAP_\w+) +<- (.*)", done.stdout))
    assert set(costs) == {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_SYSLOG", "CAP_SYS_ADMIN"}, done.stdout
    assert "kernel functions have no names" in costs["CAP_SYSLOG"], done.stdout
    done = as_nobody(public_sonde, "doctor", keep="+sys_admin")
    assert not re.search(r"missing CAP_(BPF|PERFMON)", done.stdout), done.stdout


def test_help_needs_nothing(public_sonde):
    for words in (["--help"], ["--version"], ["record", "--help"]):
        assert as_nobody(public_sonde, *words).returncode == 0


def test_no_btf(sonde, root, tmp_path):
    """The kernel's types hidden: nothing attaches, which is said with its cause, and no file is written."""
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
    told = json.loads(done.stdout.partition("\n")[2].partition("\ndoctor")[0])
    attached = {probe["probe"]: probe["attached"] for probe in told["probes"]}
    assert not attached["cpu samples"] and not attached["requests"] and attached["lives of processes"], attached  # the last needs no types
    assert done.stdout.endswith("doctor 0\n"), done.stdout[-200:]


def test_another_pid_namespace_is_refused(sonde, root, tmp_path):
    """There, /proc numbers processes differently from the kernel's records: names would be wrong, so there are none."""
    done = subprocess.run(["unshare", "-p", "-f", "--mount-proc", sonde, "record", "-a", "-d", "1", "-o", tmp_path / "p.folded"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    if "unshare" in done.stderr:
        skip("no PID namespace can be made: " + done.stderr.strip())
    assert done.returncode == 1 and "PID namespace" in done.stderr, done
    assert not (tmp_path / "p.folded").exists()
