"""What the centre, `sonde server`, takes, keeps and answers: OTLP from simulated agents over HTTP, on the same CPUs as the server.

Spans have ten attributes, profiles the shape of an agent's: 97 Hz, stacks of 24 frames, a few of them hot. Packets are made once; times, ids and one
attribute are new in each one that is sent. The Collector with its ClickHouse exporter is no peer here: it needs a current ClickHouse server, and Debian has 18.16."""
import http.client
import multiprocessing
import os
import random
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import quote

import measure
import numpy
import packages
from harness.machine import free_port
from centre import PLACES, TOP, field, fixed64, pair, request, span, varint

AGENTS = 20
SECOND, HOUR = 10**9, 3600 * 10**9
SPANS, POINTS = 500, 1000  # of a packet
START = 0x1112131415161718  # where a time belongs
SERVICES = ("shop", "front", "stock", "payment", "search")
PACE_S = 1.0  # between packets of a sender while queries are measured
ASKED = 15  # times each query
CONNECTIONS = 4


class Template:
    """A packet of one agent, and the places in it that change: fill(now_ns) returns the next one."""

    def __init__(self, path, body, count, seed):
        self.path, self.count, self.random = path, count, numpy.random.default_rng(seed)
        self.body = numpy.frombuffer(bytearray(body), numpy.uint8)

    def put(self, places, values):
        """Writes values of a fixed size at these places."""
        parts = values.view(numpy.uint8).reshape(len(places), -1)
        self.body[places[:, None] + numpy.arange(parts.shape[1])] = parts


class Spans(Template):
    def __init__(self, agent):
        numbers = [0xA5A5A5A5 << 32 | i for i in range(1, SPANS + 1)]
        body, places, at = request([self.one(number, i) for i, number in enumerate(numbers)], SERVICES[agent % 5], f"node-{agent}"), [], 0
        for number in numbers:
            trace = body.index(number.to_bytes(16, "big"), at)
            at = body.index(START.to_bytes(8, "little"), trace)
            places.append((trace, body.index(number.to_bytes(8, "big"), trace + 16), at, at + 9, body.index(b"customer-id-", at) + 12))
        super().__init__("/v1/traces", body, SPANS, agent)
        self.places = numpy.array(places).T

    def one(self, number, i):
        route = f"/{SERVICES[i % 5]}/{i % 17}"
        return span(number, f"GET {route}", START, 0, **{
            "http.request.method": "GET", "http.route": route, "http.response.status_code": 500 if i % 50 == 0 else 200, "url.path": f"{route}/{i}",
            "server.address": f"10.0.{i % 7}.1", "client.address": f"10.1.{i % 11}.{i % 200}", "user_agent.original": "Mozilla/5.0 (X11; Linux x86_64)",
            "network.protocol.version": "1.1", "thread.id": i % 64, "customer.id": "customer-id-0000000000000000"})

    def fill(self, now_ns):
        trace, one, start, end, customer = self.places
        self.ids = self.random.bytes(24 * SPANS)
        ids = numpy.frombuffer(self.ids, numpy.uint8).reshape(SPANS, 24)
        begins = numpy.uint64(now_ns) + numpy.arange(SPANS, dtype=numpy.uint64) * numpy.uint64(1000)
        self.put(trace, ids[:, :16].copy())
        self.put(one, ids[:, 16:].copy())
        self.put(start, begins)
        self.put(end, begins + self.random.lognormal(16, 1, SPANS).astype(numpy.uint64))
        self.put(customer, numpy.frombuffer(self.ids[:8 * SPANS].hex().encode(), numpy.uint8))
        return self.body.tobytes()

    def last_ids(self):
        """A trace's id and its customer, as SQL has them."""
        return self.ids[:16].hex(), "customer-id-" + self.ids[:8].hex()


