"""The process that opens files for the agent gets no CPU time, as on a node that is busier than it should be: here it is stopped,
which is the same and happens when the test says so. The pipeline waits for it, and nobody waits for the pipeline."""
import os
import signal
import time
from pathlib import Path

from conftest import skip, subject_path, wait_for


def helper_of(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        skip("this kernel does not tell children")
    found = [int(child) for child in children.read_text().split() if Path(f"/proc/{child}/comm").read_text().strip() == "sonde-files"]
    assert len(found) == 1
    return found[0]


def test_figures_are_read_while_the_pipeline_waits(agent, run):
    started = agent("--rate", 99)
    helper = helper_of(started.pid)
    wait_for(lambda: started.metric("sonde_self_samples_total") > 0, 30, "samples")
    os.kill(helper, signal.SIGSTOP)
    try:
        program = run(subject_path("deep-stripped"), 20, 120)  # needs the helper: nothing was asked of it before
        seen, since, waiting = None, time.monotonic(), False
        end = since + 60
        while not waiting and time.monotonic() < end:
            # Fails when it waits for the pipeline, which waits for the helper, ten seconds long.
            status, _, body = started.get("/metrics", timeout_s=6)
            assert status == 200 and started.get("/api/v1/status", timeout_s=6)[0] == 200
            now = next(line for line in body.decode().splitlines() if line.startswith("sonde_self_samples_total"))
            if now != seen:
                seen, since = now, time.monotonic()
            waiting = time.monotonic() - since > 3
            time.sleep(0.1)
        assert waiting, "the pipeline went on without its helper"
    finally:
        os.kill(helper, signal.SIGCONT)
    wait_for(lambda: started.text(f"/api/v1/profile?format=folded&pid={program.pid}"), 60, "the program's samples")
    wait_for(lambda: next(line for line in started.text("/metrics").splitlines() if line.startswith("sonde_self_samples_total")) != seen,
             60, "the pipeline to go on")
