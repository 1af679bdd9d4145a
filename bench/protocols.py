"""The row `protocols`: what a busy server loses while `sonde up` observes it, for each protocol.

All servers run throughout, on the first CPU; one at a time gets requests, from the second CPU. All are measured without the agent, with it, without it, and so on:
each result with it is compared with those before and after it, which cancels drift. The agent has its default configuration, but no limit of CPU time, because it
would reduce at saturation what is measured here."""
import subprocess
import time
from argparse import Namespace
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median

import measure
import packages
import servers

CONNECTIONS = 16
HTTP2_PORT, TLS_PORT, GRPC_PORT, REDIS_PORT, UVICORN_PORT, NODE_PORT, MLSERVER_PORT = range(servers.PORT + 1, servers.PORT + 8)
UNLIMITED = ("--set", "budget.one_cpu=1000%")
SETTLES_S = 5


@dataclass
class Case:
    """A server under load; `lost`: the largest loss of requests a second that is allowed, in percent. `missing`: why it cannot be measured."""
    name: str
    lost: float
    load: servers.Load = None
    missing: str = ""


@contextmanager
def nginx(folder):
    """Its case for each protocol."""
    certificate = folder / "certificate.pem"
    servers.programs.make_certificate(certificate)
    listens = f"listen 127.0.0.1:{HTTP2_PORT} http2; listen 127.0.0.1:{TLS_PORT} ssl; ssl_certificate {certificate}; ssl_certificate_key {certificate};"
    with servers.running_nginx(folder, listens) as server:
        yield [Case(name, lost, servers.Load([server.pid], command)) for name, lost, command in (
            ("HTTP/2, nginx", 10, servers.h2load(CONNECTIONS, f"http://127.0.0.1:{HTTP2_PORT}/")),
            ("HTTP/1 over TLS, nginx", 15, servers.wrk(CONNECTIONS, f"https://127.0.0.1:{TLS_PORT}/")),
            ("HTTP/1, nginx", 7, servers.wrk(CONNECTIONS, f"http://127.0.0.1:{servers.PORT}/")))]


@contextmanager
def grpc(folder):
    message = folder / "message"
    message.write_bytes(b"\0\0\0\0\5hello")
    with measure.running("taskset", "-c", "0", packages.go_program("grpc_go"), "serve", GRPC_PORT) as server:
        if not measure.wait_until(lambda: servers.accepts(GRPC_PORT), 10):
            raise RuntimeError("the gRPC server does not listen")
        yield servers.Load([server.pid], servers.h2load(CONNECTIONS, f"http://127.0.0.1:{GRPC_PORT}/test.Service/Echo", "-d", message,
                                                        "-H", "content-type: application/grpc", "-H", "te: trailers"))


def of_causes(server, port):
    return lambda folder: servers.of_causes(server, folder, CONNECTIONS, Namespace(), port)


OTHERS = (("gRPC, grpc-go", 5, grpc), ("Redis", 4, lambda folder: servers.redis(folder, CONNECTIONS, REDIS_PORT)), ("HTTP/1, uvicorn", 1, of_causes("uvicorn", UVICORN_PORT)),
          ("HTTP/1, Node", 4, of_causes("node", NODE_PORT)), ("HTTP/1, MLServer", 1, of_causes("mlserver", MLSERVER_PORT)))


@contextmanager
def cases(folder):
    """The cases, whose servers run until the end of the block."""
    with ExitStack() as stack:
        found = stack.enter_context(nginx(folder))
        for number, (name, lost, start) in enumerate(OTHERS):
            at = folder / str(number)
            at.mkdir()
            try:
                found.append(Case(name, lost, stack.enter_context(start(at))))
            except packages.Missing as missing:
                found.append(Case(name, lost, missing=str(missing)))
        yield found


def server_cpu_ns(load):
    return sum(map(measure.clock_of, load.pids))


def busy(load, seconds):
    """(requests a second, the server's CPU per request in us)"""
    before = server_cpu_ns(load)
    requests, rate = load.run(seconds)
    return rate, (server_cpu_ns(load) - before) / requests / 1000


def tls_pair_ns(program):
    """A server's SSL_read and SSL_write of a request (request_path.c)."""
    return float(subprocess.run(["taskset", "-c", "0", program, "500", "tls"], capture_output=True, text=True, check=True).stdout)


def is_reading_tls(port):
    metrics = measure.get(port, "/metrics") or ""
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line.startswith("sonde_requests_tls_attachments"))
    return float(values.get("sonde_requests_tls_attachments", 0)) > 0 and float(values.get("sonde_requests_tls_attachments_waiting", 1)) == 0


@contextmanager
def observed(start_agent):
    observer, port = start_agent(*UNLIMITED)
    with observer:
        if not observer.until(lambda: is_reading_tls(port), 60):
            raise RuntimeError("the agent does not read TLS")
        time.sleep(SETTLES_S)
        yield
        observer.stop()


def in_turn(start_agent, measured, rounds):
    """[(result before, result with the agent, result after)] of `measured` for each round."""
    before, found = measured(), []
    for _ in range(rounds):
        with observed(start_agent):
            during = measured()
        after = measured()
        found.append((before, during, after))
        before = after
    return found


def compare(start_agent, folder, seconds, rounds):
    """[(case, Change of the requests a second, Change of the server's CPU per request)]; the changes of a case that is missing are None. And the Change of the time of
    a pair of TLS calls."""
    program = measure.compile_program("request_path.c", folder, "-lssl", "-lcrypto")
    with measure.bpf_statistics(False), cases(folder) as found:
        loads = {case.name: case.load for case in found if case.load}
        for load in loads.values():
            load.run(1)  # warms up
        results = in_turn(start_agent, lambda: {name: busy(load, seconds) for name, load in loads.items()} | {"pair": (tls_pair_ns(program), 0)}, rounds)

    def change(name, what):
        return Change([[one[name][what] for one in round] for round in results])
    return [(case, change(case.name, 0), change(case.name, 1)) if case.load else (case, None, None) for case in found], change("pair", 0)


class Change:
    """Results in the order (before, with the agent, after), for each round."""

    def __init__(self, rounds):
        self.without = median((before + after) / 2 for before, _, after in rounds)
        self.observed = median(during for _, during, _ in rounds)
        self.ratios = sorted(2 * during / (before + after) for before, during, after in rounds)
        self.added = median(during - (before + after) / 2 for before, during, after in rounds)

    @property
    def ratio(self):
        return median(self.ratios)

    def spread(self):
        return f"{self.ratios[0] - 1:+.1%} to {self.ratios[-1] - 1:+.1%}"
