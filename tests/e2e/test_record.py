"""`sonde record` on programs whose true stack is known: whole, named, in the right process, thread and container. Most tests record an event that the
program fires a known number of times (harness/fired.py); the sampled ones are statistical: as much CPU time as the kernel accounts, and stacks at
any instruction."""
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pprof
import pytest

from cgroups import CONTAINER, POD, POD_, SLICE, cgroup, cgroup_version, inside  # noqa: F401 (fixtures)
from harness.fired import FIRINGS, assert_all_fired, assert_exact, fire_all, fire_and_stay, fires, missed
from harness.machine import need_command, skip
from harness.paths import TOP
from harness.processes import cpu_seconds, wait_for
from harness.recording import FIRED, Profile, stack_matches
from harness.workloads import Workload, workload_path
from native_stacks import BEGINNINGS
from real_servers import stolen_ns

HZ = 199
CUT_BY_KERNEL = "[truncated: no kernel unwinding rules]"
# Programs, each with another difficulty for unwinding.
EXACT_STACKS = ["deep 480", "deep-static 40", "deep-static-pie 40", "deep-no-pie 40", "deep-frame-pointers 40", "deep-debuglink 40", "deep-minidebug 40",
                "signals", "signals alt", "realigned", "vforks", "noreturn", "vdso", "cxx", "rusty-v0", "rusty-legacy", "gopher"]
SANITIZED_STACKS = ["deep 480", "deep-minidebug 40", "signals alt", "cxx", "rusty-v0", "gopher"]
# The same sampled at any instruction, with the share of all samples (including start and end) that must be exact.
SAMPLED_STACKS = {"deep 120": 0.97, "deep-frame-pointers 40": 0.97, "signals": 0.93, "signals alt": 0.93, "plt": 0.97, "vdso": 0.97, "realigned": 0.97,
                  "vforks": 0.95, "noreturn": 0.97, "cxx": 0.97, "cxx throw": 0.97, "rusty-v0": 0.97, "gopher": 0.93}


def command_for(text, seconds):
    """["path", arguments...]: the depth comes before the seconds, words after them."""
    name, *words = text.split()
    numbers = [word for word in words if word.isdigit()]
    return [workload_path(name), *numbers, seconds, *[word for word in words if not word.isdigit()]]


def expected_of(command):
    """The stack that the program reports for itself."""
    done = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        for line in done.stdout:
            if line.startswith("stack "):
                return line[6:].strip()
    finally:
        os.killpg(done.pid, signal.SIGKILL)
        done.wait()
    raise AssertionError(f"{command} said no stack")


@pytest.mark.parametrize("program", [pytest.param(text, marks=[pytest.mark.sanitized] if text in SANITIZED_STACKS else []) for text in EXACT_STACKS])
def test_stack_is_exact(recording, workload, program):
    path, *arguments = command_for(program, 600)
    workload = workload(path.name, *arguments, env=fires())
    if program == "vforks":
        wait_for(lambda: "child" in workload.facts(), 30, "the child")
        workload.pid = int(workload.facts()["child"])
    event = "tracepoint:syscalls:sys_enter_clock_gettime" if program == "vdso" else FIRED
    running = recording("--event", event, "-p", workload.pid)
    fire_all(workload)
    # The older Rust mangling names the implementation, not its instance.
    assert_exact(running.finish(), workload.stack.replace("Crate<u32>", "Crate<T>") if program == "rusty-legacy" else workload.stack)


@pytest.mark.statistical
@pytest.mark.parametrize("program,least", SAMPLED_STACKS.items(), ids=SAMPLED_STACKS)
def test_stack_is_whole_and_named(record, program, least):
    command = command_for(program, 2)
    expected = expected_of(command)
    profile = record("-F", HZ, "--", *command)
    assert profile.count > 30, profile.messages
    # Allow a few samples more: on a busy machine the program's start and end are a larger share of the little CPU time that it got.
    shares = (profile.share(expected), profile.truncated, profile.early, profile.overwritten)
    exact, cut, early, overwritten = (share * profile.count for share in shares)
    assert exact + early + overwritten >= least * profile.count - 3, f"expected {expected}\n{profile.top()}"
    assert cut - early - overwritten <= 0.01 * profile.count + 2, profile.cut.top()
    assert overwritten <= 0.08 * profile.count + 2, profile.cut.top()
    assert early <= 0.05 * profile.count + 2, profile.cut.top()  # until its unwind table is built: later on a busy machine


