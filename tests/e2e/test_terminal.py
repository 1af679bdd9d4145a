"""The command line on a terminal: the address that `sonde up` prints, the progress of a recording, Ctrl-C."""
import http.client
import os
import re
import signal
import subprocess
from pathlib import Path

import pprof
import pytest
from harness.machine import need_command, skip
from harness.paths import TOP
from harness.processes import wait_for
from harness.recording import Profile
from harness.workloads import workload_path
from terminal import Terminal

ADDRESS = re.compile(r"^Sonde is watching\. Its page: (http://([\d.]+):(\d+)/)  \(all users of this machine can read it; Ctrl-C stops it\)\r?$", re.M)


@pytest.fixture
def terminal(root):
    started = []

    def start(*command, **environment):
        started.append(Terminal(*command, **environment))
        return started[-1]
    yield start
    for one in started:
        one.kill()


def page_at(host, port):
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    connection.request("GET", "/")
    reply = connection.getresponse()
    return reply.status, reply.read()


def test_up_prints_the_address_of_its_page(sonde, terminal):
    up = terminal(sonde, "up", "--listen", "127.0.0.1:0")
    address = up.wait_for(ADDRESS.search, what="the address")
    status, body = page_at(address[2], address[3])
    assert status == 200 and b"<title>" in body
    up.type("\x03")
    assert up.end() == 0, up.seen


def test_up_prints_the_address_to_a_pipe(sonde, root):
    """At once: a reader of the pipe does not have to wait for the end."""
    up = subprocess.Popen([sonde, "up", "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = ADDRESS.match(up.stdout.readline())
        assert address and page_at(address[2], address[3])[0] == 200
        up.send_signal(signal.SIGTERM)
        assert up.wait(30) == 0 and up.stdout.read() == ""
    finally:
        up.kill()
        up.communicate()


def test_make_run_prints_the_address(run, root, tmp_path):
    """As in the README, in a network namespace of its own, because it uses the default port."""
    build = os.path.relpath(os.environ.get("SONDE_BUILD", TOP / "build"), TOP)
    made = run("unshare", "-n", "sh", "-c", f"ip link set lo up && exec make -s run BUILD={build}", name="make", cwd=TOP)
    address = wait_for(lambda: ADDRESS.search(made.out) or not made.alive, 120, "the address")
    if not made.alive and "unshare:" in made.error:
        skip("no network namespace can be made: " + made.error.strip())
    assert made.alive and address[1] == "http://127.0.0.1:7070/", made.out + made.error
    seen = subprocess.run(["nsenter", "-t", str(made.pid), "-n", need_command("curl"), "-s", "-S", "--max-time", "20", address[1]], capture_output=True, timeout=60)
    assert b"<title>" in seen.stdout, seen


def test_recording_shows_its_progress(sonde, terminal, run, tmp_path):
    busy = run(workload_path("deep"), 10, 60)
    path = tmp_path / "p.pb.gz"
    recording = terminal(sonde, "record", "-F", 199, "-p", busy.pid, "-o", path)
    line = recording.wait_for(re.compile(r"\r\x1b\[Krecording: (\d+\.\d+ s), ([1-9]\d+) samples, \d+ lost  \(Ctrl-C stops and writes the profile\)").search, what="progress")
    recording.type("\x03")
    assert recording.end() == 0, recording.seen
    last = recording.seen.rpartition("\r\x1b[K")[2]  # the progress line is erased before the final message
    wrote = re.fullmatch(rf"sonde: wrote {re.escape(str(path))}: (\d+) samples of \d+ processes[^\r\n]*\r\n", last)
    assert wrote and int(wrote[1]) >= int(line[2]), recording.seen
    assert Profile(*pprof.read(path)).count == int(wrote[1])


def test_progress_shows_the_duration(sonde, terminal, tmp_path):
    recording = terminal(sonde, "record", "-d", "300", "-o", tmp_path / "p.folded")
    recording.wait_for(re.compile(r"recording: [\d.]+ s of 300 s, \d+ samples").search, what="progress")
    recording.type("\x03")
    assert recording.end() == 0, recording.seen


def test_no_progress_without_a_terminal(sonde, root, run, tmp_path):
    busy = run(workload_path("deep"), 10, 60)
    done = subprocess.run([sonde, "record", "-p", str(busy.pid), "-d", "1500ms", "-o", tmp_path / "p.folded"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "sonde: wrote " in done.stderr and not re.search(r"[\r\x1b]|recording: ", done.stderr + done.stdout), done


@pytest.mark.parametrize("first", ["sonde", "command"])
def test_ctrl_c_ends_the_command_and_keeps_the_profile(sonde, terminal, tmp_path, first):
    """Both processes get SIGINT: the command ends, the profile is kept, and the status is the same whichever of the two ends first."""
    path = tmp_path / "p.pb.gz"
    recording = terminal(sonde, "record", "-F", 199, "-o", path, "--", workload_path("deep"), 10, 60)
    progress = recording.wait_for(re.compile(r", ([1-9]\d+) samples").search, what="samples")
    command = int(re.search(r"pid (\d+)\r?\n", recording.seen)[1])
    if first == "command":
        os.kill(recording.pid, signal.SIGSTOP)
    recording.type("\x03")
    if first == "command":
        wait_for(lambda: ") Z " in Path(f"/proc/{command}/stat").read_text(), what="the command's end")
        os.kill(recording.pid, signal.SIGCONT)
    assert recording.end() == 0, recording.seen
    assert not os.path.exists(f"/proc/{command}")
    profile = Profile(*pprof.read(path))
    assert profile.count >= int(progress[1]) and profile.of(pid=command).where(lambda s: "deep_leaf" in s.frames).count, profile.top()


def test_terminated_recording_ends_its_command(sonde, run, root, tmp_path):
    """When only the recording is terminated, as by `kill`, it does not leave the command behind."""
    path = tmp_path / "p.pb.gz"
    recording = run(sonde, "record", "-F", 199, "-o", path, "--", workload_path("deep"), 10, 60)
    command = int(wait_for(lambda: re.search(r"^pid (\d+)", recording.out, re.M), what="the command")[1])
    wait_for(lambda: "ready" in recording.out, what="the command's work")
    recording.process.send_signal(signal.SIGINT)
    assert recording.wait() == 0 and path.exists(), recording.error
    assert not os.path.exists(f"/proc/{command}")
