"""The agent with nothing but the rights that its systemd unit leaves it."""
import json
import os
import subprocess
import sys

import pytest

from harness.agents import agents
from harness.machine import need_command, need_root
from harness.paths import BUILD, TOP
from harness.processes import wait_for
from harness.workloads import workload_path

UNIT = BUILD / "packaging/sonde.service"
UPROBES = "traced requests"  # off by default; uprobes need CAP_SYS_ADMIN since Linux 6.16, which the unit does not leave


@pytest.fixture
def limited_sonde(sonde, tmp_path):
    """A program that runs `sonde` with the unit's rights."""
    need_root()
    for command in ("systemd-analyze", "setpriv", "unshare"):
        need_command(command)
    script = tmp_path / "sonde"
    script.write_text(f'#!/bin/sh\nexec unshare --mount --propagation private {sys.executable} {TOP}/tests/harness/unit_limits.py {UNIT} {sonde} "$@"\n')
    script.chmod(0o755)
    return script


def doctor(sonde):
    done = subprocess.run([sonde, "doctor", "--json", "--agent", "127.0.0.1:9"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def test_every_probe_attaches_with_the_units_rights(sonde, limited_sonde):
    without, limited = doctor(sonde), doctor(limited_sonde)
    probes = {probe["probe"]: probe for probe in limited["probes"]}
    for probe in without["probes"]:
        name = probe["probe"]
        if name == UPROBES and not probes[name]["attached"]:
            assert "Permission denied" in probes[name]["fallback_reason"], probes[name]
        else:
            assert (probes[name]["attached"], probes[name]["method"]) == (probe["attached"], probe["method"]), probes[name]
    missing = [fact["value"] for fact in limited["facts"] if fact["name"] == "capabilities" and not fact["good"]]
    assert missing in ([], ["missing CAP_SYS_ADMIN"]), missing


def test_agent_works_with_the_units_rights(limited_sonde, run, workload, tmp_path):
    """It answers, and names the functions of a C++ program that it cannot reach by its path: below /tmp, in a folder that only its owner may enter,
    as a file that only its owner may read. A confined helper process demangles the names."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    program = home / "spinner"
    program.write_bytes(workload_path("cxx").read_bytes())
    program.chmod(0o700)
    os.chown(program, 65534, 65534)
    with agents(limited_sonde, run) as start:
        agent = start()
        assert agent.text("/healthz")
        spinner = workload("cxx", 100000, "throw", path=program)
        wait_for(lambda: "main;shop::throw_and_catch" in agent.text(f"/api/v1/profile?format=folded&pid={spinner.pid}"), 60, "names of functions")