def test_stripped_program_is_whole(fire, workload):
    """Without symbols there are no names, but every frame is there, as file and address."""
    workload = workload("deep-stripped", 50, 600, env=fires())
    profile = fire(workload)
    assert_all_fired(profile)
    depth = len(workload.stack.split(";")) + 1  # _start
    assert {sum(re.match(r"deep-stripped\+0x[0-9a-f]+$", f) is not None for f in s.frames) for s in profile.samples} == {depth}, profile.top()


def test_stack_deeper_than_512_frames_is_marked_as_truncated(fire, workload):
    """At least the innermost 512 frames are there, and the outermost one says that more are missing."""
    profile = fire(workload("deep", 2000, 600, env=fires()))
    assert_all_fired(profile)
    assert all(len(s.frames) >= 512 and s.frames[0].startswith("[truncated") and s.frames.count("recurse") > 300 for s in profile.samples), profile.top(2)


def test_samples_have_thread_names(fire, workload):
    profile = fire(workload("threads", 600, env=fires()))
    assert_all_fired(profile, 2 * FIRINGS)
    for thread, stack in (("red", "work_of_red"), ("blue painter", "work_of_blue")):
        own = profile.of(thread=thread)
        assert own.count >= FIRINGS - missed(profile.messages) and own.share(stack) == 1, profile.top()
        assert all(s.frames[0].startswith(("clone", "__clone")) for s in own.samples), own.top()


@pytest.mark.statistical
def test_cpu_time_equals_the_kernels_accounting(record, workload):
    """The weights of a process sum to the CPU time in /proc for the same interval."""
    running = workload("threads", 30)
    # The interval's ends are read from outside, so the expected value lies between the CPU time used inside the interval and around it.
    before, stolen, began = cpu_seconds(running.pid), stolen_ns(), time.monotonic()
    profile = record("-F", HZ, "-p", running.pid, "-d", 4)
    after, stolen, took = cpu_seconds(running.pid), (stolen_ns() - stolen) / 1e9, time.monotonic() - began
    used, said = profile.ns / 1e9, f"{after - before:.2f} s, {stolen:.2f} s stolen"
    # A tick that is late because a hypervisor took the CPU still has its full weight; /proc leaves that time out.
    assert used <= (after - before + stolen) * 1.03 + 0.05, f"claims {used:.2f} s, /proc {said}"
    assert used >= 0.7 * (after - before) * 4 / took, f"claims {used:.2f} s, /proc {said}"
    assert profile.ns == pytest.approx(profile.count * profile.period_ns, rel=0.01)


def test_library_loaded_while_recording_has_names(fire, workload):
    workload = workload("loader", workload_path("libplugin.so"), 600, env=fires())
    profile = fire(workload)
    assert_exact(profile, workload.stack)
    assert {Path(m).name for s in profile.samples for f, m in zip(s.frames, s.mappings) if f == "plugin_leaf"} == {"libplugin.so"}


def test_stack_goes_through_code_without_unwind_rules(fire, workload):
    """The compiler's own __do_global_dtors_aux, in the middle of a stack."""
    workload = workload("closed", workload_path("libclosed.so"), 600, env=fires())
    assert_exact(fire(workload), workload.stack)


