"""Pods by name, namespace and label: what a container runtime reports by CRI (cri_runtime.py) labels samples and selects what `sonde record` records;
a runtime that does not answer, or answers wrongly, costs only these names. The pods are cgroups with the names that a kubelet would give them."""
import json
import os
import re
import shutil
import socket
import subprocess
import threading

import pytest
from cgroups import cgroup, cgroup_version, inside  # noqa: F401 (fixtures)
from cri_runtime import grpcio_runtime, runtime  # noqa: F401 (fixtures)
from harness.fired import assert_all_fired, fires, start_firing
from harness.machine import need_command
from harness.processes import cpu_seconds, wait_for
from harness.recording import FIRED

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


@pytest.fixture
def pod(inside):  # noqa: F811
    """pod(uid, container) starts a program in that cgroup, which fires at SIGUSR1 and keeps running."""
    return lambda uid, container="app": inside(cgroup_version(), f"kubepods/burstable/pod{uid}/{number(uid, container)}", stay=True)


def said_of(samples, pid):
    """The distinct pod labels among the samples of a process."""
    return {tuple(sorted((k, v) for k, v in s.labels.items() if k in POD_KEYS or k.startswith("k8s.pod.label."))) for s in samples if s.labels["pid"] == pid}


def is_named(samples, pid, wanted):
    """All samples of a process have them, except those from before the runtime's response on a busy machine."""
    said = said_of(samples, pid)
    return wanted in said and said <= {wanted, (("k8s.pod.uid", dict(wanted)["k8s.pod.uid"]),)}


def names(uid, namespace, name, container="app", **labels):
    said = dict(zip(POD_KEYS, (namespace, name, container, uid)), **{f"k8s.pod.label.{key}": value for key, value in labels.items()})
    return tuple(sorted((key, value) for key, value in said.items() if value))


