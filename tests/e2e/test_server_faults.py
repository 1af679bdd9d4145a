"""The centre when something fails: kill -9 of both processes, a full disk, a damaged one, and two servers in one directory."""
import contextlib
import http.client
import os
import random
import signal
import subprocess
import threading
import time

import pytest
from centre import LISTEN, engine_library, request, run_in_engine, server, span, start_server  # noqa: F401 (fixture)
from file_systems import file_system  # noqa: F401 (fixture)
from harness.processes import wait_for

TRACES = "trace.v1.TraceService"
RESOURCE_EXHAUSTED = 8


class Senders:
    """Threads that send batches of spans with numbers of their own, every other one by gRPC, and send a batch again until it is acknowledged, whatever
    happens to the server."""

    def __init__(self, count, server, name="GET /"):
        self.acknowledged, self.ends, self.server, self.name = [set() for _ in range(count)], threading.Event(), server, name
        self.threads = [threading.Thread(target=self.send, args=(index,)) for index in range(count)]
        for thread in self.threads:
            thread.start()

    def send(self, index):
        for batch in range(1, 1_000_000):
            numbers = [index << 40 | batch << 8 | i for i in range(1, 21)]
            packet = request([span(number, self.name) for number in numbers])
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


def test_repeated_insertion_inserts_what_is_missing(server, tmp_path):  # noqa: F811
    """A crash of the engine between the parts of two days, before the spool learns of the first: the segment's rows of the other day only are inserted."""
    one, day_s = server(), 86400
    one.await_value("SELECT 1", "1")
    yesterday = time.gmtime(time.time() - day_s)
    os.kill(one.engine_pid(), signal.SIGSTOP)
    spans = [span(1), span(2), span(3, start_ns=time.time_ns() - day_s * 10**9)]
    assert one.post("/v1/traces", request(spans))[0] == 200
    segment, = (tmp_path / "data/spool").glob("*.segment")
    kept = segment.read_bytes()
    os.kill(one.engine_pid(), signal.SIGCONT)
    wait_for(lambda: not segment.exists(), 30, "the insertion", one.running.error)
    assert one.value("SELECT count() FROM otel_traces") == "3"
    assert one.running.stop() == 0
    run_in_engine(tmp_path / "data", f"ALTER TABLE otel.otel_traces DROP PARTITION '{time.strftime('%Y-%m-%d', yesterday)}'")
    segment.with_suffix(".begun").write_bytes(bytes(8))  # no part before the insertion
    segment.write_bytes(kept)
    again = server()
    wait_for(lambda: not segment.exists(), 30, "the insertion", again.running.error)
    assert again.value("SELECT count(), uniqExact(TraceId) FROM otel_traces") == "3\t3"
    assert not segment.with_suffix(".begun").exists()


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


def test_full_disk_can_be_read_after_a_start(run, sonde, file_system):  # noqa: F811
    """A start of the server, or of its engine, writes nothing that it has written before: a cut definition of a table would be the end of its rows."""
    place, library = file_system("tmpfs"), engine_library()
    one = start_server(run, sonde, place / "data", library=library)
    assert one.post("/v1/traces", request([span(1)]))[0] == 200
    one.await_value("SELECT count() FROM requests", "1")
    assert one.running.stop() == 0
    fill(place / "filler")
    again = start_server(run, sonde, place / "data", library=library, number=1)
    again.await_value("SELECT count() FROM requests", "1")
    os.kill(again.engine_pid(), signal.SIGKILL)
    again.await_value("SELECT count() FROM requests", "1")
    assert again.post("/v1/traces", request([span(2)]))[0] == 503
    (place / "filler").unlink()
    assert again.post("/v1/traces", request([span(2)]))[0] == 200
    again.await_value("SELECT count() FROM requests", "2")
    assert again.running.stop() == 0


class Filler(threading.Thread):
    """Fills the disk, frees a little of it at a time, and frees all, again and again, so that it is full at each place where the server and the engine write."""

    def __init__(self, path):
        super().__init__()
        self.path, self.ends, self.turns, self.pauses = path, threading.Event(), 0, random.Random(1)
        self.start()

    def run(self):
        while not self.ends.is_set():
            fill(self.path)
            for _ in range(20):
                with contextlib.suppress(OSError):
                    os.truncate(self.path, max(0, self.path.stat().st_size - self.pauses.randrange(4096, 200_000)))
                time.sleep(self.pauses.uniform(0, 0.05))
            self.path.unlink()
            self.turns += 1
            time.sleep(self.pauses.uniform(0.1, 0.6))

    def finish(self):
        self.ends.set()
        self.join(60)


@pytest.mark.thorough
def test_disk_that_fills_again_and_again_loses_nothing(run, sonde, file_system):  # noqa: F811
    """The engine's library does not notice that its writes fail: without engine_files.c, it has parts without data after a few turns."""
    place, library = file_system("tmpfs"), engine_library()
    one = start_server(run, sonde, place / "data", library=library)
    one.await_value("SELECT 1", "1")
    senders, filler = Senders(2, one, "x" * 2000), Filler(place / "filler")
    wait_for(lambda: filler.turns == 20, 120, "turns", one.running.error)
    filler.finish()
    total = senders.finish()
    assert total > 1000
    one.await_value("SELECT count(), uniqExact(TraceId) FROM otel_traces", f"{total}\t{total}", 120)
    empty = [path for path in (place / "data/engine/store").glob("*/*/2*_*_*_*/checksums.txt") if path.stat().st_size == 0]
    assert not empty
    assert one.running.stop() == 0


def test_damaged_part_is_reported(server, tmp_path):  # noqa: F811
    """The server starts without its rows, and says so."""
    one = server()
    assert one.post("/v1/traces", request([span(1)]))[0] == 200
    one.await_value("SELECT count() FROM otel_traces", "1")
    assert one.running.stop() == 0
    columns, = (tmp_path / "data/engine/store").glob("*/*/2*_*_*_*/columns.txt")
    columns.write_bytes(b"")
    again = server()
    again.await_value("SELECT count() FROM otel_traces", "0")
    assert f"set aside 1 parts of tables, such as otel_traces/broken-on-start_{columns.parent.name}, that were damaged" in again.running.error


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
