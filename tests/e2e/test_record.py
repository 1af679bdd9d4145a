"""`sonde record` against programs whose true stack is known: whole, named, in the right process, thread and container, and as much
CPU time as the kernel accounts. Shares are of samples, so a busy machine changes how many there are and not what is demanded."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

import pprof
from harness.machine import need_command, skip
from harness.paths import TOP
from harness.processes import cpu_seconds, wait_for
from harness.recording import Profile, is_recording, stack_matches
from harness.workloads import go_pprof, subject_path
from real_servers import stolen_ns
from test_short_lived import BEGINNINGS

HZ = 199
CUT_BY_KERNEL = "[truncated: no kernel unwinding rules]"
# Programs by what makes their stacks hard, with the share of all samples (their start and end included) that must be exact.
KNOWN_STACKS = [
    ("deep 10", 0.97),
    ("deep 120", 0.97),
    ("deep 480", 0.97),
    ("deep-static 40", 0.97),
    ("deep-static-pie 40", 0.97),
    ("deep-no-pie 40", 0.97),
    ("deep-frame-pointers 40", 0.97),
    ("deep-debuglink 40", 0.97),
    ("deep-minidebug 40", 0.97),
    ("signals", 0.93),
    ("signals alt", 0.93),
    ("plt", 0.97),
    ("vdso", 0.97),
    ("realigned", 0.97),
    ("vforks", 0.95),
    ("noreturn", 0.97),
    ("cxx", 0.97),
    ("cxx throw", 0.97),
    ("rusty-v0", 0.97),
    ("rusty-legacy", 0.97),
    ("gopher", 0.93),
]


def command_of(text, seconds):
    """["path", arguments...]: the depth comes before the seconds, words after them."""
    name, *words = text.split()
    numbers = [word for word in words if word.isdigit()]
    return [subject_path(name), *numbers, seconds, *[word for word in words if not word.isdigit()]]


def expected_of(command):
    """The stack that the program says it has."""
    done = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        for line in done.stdout:
            if line.startswith("stack "):
                return line[6:].strip()
    finally:
        os.killpg(done.pid, signal.SIGKILL)
        done.wait()
    raise AssertionError(f"{command} said no stack")


@pytest.mark.parametrize("program,least", KNOWN_STACKS, ids=[text for text, _ in KNOWN_STACKS])
def test_stack_is_whole_and_named(record, program, least):
    command = command_of(program, 2)
    expected = expected_of(command)
    if program == "rusty-legacy":  # the older mangling names the implementation, not its instance
        expected = expected.replace("Crate<u32>", "Crate<T>")
    profile = record("-F", HZ, "--", *command)
    assert profile.count > 30, profile.said
    # A few samples more, because on a busy machine the program's start and end are a larger part of what little it got.
    shares = (profile.share(expected), profile.truncated, profile.early, profile.overwritten)
    exact, cut, early, overwritten = (share * profile.count for share in shares)
    assert exact + early + overwritten >= least * profile.count - 3, f"expected {expected}\n{profile.top()}"
    assert cut - early - overwritten <= 0.01 * profile.count + 2, profile.cut.top()
    assert overwritten <= 0.08 * profile.count + 2, profile.cut.top()
    assert early <= 0.05 * profile.count + 2, profile.cut.top()  # until its rows are made: later on a busy machine


def test_stripped_program_is_whole(record):
    """Without symbols there are no names, but every frame is there, as file and address."""
    command = [subject_path("deep-stripped"), 50, 2]
    depth = len(expected_of(command).split(";"))
    profile = record("-F", HZ, "--", *command)
    whole = profile.where(lambda s: sum(re.match(r"deep-stripped\+0x[0-9a-f]+$", f) is not None for f in s.frames) >= depth)
    assert whole.count >= 0.97 * profile.count - 3, profile.top()


def test_beyond_512_frames_says_so(record):
    """Deeper than what is walked: at least 512 frames are there, and the outermost says that more are missing."""
    for seconds in (2, 8):
        profile = record("-F", HZ, "--", subject_path("deep"), 2000, seconds)
        if profile.early <= 0.2:
            break
    cut = profile.where(lambda s: len(s.frames) >= 512 and s.frames[0].startswith("[truncated"))
    whole = profile.where(lambda s: s.frames.count("recurse") + s.frames.count("recurse_wide") > 2000)
    early = profile.early * profile.count  # until its rows are there a copy of the stack is walked, which is smaller than these are
    assert cut.count + whole.count + early >= 0.95 * profile.count, profile.top(2)
    assert early <= 0.2 * profile.count, profile.top(2)


def test_threads_have_names(record, subject):
    command = [subject_path("threads"), 3]
    profile = record("-F", HZ, "--", *command)
    for thread, stack in (("red", "work_of_red"), ("blue painter", "work_of_blue")):
        own = profile.of(thread=thread)
        assert own.count > 30, profile.top()
        assert own.share(stack) >= 0.97, own.top()
        assert own.where(lambda s: s.frames[0].startswith(("clone", "__clone"))).count >= 0.97 * own.count, own.top()


def test_cpu_time_is_what_the_kernel_accounts(record, subject):
    """The weights of a process sum to what /proc says it used in that time; not to what was asked for."""
    running = subject("threads", 30)
    # Both ends of the window are read from outside, so the figure lies between what is used inside and around it.
    before, stolen, began = cpu_seconds(running.pid), stolen_ns(), time.monotonic()
    profile = record("-F", HZ, "-p", running.pid, "-d", 4)
    after, stolen, took = cpu_seconds(running.pid), (stolen_ns() - stolen) / 1e9, time.monotonic() - began
    used, said = profile.ns / 1e9, f"{after - before:.2f} s, {stolen:.2f} s stolen"
    # A tick that comes late, because a hypervisor had the CPU, stands for its time all the same; /proc leaves that out.
    assert used <= (after - before + stolen) * 1.03 + 0.05, f"claims {used:.2f} s, /proc {said}"
    assert used >= 0.7 * (after - before) * 4 / took, f"claims {used:.2f} s, /proc {said}"
    assert profile.ns == pytest.approx(profile.count * profile.period_ns, rel=0.01)


def test_library_loaded_later(record, subject):
    profile = record("-F", HZ, "--", subject_path("loader"), subject_path("libplugin.so"), 3)
    assert profile.share("main;loader_call;plugin_work;plugin_leaf") >= 0.93, profile.top()
    files = {m for s in profile.samples for f, m in zip(s.frames, s.mappings) if f == "plugin_leaf"}
    assert {Path(f).name for f in files} == {"libplugin.so"}


def test_through_code_without_rules(record):
    """The compiler's own __do_global_dtors_aux, in the middle of a stack."""
    profile = record("-F", HZ, "--", subject_path("closed"), subject_path("libclosed.so"), 2)
    assert profile.share("__do_global_dtors_aux;__cxa_finalize;closed_leaf") >= 0.9, profile.top()
    assert profile.share("main;dlclose") >= 0.9, profile.top()
    assert profile.truncated <= 0.05, profile.top()


