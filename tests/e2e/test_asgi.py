"""sonde.asgi in real servers: FastAPI and Starlette on uvicorn, with curl and Python as clients; and message by message, with stub servers.

The servers come from PyPI into an environment that is kept in the build directory; the tests are skipped without it."""
import http.client
import json
import re
import shutil
import socket
import subprocess

import pytest
from asgi_environment import HERE, environment  # noqa: F401 (a fixture)
from harness.machine import free_port, need_command, skip
from harness.paths import TOP
from harness.processes import wait_for
from otlp_receiver import Receiver, attributes
from python_package import EVERY_PYTHON, SYSTEM_PYTHON, package, python  # noqa: F401 (a fixture)
from python_traces import head, stamps
from traced_server import PARENT, by_id

pytestmark = pytest.mark.timeout(600)
ASGI = TOP / "tests/workloads/python/asgi"
AROUND = ["HTTP_RECV_START", "HTTP_RECV_END", "REQUEST_START"], ["REQUEST_END", "HTTP_SEND_START", "HTTP_SEND_END"]
COMPUTE = ["QUEUE_START", "COMPUTE_START", "COMPUTE_END"]
WHOLE = AROUND[0] + COMPUTE + AROUND[1]


def tokens(count):
    return ["GENERATION_START", "FIRST_TOKEN", *["TOKEN"] * (count - 1), "GENERATION_END"]


