"""Recordings shared by the tests of a module."""
import os
import signal

from harness.processes import Running
from harness.recording import Recording
from harness.workloads import Workload


class Stage:
    """Programs and recordings in a folder; all end with close(). `with Stage(sonde, folder) as stage: ...`"""

    def __init__(self, sonde, folder):
        self.sonde, self.folder, self.started = sonde, folder, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for running in self.started:
            running.kill()

    def run(self, *command, **options):
        running = Running(command, self.folder, f"program-{len(self.started)}", **options)
        self.started.append(running)
        return running

    def workload(self, *command, **options):
        return Workload(self.run(*command, **options))

    def record(self, *arguments, output="live.folded"):
        """A running `sonde record` that has started counting."""
        ready, write = os.pipe()
        try:
            running = self.run(self.sonde, "record", "--ready-fd", write, "-o", self.folder / output, *arguments, pass_fds=[write])
            os.close(write)
            return Recording(running, ready, self.folder / output)
        finally:
            os.close(ready)

    @staticmethod
    def end(recording):
        """As Ctrl-C does."""
        assert recording.running.stop(signal.SIGINT, 120) == 0, recording.running.error