@pytest.mark.parametrize("way", ["deleted", "replaced", "memfd"])
def test_program_file_is_gone(record, subject, tmp_path, way):
    """The file of a running program has been removed, or replaced by another one; or there never was one."""
    copy = tmp_path / "gone"
    shutil.copy(subject_path("deep"), copy)
    if way == "memfd":
        running = subject("memfd", copy, 30, 600)
    else:
        running = subject("deep", 30, 600, path=copy)
    copy.unlink()
    if way == "replaced":
        shutil.copy(subject_path("noreturn"), copy)
    profile = record("-F", HZ, "-p", running.pid, "-d", 2)
    assert profile.count > 20, profile.said
    assert profile.share(running.stack) >= 0.97, profile.top()


def test_copies_of_one_program(record, subject, tmp_path):
    """They have one build id and share what is known by it; but a frame's file is the one that its process runs."""
    running = []
    for name in ("prog-a", "prog-b"):
        shutil.copy(subject_path("deep"), tmp_path / name)
        running.append(subject("deep", 30, 600, path=tmp_path / name))
    profile = record("-F", HZ, "-d", 2, *[word for one in running for word in ("-p", one.pid)])
    for one, name in zip(running, ("prog-a", "prog-b")):
        own = profile.of(pid=one.pid)
        assert own.share(one.stack) >= 0.97, own.top()
        programs = {path for sample in own.samples for path in sample.mappings if "prog-" in path}
        assert programs == {str(tmp_path / name)}