class Server:
    def __init__(self, run, environment, package, port, file, kind, *settings, parser="auto"):
        options = [part for setting in settings for part in ("--trace-config", setting)]
        self.port, self.file = port, file
        self.running = run(environment / "python", HERE / "asgi_app.py", kind, port, *options, parser, name="server",
                           env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"})
        wait_for(self.ready, 60, "the server to be ready")

    def ready(self):
        assert self.running.alive, self.running.error[-3000:]
        try:
            return self.call("/v2/health/ready", method="GET")[0] == 200
        except OSError:
            return False

    def call(self, path, body=None, method="POST", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def infer(self, path="/v2/models/simple/infer", headers={}, **body):
        return self.call(path, body, **headers)

    def leave(self, path, is_served, **body):
        """A client that sends a request and disconnects once `is_served(client)` is true."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as client:
            text = json.dumps(body)
            client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
            wait_for(lambda: is_served(client), 60, "the request to be served")

    def sampled(self, count):
        """Waits until `count` requests have been written; returns {id: its objects}."""
        def read():
            try:
                traces = by_id(json.loads(self.file.read_text()))
            except (OSError, ValueError):
                return None
            return traces if len(traces) >= count else None
        return wait_for(read, what=f"{count} traces")

    def end(self):
        self.running.stop()
        return by_id(json.loads(self.file.read_text())) if self.file.exists() else {}


@pytest.fixture
def serve(environment, package, run, tmp_path):  # noqa: F811
    def start(kind, *settings, **options):
        file = tmp_path / "trace.json"
        settings = settings or ("rate=1", "level=TIMESTAMPS", f"triton,file={file}")
        return Server(run, environment, package, free_port(), file, kind, *settings, **options)
    return start


@pytest.mark.peer
@pytest.mark.parametrize("kind, parser", [("fastapi", "httptools"), ("starlette", "h11")])
def test_each_request_has_its_outcome_in_the_trace(serve, kind, parser):
    """The trace has each request's outcome: successful, versioned, refused, failed, streamed, unread; none for a path that is not inference. A signal
    ends the server and no trace is lost."""
    server = serve(kind, parser=parser)
    assert json.loads(server.infer(id="one")[1]) == {"id": "one", "traced": True, "context": {}}
    assert server.infer("/v2/models/simple/versions/3/infer", id="two")[0] == 200
    assert server.infer(id="three", fail=True)[0] == 500
    assert server.infer("/v2/models/nobody/infer")[0] == 404
    assert server.infer("/v2/models/stream/generate_stream", parts=4)[1] == "".join(f"part {n}\n" for n in range(4))
    assert server.infer("/v2/models/unread/infer")[1] == '"done"'
    assert server.call("/v2/health/ready", method="GET")[1] == "false"
    with pytest.raises(http.client.IncompleteRead):
        server.infer("/v2/models/stream/generate_stream", parts=4, fail=True)
    traces = server.end()
    heads = [head(objects) for objects in traces.values()]
    assert [(h["model_name"], h["model_version"], h.get("request_id"), h.get("status"), h.get("error")) for h in heads] == [
        ("simple", 1, "one", None, None), ("simple", 3, "two", None, None), ("simple", 1, "three", "error", "RuntimeError: the model is broken"),
        ("nobody", 1, None, "error", "HTTP 404"), ("stream", 1, None, None, None), ("unread", 1, None, None, None),
        ("stream", 1, None, "error", heads[-1]["error"])]
    assert "in the middle" in heads[-1]["error"] or "unhandled errors in a TaskGroup" in heads[-1]["error"]
    around = AROUND[0] + AROUND[1]
    assert [[name for name, _ in stamps(objects)] for objects in traces.values()] == [
        WHOLE, WHOLE, AROUND[0] + COMPUTE + ["REQUEST_END"], around, AROUND[0] + tokens(4) + AROUND[1], around,
        AROUND[0] + tokens(1) + ["REQUEST_END"]]
    assert heads[4]["generation"] == {"operation": "chat", "input_tokens": 7, "output_tokens": 4, "finish_reason": "stop"}
    assert heads[-1]["generation"] == {"operation": "chat", "output_tokens": 1, "error_type": "RuntimeError"}
    for objects in traces.values():
        times = [ns for _, ns in stamps(objects)]
        assert times == sorted(times)
    streamed = dict(stamps(list(traces.values())[4]))
    assert streamed["REQUEST_END"] - streamed["REQUEST_START"] >= 30_000_000  # three pauses of 10 ms at least
    assert ("RuntimeError: the model is broken" in server.running.error) and "sonde" not in re.sub(r'File ".*', "", server.running.error)


@pytest.mark.peer
@pytest.mark.parametrize("kind", ["fastapi", "starlette"])
def test_client_disconnects_are_traced_as_cancelled(serve, kind, tmp_path):
    """A client disconnects while the model computes, and another in the middle of a stream."""
    server, left = serve(kind), tmp_path / "left"
    server.leave("/v2/models/simple/infer", lambda client: server.running.out == "working\n", id="gone", until=str(left))
    left.touch()
    server.leave("/v2/models/stream/generate_stream", lambda client: client.recv(100), parts=100000, sleep=0.01)
    server.sampled(2)
    assert server.infer(id="stays")[0] == 200
    heads = [head(objects) for objects in server.end().values()]
    generation, = (h["generation"] for h in heads if "generation" in h)
    assert generation["error_type"] == "CancelledError" and generation["output_tokens"] >= 1 and "finish_reason" not in generation
    ends = {(h["model_name"], h.get("request_id")): (h.get("status"), h.get("error")) for h in heads}
    gone = "cancelled", "the client has gone"
    assert ends == {("simple", "gone"): gone, ("stream", None): gone, ("simple", "stays"): (None, None)}


@pytest.mark.peer
def test_trace_protocol_reads_changes_and_refuses_settings(serve):
    """The middleware answers trace settings requests itself: it reads, changes and refuses settings; other paths go to the application."""
    server = serve("fastapi")
    assert server.call("/v2/models/simple/trace/setting", method="GET")[0] == 400  # unknown model
    server.infer()
    status, text = server.call("/v2/models/simple/trace/setting", method="GET")
    assert status == 200 and json.loads(text)["trace_rate"] == "1"
    assert server.call("/v2/trace/setting", {"trace_level": ["OFF"]})[0] == 200
    assert not json.loads(server.infer()[1])["traced"]
    assert json.loads(server.call("/v2/models/simple/trace/setting", {"trace_level": ["TIMESTAMPS"]})[1])["trace_level"] == ["TIMESTAMPS"]
    assert json.loads(server.infer()[1])["traced"]
    assert server.call("/v2/trace/setting", {"trace_rate": "x"}) == (400, '{"error":"Unable to parse \'trace_rate\', got: x"}')
    assert server.call("/v2/trace/setting", method="PUT")[0] == 405
    assert server.call("/v2/trace/setting", {"trace_rate": "1" * 100000})[0] == 413
    assert server.call("/v2/other/trace/setting", method="GET") == (404, '{"detail":"Not Found"}')
    curl = subprocess.run([need_command("curl"), "-si", f"http://127.0.0.1:{server.port}/v2/trace/setting"], capture_output=True, text=True, timeout=30)
    assert curl.stdout.lower().count("content-type: application/json") == 1


@pytest.mark.peer
def test_callers_trace_continues_in_spans_and_outgoing_calls(serve, environment, package):  # noqa: F811
    """A caller's trace continues in the server's spans and in its outgoing calls; an unsampled caller produces no spans, but its headers are passed
    on. The official protobuf messages decode the packet."""
    if not (package / "sonde/libsonde-otlp.so.1").exists():
        skip("the wheel has no libsonde-otlp.so.1: libcurl's headers are missing")
    receiver = Receiver()
    try:
        server = serve("starlette", "mode=opentelemetry", "rate=1000", "level=TIMESTAMPS", f"opentelemetry,url={receiver.url}")
        sent = json.loads(server.infer(id="in", headers={"traceparent": PARENT, "tracestate": "a=b"})[1])
        assert sent["traced"] and sent["context"]["tracestate"] == "a=b" and sent["context"]["traceparent"][3:35] == PARENT[3:35]
        unsampled = {"traceparent": PARENT[:-1] + "0", "tracestate": "c=d"}
        assert json.loads(server.infer(headers=unsampled)[1]) == {"id": None, "traced": False, "context": unsampled}
        assert not json.loads(server.infer()[1])["traced"]
        server.running.stop()
    finally:
        receiver.close()
    spans = {span["name"]: span for span in receiver.spans()}
    assert spans.keys() == {"InferRequest", "simple", "compute"}
    assert spans["InferRequest"]["parentSpanId"] == PARENT[36:52] and spans["simple"]["spanId"] == sent["context"]["traceparent"][36:52]
    assert attributes(spans["simple"]["attributes"])["triton.request_id"] == "in"
    assert [event["name"] for event in spans["InferRequest"]["events"]] == [name for name in WHOLE if name.startswith("HTTP")]
    decode = """
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
packet = json_format.Parse(sys.stdin.read(), ExportTraceServiceRequest())
print(sum(len(scope.spans) for resource in packet.resource_spans for scope in resource.scope_spans))
"""
    for post in receiver.posts:
        done = subprocess.run([environment / "python", "-c", decode], input=post["body"].decode(), capture_output=True, text=True, timeout=60)
        assert done.stdout == "3\n", done.stderr


@pytest.mark.peer
def test_streamed_response_has_a_generation_span(serve, package):  # noqa: F811
    """The generation is a child span of the request, with its tokens as events; its statistics are the model's, and the metrics packet has it."""
    if not (package / "sonde/libsonde-otlp.so.1").exists():
        skip("the wheel has no libsonde-otlp.so.1: libcurl's headers are missing")
    receiver = Receiver()
    try:
        server = serve("fastapi", "mode=opentelemetry", "rate=1000", "level=TIMESTAMPS", f"opentelemetry,url={receiver.url}")
        for headers in ({"traceparent": PARENT}, {}):  # the second is not sampled
            assert server.infer("/v2/models/stream/generate_stream", headers, parts=3)[0] == 200
        server.running.stop()
    finally:
        receiver.close()
    spans = {span["name"]: span for span in receiver.spans()}
    outer, generation = spans["InferRequest"], spans["GENERATION"]
    assert spans.keys() == {"InferRequest", "stream", "GENERATION"} and generation["parentSpanId"] == spans["stream"]["spanId"]
    assert int(outer["startTimeUnixNano"]) <= int(generation["startTimeUnixNano"]) <= int(generation["endTimeUnixNano"]) <= int(outer["endTimeUnixNano"])
    assert [event["name"] for event in generation["events"]] == ["FIRST_TOKEN", "TOKEN", "TOKEN"]
    said = attributes(spans["stream"]["attributes"])
    assert (said["gen_ai.operation.name"], said["gen_ai.usage.output_tokens"], said["gen_ai.response.finish_reasons"]) == ("chat", 3, ["stop"])
    assert b'"count":"2"' in receiver.metrics[-1]["body"], receiver.metrics


@pytest.mark.peer
def test_trace_summary_of_the_file_adds_up(serve, sonde):
    """`sonde trace summary` prints all of its lines, and they add up."""
    server = serve("fastapi")
    for n in range(20):
        server.infer(id=str(n), sleep=0.001)
    server.end()
    said = subprocess.run([sonde, "trace", "summary", server.file], capture_output=True, text=True, timeout=60).stdout
    assert "Summary for simple (1): trace count = 20" in said
    us = {name.strip(): float(value) for name, value in re.findall(r"^\s*(.+?) \(avg\): ([\d.]+)us$", said.split("\n\n")[0] + "\n" + said.split("\n\n")[1], re.M)
          if name.strip() != "Overhead"}
    whole, handler = us["HTTP infer request"], us["Handler"]
    overhead = float(re.search(r"^\tOverhead \(avg\): ([\d.]+)us$", said, re.M)[1])
    assert abs(whole - us["Receive"] - us["Send"] - overhead - handler) < 0.01 and us["Compute"] >= 1000


CASES = """
plain|*|None|None
parts in, parts out|*|None|None
unread|*|None|None
both ways|*|None|None
listening|*|None|None
listening late|*|None|None
refusing|*|error|HTTP 422
raising|-|error|ValueError: no such thing
raising at once|-|error|ValueError: at once
raising late|*|None|None
raising in the middle|-|error|ValueError: in the middle
cancelled|-|cancelled|CancelledError
silent|-|error|the answer is not whole
ended|HTTP_RECV_START|error|by the application
trailing|*|None|None
pathsend|*|None|None
gone before the answer|*|cancelled|the client has gone
gone in a body|-|cancelled|the client has gone
gone, noticed late|*|cancelled|the client has gone
gone, noticed by send|+|cancelled|the client has gone
"""


@pytest.mark.sanitized
@pytest.mark.parametrize("interpreter", EVERY_PYTHON)
def test_stamps_and_outcome_of_each_message_sequence(package, tmp_path, interpreter):  # noqa: F811
    out, error = python(package, HERE / "asgi_messages.py", interpreter, arguments=(tmp_path,))
    around, cut = ",".join(AROUND[0] + AROUND[1]), ",".join(AROUND[0] + AROUND[1][:1])
    expected = CASES.strip().replace("|*|", f"|{around}|").replace("|-|", f"|{cut}|").replace("|+|", f"|{cut},HTTP_SEND_START|")
    assert out.splitlines() == expected.splitlines()
    assert error == ""


@pytest.mark.sanitized
def test_unknown_model_names_do_not_fill_the_table(package):  # noqa: F811
    """Clients choose model names: unknown names do not fill a table, and paths without a model are not traced."""
    out, error = python(package, ASGI / "models.py", SYSTEM_PYTHON, "-W", "ignore", arguments=("/nowhere/at/all",))
    assert out == "" and "Traceback" not in error


def test_websocket_passes_through_and_lifespan_end_flushes(package):  # noqa: F811
    """A websocket passes through unchanged; the server's shutdown flushes the queue."""
    out, error = python(package, ASGI / "scopes.py", arguments=("/nowhere/at/all",))
    assert out == ""


def test_works_without_an_asyncio_loop(package):  # noqa: F811
    """Servers on trio or on an event loop of their own: the middleware does not need asyncio's."""
    out, error = python(package, ASGI / "no_loop.py", SYSTEM_PYTHON, "-X", "dev", arguments=("/nowhere/at/all",))
    assert out == "" and "Traceback" not in error, error


def test_awaitables_that_are_not_coroutines_are_accepted(package, tmp_path):  # noqa: F811
    """send() and receive() may return any awaitable. A request whose last part is not sent because its task is cancelled has the status cancelled,
    and no awaitable is left pending."""
    out, error = python(package, ASGI / "futures.py", SYSTEM_PYTHON, arguments=(tmp_path / "t.json",))
    parts = "['http.response.start', 'http.response.body']"
    assert out == f"None {parts}\nTrue {parts}\n0\n" and error == ""
    heads = [o for o in json.loads((tmp_path / "t.json").read_text()) if "model_name" in o]
    assert [(o["model_name"], o.get("status")) for o in heads] == [("good", None), ("slow", "cancelled")]


def test_context_is_parsed_from_headers(package):  # noqa: F811
    out, error = python(package, f"""
from sonde.asgi import _context_of
parent = (b"traceparent", b"{PARENT}")
assert _context_of([(b"a", b"b")]) == (None, None) == _context_of([parent, parent])
assert _context_of([parent]) == (parent[1], None)
assert _context_of([(b"tracestate", b"a=1"), parent, (b"tracestate", b"b=2")]) == (parent[1], b"a=1,b=2")
""")
    assert out == error == ""


def test_untraced_requests_pass_their_context_on(package):  # noqa: F811
    out, error = python(package, f"""
import asyncio, sonde.asgi, sonde.trace
async def app(scope, receive, send):
    t = scope["sonde.trace"]
    print(bool(t), t.context())
served = sonde.asgi.TraceMiddleware(app, sonde.trace.Manager(["rate=1", "level=TIMESTAMPS", "triton,file=unused"]))
for headers in ([], [("traceparent", "{PARENT}"), ("tracestate", "a=1"), ("tracestate", "b=2")], [("traceparent", "{PARENT}"), ("tracestate", "a")],
                  [("traceparent", "nonsense"), ("tracestate", "a=1")]):
    asyncio.run(served({{"type": "http", "method": "GET", "path": "/other", "headers": [(name.encode(), value.encode()) for name, value in headers]}}, None, None))
""")
    assert error == "" and out.splitlines() == ["False {}", f"False {{'traceparent': '{PARENT}', 'tracestate': 'a=1,b=2'}}",
                                                f"False {{'traceparent': '{PARENT}'}}", "False {}"]


def snippets():
    """The Python blocks of the guide."""
    return re.findall(r"```python\n(.*?)```", (HERE.parents[1] / "docs/traces.md").read_text(), re.S)


@pytest.mark.peer
def test_examples_of_the_guide_work(environment, package, run, tmp_path):  # noqa: F811
    """The examples of docs/traces.md work as printed."""
    server, alone = snippets()
    (tmp_path / "server.py").write_text(server + "\nimport uvicorn\nuvicorn.run(app, port=int(arguments[0]), log_level='warning')\n")
    (tmp_path / "alone.py").write_text(alone)
    env, file, port = {"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin"}, tmp_path / "trace.json", free_port()
    options = [part for setting in ("rate=1", "level=TIMESTAMPS", "triton,file=trace.json") for part in ("--trace-config", setting)]
    server = run(environment / "python", "server.py", *options, port, cwd=tmp_path, env=env, name="server")
    curl = [need_command("curl"), "-s", "-d", '{"id":"one"}', f"http://127.0.0.1:{port}/v2/models/simple/infer"]
    wait_for(lambda: subprocess.run(curl, capture_output=True, text=True, timeout=30).stdout == '{"headers for other servers":{}}', what="an answer",
             seen=server)
    server.stop()
    objects, = by_id(json.loads(file.read_text())).values()
    assert head(objects)["request_id"] == "one" and {"COMPUTE_START", *AROUND[0], *AROUND[1]} <= dict(stamps(objects)).keys()
    done = subprocess.run([environment / "python", "alone.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("Prometheus: True\n200 1\n", "")
    parent, child = by_id(json.loads(file.read_text())).values()
    assert head(parent)["generation"] == {"operation": "chat", "input_tokens": 25, "output_tokens": 2, "finish_reason": "stop"}
    assert [entry["tensor"]["data"] for entry in parent if "tensor" in entry] == ["1,2,3", '"a","\\udcff"'] and head(child)["parent_id"] == 1


@pytest.mark.peer
def test_server_runs_without_the_native_extension(environment, package, run, tmp_path):  # noqa: F811
    """The server runs unchanged, after one warning; it has no trace protocol."""
    shutil.copytree(package / "sonde", tmp_path / "silent/sonde", ignore=shutil.ignore_patterns("*.so*"))
    server = Server(run, environment, tmp_path / "silent", free_port(), tmp_path / "trace.json", "fastapi", "rate=1", "level=TIMESTAMPS")
    assert json.loads(server.infer(id="one", headers={"traceparent": PARENT})[1]) == {"id": "one", "traced": False, "context": {"traceparent": PARENT}}
    assert server.call("/v2/trace/setting", method="GET")[0] == 404
    assert server.infer("/v2/models/stream/generate_stream", parts=2)[0] == 200
    assert server.end() == {} and server.running.error.count("Warning: sonde") == 1