@pytest.mark.parametrize("way", ["deleted", "replaced", "memfd"])
def test_removed_or_replaced_program_file(fire, workload, tmp_path, way):
    """A running program's file was removed, was replaced by another one, or never existed (memfd)."""
    copy = tmp_path / "gone"
    shutil.copy(workload_path("deep"), copy)
    if way == "memfd":
        running = workload("memfd", copy, 30, 600, env=fires())
    else:
        running = workload("deep", 30, 600, path=copy, env=fires())
    copy.unlink()
    if way == "replaced":
        shutil.copy(workload_path("noreturn"), copy)
    assert_exact(fire(running), running.stack)


def test_copies_of_one_program_keep_their_paths(recording, workload, tmp_path):
    """They have one build id and share the caches keyed by it; but a frame's file is the file that its process runs."""
    copies = {name: workload("deep", 30, 600, path=shutil.copy(workload_path("deep"), tmp_path / name), env=fires()) for name in ("prog-a", "prog-b")}
    running = recording("--event", FIRED, *[word for one in copies.values() for word in ("-p", one.pid)])
    fire_all(*copies.values())
    profile = running.finish()
    for name, one in copies.items():
        own = profile.of(pid=one.pid)
        assert_exact(own, one.stack)
        assert {path for sample in own.samples for path in sample.mappings if "prog-" in path} == {str(tmp_path / name)}


def test_process_in_another_mount_namespace_has_names(fire, run, tmp_path):
    """The program's file is not at the same path on the host."""
    need_command("unshare")
    within = tmp_path / "within"
    within.mkdir()
    shutil.copy(workload_path("deep-static"), tmp_path / "program")
    script = f"mount -t tmpfs none '{within}' && cp '{tmp_path}/program' '{within}/program' && exec '{within}/program' 25 600"
    running = run("unshare", "-m", "sh", "-c", script, env=fires())
    wait_for(lambda: "ready" in running.out or not running.alive, 60, "the program")
    if not running.alive:
        skip("unshare -m: " + running.error.strip())
    assert not (within / "program").exists()
    workload = Workload(running)
    assert_exact(fire(workload), workload.stack)


def test_children_belong_to_a_recorded_command(record):
    eventful = workload_path("eventful")
    profile = record("--event", FIRED, "--", "/bin/sh", "-c", f"'{eventful}' 1 {FIRINGS} & '{eventful}' 1 {FIRINGS}; wait")
    own = profile.where(lambda s: "call_kernel" in s.frames)
    assert_exact(own, "main;call_kernel", 2 * FIRINGS)
    assert len({s.labels["pid"] for s in own.samples}) == 2, own.top()


def test_process_and_command_filters(recording, workload):
    one, other = workload("deep", 10, 600, env=fires()), workload("noreturn", 600, env=fires())
    only, everything, by_name = (recording("--event", FIRED, *words) for words in (["-p", one.pid], ["-a"], ["-C", "noreturn"]))
    fire_all(one, other)
    only, everything, by_name = only.finish(), everything.finish(), by_name.finish()
    assert {s.labels["pid"] for s in only.samples} == {one.pid}
    assert {s.labels["process"] for s in by_name.samples} == {"noreturn"}
    assert_exact(only, one.stack)
    for workload in (one, other):  # the mappings of both processes must be known
        assert_all_fired(everything.of(pid=workload.pid))