def test_processes_in_another_root(record, run, tmp_path):
    """A program in a mount namespace of its own: its file is not where its path says."""
    need_command("unshare")
    inside = tmp_path / "inside"
    inside.mkdir()
    shutil.copy(subject_path("deep-static"), tmp_path / "program")
    script = f"mount -t tmpfs none {inside} && cp {tmp_path}/program {inside}/program && exec {inside}/program 25 600"
    running = run("unshare", "-m", "sh", "-c", script)
    wait_for(lambda: "ready" in running.out or not running.alive, 20, "the program")
    if not running.alive:
        skip("unshare -m: " + running.error.strip())
    assert not (inside / "program").exists()
    stack = re.search(r"^stack (.*)$", running.out, re.M)[1]
    profile = record("-F", HZ, "-p", running.pid, "-d", 2)
    assert profile.share(stack) >= 0.97, profile.top()


def test_children_belong_to_a_recorded_command(record):
    profile = record("-F", HZ, "--", "/bin/sh", "-c", f"{subject_path('deep')} 5 1 & {subject_path('deep')} 6 1; wait")
    pids = {s.labels["pid"] for s in profile.samples if stack_matches(s.frames, "main;recurse")}
    assert len(pids) == 2, profile.top()


def test_filters(record, subject):
    one, other = subject("deep", 10, 600), subject("noreturn", 600)
    only = record("-F", HZ, "-p", one.pid, "-d", 2)
    assert {s.labels["pid"] for s in only.samples} == {one.pid}
    everything = record("-F", HZ, "-a", "-d", 2)
    assert {one.pid, other.pid} <= {s.labels["pid"] for s in everything.samples}
    by_name = record("-F", HZ, "-C", "noreturn", "-d", 2)
    assert {s.labels["process"] for s in by_name.samples} == {"noreturn"}


def test_kernel_frames(record):
    """A program that only makes the kernel work: its samples have kernel frames on top of the program's."""
    profile = record("-F", HZ, "--", "dd", "if=/dev/urandom", "of=/dev/null", "bs=1M", "count=600", "status=none")
    kernel = profile.where(lambda s: any("urandom" in f or "get_random" in f or "chacha" in f for f in s.frames))
    assert kernel.count >= 0.5 * profile.count, profile.top()
    assert kernel.where(lambda s: s.mappings[-1] == "[kernel.kallsyms]" or s.mappings[-1].startswith("[")).count == kernel.count
    rooted = kernel.where(lambda s: s.frames[0].startswith("dd+0x") and s.frames[1].startswith("__libc_start"))  # dd is stripped
    assert rooted.count >= 0.97 * kernel.count, kernel.top()


def test_kernel_stack_at_a_retpoline(record):
    """Where the kernel has no rules to go on with, there is a mark and who called, and nothing is taken for whole."""
    profile = record("-F", 4999, "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=64", "count=8000000", "status=none")
    in_read = profile.where(lambda s: "read" in s.frames and any(mapping.startswith("[kernel") for mapping in s.mappings))
    assert in_read.count > 100, profile.top()
    cut = in_read.where(lambda s: CUT_BY_KERNEL in s.frames)
    silent = in_read.where(lambda s: CUT_BY_KERNEL not in s.frames and not BEGINNINGS.match(next(f for f, m in zip(s.frames, s.mappings) if m.startswith("[kernel"))))
    assert silent.count <= 0.001 * in_read.count, silent.top()
    if cut.count == 0:
        skip("this kernel's indirect calls are no retpolines")
    called = cut.where(lambda s: stack_matches(s.frames, f"read;{CUT_BY_KERNEL};vfs_read") or stack_matches(s.frames, f"read;{CUT_BY_KERNEL};do_syscall_64"))
    assert called.count >= 0.9 * cut.count, cut.top()
    into = in_read.where(lambda s: any("indirect_thunk" in frame for frame in s.frames) and "__pfx_read_zero" in s.frames)
    assert into.count <= 0.001 * in_read.count, into.top()
    assert cut.count <= 0.2 * in_read.count, cut.top()


