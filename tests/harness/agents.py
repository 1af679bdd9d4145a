"""A running agent and its page."""
import gzip
import signal
import time

import pytest

from harness.machine import free_port
from harness.processes import bpf_objects, resident_bytes, wait_for


class Agent:
    """A running `sonde up` or `sonde agent` and its page."""

    def __init__(self, running, port):
        self.running, self.port, self.pid = running, port, running.pid

    def get(self, path, headers=None, timeout_s=10):
        """(status, headers, body) of a GET; does not follow redirects. Asks again where the page has no room for another connection."""
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
        """The sum over all series of a name that carry the labels; 0 when there is none."""
        total = 0
        for key, value in self.metrics().items():
            base, _, rest = key.partition("{")
            if base == name and all(f'{label}="{wanted}"' in rest for label, wanted in labels.items()):
                total += value
        return total

    def used_bytes(self):
        """As the kernel says; but of unwinding tables, which lie in maps inside of a map, only the agent can."""
        return resident_bytes(self.pid)[0] + sum(bpf_objects(self.pid).values()) + self.metric("sonde_self_unwind_table_bytes")

    def stop(self, signal_number=signal.SIGTERM):
        return self.running.stop(signal_number)


@pytest.fixture
def agent(sonde, run, root):
    """agent(arguments..., verb="up", environment=...) starts the agent on a free port and waits until /healthz answers. One that still
    runs when the test ends has to end well."""
    all_started = []

    def start(*arguments, verb="up", wait=True, **options):
        number = free_port()
        listen = ["--listen", f"127.0.0.1:{number}"]
        started = Agent(run(sonde, verb, *listen, *arguments, name=f"sonde-{number}", **options), number)
        if wait:
            def healthy():
                assert started.running.alive, f"sonde {verb} ended: {started.running.error[-3000:]}"
                try:
                    return started.get("/healthz", timeout_s=5)[0] == 200
                except OSError:
                    return False
            wait_for(healthy, 30, "/healthz to answer")
        all_started.append(started)
        return started
    yield start
    for started in all_started:
        if started.running.alive:
            assert started.stop() == 0, started.running.error[-3000:]
        assert "Sanitizer" not in started.running.error, started.running.error[-6000:]
