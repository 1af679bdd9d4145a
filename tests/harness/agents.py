"""A running agent and its page."""
import gzip
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest

from harness.machine import need_root
from harness.processes import bpf_objects, programs, resident_bytes


# An agent that does not observe requests starts in half the time.
NO_REQUESTS = ("--set", "requests.enabled=false", "--set", "recorder.enabled=false")


def everything_enabled(sonde):
    """Options of `sonde up` that enable each signal, whichever there are."""
    printed, section, options = subprocess.run([sonde, "up", "--print-config"], check=True, capture_output=True, text=True).stdout, None, []
    for line in printed.splitlines():
        section = line.rstrip(":") if not line.startswith(" ") else section
        options += ["--set", f"{section}.enabled=true"] if line.startswith("  enabled:") else []
    return options


class Agent:
    """A running `sonde up` or `sonde agent` and its page."""

    def __init__(self, running, port):
        self.running, self.port, self.pid = running, port, running.pid

    def get(self, path, headers=None, timeout_s=10):
        """(status, headers, body) of a GET; does not follow redirects. Retries when the server is at its connection limit."""
        import http.client
        ends = time.monotonic() + 30
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
            try:
                connection.request("GET", path, headers=headers or {})
                reply = connection.getresponse()
                body = reply.read()
                break
            except ConnectionResetError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.05)
            finally:
                connection.close()
        if reply.getheader("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        return reply.status, dict(reply.getheaders()), body

    def text(self, path):
        status, _, body = self.get(path)
        assert status == 200, f"GET {path}: {status} {body[:300]!r}"
        return body.decode()

    def metrics(self):
        """{"name{labels}": value} of /metrics."""
        found = {}
        for line in self.text("/metrics").splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found

    def metric(self, name, **labels):
        """The sum over all series of a name with these labels; 0 if no series matches."""
        total = 0
        for key, value in self.metrics().items():
            base, _, rest = key.partition("{")
            if base == name and all(f'{label}="{wanted}"' in rest for label, wanted in labels.items()):
                total += value
        return total

    def used_bytes(self):
        """As reported by the kernel, except for unwind tables: they are in inner maps, which only the agent can count."""
        return resident_bytes(self.pid)[0] + sum(bpf_objects(self.pid).values()) + self.metric("sonde_self_unwind_table_bytes")

    def stop(self, signal_number=signal.SIGTERM):
        return self.running.stop(signal_number)


@contextmanager
def agents(sonde, run):
    """A function that starts agents by `run`; one that still runs at the end must exit cleanly."""
    all_started = []

    def start(*arguments, verb="up", wait=True, pass_fds=(), **options):
        ready, write = os.pipe()
        running = run(sonde, verb, "--listen", "127.0.0.1:0", "--set", "page.socket=none", "--ready-fd", write, *arguments, name=f"sonde-{len(all_started)}",
                      pass_fds=[write, *pass_fds], **options)
        os.close(write)
        with os.fdopen(ready) as reader:
            line = reader.readline() if wait else ""  # end of file when it has exited
        assert line == "ready\n" or not wait, f"sonde {verb} ended: {running.error[-3000:]}"
        started = Agent(running, int(re.search(r"http://127\.0\.0\.1:(\d+)/", running.out)[1]) if wait else None)
        all_started.append(started)
        return started
    yield start
    for started in all_started:
        if started.running.alive:
            assert started.stop() == 0, started.running.error[-3000:]
        assert "Sanitizer" not in started.running.error, started.running.error[-6000:]


@pytest.fixture
def agent(sonde, run, root):
    """agent(arguments..., verb="up", environment=...) starts the agent on a free port and waits until it is ready (--ready-fd): it answers and
    counts. An agent still running when the test ends must exit cleanly. wait=False: does not wait; the agent has no port then."""
    with agents(sonde, run) as start:
        yield start


@pytest.fixture(scope="module")
def module_agent(sonde, tmp_path_factory):
    """As `agent`, for an agent that the tests of a module share: each must check only its own effects."""
    need_root()
    with programs(tmp_path_factory.mktemp("agent")) as run, agents(sonde, run) as start:
        yield start