def profile_packet(groups, time_ns, host):
    """A request of profiles of (service, functions, thread, number of samples), whose samples all have this time."""
    names = sorted({name for _, stack, _, _ in groups for name in stack})
    threads, stacks = sorted({thread for _, _, thread, _ in groups}), sorted({stack for _, stack, _, _ in groups})
    strings = ["", "samples", "count", "cpu", "nanoseconds", "thread.id", "thread.name", *names]
    index = {name: i + 1 for i, name in enumerate(names)}
    tables = [field(1, b""), field(2, b""), *(field(2, field(3, field(1, i + 1))) for i in range(len(names))), field(3, b""),
              *(field(3, field(1, i + 7)) for i in range(len(names))), field(4, b""), *(field(5, text) for text in strings), field(6, b""),
              *(field(6, field(1, 5) + field(2, field(3, 1000 + thread))) + field(6, field(1, 6) + field(2, field(1, f"worker-{thread % 3}"))) for thread in threads),
              field(7, b""), *(field(7, field(1, b"".join(varint(index[name]) for name in stack))) for stack in stacks)]
    packet = b""
    for service in SERVICES:
        samples = b"".join(field(2, field(1, stacks.index(stack) + 1) + field(2, varint(1 + 2 * threads.index(thread)) + varint(2 + 2 * threads.index(thread))) +
                                 field(5, time_ns.to_bytes(8, "little") * count)) for of, stack, thread, count in groups if of == service)
        about = field(1, field(1, 1) + field(2, 2)) + samples + field(5, field(1, 3) + field(2, 4)) + field(6, SECOND // 97)
        resource = field(1, pair("service.name", service)) + field(1, pair("host.name", host)) + field(1, pair("process.pid", 4000 + SERVICES.index(service)))
        packet += field(1, field(1, resource) + field(2, field(1, field(1, "sonde")) + field(2, about)))
    return packet + field(2, b"".join(tables))


class Profiles(Template):
    """Ten seconds of an agent's samples: 97 Hz of one CPU, of five services."""

    def __init__(self, agent):
        chosen = random.Random(agent)
        names = [f"function_{service}_{i}" for service in SERVICES for i in range(300)]
        groups = []  # (service, stack, thread, samples)
        for service in range(5):
            stacks = [tuple(names[service * 300 + chosen.randrange(300)] for _ in range(24)) for _ in range(60)]
            counts = {}
            for _ in range(194):
                key = stacks[min(int(chosen.expovariate(0.12)), 59)], chosen.randrange(8)
                counts[key] = counts.get(key, 0) + 1
            groups += [(SERVICES[service], stack, thread, count) for (stack, thread), count in counts.items()]
        body, places, at = profile_packet(groups, START, f"node-{agent}"), [], 0
        for *_, count in groups:
            at = body.index(START.to_bytes(8, "little") * count, at)
            places += range(at, at + 8 * count, 8)
            at += 8 * count
        super().__init__("/v1development/profiles", body, len(places), agent)
        self.places, self.group = numpy.array(places), numpy.repeat(numpy.arange(len(groups)), [count for *_, count in groups])

    def fill(self, now_ns):
        """Each group gets some of the ticks, in order, rounded as an agent does (otlp.timestamp_resolution)."""
        ticks = numpy.uint64(now_ns) + (numpy.arange(self.count) * (SECOND // 97) + self.random.integers(0, 20000, self.count)).astype(numpy.uint64)
        ticks = self.random.permutation(ticks >> numpy.uint64(20) << numpy.uint64(20))
        self.put(self.places, ticks[numpy.lexsort((ticks, self.group))])
        return self.body.tobytes()


class Points(Template):
    def __init__(self, agent):
        def metric(number):
            points = b"".join(field(1, fixed64(2, START + 1) + fixed64(3, START) + field(4, float(i)) + field(7, pair("http.route", f"/r/{i}")) + field(7, pair("state", "used")))
                              for i in range(POINTS // 50))
            return field(1, f"metric.{number}") + field(3, "By") + field(7, points + field(2, 2) + field(3, 1))
        body = request([metric(number) for number in range(50)], "sonde", f"node-{agent}")
        places, at = [], 0
        for _ in range(POINTS):
            at = body.index(START.to_bytes(8, "little"), at + 1)
            places.append((at - 9, at, at + 9))
        super().__init__("/v1/metrics", body, POINTS, agent)
        self.places, self.values = numpy.array(places).T, numpy.zeros(POINTS)

    def fill(self, now_ns):
        start, now, value = self.places
        self.values += self.random.integers(0, 3, POINTS)
        self.put(start, numpy.full(POINTS, now_ns - HOUR // 2, numpy.uint64))
        self.put(now, numpy.full(POINTS, now_ns, numpy.uint64))
        self.put(value, self.values)
        return self.body.tobytes()


def deliver(connection, path, body):
    """Sends a packet until it is acknowledged."""
    while True:
        connection.request("POST", path, body, {"Content-Type": "application/x-protobuf"})
        reply = connection.getresponse()
        text = reply.read()
        if reply.status == 200:
            return
        if reply.status != 503:
            raise measure.Ended(f"{path}: {reply.status} {text[:200]}")
        time.sleep(0.05)


def send(kind, port, first, start, seconds, spread_ns, pace_s, result):
    """A sender, in a process of its own: a quarter of the agents' packets in turn for so long, with times in the `spread_ns` before now."""
    templates = [kind(agent) for agent in range(first, AGENTS, CONNECTIONS)]
    connection, count, number = http.client.HTTPConnection("127.0.0.1", port, timeout=60), 0, 0
    start.wait()
    began = time.monotonic()
    while number == 0 or time.monotonic() < began + seconds:
        template = templates[number % len(templates)]
        back = int(template.random.integers(0, spread_ns)) if spread_ns else 0
        deliver(connection, template.path, template.fill(time.time_ns() - back - 20 * SECOND))
        count, number = count + template.count, number + 1
        if pace_s:
            time.sleep(pace_s)
    result.put((kind.__name__, count, time.monotonic() - began, template.last_ids() if kind is Spans else None))


@contextmanager
def sending(kinds, port, seconds, spread_ns=0, pace_s=0):
    """Sends meanwhile; the value becomes {kind: count}, "seconds" and "ids" at the end."""
    result, counts, start = multiprocessing.Queue(), {"ids": [], "seconds": 0}, multiprocessing.Barrier(CONNECTIONS * len(kinds) + 1)
    senders = [multiprocessing.Process(target=send, args=(kind, port, first, start, seconds, spread_ns, pace_s, result)) for kind in kinds for first in range(CONNECTIONS)]
    for sender in senders:
        sender.start()
    start.wait()
    yield counts
    for _ in senders:
        kind, count, took_s, ids = result.get(timeout=seconds + 120)
        counts[kind] = counts.get(kind, 0) + count
        counts["seconds"] = max(counts["seconds"], took_s)
        counts["ids"] += [ids] if ids else []
    for sender in senders:
        sender.join()


class Centre:
    """A running `sonde server`."""

    def __init__(self, sonde, folder):
        library = next((TOP / place for place in PLACES if place and (TOP / place).is_file()), None)
        if not library:
            raise packages.Missing("the engine's library is not installed: tools/install-engine build/engine")
        self.grpc_port, self.otlp_port, self.sql_port = ports = [free_port() for _ in range(3)]
        listen = [word for option, port in zip(("--grpc-listen", "--otlp-listen", "--listen"), ports) for word in (option, f"127.0.0.1:{port}")]
        ready, write = os.pipe()
        began = time.monotonic()
        self.process = subprocess.Popen([sonde, "server", "--data", folder, "--engine", library, *listen, "--ready-fd", str(write)], pass_fds=[write], stdout=subprocess.DEVNULL)
        os.close(write)
        os.read(ready, 16)
        os.close(ready)
        self.listens_s = time.monotonic() - began
        self.wait("SELECT 1", "1")
        self.answers_s = time.monotonic() - began

    def ask(self, sql):
        connection = http.client.HTTPConnection("127.0.0.1", self.sql_port, timeout=60)
        connection.request("GET", "/?query=" + quote(sql))
        reply = connection.getresponse()
        return reply.status, reply.read().decode().strip()

    def value(self, sql):
        status, text = self.ask(sql)
        if status != 200:
            raise measure.Ended(f"{sql}: {text[:300]}")
        return text

    def wait(self, sql, expected, timeout_s=120):
        ends = time.monotonic() + timeout_s
        while self.ask(sql)[1] != expected:
            if time.monotonic() > ends:
                raise measure.Ended(f"{sql} is {self.ask(sql)[1][:200]} and not {expected} after {timeout_s} s")
            time.sleep(0.05)

    def pids(self):
        return [self.process.pid, *measure.children_of(self.process.pid)]

    def anonymous_mib(self):
        total = 0
        for pid in self.pids():
            lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
            total += int(lines["RssAnon"].split()[0]) + int(lines["RssShmem"].split()[0])
        return total / 1024

    def bytes(self, tables):
        names = ", ".join(f"'{name}'" for name in tables)
        return int(self.value(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'otel' AND table IN ({names})"))

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


TABLES = {Spans: "otel_traces", Profiles: "profile_samples", Points: "otel_metrics_sum"}


def count_in_sql(one, kinds):
    return sum(int(one.value(f"SELECT count() FROM {TABLES[kind]}")) for kind in kinds)


def rate(one, kinds, seconds, spread_ns):
    """({kind: acknowledged a second}, rows a second until SQL has all of them, the counts)"""
    before = count_in_sql(one, kinds)
    with sending(kinds, one.otlp_port, seconds, spread_ns) as counts:
        began = time.monotonic()
    total = sum(counts[kind.__name__] for kind in kinds)
    while count_in_sql(one, kinds) < before + total:
        if time.monotonic() - began > seconds + 180:
            raise measure.Ended("SQL does not have all rows that were acknowledged")
        time.sleep(0.1)
    return {kind: counts[kind.__name__] / counts["seconds"] for kind in kinds}, total / (time.monotonic() - began), counts


def percentile(times):
    return sorted(times)[min(len(times) - 1, int(len(times) * 0.95))]


def queries(ids):
    trace, customer = ids
    folded = ("SELECT concat(arrayStringConcat(Functions, ';'), ' ', toString(toUInt64(sum(ms) * 1000))) FROM (SELECT day, stack_hash, sum(cpu_ms) AS ms FROM cpu_samples"
              " WHERE service = 'shop' AND day >= today() - 1 AND time > now() - INTERVAL {hours} HOUR GROUP BY day, stack_hash) AS sampled"
              " ANY LEFT JOIN profile_stacks ON Day = day AND StackHash = stack_hash GROUP BY Functions")
    return [("one trace", 20, f"SELECT * FROM otel_traces WHERE TraceId = '{trace}'"),
            ("search: slowest 100 of an hour", 100, "SELECT time, route, duration_ms FROM requests WHERE service = 'shop' AND time > now() - INTERVAL 1 HOUR AND duration_ms > 50"
                                                    " ORDER BY duration_ms DESC LIMIT 100"),
            ("a rare attribute, of a day", 350, f"SELECT time, route FROM requests WHERE time > now() - INTERVAL 1 DAY AND attributes['customer.id'] = '{customer}'"),
            ("RED per minute, of a day", 500, "SELECT minute, route, requests, failed_requests, p99_ms FROM routes_per_minute WHERE service = 'shop' AND minute > now() - INTERVAL 1 DAY"
                                              " ORDER BY minute LIMIT 100000"),
            ("flame graph of an hour", 200, folded.format(hours=1)), ("flame graph of a day", 700, folded.format(hours=24))]


def measure_server(bench):
    one = Centre(bench.sonde, bench.folder / "centre")
    try:
        bench.row("start: listens", f"{one.listens_s:.2f} s", target="0.5 s", met=one.listens_s <= 0.5)
        bench.row("  ... answers SQL", f"{one.answers_s:.2f} s")
        for kinds, what in (([Spans], "spans"), ([Profiles], "profile samples"), ([Points], "points of metrics")):
            acknowledged, in_sql, _ = rate(one, kinds, bench.seconds, 20 * HOUR)
            bench.row(f"{what} alone: acknowledged", f"{acknowledged[kinds[0]]:,.0f}/s")
            bench.row("  ... until SQL has all", f"{in_sql:,.0f}/s")
        together, in_sql, counts = rate(one, [Spans, Profiles], bench.seconds, 0)
        bench.row("together: spans acknowledged", f"{together[Spans]:,.0f}/s", target="50,000/s", met=together[Spans] >= 50000)
        bench.row("together: samples acknowledged", f"{together[Profiles]:,.0f}/s", target="100,000/s", met=together[Profiles] >= 100000)
        bench.row("  ... until SQL has all", f"{in_sql:,.0f}/s")
        memory = one.anonymous_mib()
        one.wait("SELECT count() FROM system.merges", "0")
        for kind, what, target in ((Spans, "a span with ten attributes", 80), (Profiles, "a sample", 4), (Points, "a point of a metric", 2)):
            each = one.bytes([TABLES[kind]]) / count_in_sql(one, [kind])
            bench.row(f"bytes: {what}", f"{each:.1f}", target=f"{target}", met=each <= target)
        stacks = one.value("SELECT uniqExact(Day, StackHash) FROM profile_stacks")
        bench.row("  ... a stack of 24 frames, once a day", f"{one.bytes(['profile_stacks', 'profile_frames']) / int(stacks):.0f}")
        asked = queries(counts["ids"][0])
        with sending([Spans, Profiles, Points], one.otlp_port, 2 + ASKED * len(asked) * 0.1, 0, PACE_S):
            for what, target, sql in asked:
                times = []
                for _ in range(ASKED):
                    began = time.monotonic()
                    one.value(sql)
                    times.append(1000 * (time.monotonic() - began))
                    memory = max(memory, one.anonymous_mib())
                bench.row(f"query while {CONNECTIONS * (SPANS + 970 + POINTS) / PACE_S:,.0f} rows/s come in: {what}", f"p95 {percentile(times):.0f} ms, median {median(times):.0f} ms",
                          target=f"{target} ms", met=percentile(times) <= target)
        bench.row("anonymous and shared memory, highest seen", f"{memory:.0f} MiB", target="1024 MiB", met=memory <= 1024)
    finally:
        one.stop()
