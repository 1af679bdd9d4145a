"""Exact stacks of interpreted and JIT-compiled programs: they wait at a gate, a file that does not exist yet, and are recorded from before it
opens. After that, their innermost function makes system calls, and this event is recorded: no duration, and no random sampling."""
import contextlib
import os

import pytest

from harness.machine import need_root
from harness.processes import Running, wait_for
from harness.recording import FIRED, Recording


class Gated:
    """Programs that wait at a gate, and recordings that start before the gate opens. For fixtures of any scope."""

    def __init__(self, sonde, folder):
        need_root()
        self.sonde, self.folder, self.path, self.started = sonde, folder, folder / "gate", []

    def run(self, *command, **options):
        running = Running(command, self.folder, f"program-{len(self.started)}", **options)
        self.started.append(running)
        return running

    def record(self, pids, has_fired, *arguments, event=FIRED):
        """Records the event in the processes `pids` from before the gate opens until has_fired(); the Profile."""
        return self.record_all(pids, has_fired, "--event", event, *arguments)

    def record_all(self, pids, has_fired, *arguments):
        """The same for the processes selected by the arguments."""
        ready, write = os.pipe()
        output = self.folder / f"recording-{len(self.started)}.pb.gz"
        of_pids = [word for pid in pids for word in ("-p", pid)]
        try:
            running = self.run(self.sonde, "record", "--ready-fd", write, "-o", output, *of_pids, *arguments, pass_fds=[write])
            os.close(write)
            recording = Recording(running, ready, output)
        finally:
            os.close(ready)
        self.path.touch()
        wait_for(has_fired, 120, "what the programs do behind the gate", [r.error[-300:] for r in self.started])
        return recording.finish()


@contextlib.contextmanager
def gated_programs(sonde, folder):
    gated = Gated(sonde, folder)
    try:
        yield gated
    finally:
        for running in gated.started:
            running.kill()


@pytest.fixture
def gated(sonde, tmp_path):
    """A Gated whose programs end with the test."""
    with gated_programs(sonde, tmp_path) as programs:
        yield programs