def test_lines_of_a_bpf_program(sonde, run, tmp_path, root):
    """Run by the kernel over and over; each frame of it says in which of its lines it was."""
    bpftool = need_command("bpftool")
    need_command("clang-16")
    source, program, place = TOP / "tests/subjects/spin.bpf.c", subject_path("spin.bpf.o"), tmp_path / "bpf"
    place.mkdir()
    (tmp_path / "packet").write_bytes(bytes(64))
    running = run("unshare", "-m", "sh", "-c", f"mount -t bpf bpf {place} && {bpftool} prog load {program} {place}/spin && echo ready && "
                  f"exec {bpftool} prog run pinned {place}/spin data_in {tmp_path}/packet repeat 100000000")
    wait_for(lambda: "ready" in running.out or not running.alive, 30, "the program to be loaded")
    if not running.alive and "unshare:" in running.error:
        skip("unshare -m: " + running.error.strip())
    assert running.alive, running.error
    wait_for(lambda: cpu_seconds(running.pid) > 0.5, 30, "the program to run")
    done = subprocess.run([sonde, "record", "-F", str(HZ), "-p", str(running.pid), "-d", "2", "-o", tmp_path / "lines.json"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "lines.json").read_text())
    frames, (one,) = profile["shared"]["frames"], profile["profiles"]
    busy = [number for number, line in enumerate(source.read_text().splitlines(), 1) if "/* busy */" in line]
    seen = Counter()
    for stack, count in zip(one["samples"], one["sonde"]["counts"]):
        for frame in (frames[i] for i in stack):
            if frame["name"].endswith("_spin"):
                seen[Path(frame["file"]).name, frame["line"]] += count
    assert sum(seen[source.name, line] for line in busy) >= 0.9 * sum(one["sonde"]["counts"]) > 20, seen


# --- containers: what counts is how the directory is called, in either version of cgroups ---------------------------------------

CONTAINER, POD = "4f5d3c2b1a" * 6 + "abcd", "0b1d3c5e-1111-2222-3333-444455556666"
POD_ = POD.replace("-", "_")  # as systemd's slices have it
SLICE = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD_}.slice"
# What runs there: (version of cgroups, directory, what samples are to say).
LAYOUTS = {
    "docker, systemd": ("v2", f"system.slice/docker-{CONTAINER}.scope", {"container.runtime": "docker"}),
    "docker": ("v1", f"docker/{CONTAINER}", {"container.runtime": "docker"}),
    "podman": ("v2", f"machine.slice/libpod-{CONTAINER}.scope", {"container.runtime": "podman"}),
    # kubelet's cgroupfs driver names the pod and the container, and nobody says which runtime it was.
    **{f"containerd, {version}": (version, f"kubepods/burstable/pod{POD}/{CONTAINER}", {"k8s.pod.uid": POD}) for version in ("v1", "v2")},
    **{f"containerd, systemd, {version}": (version, f"{SLICE}/cri-containerd-{CONTAINER}.scope", {"container.runtime": "containerd", "k8s.pod.uid": POD})
       for version in ("v1", "v2")},
    # Runtime and kubelet of different minds about systemd; a pod of guaranteed quality; a node inside of a container (kind).
    "containerd, mixed": ("v1", f"system.slice/containerd.service/kubepods-burstable-pod{POD_}.slice:cri-containerd:{CONTAINER}",
                          {"container.runtime": "containerd", "k8s.pod.uid": POD}),
    "containerd, guaranteed": ("v2", f"kubepods.slice/kubepods-pod{POD_}.slice/cri-containerd-{CONTAINER}.scope",
                               {"container.runtime": "containerd", "k8s.pod.uid": POD}),
    "containerd, kind": ("v2", f"system.slice/docker-{CONTAINER[::-1]}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{POD_}.slice/"
                               f"cri-containerd-{CONTAINER}.scope", {"container.runtime": "containerd", "k8s.pod.uid": POD}),
    **{f"cri-o, {version}": (version, f"kubepods/besteffort/pod{POD}/crio-{CONTAINER}", {"container.runtime": "cri-o", "k8s.pod.uid": POD})
       for version in ("v1", "v2")},
    **{f"cri-o, systemd, {version}": (version, f"{SLICE}/crio-{CONTAINER}.scope", {"container.runtime": "cri-o", "k8s.pod.uid": POD}) for version in ("v1", "v2")},
    "cri-o, crun": ("v2", f"{SLICE}/crio-{CONTAINER}.scope/container", {"container.runtime": "cri-o", "k8s.pod.uid": POD}),
}
# The plugin cgroup/v1 makes the first, cgroup/v2 the second; the last is of a node that runs several slurmd.
SLURM_LAYOUTS = [("v1", "slurm/uid_1000/job_4711/step_0/task_0"), ("v1", "slurm_node-7/uid_1000/job_4711/step_batch"),
                 ("v2", "system.slice/slurmstepd.scope/job_4711/step_0/user/task_0"), ("v2", "system.slice/node-7_slurmstepd.scope/job_4711/step_extern/user/task_special")]


