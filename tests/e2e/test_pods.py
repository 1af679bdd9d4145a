"""Pods by name, namespace and label: what a container runtime tells by CRI (cri_server.py) is in samples, and chooses whom `sonde record` is of; and a
runtime that does not answer, or not as it should, takes nothing away but that. Pods are cgroups that a kubelet would make."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pprof
import pytest
from harness.machine import need_command
from harness.processes import cpu_seconds, wait_for
from harness.recording import is_recording
from harness.workloads import subject_path
from grpc_receiver import NEEDED
from pypi import environment
from test_record import HZ, cgroup, cgroup_roots, inside  # noqa: F401

pytestmark = pytest.mark.usefixtures("root")
WEB, DB, BATCH = (f"0b1d3c5e-1111-2222-3333-44445555666{n}" for n in range(3))
POD_KEYS = ("k8s.namespace.name", "k8s.pod.name", "k8s.container.name", "k8s.pod.uid")


def number(uid, what):
    """64 hexadecimal digits."""
    return (uid.replace("-", "")[::-1] + what.encode().hex()).ljust(64, "0")[:64]


def described(uid, namespace, name, containers=("app",), state=0, **labels):
    """(sandbox, containers) of a pod."""
    sandbox = {"id": number(uid, "pause"), "metadata": {"name": name, "uid": uid, "namespace": namespace, "attempt": 1}, "state": state, "created_at": 1700000000000000000,
               "labels": {"io.kubernetes.pod.uid": uid, "secret": "hunter2", **labels}, "annotations": {"kubernetes.io/config.source": "api", "note": "a\tb\nc"}}
    return sandbox, [{"id": number(uid, one), "pod_sandbox_id": sandbox["id"], "metadata": {"name": one}, "image": {"image": "sha256:" + "0" * 64}, "state": 1,
                      "labels": {"io.kubernetes.container.name": one}} for one in containers]


class Runtime:
    def __init__(self, run, folder):
        self.socket, self.state = folder / "cri.sock", folder / "state.json"
        self.say()
        python = environment("python-otlp-grpc", NEEDED, [sys.executable, "/usr/bin/python3"], "sys.version_info >= (3, 10)") / "python"
        self.running = run(python, Path(__file__).with_name("cri_server.py"), self.socket, self.state)
        wait_for(lambda: "ready" in self.running.out or not self.running.alive, 60, "the runtime")
        assert self.running.alive, self.running.error

    def say(self, *pods, **others):
        text = json.dumps({"items": [sandbox for sandbox, _ in pods], "containers": [one for _, containers in pods for one in containers], **others})
        self.state.with_suffix(".new").write_text(text)
        self.state.with_suffix(".new").rename(self.state)


@pytest.fixture
def runtime(run, tmp_path):
    return Runtime(run, tmp_path)


@pytest.fixture
def pod(inside):  # noqa: F811
    """pod(uid, container) starts a program there."""
    version = "v1" if cgroup_roots("v1") else "v2"
    return lambda uid, container="app": inside(version, f"kubepods/burstable/pod{uid}/{number(uid, container)}")


def said_of(samples, pid):
    """What samples of a process say of its pod, each way that some say it."""
    return {tuple(sorted((k, v) for k, v in s.labels.items() if k in POD_KEYS or k.startswith("k8s.pod.label."))) for s in samples if s.labels["pid"] == pid}


def is_named(samples, pid, wanted):
    """All samples of a process are, but those before the runtime's answer, on a machine that is too busy for it."""
    said = said_of(samples, pid)
    return wanted in said and said <= {wanted, (("k8s.pod.uid", dict(wanted)["k8s.pod.uid"]),)}


def record_until(record, condition, *arguments):
    """Longer and longer: a machine may be too busy for anything to run, or to be told, in a second."""
    for seconds in (1, 4, 16, 60):
        profile = record("-F", HZ, "-d", seconds, *arguments, timeout_s=seconds + 150)
        if condition(profile):
            return profile
    raise AssertionError(f"{profile.said}\n{profile.top()}\n{[s.labels for s in profile.samples[:9]]}")


def pids_of(profile):
    return {s.labels["pid"] for s in profile.samples}