@pytest.mark.sanitized
def test_pod_names_label_samples_and_select_containers(runtime, recording, workload, sonde, pod, tmp_path):  # noqa: F811
    """Covers all containers of a pod, including its sandbox's; only labels that are used for selection are kept."""
    runtime.say(described(WEB, "shop", "web-1", ("app", "proxy"), app="web", tier="front"), described(DB, "shop", "db-0", app="db", tier="back"),
                described(BATCH, "jobs", "batch", state=1, app="web"))
    web, proxy, pause, db = pod(WEB), pod(WEB, "proxy"), pod(WEB, "pause"), pod(DB)
    other, cri = workload("noreturn", 600, env=fires(stay=True)), ("--cri-socket", runtime.socket)
    wanted = {web.pid: names(WEB, "shop", "web-1"), proxy.pid: names(WEB, "shop", "web-1", "proxy"), pause.pid: names(WEB, "shop", "web-1", ""), db.pid: names(DB, "shop", "db-0")}
    recordings = [recording("--event", FIRED, *cri, *words) for words in (
        [word for pid in (*wanted, other.pid) for word in ("-p", pid)], ["--pod-label", "app=web"], ["--pod-label", "app=db,tier=back", "--pod-label", "app=web,tier=back"])]
    start_firing(web, proxy, pause, db, other)
    everything, by_label, both = (one.finish() for one in recordings)
    for pid, place in wanted.items():
        assert_all_fired(everything.of(pid=pid))
        assert is_named(everything.samples, pid, place), said_of(everything.samples, pid)
    assert said_of(everything.samples, other.pid) == {()}
    assert {s.labels["pid"] for s in by_label.samples} == {web.pid, proxy.pid, pause.pid}
    assert is_named(by_label.samples, proxy.pid, names(WEB, "shop", "web-1", "proxy", app="web"))
    assert {s.labels["pid"] for s in both.samples} == {db.pid} and is_named(both.samples, db.pid, names(DB, "shop", "db-0", app="db", tier="back"))
    assert "hunter2" not in str([s.labels for profile in (everything, by_label, both) for s in profile.samples])
    for arguments, status, word in ((["--pod-label", "app=none"], 1, "lists 3, ended"), (["--pod", "jobs/batch"], 1, "lists 3, ended"), (["--pod-label", "app"], 2, "KEY=VALUE"),
                                    (["--pod", "a/b/c"], 2, "NAMESPACE/NAME"), (["--pod-label", "a b=c"], 2, "KEY=VALUE")):
        done = subprocess.run([sonde, "record", "-d", "1", *map(str, cri), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == status and word in done.stderr, done.stderr


@pytest.mark.peer
def test_names_from_grpcio(grpcio_runtime, recording, pod):  # noqa: F811
    grpcio_runtime.say(described(WEB, "shop", "web-1", app="web"), described(DB, "shop", "db-0", app="db"))
    web, db = pod(WEB), pod(DB)
    running = recording("--event", FIRED, "--cri-socket", grpcio_runtime.socket, "--pod-label", "app=web")
    start_firing(web, db)
    samples = running.finish().samples
    assert {s.labels["pid"] for s in samples} == {web.pid} and is_named(samples, web.pid, names(WEB, "shop", "web-1", app="web")), said_of(samples, web.pid)


def test_pods_started_during_a_recording_are_named(runtime, recording, pod):  # noqa: F811
    """During a recording of CPU time and of waits at once."""
    runtime.say(described(WEB, "shop", "web-1", app="web"), described(DB, "shop", "db-0", app="db"))
    web, db = pod(WEB), pod(DB)
    one = recording("--wall", "-F", 199, "--cri-socket", runtime.socket, "--pod", "shop/web-1", "--pod-label", "app=late")
    late = pod(BATCH)
    runtime.say(described(WEB, "shop", "web-1", app="web"), described(DB, "shop", "db-0", app="db"), described(BATCH, "jobs", "web-2", app="late"))
    wait_for(lambda: "jobs/web-2 has started" in one.running.error or not one.running.alive, 60, "the new pod to be found")
    since = cpu_seconds(late.pid), cpu_seconds(web.pid)
    wait_for(lambda: cpu_seconds(late.pid) > since[0] + 0.5 and cpu_seconds(web.pid) > since[1] + 0.5, 120, "some CPU time")
    profile = one.finish()
    samples = profile.samples
    assert {s.labels["pid"] for s in samples} == {web.pid, late.pid} and db.running.alive, profile.messages
    assert is_named(samples, late.pid, names(BATCH, "jobs", "web-2", app="late")) and is_named(samples, web.pid, names(WEB, "shop", "web-1", app="web"))


def pods_on_page(started, pid):
    profile = json.loads(started.text(f"/api/v1/profile?format=json&seconds=60&pid={pid}"))
    found = [one["sonde"]["resource"] for one in profile["profiles"] if one["sonde"]["resource"]["process.pid"] == pid]
    return {tuple(sorted((k, v) for k, v in resource.items() if k in POD_KEYS or k.startswith("k8s.pod.label."))) for resource in found}


@pytest.mark.thorough
def test_agent_asks_the_runtime_for_new_containers_only(runtime, agent, pod):  # noqa: F811
    """The agent requests containers when it first meets them, also after a failure of the runtime; unknown containers are requested only once."""
    runtime.say(code="UNIMPLEMENTED", words="no CRI here")
    started = agent("--set", f"kubernetes.cri_socket={runtime.socket}", "--set", "kubernetes.pod_labels=app,example.org/team", "--set", "budget.one_cpu=1000%", verb="agent")
    web = pod(WEB)
    wait_for(lambda: "UNIMPLEMENTED: no CRI here" in started.running.error, 60, "it to be said")
    runtime.say(described(WEB, "shop", "web-1", app="web", **{"example.org/team": "a.b"}), described(DB, "shop", "db-0", ("other",)))
    wanted = names(WEB, "shop", "web-1", **{"app": "web", "example.org/team": "a.b"})
    wait_for(lambda: wanted in pods_on_page(started, web.pid), 90, "the pod's name")
    db = pod(DB)  # a container unknown to the runtime
    wait_for(lambda: names(DB, "shop", "db-0", "") in pods_on_page(started, db.pid), 60, "the name of a pod")
    wait_for(lambda: started.metric("sonde_pods") == 2 and started.metric("sonde_self_pods_request_failures_total") >= 1, 30, "the figures")
    assert "hunter2" not in started.text("/api/v1/profile?format=json&seconds=60")
    assert started.running.error.count("no CRI here") == 1 and "reports pods again" in started.running.error


def test_too_many_selected_labels_are_refused(sonde):
    labels = ",".join(f"l{i}" for i in range(10))
    done = subprocess.run([sonde, "agent", "--set", f"kubernetes.pod_labels={labels}", "--set", "profile.sampling_rules=" + ",".join(f"pod-label=m{i}=x:9" for i in range(7))],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "more than 16 pod labels together" in done.stderr, (done.returncode, done.stderr)


@pytest.mark.statistical
def test_sampling_rules_by_pod_and_label(runtime, agent, pod):  # noqa: F811
    """profile.sampling_rules by a pod's name and label, also for a pod started later; and by container, which takes precedence over its pod."""
    known = described(WEB, "shop", "web-1", ("app", "proxy"), app="web"), described(DB, "shop", "db-0", app="db"), described(BATCH, "jobs", "old", state=1, app="late")
    runtime.say(*known)
    web, proxy, db, old = pod(WEB), pod(WEB, "proxy"), pod(DB), pod(BATCH)
    targets = {f"container={number(WEB, 'proxy')}": 0, "pod=shop/web-1": 250, "pod-label=app=db": 0, "pod-label=app=late": 250}
    started = agent("--set", f"kubernetes.cri_socket={runtime.socket}", "--set", "budget.one_cpu=1000%", "--set", "budget.memory=1GiB", verb="agent",
                    *("--set", "profile.sampling_rules=" + ",".join(f"{name}:{hz}" for name, hz in targets.items())))
    assert re.search("not on this machine now: .*pod-label=app=late", started.running.error), started.running.error

    def figure(name, what):
        return started.metric(f"sonde_self_sampling_rule_{what}", rule=name)

    def samples_of(pid):
        return json.loads(started.text(f"/api/v1/profile?seconds=110&pid={pid}"))["sonde"]["samples"]
    wait_for(lambda: all(figure(name, "ticks_total") for name in list(targets)[:3]) and samples_of(web.pid) and samples_of(old.pid), 90, "ticks of all of them")
    wait_for(lambda: figure("pod=shop/web-1", "ticks_total") == figure("pod=shop/web-1", "samples_total"), 30, "both of the same moment")
    assert figure("pod-label=app=db", "samples_total") == 0 and figure(list(targets)[0], "samples_total") == 0
    if "pod=shop/web-1" not in started.running.error:  # the runtime answered in time
        assert samples_of(proxy.pid) == samples_of(db.pid) == 0
    assert not figure("pod-label=app=late", "found") and not figure("pod-label=app=late", "ticks_total")
    runtime.say(*known[:2], described(BATCH, "jobs", "new", app="late"))
    wait_for(lambda: figure("pod-label=app=late", "found") and figure("pod-label=app=late", "samples_total"), 90, "the pod that has come")
    runtime.say(*known)
    wait_for(lambda: not figure("pod-label=app=late", "found"), 60, "it to be none any more")
    assert "pod-label=app=late" in started.text("/api/v1/status")


def raw_server(path, answer):
    """Accepts connections and sends each these bytes; None: accepts none."""
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


# A settings frame of HTTP/2, response headers, and a message with a wrong length.
HTTP2 = b"\0\0\0\4\0\0\0\0\0" + b"\0\0\1\1\4\0\0\0\1\x88" + b"\0\0\x0a\0\1\0\0\0\1" + b"\0\xff\xff\xff\xff\x0a\xff\xff\xff\xff"
HOSTILE = {"absent": None, "closes": b"", "garbage": os.urandom(4096), "http": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "lies": HTTP2, "slow": None, "no socket": None}


@pytest.mark.statistical
@pytest.mark.sanitized
def test_broken_runtimes_cost_only_the_names(recording, sonde, run, pod, tmp_path):
    """Whatever answers, and however: selection by pod fails in bounded time, and a recording lacks only the names."""
    listeners, selections = [], {}
    for kind, answer in HOSTILE.items():
        path = tmp_path / kind
        if kind == "no socket":
            path.write_text("")
        elif kind != "absent":
            listeners.append(raw_server(path, answer))
        selections[path] = run(sonde, "record", "-d", "1", "--cri-socket", path, "--pod", "shop/web-1")
    for path, selection in selections.items():
        assert selection.wait() == 1 and f"cannot select pods: {path}: " in selection.error, (path, selection.error)
    for kind in ("garbage", "slow"):
        web = pod(WEB)
        running = recording("--event", FIRED, "--cri-socket", tmp_path / kind, "-p", web.pid)
        start_firing(web)
        profile = running.finish()
        assert said_of(profile.samples, web.pid) == {(("k8s.pod.uid", WEB),)} and profile.messages.count("pod names are not available") == 1, profile.messages
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)  # otherwise accept() continues on a descriptor number that may be reused for another socket
        listener.close()


@pytest.mark.peer
def test_oversized_response_is_refused(grpcio_runtime, sonde):  # noqa: F811
    large = described(WEB, "shop", "web-1")
    large[0]["annotations"]["large"] = "x" * (9 << 20)
    grpcio_runtime.say(large)

    def refused():  # in time, unless the machine is too busy to generate it
        done = subprocess.run([sonde, "record", "-d", "1", "--cri-socket", grpcio_runtime.socket, "--pod", "shop/web-1"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "cannot select pods" in done.stderr, done.stderr
        return "the answer is too large" in done.stderr
    wait_for(refused, 120, "the whole answer")


def test_invalid_kubernetes_names_are_dropped(runtime, recording, pod):  # noqa: F811
    """Such names are left out."""
    web, db = pod(WEB), pod(DB)
    runtime.say(described(WEB, "shop\tx", "web\n1"), described(DB, "shop", "db-0"))
    running = recording("--event", FIRED, "--cri-socket", runtime.socket, "-p", web.pid, "-p", db.pid)
    start_firing(web, db)
    profile = running.finish()
    samples = profile.samples
    assert said_of(samples, web.pid) == {(("k8s.pod.uid", WEB),)}
    assert is_named(samples, db.pid, names(DB, "shop", "db-0")), f"{said_of(samples, db.pid)} {profile.messages}"


def test_inaccessible_runtime_socket_is_reported(runtime, sonde, tmp_path):  # noqa: F811
    """The socket belongs to another user, and Sonde has no capability that overrides that."""
    os.chown(runtime.socket, 65534, 65534)
    runtime.socket.chmod(0o600)
    drop, own = "-dac_override,-dac_read_search", shutil.copy(sonde, tmp_path / "sonde")  # in a directory that needs no capabilities to reach
    done = subprocess.run([need_command("setpriv"), f"--inh-caps={drop}", f"--bounding-set={drop}", own, "record", "-d", "1", "--cri-socket", runtime.socket, "--pod", "shop/web-1"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "Permission denied" in done.stderr, done.stderr