def cgroup_roots(version):
    """The hierarchies that a container manager would use: the unified one, or all of version 1."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(m[1]) for m in mounts if m[2] == ("cgroup2" if version == "v2" else "cgroup")]


@pytest.fixture
def cgroup():
    """cgroup(version, path) makes a directory in the hierarchies; emptied and removed afterwards, with the parents that it made."""
    made = []

    def make(version, path):
        roots = cgroup_roots(version)
        if not roots:
            skip(f"no cgroup {version} hierarchy is mounted")
        for root in roots:
            at = root
            for part in path.split("/"):
                at = at / part
                if at.exists():
                    continue
                try:
                    at.mkdir()
                except OSError as error:
                    skip(f"cannot make {at}: {error}")
                made.append(at)
                for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new one of version 1, and then nobody may enter
                    if version == "v1" and (at / name).exists():
                        (at / name).write_text((at.parent / name).read_text())
        return [root / path for root in roots]
    yield make
    for path in reversed(made):
        for pid in (path / "cgroup.procs").read_text().split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        for _ in range(200):
            try:
                path.rmdir()
                break
            except OSError:
                time.sleep(0.02)


@pytest.fixture
def inside(run, cgroup):
    """inside(version, path) starts a program that is there before it is exec'ed."""
    def start(version, path):
        enter = " && ".join(f"echo $$ > {folder}/cgroup.procs" for folder in cgroup(version, path))
        running = run("sh", "-c", f"{enter} && exec {subject_path('deep')} 10 600")
        wait_for(lambda: "ready" in running.out or not running.alive, 20, "the program")
        assert running.alive, running.error
        return running
    return start


def said_of(profile, pid):
    """Where the samples of a process say that it runs; they have to say it all alike."""
    names = ("container.id", "container.runtime", "k8s.pod.uid", "slurm.job.id")
    said = {tuple((name, s.labels[name]) for name in names if name in s.labels) for s in profile.of(pid=pid).samples}
    assert profile.of(pid=pid).count > 3 and len(said) == 1, f"{said}\n{profile.top()}"
    return dict(said.pop())


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUTS.keys())
def test_container(record, run, inside, layout, root):
    version, path, expected = LAYOUTS[layout]
    running, outside = inside(version, path), run(subject_path("noreturn"), 600)
    profile = record("-F", HZ, "-a", "-d", 1)
    assert said_of(profile, running.pid) == {"container.id": CONTAINER, **expected}
    assert said_of(profile, outside.pid) == {}
    if version == "v2" and cgroup_roots("v1"):
        return  # on a hybrid machine containers are in version 1, and that is where -c looks
    only = record("-F", HZ, "-c", CONTAINER[:12], "-d", 1)
    assert {s.labels["pid"] for s in only.samples} == {running.pid}, only.top()


def only_pids(record, *arguments):
    profile = record("-F", HZ, "-d", 1, *arguments)
    return {s.labels["pid"] for s in profile.samples}


