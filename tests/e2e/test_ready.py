"""`--ready-fd`: the line "ready" is written when a recording or an agent counts events and everything needed for whole stacks is in place."""
import os
import subprocess

import pytest



def frames_of(profile):
    return {tuple(sample.frames) for sample in profile.samples}


def missed(profile):
    words = profile.messages.replace(";", " ").split()
    return int(words[words.index("missed") - 1]) if "missed" in words else 0


@pytest.mark.parametrize("name, arguments", [("deep", ["40", "300"]), ("deep-static", ["40", "300"]), ("cxx", ["300"])])
def test_each_event_after_ready_has_its_whole_stack(workload, fire, name, arguments):
    workload = workload(name, *arguments, env=dict(os.environ, WORKLOAD_FIRE="200"))
    profile = fire(workload)
    assert profile.count == 200 - missed(profile), profile.messages + profile.top()
    assert profile.truncated == 0 and len(frames_of(profile)) == 1, profile.top()


def test_command_starts_without_the_descriptor(sonde, root, tmp_path):
    ready, write = os.pipe()
    with os.fdopen(ready) as reader:
        done = subprocess.run([sonde, "record", "--ready-fd", str(write), "-o", tmp_path / "p.folded", "--", "ls", "/proc/self/fd"], pass_fds=[write],
                              capture_output=True, text=True, timeout=60)
        os.close(write)
        assert done.returncode == 0 and str(write) not in done.stdout.split(), done.stdout + done.stderr
        assert reader.read() == "ready\n"


@pytest.mark.parametrize("subcommand", ["record", "up"])
@pytest.mark.parametrize("descriptor", ["999", "0"])  # closed; open for reading
def test_descriptor_that_cannot_be_written_is_refused(sonde, subcommand, descriptor):
    with open("/dev/null") as empty:
        done = subprocess.run([sonde, subcommand, "--ready-fd", descriptor], stdin=empty, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and f"--ready-fd: descriptor {descriptor} is not open for writing" in done.stderr, done.stderr
