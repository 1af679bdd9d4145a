"""`traced` (tests/workloads/traced.c), a server that traces its requests with libsonde: starts it, sends requests, and reads the traces that it wrote or
exported."""
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

import otlp_decoder
import pypi
import pytest
from harness.paths import BUILD, TOP
from harness.processes import wait_for
from otlp_receiver import Receiver, attributes, receivers

TRACED = BUILD / "tests/traced"
CONFIG = "--trace-config"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NEEDED = pytest.mark.skipif(not (BUILD / "lib/libsonde-otlp.so.1").exists(), reason="libsonde-otlp.so is not built: libcurl is missing")


class Server:
    def __init__(self, run, *settings):
        self.running = run(TRACED, *(part for setting in settings for part in (CONFIG, setting)), "0", name="traced")
        self.address = "http://127.0.0.1:" + wait_for(lambda: re.search(r"listening on (\d+)", self.running.out), what="the port")[1]

    def call(self, path, body=None, method=None, headers=()):
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data=data, method=method, headers=dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def infer(self, model, request_id):
        tensors = [{"name": name, "shape": [1, 4], "datatype": "INT32", "data": [1, 2, 3, 4]} for name in ("INPUT0", "INPUT1")]
        return self.call(f"/v2/models/{model}/infer", {"id": request_id, "inputs": tensors})

    def end(self):
        """Ends the server; returns its counts by name."""
        assert self.running.stop() == 0, self.running.error
        words = self.running.out.splitlines()[-1].split()
        return dict(zip(words[::2], map(int, words[1::2])))


def by_id(objects):
    """id -> its objects. Asserts that objects of one id are adjacent."""
    found, last = {}, None
    for entry in objects:
        assert entry["id"] == last or entry["id"] not in found, f"the objects of {entry['id']} are scattered"
        found.setdefault(entry["id"], []).append(entry)
        last = entry["id"]
    return found


class TracedServer(Server):
    def __init__(self, run, *settings, **options):
        super().__init__(lambda *command, **named: run(*command, **named, **options), *settings)

    def infer(self, model, request_id, body=None, **headers):
        tensors = [{"name": name, "shape": [1, 4], "datatype": "INT32", "data": [1, 2, 3, 4]} for name in ("INPUT0", "INPUT1")]
        return self.call(f"/v2/models/{model}/infer", {"id": request_id, "inputs": tensors} if body is None else body, headers=headers)


@pytest.fixture
def receiver():
    yield from receivers(Receiver)


@pytest.fixture
def serve(run):
    return lambda url, *settings, **options: TracedServer(
        run, "mode=opentelemetry", "rate=1", "level=TIMESTAMPS", f"opentelemetry,url={url}", "opentelemetry,bsp_schedule_delay=100", *settings, **options)


def traces_of(spans):
    """{request id, or "" for a request without one: its spans}"""
    by_trace = {}
    for span in spans:
        by_trace.setdefault(span["traceId"], []).append(span)
    found = {}
    for trace in by_trace.values():
        ids = {attributes(span.get("attributes", ())).get("triton.request_id") for span in trace} - {None}
        found[min(ids, default="")] = trace
    return found


def generate(server, headers=(), **parameters):
    """When the client sent its request and received each event (with its tokens) and the end; nanoseconds of CLOCK_MONOTONIC."""
    request = urllib.request.Request(server.address + "/v2/models/llm/generate_stream", data=json.dumps(parameters, separators=(",", ":")).encode(),
                                     headers=dict(headers))
    sent, seen = time.monotonic_ns(), []
    with urllib.request.urlopen(request, timeout=30) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                seen.append((time.monotonic_ns(), json.loads(line[6:])["tokens"]))
    return {"sent": sent, "seen": seen, "ended": time.monotonic_ns()}


def times_of(stamps):
    """The values of the three metrics for one request, from its own timestamps, in whole nanoseconds."""
    at = {name: [stamp["ns"] for stamp in stamps if stamp["name"] == name] for name in ("GENERATION_START", "FIRST_TOKEN", "GENERATION_END")}
    (start,), (end,) = at["GENERATION_START"], at["GENERATION_END"]
    tokens = sum(stamp.get("tokens", 0) for stamp in stamps)
    first = at["FIRST_TOKEN"][0] if at["FIRST_TOKEN"] else None
    return end - start, first and first - start, first and tokens > 1 and (end - first) // (tokens - 1)


REQUESTS = [dict(max_tokens=5, delay_ms=3, input=11), dict(max_tokens=7, each=3, delay_ms=2), dict(max_tokens=1), dict(max_tokens=0)]


@pytest.fixture
def triton(run, tmp_path):
    return lambda *settings: Server(run, "rate=1", "level=TIMESTAMPS", f"triton,file={tmp_path}/t.json", *settings)


def run_library(program, *settings):
    """The output of a program of tests/workloads/python that loads the library with these settings."""
    done = subprocess.run([sys.executable, TOP / "tests/workloads/python" / program, BUILD / "lib/libsonde.so", *settings], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def official():
    """The messages of opentelemetry-proto (PyPI), in a virtual environment of their own: a function that converts a packet ("trace", "metrics" or "logs") to
    JSON objects."""
    python = pypi.environment("python-otlp", ["opentelemetry-proto"], [sys.executable], "True") / "python"
    program = """if True:
        import json, sys
        from google.protobuf.json_format import MessageToDict
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
        kind = {"trace": ExportTraceServiceRequest, "metrics": ExportMetricsServiceRequest, "logs": ExportLogsServiceRequest}[sys.argv[1]]
        print(json.dumps(MessageToDict(kind.FromString(sys.stdin.buffer.read()))))"""

    def decode(body, kind="trace", program=program):
        done = subprocess.run([python, "-c", program, kind], input=body, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)
    return decode


class Encoding:
    """The encoding of a server's spans and metrics: OTEL_EXPORTER_OTLP_PROTOCOL, the content type, and a decoder of packets."""

    def __init__(self, protocol, decode):
        self.protocol, self.decode = protocol, decode
        self.content_type = {"http/json": "application/json", "http/protobuf": "application/x-protobuf"}[protocol]


@pytest.fixture(params=["json", "protobuf", pytest.param("protobuf-official", marks=pytest.mark.peer)])
def encoding(request):
    """An Encoding; .decode(body, kind) returns the JSON objects of a "trace" or "metrics" packet."""
    if request.param == "json":
        return Encoding("http/json", lambda body, kind="trace": json.loads(body))
    return Encoding("http/protobuf", otlp_decoder.decode if request.param == "protobuf" else request.getfixturevalue("official"))


@pytest.fixture(params=["own", pytest.param("official", marks=pytest.mark.peer)])
def protobuf(request):
    """A decoder of protobuf packets: the table of otlp_decoder.py, or the messages of opentelemetry-proto."""
    return otlp_decoder.decode if request.param == "own" else request.getfixturevalue("official")
