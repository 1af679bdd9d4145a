"""The agent with nothing but the rights that its systemd unit leaves it."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.agents import agents
from harness.machine import need_command, need_root
from harness.over_socket import OverSocket, get
from harness.paths import BUILD, TOP
from harness.processes import wait_for
from harness.workloads import workload_path

UNIT = BUILD / "packaging/sonde.service"
RATING = TOP / "docs/decisions/0037-least-rights.md"
SOCKET_ONLY = BUILD / "packaging/socket-only.conf"


def limit(sonde, unit, folder):
    need_root()
    for command in ("systemd-analyze", "setpriv", "unshare"):
        need_command(command)
    script = folder / "sonde"
    script.write_text(f'#!/bin/sh\nexec unshare --mount --propagation private {sys.executable} {TOP}/tests/harness/unit_limits.py {unit} {sonde} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def limited_sonde(sonde, tmp_path):
    """A program that runs `sonde` with the unit's rights."""
    return limit(sonde, UNIT, tmp_path)


@pytest.fixture
def socket_only(tmp_path):
    """The unit with its drop-in, as one file."""
    unit = tmp_path / "sonde.service"
    unit.write_text(UNIT.read_text() + SOCKET_ONLY.read_text())
    return unit


def exposure(unit):
    done = subprocess.run([need_command("systemd-analyze"), "security", "--offline=yes", "--no-pager", unit], capture_output=True, text=True, timeout=60)
    return float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)[1])


def test_exposure_is_what_the_documents_say(socket_only, tmp_path):
    """docs/operate.md; the decision explains the lines that remain."""
    full = tmp_path / "full" / "sonde.service"
    full.parent.mkdir()
    full.write_text(UNIT.read_text())
    for unit in (full, socket_only):
        unit.write_text(re.sub("(?m)^ExecStart=/.*", "ExecStart=/bin/true", unit.read_text()))  # which must exist
    text = (TOP / "docs/operate.md").read_text()
    said, said_of_drop_in = (float(re.search(pattern, text)[1]) for pattern in (r"rates them ([\d.]+) of 10", r"drop-in it is rated ([\d.]+) of 10"))
    assert f"rates the unit {said} of 10" in RATING.read_text()
    assert exposure(full) <= said <= 2.6 and exposure(socket_only) <= said_of_drop_in <= 2.0


def test_every_exposure_has_its_right_in_the_documents(tmp_path):
    """The decision has the name and the points of each line that systemd rates above 0."""
    unit = tmp_path / "sonde.service"
    unit.write_text(re.sub("(?m)^ExecStart=/.*", "ExecStart=/bin/true", UNIT.read_text()))
    done = subprocess.run([need_command("systemd-analyze"), "security", "--offline=yes", "--no-pager", "--json=short", unit], capture_output=True, text=True, timeout=60)
    rated = {line["name"]: line["exposure"] for line in json.loads(done.stdout[:done.stdout.rindex("]") + 1]) if line["exposure"] and float(line["exposure"]) > 0}
    text = RATING.read_text().replace("\\|", "|")
    assert len(rated) > 10
    assert rated == {name: points for name, points in re.findall(r"`([^`]+)` (\d\.\d)", text) if name.split("=")[0] + "=" in {line.split("=")[0] + "=" for line in rated}}


def doctor(sonde):
    done = subprocess.run([sonde, "doctor", "--json", "--agent", "127.0.0.1:9"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_every_probe_attaches_with_the_units_rights(sonde, limited_sonde):
    without, limited = doctor(sonde), doctor(limited_sonde)
    probes = {probe["probe"]: probe for probe in limited["probes"]}
    for probe in without["probes"]:
        name = probe["probe"]
        assert (probes[name]["attached"], probes[name]["method"]) == (probe["attached"], probe["method"]), probes[name]
    missing = [fact["value"] for fact in limited["facts"] if fact["name"] == "capabilities" and not fact["good"]]
    assert missing in ([], ["missing CAP_SYS_ADMIN"]), missing


def test_agent_works_with_the_units_rights(limited_sonde, run, workload, tmp_path):
    """It answers, and names the functions of a C++ program that it cannot reach by its path: below /tmp, in a folder that only its owner may enter,
    as a file that only its owner may read; and of one that was deleted after its start. A confined helper process demangles the names. It attaches
    to OpenSSL."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    program, deleted = home / "spinner", home / "deleted"
    for copy in (program, deleted):
        copy.write_bytes(workload_path("cxx").read_bytes())
        copy.chmod(0o700)
        os.chown(copy, 65534, 65534)
    spinners = [workload("cxx", 100000, "throw", path=copy) for copy in (program, deleted)]
    deleted.unlink()
    run("/usr/bin/python3", "-c", "import ssl, time; time.sleep(600)")
    with agents(limited_sonde, run) as start:
        agent = start()
        assert agent.text("/healthz")
        wait_for(lambda: "\nsonde_requests_tls_attachments 0" not in agent.text("/metrics"), 60, "attachment to OpenSSL")
        assert "\nsonde_requests_tls_attachments_refused 0" in agent.text("/metrics")
        for spinner in spinners:
            wait_for(lambda s=spinner: "main;shop::throw_and_catch" in agent.text(f"/api/v1/profile?format=folded&pid={s.pid}"), 60, "names of functions")


def test_agent_works_without_a_network(sonde, socket_only, run, workload, tmp_path):
    """It is in a network namespace of its own, where no program reaches it but by its socket, and observes the programs of the others."""
    limited, path = limit(sonde, socket_only, tmp_path), Path("/run/sonde-test-socket")
    running = run(limited, "up", "--listen", "none", "--set", f"page.socket={path}", "--set", "requests.enabled=false", "--set", "recorder.enabled=false")
    try:
        wait_for(lambda: str(path) in running.out, 60, "the agent")
        spinner = workload("cxx", 100000, "throw")

        def folded():
            return get(OverSocket(path), f"/api/v1/profile?format=folded&pid={spinner.pid}")[1].decode()
        wait_for(lambda: "main;shop::throw_and_catch" in folded(), 60, "names of functions")
    finally:
        assert running.stop() == 0
