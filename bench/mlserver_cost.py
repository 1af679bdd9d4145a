#!/usr/bin/env python3
"""CPU time per request, over all of the server's processes, that the inference provider costs MLServer while no tracer is attached.

    bench/mlserver_cost.py ENVIRONMENT PACKAGE [--starts N] [--seconds N] [--requests N] [--control]

ENVIRONMENT: a virtual environment with MLServer (tests/e2e/test_mlserver.py creates build/mlserver); PACKAGE: a directory with our wheel unpacked.
Two servers with the same settings differ by more than the effect, because of memory layout. So there is one server with one worker: the provider is
removed and restored in it (mlserver_switch.py), in the order in - out - out - in and then reversed, a few requests each time: other load on the
machine affects both. The request medians of four such rounds give one data point, the logarithm of their ratio in hundredths; the server is restarted
several times for different memory layouts. Reported are the mean of the data points without the highest and the lowest tenth, which excludes
disturbances, and its bootstrap interval. --control: instead of leaving the provider out, removes and restores it, so that no effect is
expected."""
import argparse
import http.client
import json
import math
import os
import random
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from measure import children_of, clock_of

TOP = Path(__file__).resolve().parent.parent
BODY = json.dumps({"inputs": [{"name": "in", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 2.0]}]})
START_SECONDS, WARM, RESAMPLES, TRIM = 90, 300, 4000, 0.1


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Server:
    """Main process and one worker, both with the provider."""

    def __init__(self, options, folder):
        ports, model = free_ports(3), folder / "models/echo"
        model.mkdir(parents=True)
        (model.parent / "settings.json").write_text(json.dumps({
            "host": "127.0.0.1", "http_port": ports[0], "grpc_port": ports[1], "metrics_port": ports[2], "parallel_workers": 1, "debug": False,
            "model_repository_implementation": "mlserver_switch.repository"}))
        (model / "model-settings.json").write_text(json.dumps({"name": "echo", "implementation": "mlserver_model.Echo"}))
        self.log, self.switched = folder / "log", folder / "switched"
        self.switched.touch()
        environment = {"PYTHONPATH": f"{options.package.resolve()}:{TOP}/bench:{TOP}/tests/e2e", "PATH": "/usr/bin:/bin",
                       "PYTHONDONTWRITEBYTECODE": "1", "MLSERVER_SWITCH": str(self.switched)}
        commands = options.environment.resolve() / "bin"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([commands / "python", commands / "mlserver", "start", model.parent], cwd=folder, env=environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.connection = http.client.HTTPConnection("127.0.0.1", ports[0], timeout=60)
        self.is_in = True

    def fail(self, what):
        raise SystemExit(f"MLServer {what}: {self.log.read_text()[-2000:]}")

    def wait(self):
        ends = time.monotonic() + START_SECONDS
        while True:
            try:
                if self.ask() == 200:
                    break
            except OSError:
                self.connection.close()
            if self.process.poll() is not None or time.monotonic() > ends:
                self.fail("did not start")
            time.sleep(0.1)
        self.all = [self.process.pid, *children_of(self.process.pid)]
        self.providers = [pid for pid in self.all if "memfd:mlserver" in Path(f"/proc/{pid}/maps").read_text()]
        if len(self.providers) != 2:
            self.fail("has no provider")

    def ask(self):
        self.connection.request("POST", "/v2/models/echo/infer", BODY, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        answer.read()
        return answer.status

    def switch(self):
        """Switches both processes and waits until they have confirmed it."""
        size = self.switched.stat().st_size
        for pid in self.providers:
            os.kill(pid, signal.SIGUSR2)
        ends = time.monotonic() + 30
        while self.switched.stat().st_size < size + len(self.providers):
            if time.monotonic() > ends:
                self.fail("does not switch")
            time.sleep(0.001)
        self.is_in = not self.is_in
        if self.switched.read_bytes()[size:] != (b"11" if self.is_in else b"00"):
            self.fail("has not switched all")

    def costs_ns(self, requests):
        """CPU time of all its processes from one response to the next; the first request, with cold caches, is not counted."""
        found, before = [], 0
        for _ in range(requests + 1):
            if self.ask() != 200:
                self.fail("refuses")
            now = sum(map(clock_of, self.all))
            found.append(now - before)
            before = now
        return found[1:]

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def data_points(server, options):
    """[(median CPU nanoseconds per request with the provider in, and out)], one pair per four rounds."""
    found, ends = [], time.monotonic() + options.seconds
    while time.monotonic() < ends:
        spent = {True: [], False: []}
        for is_in in (True, False, False, True) if len(found) % 2 == 0 else (False, True, True, False):
            # One or two signals, so that each round follows a switch.
            for _ in range(2 if options.control or is_in == server.is_in else 1):
                server.switch()
            spent[is_in] += server.costs_ns(options.requests)
        found.append([statistics.median(spent[is_in]) for is_in in (True, False)])
    return found


def trimmed_mean(values):
    cut = int(len(values) * TRIM)
    return statistics.fmean(sorted(values)[cut:len(values) - cut])


def interval(values):
    """The 95 % bootstrap interval."""
    chance = random.Random(1)
    means = sorted(trimmed_mean(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path)
    parser.add_argument("package", type=Path)
    parser.add_argument("--starts", type=int, default=4, help="of the server (4)")
    parser.add_argument("--seconds", type=int, default=120, help="after each (120)")
    parser.add_argument("--requests", type=int, default=4, help="in a round (4)")
    parser.add_argument("--control", action="store_true", help="always in")
    options = parser.parse_args()
    more = []
    for number in range(options.starts):
        with tempfile.TemporaryDirectory(prefix="sonde-mlserver-") as place:
            server = Server(options, Path(place))
            try:
                server.wait()
                for _ in range(WARM):
                    server.ask()
                found = data_points(server, options)
            finally:
                server.end()
        ours, theirs = (statistics.median(column) / 1000 for column in zip(*found))
        more += [100 * math.log(with_it / without) for with_it, without in found]  # a mean of ratios would be biased upwards
        print(f"start {number + 1}: {len(found)} figures, medians {ours:.1f} us of CPU a request with, {theirs:.1f} us without", flush=True)
    low, high = interval(more)
    print(f"{'control: ' if options.control else ''}{trimmed_mean(more):+.2f} % of CPU a request, 95 % interval {low:+.2f} to {high:+.2f} %, median "
          f"{statistics.median(more):+.2f} %; {len(more)} figures of {4 * options.requests} requests, their standard deviation {statistics.stdev(more):.1f} %; load "
          f"{os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
