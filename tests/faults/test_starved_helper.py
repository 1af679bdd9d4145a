"""The process that opens files for the agent gets no CPU time, as on a node that is busier than it should be: here it is stopped,
which is the same and happens when the test says so. The pipeline waits for it a little, and nobody waits for the pipeline; then it goes on
without, and nothing is called dead for it."""
import os
import shutil
import signal
import subprocess
import time

from harness.machine import need_command
from harness.processes import helper_of, wait_for
from harness.workloads import subject_path

TRIES = 5  # that on a machine so busy nobody looks for seconds on end, each time


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


def test_pipeline_goes_on_without_its_helper(agent, run, tmp_path):
    unknown = tmp_path / "unknown"  # by its build id it might be known from another program on the node
    subprocess.run([need_command("objcopy"), "--remove-section=.note.gnu.build-id", subject_path("deep"), unknown], check=True)
    started = agent("--rate", 99)
    helper = helper_of(started.pid)
    wait_for(lambda: started.metric("sonde_self_samples_total") > 0, 30, "samples")
    try:
        for number in range(TRIES):
            one = tmp_path / f"unknown-{number}"
            shutil.copy(unknown, one)
            before = unanswered(started)
            os.kill(helper, signal.SIGSTOP)
            program = run(one, 20, 600)  # needs the helper: nothing was asked of it before
            if answers_while_it_waits(started, before):
                break
            os.kill(helper, signal.SIGCONT)
            wait_for(lambda: "deep_leaf" in folded(started, program.pid), 60, "names")
        else:
            raise AssertionError("the pipeline did not ask its helper, or the page waited for the pipeline")
        wait_for(lambda: unanswered(started) > before, 60, "frames without a name")
        assert "deep_leaf" not in folded(started, program.pid)
        # More of them wait for nothing: it is known now that nobody answers.
        asked = started.metric("sonde_self_files_asked_total")
        others = [run(one, 20, 600, name=f"other-{i}") for i in range(3)]
        for other in others:
            wait_for(lambda: folded(started, other.pid), 60, "samples of other programs")
        assert started.metric("sonde_self_files_asked_total") == asked > 0
        assert started.metric("sonde_self_files_timed_out_total") == 0 and started.metric("sonde_self_files_resting") == 0
    finally:
        os.kill(helper, signal.SIGCONT)
    for pid in [program.pid, *(other.pid for other in others)]:
        wait_for(lambda: "deep_leaf" in folded(started, pid), 60, "names")
