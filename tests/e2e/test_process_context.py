"""A process context (OTEP 4719) becomes the resource of the process's samples: published by libsonde in C and in Python, and by hand after the OTEP's
text; read by an agent that exports profiles, and by `sonde record`."""
import json
import os
import signal
import subprocess

import pytest
from exporting import exporting, receiver  # noqa: F401 (fixtures)
from harness.fired import FIRINGS, missed
from harness.machine import need_command, sanitizers
from harness.paths import BUILD, TOP
from harness.processes import wait_for
from harness.recording import FIRED
from harness.workloads import Workload
from otlp_profiles import profcheck  # noqa: F401 (a fixture)
from profiles_receiver import write
from python_package import env_of, package  # noqa: F401 (a fixture)
from traced_server import NEEDED

WORKLOADS = TOP / "tests/workloads"
pytestmark = pytest.mark.usefixtures("root")


@pytest.fixture
def publish_by_hand(run):
    def start(form, pause_s=0.03):
        workload = Workload(run("/usr/bin/python3", WORKLOADS / "python/process_context_by_hand.py", form, pause_s))
        return workload if workload.facts()["named"] == "True" else None  # the kernel does not support names of anonymous memory
    return start


def settings(name):
    """Settings for libsonde; no receiver listens for its spans."""
    return ["mode=opentelemetry", "rate=1", "level=TIMESTAMPS", "opentelemetry,url=http://127.0.0.1:9/v1/traces",
            f"opentelemetry,resource=service.name={name}-shop", f"opentelemetry,resource=service.instance.id={name}-instance"]


@pytest.fixture
def publish_by_libsonde(run, tmp_path, package):  # noqa: F811
    def start_c():
        library = BUILD / "lib"
        subprocess.run([need_command("gcc"), "-O1", *(f"-fsanitize={kind}" for kind in sanitizers()), "-o", tmp_path / "shop", WORKLOADS / "traced_idle.c", f"-I{TOP}/include",
                        f"-L{library}", "-lsonde", f"-Wl,-rpath,{library}"], check=True)
        return Workload(run(tmp_path / "shop", *(text for one in settings("c") for text in ("--trace-config", one))))

    def start_python():
        return Workload(run("/usr/bin/python3", WORKLOADS / "python/traced_idle.py", *settings("python"), env=env_of(package)))
    return start_c, start_python


def expected_of(form, version):
    return {"service.name": f"{form}-shop", "service.version": version, "service.instance.id": f"{form}-instance-{version}", "deployment.environment.name": "test\u00e4",
            "port": 80}


SAID = ("service.name", "service.version", "service.instance.id", "deployment.environment.name", "port", "escape", "long", "list")


class Published:
    """Processes that publish a context, and an agent that exports their samples."""

    def __init__(self, exporting, to, publish_by_hand, publish_by_libsonde):  # noqa: F811
        self.to, self.agent = to, exporting(to.url)
        self.hands = {form: workload for form in ("memfd", "anonymous") if (workload := publish_by_hand(form))}
        self.c, self.python = (start() for start in publish_by_libsonde)
        self.wait_for("c-instance", "python-instance", *(f"{form}-instance-1" for form in self.hands))

    def wait_for(self, *names):
        def has():
            bodies = b"".join(self.to.bodies())
            return all(name.encode() in bodies for name in names)
        wait_for(has, 120, f"resources with {names}")

    def check(self, profcheck, folder, *versions):  # noqa: F811
        """Ends the agent. No attribute occurs twice, none is of a version that was never published, and a child has none of its parent's."""
        assert self.agent.stop() == 0
        packets = profcheck(*write(folder, self.to.bodies()))
        resources = [profile["resource"] for profiles in packets for profile in profiles]

        def of(pid):
            found = [resource for resource in resources if resource["process.pid"] == int(pid)]
            return found, [{key: resource[key] for key in SAID if key in resource} for resource in found if "service.instance.id" in resource]
        for form, hand in self.hands.items():
            found, said = of(hand.pid)
            expected = [expected_of(form, version) for version in versions]
            assert all(one in said for one in expected) and all(one in expected for one in said), said
            assert found[-1]["process.command"].startswith("python3") and found[-1]["service.instance.id"].endswith(f"-{versions[-1]}")
            assert not any(set(resource) & {"threadlocal.schema_version"} for resource in found)
            found, said = of(hand.facts()["child"])
            assert found and not said and all(resource["service.name"] != f"{form}-shop" for resource in found), found
        for workload, name in ((self.c, "c"), (self.python, "python")):
            said = of(workload.pid)[1]
            assert said and all((one["service.name"], one["service.instance.id"]) == (f"{name}-shop", f"{name}-instance") for one in said), said


@NEEDED
def test_exported_resources_have_the_process_context(exporting, receiver, profcheck, publish_by_hand, publish_by_libsonde, tmp_path):  # noqa: F811
    published = Published(exporting, receiver(), publish_by_hand, publish_by_libsonde)
    assert published.agent.metric("sonde_process_contexts") >= 2 + len(published.hands)
    for hand in published.hands.values():
        def is_sampled(pid=hand.facts()["child"]):
            profile = json.loads(published.agent.text(f"/api/v1/profile?seconds=120&pid={pid}"))
            return any(one["weights"] for one in profile["profiles"])
        wait_for(is_sampled, 60, "samples of the child")
    published.check(profcheck, tmp_path, "1")


@NEEDED
@pytest.mark.statistical  # the agent reads a context again after ten seconds
def test_updated_process_context_is_exported(exporting, receiver, profcheck, publish_by_hand, publish_by_libsonde, tmp_path):  # noqa: F811
    published = Published(exporting, receiver(), publish_by_hand, publish_by_libsonde)
    for hand in published.hands.values():
        hand.running.process.send_signal(signal.SIGUSR1)
    published.wait_for(*(f"{form}-instance-2" for form in published.hands))
    published.check(profcheck, tmp_path, "1", "2")


def age_s(pid):
    """The age of a process, by the kernel's clock."""
    with open(f"/proc/{pid}/stat") as stat, open("/proc/uptime") as uptime:
        return float(uptime.read().split()[0]) - int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.sanitized
def test_recorded_samples_have_the_process_context(recording, publish_by_hand):
    hand = publish_by_hand("memfd", 60)
    wait_for(lambda: age_s(hand.pid) > 1.1, what="the process to be a second old: a younger one has its context not read yet")
    running = recording("--event", FIRED, "-p", hand.pid)
    os.kill(hand.pid, signal.SIGUSR2)
    wait_for(lambda: "fired" in hand.running.out, what="the events")
    profile = running.finish()
    samples = profile.of(pid=hand.pid)
    assert samples.count >= FIRINGS - missed(profile.messages), profile.messages
    assert {tuple((key, s.labels[key]) for key in SAID if key in s.labels) for s in samples.samples} == {tuple(expected_of("memfd", "1").items())}, samples.top()