@pytest.mark.sanitized
def test_user_filter_uses_the_current_credentials(recording, sonde, run, workload):
    """A process belongs to the user of its current credentials, not to the user who started it."""
    running = run("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", workload_path("deep"), 10, 600, env=fires())
    wait_for(lambda: "ready" in running.out or not running.alive, 60, "the program")
    if not running.alive:
        skip("another user may not run it from here")
    theirs, ours = Workload(running), workload("noreturn", 600, env=fires())
    number = Path(f"/proc/{theirs.pid}").stat().st_uid
    by_user, by_both, by_others = (recording("--event", FIRED, *words) for words in (
        ["-u", "nobody"], ["--user", number, "-C", "deep"], ["-u", "root", "-u", "daemon"]))
    waits = subprocess.run([sonde, "record", "--off-cpu", "-u", "nobody", "-d", "0.2", "-o", "-"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    fire_all(theirs, ours)
    assert waits.returncode == 0 and not any(line.startswith("noreturn;") for line in waits.stdout.splitlines()), waits
    by_user, by_both, by_others = pids(by_user), pids(by_both), pids(by_others)
    assert theirs.pid in by_user and ours.pid not in by_user
    assert by_both == {theirs.pid}
    assert theirs.pid not in by_others and ours.pid in by_others
    done = subprocess.run([sonde, "record", "-d", "1", "-u", "no such user"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "no such user" in done.stderr


def pids(running):
    return {s.labels["pid"] for s in running.finish().samples}


@pytest.mark.statistical
def test_kernel_frames_are_above_user_frames(record):
    """A program that only does system calls: its samples have kernel frames above the program's."""
    profile = record("-F", HZ, "--", "dd", "if=/dev/urandom", "of=/dev/null", "bs=1M", "count=600", "status=none")
    kernel = profile.where(lambda s: any("urandom" in f or "get_random" in f or "chacha" in f for f in s.frames))
    assert kernel.count >= 0.5 * profile.count, profile.top()
    assert kernel.where(lambda s: s.mappings[-1] == "[kernel.kallsyms]" or s.mappings[-1].startswith("[")).count == kernel.count
    rooted = kernel.where(lambda s: s.frames[0].startswith("dd+0x") and s.frames[1].startswith("__libc_start"))  # dd is stripped
    assert rooted.count >= 0.97 * kernel.count, kernel.top()


@pytest.mark.statistical
def test_kernel_stack_without_rules_is_marked(record):
    """Where the kernel has no unwind rules, the stack has a mark and the caller, and is not taken for whole."""
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


def test_bpf_program_frames_have_lines(recording, run, tmp_path, root):
    """The kernel runs the program repeatedly; each of its frames has a line of its source."""
    bpftool = need_command("bpftool")
    need_command("clang-16")
    source, program, place = TOP / "tests/workloads/spin.bpf.c", workload_path("spin.bpf.o"), tmp_path / "bpf"
    place.mkdir()
    (tmp_path / "packet").write_bytes(bytes(64))
    running = run("unshare", "-m", "sh", "-c", f"mount -t bpf bpf '{place}' && {bpftool} prog load '{program}' '{place}/spin' && echo ready && "
                  f"exec {bpftool} prog run pinned '{place}/spin' data_in '{tmp_path}/packet' repeat 100000000")
    wait_for(lambda: "ready" in running.out or not running.alive, 60, "the program to be loaded")
    if not running.alive and "unshare:" in running.error:
        skip("unshare -m: " + running.error.strip())
    assert running.alive, running.error
    wait_for(lambda: cpu_seconds(running.pid) > 0.5, 60, "the program to run")
    since, recorded = cpu_seconds(running.pid), recording("-F", HZ, "-p", running.pid)
    wait_for(lambda: cpu_seconds(running.pid) > since + 1, 60, "some CPU time")
    samples = recorded.finish().samples
    lines = source.read_text().splitlines()
    function = range(next(n for n, line in enumerate(lines, 1) if "spin(" in line), len(lines) + 1)
    places = {(Path(file).name, line in function) for s in samples for frame, (file, line) in zip(s.frames, s.sources) if frame.endswith("_spin")}
    assert places == {(source.name, True)}, places
    busy = {number for number, line in enumerate(lines, 1) if "/* busy */" in line}
    assert busy & {line for s in samples for _, line in s.sources}


# --- containers: recognized by cgroup directory names, in either cgroup version; unit/resolve/test_identity.c has all forms --------

# (directory, expected labels).
PLACES = {
    "docker, systemd": (f"system.slice/docker-{CONTAINER}.scope", {"container.id": CONTAINER, "container.runtime": "docker"}),
    "containerd, systemd": (f"{SLICE}/cri-containerd-{CONTAINER}.scope", {"container.id": CONTAINER, "container.runtime": "containerd", "k8s.pod.uid": POD}),
    # The runtime and the kubelet use different cgroup drivers.
    "containerd, mixed": (f"system.slice/containerd.service/kubepods-burstable-pod{POD_}.slice:cri-containerd:{CONTAINER}",
                          {"container.id": CONTAINER, "container.runtime": "containerd", "k8s.pod.uid": POD}),
    "slurm": ("slurm/uid_1000/job_4711/step_0/task_0", {"slurm.job.id": "4711"}),
    "unit": ("system.slice/shop.service", {"systemd.unit": "shop.service", "service.name": "shop"}),
}
LABELS = ("container.id", "container.runtime", "k8s.pod.uid", "slurm.job.id")


def places_of(profile, names=LABELS):
    """The distinct sets of identity labels of the samples."""
    return [dict(place) for place in {tuple((name, s.labels[name]) for name in names if name in s.labels) for s in profile.samples}]


@pytest.mark.sanitized
def test_samples_have_container_pod_job_and_unit(recording, workload, inside):  # noqa: F811
    """Container, pod, job and unit by cgroup, also for a process that ends before it is read from /proc."""
    running = {name: inside(cgroup_version(), path) for name, (path, _) in PLACES.items()}
    outside = workload("deep", 10, 600, env=fires())
    workloads = [outside, *running.values()]
    everything = recording("--event", FIRED, *[word for workload in workloads for word in ("-p", workload.pid)])
    only = recording("--event", FIRED, "-c", CONTAINER[:12])
    fire_all(*workloads)
    everything, only = everything.finish(), only.finish()
    for name, (_, expected) in PLACES.items():
        own = everything.of(pid=running[name].pid)
        assert_exact(own, running[name].stack)
        assert places_of(own, sorted({*LABELS, *expected})) == [expected], name
    assert places_of(everything.of(pid=outside.pid)) == [{}]
    assert {s.labels["pid"] for s in only.samples} == {running[name].pid for name, (_, expected) in PLACES.items() if "container.id" in expected}, only.top()


@pytest.mark.parametrize("what", ["container", "service"])
def test_identity_is_read_from_proc(recording, workload, inside, what):  # noqa: F811
    """A container in version 2 of a hybrid machine, whose version 1 cgroups are not specific; and a service named by its environment."""
    if what == "container":
        workload, expected = inside("v2", f"system.slice/docker-{CONTAINER}.scope", stay=True), {"container.id": CONTAINER, "container.runtime": "docker"}
    else:
        resource = "service.name=no,service.namespace=shop,service.version=1%2E2"
        workload = workload("deep", 10, 600, env=fires(stay=True) | {"OTEL_SERVICE_NAME": "till", "OTEL_RESOURCE_ATTRIBUTES": resource})
        expected = {"service.name": "till", "service.namespace": "shop", "service.version": "1.2"}
    profile = fire_and_stay(recording, workload)
    assert_exact(profile, workload.stack)
    assert places_of(profile, expected) == [expected]


def test_pod_and_cgroup_filters(recording, sonde, workload, inside):  # noqa: F811
    """Including descendants, and nothing else; a pod by its UID as the cluster and as systemd slices write it."""
    version = cgroup_version()
    running, other = inside(version, f"{SLICE}/cri-containerd-{CONTAINER}.scope"), inside(version, f"kubepods/burstable/pod{POD[::-1]}/{CONTAINER[::-1]}")
    unit, outside = inside(version, "system.slice/shop.service/worker"), workload("noreturn", 600, env=fires())
    recordings = [recording("--event", FIRED, *words) for words in (
        ["--pod", POD], ["--pod", POD[::-1], "--cgroup", "system.slice/shop.service"], ["--cgroup", "/kubepods.slice", "-C", "deep"])]
    fire_all(running, other, unit, outside)
    assert [pids(one) for one in recordings] == [{running.pid}, {other.pid, unit.pid}, {running.pid}]
    for arguments, word in ((("--pod", "0b1d3c5e-1111"), "--pod"), (("--pod", POD.replace("0b", "0c")), "no pod"), (("--cgroup", "../../etc"), "--cgroup"),
                            (("--cgroup", "nobody.slice"), "no cgroup")):
        done = subprocess.run([sonde, "record", "-d", "1", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode in (1, 2) and word in done.stderr, done.stderr


# --- outputs -------------------------------------------------------------------------------------------------------------------

def test_output_formats(sonde, record, tmp_path):
    """One recording in each format."""
    record("--event", FIRED, "--record-events", tmp_path / "wire", "--", workload_path("eventful"), 1, FIRINGS)
    contents = {}
    for name in ("a.pb.gz", "a.folded", "a.html", "a.json"):
        done = subprocess.run([sonde, "record", "--replay", tmp_path / "wire", "-o", tmp_path / name], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        contents[name] = (tmp_path / name).read_bytes()
    samples, _ = pprof.read(tmp_path / "a.pb.gz")
    assert_exact(Profile([s for s in samples if "call_kernel" in s.frames]), "main;call_kernel")
    assert {"main", "call_kernel"} <= {frame["name"] for frame in json.loads(contents["a.json"])["shared"]["frames"]}
    assert b";main;call_kernel" in contents["a.folded"] and b"call_kernel" in contents["a.html"]
    assert b"http://" not in contents["a.html"].replace(b"http://www.w3.org/", b"") and b"src=" not in contents["a.html"], "not self-contained"


def test_command_runs_as_the_user_of_sudo(sonde, tmp_path, root):
    """With that user's groups, home directory and name; the output file is written as root."""
    user = pwd.getpwnam("nobody")
    environment = dict(os.environ, SUDO_UID=str(user.pw_uid), SUDO_GID=str(user.pw_gid), HOME="/root", USER="root", LOGNAME="root")
    show = 'id -u; id -g; id -G; grep ^Uid: /proc/self/status; echo "$HOME $USER $LOGNAME"'
    done = subprocess.run([sonde, "record", "-o", tmp_path / "x.folded", "--", "sh", "-c", show], env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    uid, gid, groups, status, names = done.stdout.splitlines()
    assert (int(uid), int(gid)) == (user.pw_uid, user.pw_gid)
    assert {int(group) for group in groups.split()} == set(os.getgrouplist(user.pw_name, user.pw_gid))
    assert status.split()[1:] == [uid] * 4, "real, effective, saved and file system user: root cannot be regained"
    assert names == f"{user.pw_dir} nobody nobody"
    assert (tmp_path / "x.folded").stat().st_uid == 0


@pytest.mark.parametrize("user", [{"SUDO_UID": "-1", "SUDO_GID": "1"}, {"SUDO_UID": "4294967295", "SUDO_GID": "1"}, {"SUDO_UID": "1000"}])
def test_invalid_user_of_sudo_is_an_error(sonde, tmp_path, root, user):
    done = subprocess.run([sonde, "record", "-o", tmp_path / "x.folded", "--", "touch", tmp_path / "touched"], env=dict(os.environ, **user),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "SUDO_UID" in done.stderr and not (tmp_path / "touched").exists()


def test_command_status_and_output_pass_through(sonde, tmp_path, root):
    done = subprocess.run([sonde, "record", "-o", tmp_path / "x.folded", "--", "sh", "-c", "echo out; echo err >&2; exit 7"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert "out\n" in done.stdout and "err\n" in done.stderr and done.returncode == 7
    killed = subprocess.run([sonde, "record", "-o", tmp_path / "x.folded", "--", "sh", "-c", "kill -9 $$"], stdin=subprocess.DEVNULL, timeout=60)
    assert killed.returncode == 128 + 9
    missing = subprocess.run([sonde, "record", "-o", tmp_path / "x.folded", "--", "/no/such/program"], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=60)
    assert missing.returncode != 0 and "/no/such/program" in missing.stderr