def test_pod_and_cgroup_by_path(record, sonde, run, inside, root):
    """With what is below, and nothing else; a pod by its UID as the cluster writes it and as systemd's slices do."""
    version = "v1" if cgroup_roots("v1") else "v2"
    running, other = inside(version, f"{SLICE}/cri-containerd-{CONTAINER}.scope"), inside(version, f"kubepods/burstable/pod{POD[::-1]}/{CONTAINER[::-1]}")
    unit, outside = inside(version, "system.slice/shop.service/worker"), run(subject_path("noreturn"), 600)
    assert only_pids(record, "--pod", POD) == {running.pid}
    assert only_pids(record, "--pod", POD[::-1], "--cgroup", "system.slice/shop.service") == {other.pid, unit.pid}
    assert only_pids(record, "--cgroup", "/kubepods.slice", "-C", "deep") == {running.pid}
    assert outside.alive
    for arguments, word in ((("--pod", "0b1d3c5e-1111"), "--pod"), (("--pod", POD.replace("0b", "0c")), "no pod"), (("--cgroup", "../../etc"), "--cgroup"),
                            (("--cgroup", "nobody.slice"), "no cgroup")):
        done = subprocess.run([sonde, "record", "-d", "1", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode in (1, 2) and word in done.stderr, done.stderr


def test_user(record, sonde, run, root):
    """Whoever runs under that user's rights at the moment, a program that its starter gave them included."""
    theirs = run("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", subject_path("deep"), 10, 600)
    ours = run(subject_path("noreturn"), 600)
    wait_for(lambda: "ready" in theirs.out or not theirs.alive, 60, "the program")
    if not theirs.alive:
        skip("another user may not run it from here")
    number = Path(f"/proc/{theirs.pid}").stat().st_uid
    assert theirs.pid in only_pids(record, "-u", "nobody") and ours.pid not in only_pids(record, "--user", number)
    assert only_pids(record, "-u", number, "-C", "deep") == {theirs.pid}
    assert theirs.pid not in only_pids(record, "-u", "root", "-u", "daemon")
    waits = subprocess.run([sonde, "record", "--off-cpu", "-u", "nobody", "-d", "1", "-o", "-"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert waits.returncode == 0 and not any(line.startswith("noreturn;") for line in waits.stdout.splitlines()), waits
    done = subprocess.run([sonde, "record", "-d", "1", "-u", "no such user"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "no such user" in done.stderr


@pytest.mark.parametrize("version,path", SLURM_LAYOUTS)
def test_slurm_job(record, inside, version, path, root):
    running = inside(version, path)
    assert said_of(record("-F", HZ, "-p", running.pid, "-d", 1), running.pid) == {"slurm.job.id": "4711"}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_systemd_unit(record, inside, version, root):
    running = inside(version, "system.slice/shop.service")
    labels = record("-F", HZ, "-p", running.pid, "-d", 1).of(pid=running.pid).samples[0].labels
    assert (labels["systemd.unit"], labels["service.name"]) == ("shop.service", "shop")


def test_service_is_what_its_environment_says(record, run, root):
    running = run(need_command("env"), "OTEL_SERVICE_NAME=till", "OTEL_RESOURCE_ATTRIBUTES=service.name=no,service.namespace=shop,service.version=1%2E2",
                  subject_path("deep"), 10, 600)
    labels = record("-F", HZ, "-p", running.pid, "-d", 1).of(pid=running.pid).samples[0].labels
    assert (labels["service.name"], labels["service.namespace"], labels["service.version"]) == ("till", "shop", "1.2")


# --- outputs -------------------------------------------------------------------------------------------------------------------

def test_interrupted_recording_is_kept(sonde, run, tmp_path, root):
    path = tmp_path / "kept.pb.gz"
    busy = run(subject_path("deep"), 10, 600)
    recording = run(sonde, "record", "-F", HZ, "-p", busy.pid, "-o", path)
    wait_for(lambda: is_recording(recording.pid) or not recording.alive, 60, "the recording")
    since = cpu_seconds(busy.pid)
    wait_for(lambda: cpu_seconds(busy.pid) > since + 1, 60, "some CPU time")
    assert recording.stop(signal.SIGINT) == 0, recording.error
    assert Profile(*pprof.read(path)).count > 50, recording.error


@pytest.mark.parametrize("name", ["a.pb.gz", "a.folded", "a.html", "a.json"])
def test_output_formats(sonde, tmp_path, name, root):
    done = subprocess.run([sonde, "record", "-F", "199", "-o", tmp_path / name, "--", subject_path("deep"), "5", "1"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    content = (tmp_path / name).read_bytes()
    if name.endswith(".gz"):
        top = go_pprof("-top", tmp_path / name)
        assert re.search(r"\d+%.*\bdeep_leaf$", top, re.M), top
    elif name.endswith(".json"):
        names = {frame["name"] for frame in json.loads(content)["shared"]["frames"]}
        assert {"main", "recurse", "deep_leaf"} <= names
    else:
        assert b"deep_leaf" in content
    if name.endswith(".html"):
        assert b"http://" not in content.replace(b"http://www.w3.org/", b"") and b"src=" not in content, "not self-contained"


def test_command_status_and_output_pass_through(sonde, tmp_path, root):
    done = subprocess.run([sonde, "record", "-o", tmp_path / "x.folded", "--", "sh", "-c", "echo out; echo err >&2; exit 7"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert "out\n" in done.stdout and "err\n" in done.stderr and done.returncode == 7
    killed = subprocess.run([sonde, "record", "-o", tmp_path / "x.folded", "--", "sh", "-c", "kill -9 $$"], stdin=subprocess.DEVNULL, timeout=60)
    assert killed.returncode == 128 + 9
    missing = subprocess.run([sonde, "record", "-o", tmp_path / "x.folded", "--", "/no/such/program"], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=60)
    assert missing.returncode != 0 and "/no/such/program" in missing.stderr