def names(uid, namespace, name, container="app", **labels):
    said = dict(zip(POD_KEYS, (namespace, name, container, uid)), **{f"k8s.pod.label.{key}": value for key, value in labels.items()})
    return tuple(sorted((key, value) for key, value in said.items() if value))


def test_names_and_choice(runtime, record, sonde, run, pod, tmp_path):
    """All of a pod's containers, its sandbox's among them; no label but those that were asked by."""
    runtime.say(described(WEB, "shop", "web-1", ("app", "proxy"), app="web", tier="front"), described(DB, "shop", "db-0", app="db", tier="back"),
                described(BATCH, "jobs", "batch", state=1, app="web"))
    web, proxy, pause, db = pod(WEB), pod(WEB, "proxy"), pod(WEB, "pause"), pod(DB)
    other, cri = run(subject_path("noreturn"), 600), ("--cri-socket", runtime.socket)
    whom = {web.pid: names(WEB, "shop", "web-1"), proxy.pid: names(WEB, "shop", "web-1", "proxy"), pause.pid: names(WEB, "shop", "web-1", ""), db.pid: names(DB, "shop", "db-0")}
    everything = record_until(record, lambda p: all(is_named(p.samples, pid, wanted) for pid, wanted in whom.items()) and said_of(p.samples, other.pid) == {()},
                              *cri, *(word for pid in (*whom, other.pid) for word in ("-p", pid)))
    by_label = record_until(record, lambda p: pids_of(p) == {web.pid, proxy.pid, pause.pid} and is_named(p.samples, proxy.pid, names(WEB, "shop", "web-1", "proxy", app="web")),
                            *cri, "--pod-label", "app=web")
    both = record_until(record, lambda p: pids_of(p) == {db.pid} and is_named(p.samples, db.pid, names(DB, "shop", "db-0", app="db", tier="back")),
                        *cri, "--pod-label", "app=db,tier=back", "--pod-label", "app=web,tier=back")
    assert "hunter2" not in str([s.labels for profile in (everything, by_label, both) for s in profile.samples])
    for arguments, status, word in ((["--pod-label", "app=none"], 1, "(of 3, with"), (["--pod", "jobs/batch"], 1, "(of 3, with"), (["--pod-label", "app"], 2, "KEY=VALUE"),
                                    (["--pod", "a/b/c"], 2, "NAMESPACE/NAME"), (["--pod-label", "a b=c"], 2, "KEY=VALUE")):
        done = subprocess.run([sonde, "record", "-d", "1", *map(str, cri), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == status and word in done.stderr, done.stderr


def test_pods_that_come_and_go(runtime, sonde, run, pod, tmp_path):
    """While it records, of CPU time and of waits at once."""
    out = tmp_path / "out.pb.gz"
    runtime.say(described(WEB, "shop", "web-1", app="web"), described(DB, "shop", "db-0", app="db"))
    web, db = pod(WEB), pod(DB)
    recording = run(sonde, "record", "--wall", "-F", HZ, "--cri-socket", runtime.socket, "--pod", "shop/web-1", "--pod-label", "app=late", "-o", out)
    wait_for(lambda: is_recording(recording.pid) or not recording.alive, 60, "the recording")
    late = pod(BATCH)
    runtime.say(described(WEB, "shop", "web-1", app="web"), described(DB, "shop", "db-0", app="db"), described(BATCH, "jobs", "web-2", app="late"))
    wait_for(lambda: "jobs/web-2 has come" in recording.error or not recording.alive, 60, "the new pod to be found")
    since = cpu_seconds(late.pid), cpu_seconds(web.pid)
    wait_for(lambda: cpu_seconds(late.pid) > since[0] + 0.5 and cpu_seconds(web.pid) > since[1] + 0.5, 120, "some CPU time")
    assert recording.stop(signal.SIGINT) == 0, recording.error
    samples = pprof.read(out)[0]
    assert {s.labels["pid"] for s in samples} == {web.pid, late.pid} and db.alive, recording.error
    assert is_named(samples, late.pid, names(BATCH, "jobs", "web-2", app="late")) and is_named(samples, web.pid, names(WEB, "shop", "web-1", app="web"))


def pods_on_page(started, pid):
    profile = json.loads(started.text(f"/api/v1/profile?format=json&seconds=60&pid={pid}"))
    found = [one["sonde"]["resource"] for one in profile["profiles"] if one["sonde"]["resource"]["process.pid"] == pid]
    return {tuple(sorted((k, v) for k, v in resource.items() if k in POD_KEYS or k.startswith("k8s.pod.label."))) for resource in found}


def test_agent(runtime, agent, pod):
    """Learns of containers when it meets them, also where the runtime answered nothing before; asks for none twice that nobody knows."""
    runtime.say(code="UNIMPLEMENTED", words="no CRI here")
    started = agent("--set", f"kubernetes.cri_socket={runtime.socket}", "--set", "kubernetes.pod_labels=app,example.org/team", "--set", "budget.cpu=100%", verb="agent")
    web = pod(WEB)
    wait_for(lambda: "UNIMPLEMENTED: no CRI here" in started.running.error, 60, "it to be said")
    runtime.say(described(WEB, "shop", "web-1", app="web", **{"example.org/team": "a.b"}), described(DB, "shop", "db-0", ("other",)))
    wanted = names(WEB, "shop", "web-1", **{"app": "web", "example.org/team": "a.b"})
    wait_for(lambda: wanted in pods_on_page(started, web.pid), 90, "the pod's name")
    db = pod(DB)  # its container is told by nobody
    wait_for(lambda: names(DB, "shop", "db-0", "") in pods_on_page(started, db.pid), 60, "the name of a pod")
    wait_for(lambda: started.metric("sonde_pods") == 2 and started.metric("sonde_self_pods_unanswered_total") >= 1, 30, "the figures")
    assert "hunter2" not in started.text("/api/v1/profile?format=json&seconds=60")
    assert started.running.error.count("no CRI here") == 1 and "tells of pods again" in started.running.error


def test_more_labels_than_are_kept(sonde):
    labels = ",".join(f"l{i}" for i in range(10))
    done = subprocess.run([sonde, "agent", "--set", f"kubernetes.pod_labels={labels}", "--set", "profile.targets=" + ",".join(f"pod-label=m{i}=x:9" for i in range(7))],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "more than 16 labels of pods together" in done.stderr, (done.returncode, done.stderr)


def test_rates(runtime, agent, pod):
    """profile.targets by a pod's name and label, also of one that comes; and of one of a pod's containers, which stands before its pod."""
    known = described(WEB, "shop", "web-1", ("app", "proxy"), app="web"), described(DB, "shop", "db-0", app="db"), described(BATCH, "jobs", "old", state=1, app="late")
    runtime.say(*known)
    web, proxy, db, old = pod(WEB), pod(WEB, "proxy"), pod(DB), pod(BATCH)
    targets = {f"container={number(WEB, 'proxy')}": 0, "pod=shop/web-1": 250, "pod-label=app=db": 0, "pod-label=app=late": 250}
    started = agent("--set", f"kubernetes.cri_socket={runtime.socket}", "--set", "budget.cpu=100%", "--set", "budget.memory=1GiB", verb="agent",
                    *("--set", "profile.targets=" + ",".join(f"{name}:{hz}" for name, hz in targets.items())))
    assert re.search("not on this machine now: .*pod-label=app=late", started.running.error), started.running.error

    def figure(name, what):
        return started.metric(f"sonde_self_target_{what}", target=name)

    def samples_of(pid):
        return json.loads(started.text(f"/api/v1/profile?seconds=110&pid={pid}"))["sonde"]["samples"]
    wait_for(lambda: all(figure(name, "ticks_total") > 100 for name in list(targets)[:3]) and samples_of(web.pid) > 100 and samples_of(old.pid) > 5, 90, "ticks of all of them")
    wait_for(lambda: figure("pod=shop/web-1", "ticks_total") == figure("pod=shop/web-1", "samples_total"), 30, "both of the same moment")
    assert figure("pod-label=app=db", "samples_total") == 0 and figure(list(targets)[0], "samples_total") == 0
    if "pod=shop/web-1" not in started.running.error:  # the runtime was in time
        assert samples_of(proxy.pid) == samples_of(db.pid) == 0
    assert not figure("pod-label=app=late", "found") and not figure("pod-label=app=late", "ticks_total")
    runtime.say(*known[:2], described(BATCH, "jobs", "new", app="late"))
    wait_for(lambda: figure("pod-label=app=late", "found") and figure("pod-label=app=late", "samples_total") > 100, 90, "the pod that has come")
    runtime.say(*known)
    wait_for(lambda: not figure("pod-label=app=late", "found"), 60, "it to be none any more")
    assert "pod-label=app=late" in started.text("/api/v1/status")


def raw_server(path, answer):
    """Takes connections and gives each these bytes; None: not one."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(8)

    def serve():
        kept = []
        while True:
            try:
                connection, _ = listener.accept()
                kept.append(connection)
                if answer is not None:
                    connection.sendall(answer)
                    connection.close()
            except OSError:
                if listener.fileno() < 0:
                    return
    threading.Thread(target=serve, daemon=True).start()
    return listener


# A settings frame of HTTP/2, the headers of an answer, and a message whose length lies.
HTTP2 = b"\0\0\0\4\0\0\0\0\0" + b"\0\0\1\1\4\0\0\0\1\x88" + b"\0\0\x0a\0\1\0\0\0\1" + b"\0\xff\xff\xff\xff\x0a\xff\xff\xff\xff"
HOSTILE = {"nobody": None, "closes": b"", "garbage": os.urandom(4096), "http": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "lies": HTTP2, "slow": None, "no socket": None}


def test_no_runtime_to_speak_of(record, sonde, pod, tmp_path):
    """Whoever answers there, and however: choosing fails in time, and a recording lacks names and nothing else."""
    listeners = []
    for kind, answer in HOSTILE.items():
        path = tmp_path / kind
        if kind == "no socket":
            path.write_text("")
        elif kind != "nobody":
            listeners.append(raw_server(path, answer))
        done = subprocess.run([sonde, "record", "-d", "1", "--cri-socket", path, "--pod", "shop/web-1"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and f"pods cannot be chosen: {path}: " in done.stderr, (kind, done.stderr)
    web = pod(WEB)
    for kind in ("garbage", "slow"):
        record_until(record, lambda p: said_of(p.samples, web.pid) == {(("k8s.pod.uid", WEB),)} and p.said.count("names of pods are not known") == 1,
                     "--cri-socket", tmp_path / kind, "-p", web.pid)
    for listener in listeners:
        listener.close()


def test_answers_that_are_too_large_or_no_pods(runtime, record, sonde, pod):
    """More than anybody reads; and names that Kubernetes does not allow, which are left out."""
    web, db = pod(WEB), pod(DB)
    large = described(WEB, "shop", "web-1")
    large[0]["annotations"]["large"] = "x" * (9 << 20)
    runtime.say(large)

    def refused():  # in time, where the machine is not too busy to make it
        done = subprocess.run([sonde, "record", "-d", "1", "--cri-socket", runtime.socket, "--pod", "shop/web-1"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "pods cannot be chosen" in done.stderr, done.stderr
        return "larger than anybody reads" in done.stderr
    wait_for(refused, 120, "the whole answer")
    runtime.say(described(WEB, "shop\tx", "web\n1"), described(DB, "shop", "db-0"))
    record_until(record, lambda p: said_of(p.samples, web.pid) == {(("k8s.pod.uid", WEB),)} and is_named(p.samples, db.pid, names(DB, "shop", "db-0")),
                 "--cri-socket", runtime.socket, "-p", web.pid, "-p", db.pid)


def test_without_the_right_to_ask(runtime, sonde, tmp_path):
    """The socket is somebody else's, and we are no longer all-powerful."""
    os.chown(runtime.socket, 65534, 65534)
    runtime.socket.chmod(0o600)
    drop, own = "-dac_override,-dac_read_search", shutil.copy(sonde, tmp_path / "sonde")  # where they are not needed to reach it
    done = subprocess.run([need_command("setpriv"), f"--inh-caps={drop}", f"--bounding-set={drop}", own, "record", "-d", "1", "--cri-socket", runtime.socket, "--pod", "shop/web-1"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "Permission denied" in done.stderr, done.stderr
