"""The process that opens files for the agent gets no CPU time, as on an overloaded node: here it is stopped. The pipeline waits for it a little, and
the page does not wait for the pipeline; then the pipeline goes on without names, and no file system is taken for dead because of it."""
import os
import shutil
import signal
import subprocess
import time

import pytest

from harness.machine import need_command
from harness.processes import helper_of, wait_for
from harness.workloads import workload_path

TRIES = 5  # on a busy machine the agent may not meet the new program for seconds


def unanswered(started):
    return started.metric("sonde_self_losses_total", reason="file_unanswered")


def answers_while_it_waits(started, before):
    """Whether the pipeline, which changes its figures every second, does so no more while the page answers: of what waited for the pipeline each
    answer would tell others. False where it has gone on already."""
    seen, since, answers = None, 0, 0
    while unanswered(started) == before:
        assert started.get("/api/v1/status", timeout_s=60)[0] == 200
        samples = started.metric("sonde_self_samples_total")
        if samples != seen:
            seen, since, answers = samples, time.monotonic(), 0
        answers += 1
        if answers > 5 and time.monotonic() - since > 2:
            return True
        time.sleep(0.1)
    return False


def folded(started, pid):
    return started.text(f"/api/v1/profile?format=folded&pid={pid}")


@pytest.fixture
def unknown(tmp_path):
    """unknown(name): a copy of `deep` without a build ID, by which it might be known from another program on the node."""
    program = tmp_path / "unknown"
    subprocess.run([need_command("objcopy"), "--remove-section=.note.gnu.build-id", workload_path("deep"), program], check=True)
    return lambda name: shutil.copy(program, tmp_path / name)


def test_names_come_when_the_helper_goes_on(agent, run, unknown):
    """Until then frames have no names, and further programs wait for nothing: it is known that the helper does not answer."""
    started = agent("--rate", 99)
    helper = helper_of(started.pid)
    before = unanswered(started)
    os.kill(helper, signal.SIGSTOP)
    try:
        programs = [run(unknown("unknown-0"), 20, 600)]
        wait_for(lambda: unanswered(started) > before, 60, "frames without a name")
        assert "deep_leaf" not in folded(started, programs[0].pid)
        programs.append(run(unknown("unknown-1"), 20, 600))
        wait_for(lambda: folded(started, programs[1].pid), 60, "samples of another program")
        assert started.metric("sonde_self_files_timed_out_total") == 0 and started.metric("sonde_self_files_resting") == 0
    finally:
        os.kill(helper, signal.SIGCONT)
    for program in programs:
        wait_for(lambda: "deep_leaf" in folded(started, program.pid), 60, "names")  # noqa: B023


@pytest.mark.statistical
def test_page_answers_while_the_pipeline_waits(agent, run, unknown):
    started = agent("--rate", 99)
    helper = helper_of(started.pid)
    wait_for(lambda: started.metric("sonde_self_samples_total") > 0, 30, "samples")
    try:
        for number in range(TRIES):
            before = unanswered(started)
            os.kill(helper, signal.SIGSTOP)
            program = run(unknown(f"unknown-{number}"), 20, 600)  # needs the helper: it has not read this file
            if answers_while_it_waits(started, before):
                break
            os.kill(helper, signal.SIGCONT)
            wait_for(lambda: "deep_leaf" in folded(started, program.pid), 60, "names")  # noqa: B023
        else:
            raise AssertionError("the pipeline did not ask its helper, or the page waited for the pipeline")
        wait_for(lambda: unanswered(started) > before, 60, "the pipeline to go on")  # its metrics are as old as its last turn
        asked = started.metric("sonde_self_files_asked_total")
        other = run(unknown("other"), 20, 600)
        wait_for(lambda: folded(started, other.pid), 60, "samples of another program")
        assert started.metric("sonde_self_files_asked_total") == asked > 0
    finally:
        os.kill(helper, signal.SIGCONT)
