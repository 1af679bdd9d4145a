"""The process that opens files for the agent gets no CPU time, as on a node that is busier than it should be: here it is stopped,
which is the same and happens when the test says so. The pipeline waits for it a little, and nobody waits for the pipeline; then it goes on
without, and nothing is called dead for it."""
import os
import signal
import subprocess
import time
from pathlib import Path

from conftest import need_command, skip, subject_path, wait_for


def helper_of(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        skip("this kernel does not tell children")
    found = [int(child) for child in children.read_text().split() if Path(f"/proc/{child}/comm").read_text().strip() == "sonde-files"]
    assert len(found) == 1
    return found[0]


def samples_line(started, timeout_s):
    """Fails when it waits for the pipeline, which waits for the helper."""
    status, _, body = started.get("/metrics", timeout_s=timeout_s)
    assert status == 200 and started.get("/api/v1/status", timeout_s=timeout_s)[0] == 200
    return next(line for line in body.decode().splitlines() if line.startswith("sonde_self_samples_total"))


def test_pipeline_goes_on_without_its_helper(agent, run, tmp_path):
    unknown = tmp_path / "unknown"  # by its build id it might be known from another program on the node
    subprocess.run([need_command("objcopy"), "--remove-section=.note.gnu.build-id", subject_path("deep"), unknown], check=True)
    started = agent("--rate", 99)
    helper = helper_of(started.pid)
    wait_for(lambda: started.metric("sonde_self_samples_total") > 0, 30, "samples")
    os.kill(helper, signal.SIGSTOP)
    try:
        program = run(unknown, 20, 120)  # needs the helper: nothing was asked of it before
        seen, since, waiting = None, time.monotonic(), False
        end = since + 60
        while not waiting and time.monotonic() < end:
            now = samples_line(started, 4)
            if now != seen:
                seen, since = now, time.monotonic()
            waiting = time.monotonic() - since > 2  # its figures change every second
            time.sleep(0.1)
        assert waiting, "the pipeline did not ask its helper"
        wait_for(lambda: started.metric("sonde_self_losses_total", reason="file_unanswered") > 0, 60, "frames without a name")
        assert "deep_leaf" not in started.text(f"/api/v1/profile?format=folded&pid={program.pid}")
        # More of them wait for nothing: it is known now that nobody answers.
        asked = started.metric("sonde_self_files_asked_total")
        others = [run(unknown, 20, 120, name=f"other-{i}") for i in range(3)]
        for other in others:
            wait_for(lambda: started.text(f"/api/v1/profile?format=folded&pid={other.pid}"), 60, "samples of other programs")
        assert started.metric("sonde_self_files_asked_total") == asked > 0
        assert started.metric("sonde_self_files_timed_out_total") == 0 and started.metric("sonde_self_files_resting") == 0
    finally:
        os.kill(helper, signal.SIGCONT)
    for pid in [program.pid, *(other.pid for other in others)]:
        wait_for(lambda: "deep_leaf" in started.text(f"/api/v1/profile?format=folded&pid={pid}"), 60, "names")
