"""The centre when something fails: kill -9 of both processes, a full disk, a damaged one, and two servers in one directory."""
import http.client
import os
import random
import signal
import subprocess
import threading
import time

import pytest
from centre import LISTEN, engine_library, request, server, span, start_server  # noqa: F401 (fixture)
from file_systems import file_system  # noqa: F401 (fixture)
from harness.processes import wait_for

TRACES = "trace.v1.TraceService"
RESOURCE_EXHAUSTED = 8


class Senders:
    """Threads that send batches of spans with numbers of their own, every other one by gRPC, and send a batch again until it is acknowledged, whatever
    happens to the server."""

    def __init__(self, count, server):
        self.acknowledged, self.ends, self.server = [set() for _ in range(count)], threading.Event(), server
        self.threads = [threading.Thread(target=self.send, args=(index,)) for index in range(count)]
        for thread in self.threads:
            thread.start()

    def send(self, index):
        for batch in range(1, 1_000_000):
            numbers = [index << 40 | batch << 8 | i for i in range(1, 21)]
            packet = request([span(number) for number in numbers])
            while not self.deliver(packet, by_grpc=index % 2):
                time.sleep(0.01)
            self.acknowledged[index].update(numbers)
            if batch % 8 == 0:
                self.deliver(packet, by_grpc=(index + 1) % 2)  # again, as a client whose answer was lost, and by the other protocol
            if self.ends.is_set():
                return

    def deliver(self, packet, by_grpc):
        try:
            return self.server.call(TRACES, packet)[0] == 0 if by_grpc else self.server.post("/v1/traces", packet)[0] == 200
        except (OSError, http.client.HTTPException, AssertionError):  # no connection, or an answer that was cut
            return False

    def finish(self):
        self.ends.set()
        for thread in self.threads:
            thread.join(60)
        return sum(map(len, self.acknowledged))


@pytest.mark.parametrize("turns", [8, pytest.param(200, marks=pytest.mark.statistical)])
def test_kills_lose_and_repeat_nothing(server, turns):  # noqa: F811
    """kill -9 of the server and of the engine, in turn, while batches come in."""
    kills = random.Random(1)
    one = server()
    senders = Senders(4, one)
    for turn in range(turns):
        time.sleep(kills.uniform(0.3, 1.6))
        if turn % 2:
            pid = wait_for(one.engine_pid, 30, "the engine")
            os.kill(pid, signal.SIGKILL)
        else:
            os.kill(one.running.pid, signal.SIGKILL)
            wait_for(lambda: not one.running.alive, 10, "the end of the server")
            one = senders.server = server()
    total = senders.finish()
    assert total > 1000
    one.await_value("SELECT count(), uniqExact(TraceId) FROM otel_traces", f"{total}\t{total}", 120)


def fill(path):
    """Writes a file until the disk has no space."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def test_full_disk_is_back_pressure(run, sonde, file_system):  # noqa: F811
    """Batches are refused, questions are answered; with space again, nothing that was acknowledged is missing or there twice."""
    place, library = file_system("tmpfs"), engine_library()
    one = start_server(run, sonde, place / "data", library=library)
    one.await_value("SELECT 1", "1")
    batches = [request([span(number << 8 | i, "x" * 1000) for i in range(1, 201)]) for number in range(1, 61)]
    acknowledged = [one.post("/v1/traces", batch)[0] == 200 for batch in batches[:20]]
    assert all(acknowledged)
    fill(place / "filler")
    by_http = [one.post("/v1/traces", batch)[0] for batch in batches[20:40]]
    by_grpc = [one.call(TRACES, batch)[0] for batch in batches[40:]]
    assert 503 in by_http and RESOURCE_EXHAUSTED in by_grpc and set(by_http) <= {200, 503} and set(by_grpc) <= {0, RESOURCE_EXHAUSTED}
    assert one.value("SELECT 1") == "1"
    (place / "filler").unlink()
    for batch in batches:
        wait_for(lambda: one.post("/v1/traces", batch)[0] == 200, 20, "an acknowledgement", one.running.error)
    one.await_value("SELECT count(), uniqExact(TraceId) FROM otel_traces", "12000\t12000", 60)
    assert one.running.stop() == 0


def test_second_server_is_refused(server, sonde, tmp_path):  # noqa: F811
    server()
    library = engine_library()
    done = subprocess.run([sonde, "server", "--data", tmp_path / "data", "--engine", library, *LISTEN], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "another sonde server uses" in done.stderr


def test_damaged_segment_is_kept(server, tmp_path):  # noqa: F811
    """Its good batches are inserted, the others are reported."""
    one = server()
    one.await_value("SELECT 1", "1")
    os.kill(one.engine_pid(), signal.SIGSTOP)

    def segments():
        return sorted((tmp_path / "data" / "spool").glob("*.segment"))
    assert one.post("/v1/traces", request([span(3)]))[0] == 200
    first, = segments()
    wait_for(lambda: time.time_ns() - int(first.stem, 16) > 3 * 10**9, 10, "the first segment's way to the engine, which does not answer")
    for number in (1, 2):
        assert one.post("/v1/traces", request([span(number)]))[0] == 200
    file = segments()[1]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    os.kill(one.engine_pid(), signal.SIGCONT)
    wait_for(lambda: "damaged on disk: 1 of its 2 rows" in one.running.error, 30, "the report", one.running.error)
    wait_for(file.with_suffix(".refused").exists, 10, "the file that is kept")
    assert one.value("SELECT count() FROM otel_traces") == "2"
