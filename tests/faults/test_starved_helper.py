"""The agent's file-opening helper gets no CPU time, as on an overloaded node: it is stopped here. The pipeline waits for it briefly, and the page
does not wait for the pipeline; then the pipeline continues without names, and no file system is declared dead because of it."""
import os
import shutil
import signal
import subprocess
import time

import pytest

from harness.machine import need_command
from harness.processes import helper_of, wait_for
from harness.workloads import workload_path

TRIES = 5  # on a busy machine it may take seconds until the agent samples the new program
STANDS_STILL_S = 1.5  # between a turn of the pipeline, a second, and the 2.5 seconds that it waits in one


def unanswered(started):
    return started.metric("sonde_self_losses_total", reason="file_unanswered")


def answers_while_it_waits(started, before):
    """Whether the pipeline, whose statistics change every second, stands still while the page responds. If the page waited for the pipeline, each
    response would contain new statistics. False when the pipeline has continued already."""
    seen, since, answers = None, 0, 0
    while unanswered(started) == before:
        assert started.get("/api/v1/status", timeout_s=60)[0] == 200
        samples = started.metric("sonde_self_samples_total")
        if samples != seen:
            seen, since, answers = samples, time.monotonic(), 0
        answers += 1
        if answers > 5 and time.monotonic() - since > STANDS_STILL_S:
            return True
        time.sleep(0.1)
    return False


def folded(started, pid):
    return started.text(f"/api/v1/profile?format=folded&pid={pid}")


@pytest.fixture
def start_unknown(run, tmp_path):
    """start_unknown(name): runs a copy of `deep` whose names Sonde cannot have cached from another program on the node. In a mount namespace of its
    own, as a container: local files of the agent's own namespace are opened without the helper."""
    program = tmp_path / "program_without_build_id"
    subprocess.run([need_command("objcopy"), "--remove-section=.note.gnu.build-id", workload_path("deep"), program], check=True)
    return lambda name: run("unshare", "--mount", shutil.copy(program, tmp_path / name), 20, 600)


@pytest.mark.thorough
def test_names_return_when_the_helper_resumes(agent, start_unknown):
    """Until then frames have no names; further programs do not wait, because the helper is known not to respond."""
    started = agent("--rate", 99)
    helper = helper_of(started.pid)
    before = unanswered(started)
    os.kill(helper, signal.SIGSTOP)
    try:
        programs = [start_unknown("unknown-0")]
        wait_for(lambda: unanswered(started) > before, 60, "frames without a name")
        assert "deep_leaf" not in folded(started, programs[0].pid)
        programs.append(start_unknown("unknown-1"))
        wait_for(lambda: folded(started, programs[1].pid), 60, "samples of another program")
        assert started.metric("sonde_self_files_timed_out_total") == 0 and started.metric("sonde_self_files_resting") == 0
    finally:
        os.kill(helper, signal.SIGCONT)
    for program in programs:
        wait_for(lambda: "deep_leaf" in folded(started, program.pid), 60, "names")  # noqa: B023
    os.kill(helper, signal.SIGSTOP)
    start_unknown("unknown-2")
    assert started.stop() == 0  # SIGTERM interrupts a wait for the helper


@pytest.mark.statistical
def test_page_answers_while_the_pipeline_waits(agent, start_unknown):
    started = agent("--rate", 99)
    helper = helper_of(started.pid)
    wait_for(lambda: started.metric("sonde_self_samples_total") > 0, 30, "samples")
    try:
        for number in range(TRIES):
            before = unanswered(started)
            os.kill(helper, signal.SIGSTOP)
            program = start_unknown(f"unknown-{number}")  # needs the helper, which has not read this file
            if answers_while_it_waits(started, before):
                break
            os.kill(helper, signal.SIGCONT)
            wait_for(lambda: "deep_leaf" in folded(started, program.pid), 60, "names")  # noqa: B023
        else:
            raise AssertionError("the pipeline did not ask its helper, or the page waited for the pipeline")
        wait_for(lambda: unanswered(started) > before, 60, "the pipeline to go on")  # metrics are updated once per turn of the pipeline
        asked = started.metric("sonde_self_files_requested_total")
        other = start_unknown("other")
        wait_for(lambda: folded(started, other.pid), 60, "samples of another program")
        assert started.metric("sonde_self_files_requested_total") == asked > 0
    finally:
        os.kill(helper, signal.SIGCONT)
