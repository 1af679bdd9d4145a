"""`sonde doctor` reports what the agent would attach: the same for every probe, alone, beside a running agent, and in a PID namespace."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.agents import everything_enabled
from harness.machine import need_command, skip
from harness.recording import attached_probes
from synthetic_agent import synthetic_agent  # noqa: F401 (a fixture)


# Where no probe is tried, doctor takes no time; all else that it reports is as elsewhere.
IN_PID_NAMESPACE = ("unshare", "-p", "-f", "--mount-proc")
OBSERVING = r"(sonde: no agent is running: observing requests for [^\n]*\n)?"


def doctor(sonde, *arguments, before=()):
    done = subprocess.run([*before, str(sonde), "doctor", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if before and "unshare:" in done.stderr:
        skip("no PID namespace can be made: " + done.stderr.strip())
    assert done.returncode == 0 and re.fullmatch(OBSERVING, done.stderr), done
    return done.stdout


def probes_of(sonde, *arguments, **options):
    return json.loads(doctor(sonde, "--json", *arguments, **options))["probes"]


@pytest.mark.thorough
def test_doctor_reports_the_same_probes_as_the_agent(sonde, agent, reads_sleeping_stacks):
    alone = list(attached_probes(sonde).values())
    started = agent(*everything_enabled(sonde))  # doctor tries all; it has exited and released the node lock
    of_agent = json.loads(started.text("/api/v1/status"))["probes"]
    assert {"CPU samples", "requests", "process lifecycle", "files of processes"} <= {p["probe"] for p in of_agent}
    assert alone == of_agent
    methods = {p["probe"]: (p["attached"], p["method"]) for p in of_agent}
    assert methods["off-CPU time"] == (True, "tracepoints of the scheduler")
    assert methods["stacks of sleeping tasks"] == (True, "iterator that may sleep" if reads_sleeping_stacks else "kernel stacks alone")
    here = ("--agent", f"127.0.0.1:{started.port}")
    assert probes_of(sonde, *here) == of_agent, "beside an agent"
    assert started.running.alive
    machine, words = doctor(sonde, *here).split("\nProbes\n")
    assert "\n  stolen CPU time " in machine
    for probe in of_agent:
        line = f"  {probe['probe']:<26} {probe['method'] if probe['attached'] else 'NOT ATTACHED'}\n"
        assert line in words, probe
        for text in filter(None, (probe["fallback_reason"], probe["limitation"])):
            assert text in words, probe
    assert words.count("NOT ATTACHED") == sum(not p["attached"] for p in of_agent)


def test_doctor_reports_the_profile_receiver(sonde, root, monkeypatch):
    def receiver():
        said = json.loads(doctor(sonde, "--json", before=IN_PID_NAMESPACE))
        return {fact["name"]: fact["value"] for fact in said["facts"]}["profiles are sent to"]
    if Path("/etc/sonde/sonde.yaml").exists():
        skip("this machine has a configuration of its own")
    assert receiver().startswith("no receiver")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:word@collector:4318")
    assert receiver() == "http://collector:4318/v1development/profiles"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")
    assert receiver().startswith("no receiver (OTEL_EXPORTER_OTLP_")


def test_doctor_reads_the_configuration_file(sonde, root, tmp_path, synthetic_agent):
    """Also for a user who may not read the file, so that the receiver is unknown."""
    etc = tmp_path / "etc"
    (etc / "sonde").mkdir(parents=True)
    for path in (etc, etc / "sonde"):
        path.chmod(0o755)
    if Path("/etc/ld.so.cache").exists():
        shutil.copy("/etc/ld.so.cache", etc)
    shutil.copy(sonde, etc / "sonde-copy")  # where every user may execute it
    setpriv = (need_command("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all")

    def run_doctor(text, *command_prefix, mode=0o644):
        (etc / "sonde/sonde.yaml").write_text(text)
        (etc / "sonde/sonde.yaml").chmod(mode)
        script = 'mount --bind "$1" /etc && shift && exec "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", etc, *command_prefix, "/etc/sonde-copy", "doctor", "--json"], capture_output=True, text=True,
                              timeout=60)
        if done.stderr.startswith("unshare:"):  # for example in a chroot
            skip(done.stderr.strip())
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def receiver_of(text, *command_prefix, what="profiles", **options):
        facts = run_doctor(text, *command_prefix or IN_PID_NAMESPACE, **options)["facts"]
        return next((fact["value"], fact["good"]) for fact in facts if fact["name"] == f"{what} are sent to")
    sent = "otlp:\n  profiles_endpoint: http://collector:4318/p\n"
    assert receiver_of(sent) == ("http://collector:4318/p", True)
    assert receiver_of(sent, what="metrics") == ("no receiver (otlp.metrics_endpoint)", True)
    assert receiver_of("otlp:\n  metrics_endpoint: http://me:word@collector:4318/m\n", what="metrics") == ("http://collector:4318/m", True)
    assert receiver_of("otlp:\n  logs_endpoint: http://collector:4318/l\n", what="events") == ("http://collector:4318/l", True)
    assert receiver_of(sent, *setpriv, mode=0o600) == ("unknown (/etc/sonde/sonde.yaml is not readable by you)", True)
    assert receiver_of(sent + "profile:\n  enabled: false\n") == ("no receiver (profile.enabled and off_cpu.enabled are false)", True)
    assert not receiver_of(sent + "profile:\n  rate: fast\n")[1]
    value, good = receiver_of("page:\n  tls_key: /key.pem\n")
    assert "page.tls_key is set without page.tls_certificate" in value and not good
    report = run_doctor(f"page:\n  listen: {synthetic_agent('large')}\nprofile:\n  sampling_rules: user=0:9, user=nobody-has-this-name:9, pid=4194304:9\n")
    rules, = [probe for probe in report["probes"] if probe["probe"] == "sampling rules"]
    assert rules["attached"] and rules["method"] == "1 of 3 found"
    assert rules["limitation"] == "not on this machine now: user=nobody-has-this-name, pid=4194304"
    busy, = [fact for fact in report["facts"] if fact["name"] == "running agent"]
    assert "reduced to keep to budget.one_cpu" in busy["value"] and not busy["good"] and busy["cost"] == "CPU samples at half the rate", busy


def test_doctor_and_agent_refuse_a_pid_namespace(sonde, root):
    probes = probes_of(sonde, before=IN_PID_NAMESPACE)
    refused = [p for p in probes if not p["attached"]]
    assert [p["probe"] for p in refused] == ["processes"] and "PID namespace" in refused[0]["fallback_reason"] and refused[0]["limitation"], probes
    assert not {"CPU samples", "requests", "process lifecycle", "off-CPU time", "stacks of sleeping tasks"} & {p["probe"] for p in probes}
    assert refused[0]["fallback_reason"] in doctor(sonde, before=IN_PID_NAMESPACE)
    up = subprocess.run([*IN_PID_NAMESPACE, str(sonde), "up", "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert up.returncode == 1 and refused[0]["fallback_reason"] in up.stderr and "capabilities" not in up.stderr, up


@pytest.mark.thorough
def test_unavailable_uprobes_are_reported(sonde, root, synthetic_agent):
    """Without the kernel's uprobes, doctor does not claim that traced requests can be linked; all else is unchanged."""
    if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 16):
        skip("uprobes are no perf events here: they cannot be hidden")
    hidden = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/bus/event_source/devices && exec "$@"', "sh")
    here = attached_probes(sonde)
    there = {p["probe"]: p for p in probes_of(sonde, "--agent", synthetic_agent("normal"), before=hidden)}
    assert here["traced requests"]["attached"], here
    assert not there["traced requests"]["attached"] and "uprobes" in there["traced requests"]["fallback_reason"], there
    assert there["traced requests"]["limitation"] == "samples and requests are not linked to traces"
    assert there["CPU samples"] == here["CPU samples"]
