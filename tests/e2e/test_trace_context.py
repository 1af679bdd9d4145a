"""W3C Trace Context over HTTP, by the protocol of the W3C's own test harness (trace_context_service.py): a request with certain headers is sent to a
server with Sonde's middleware, which calls back; the headers of that call are checked. Single vectors are in
tests/unit/lib/trace/test_{sampling,otel}.c and, for contexts passed on in Python, below; these tests cover HTTP header handling: names, number,
whitespace."""
import http.client
import json
import re

import pytest
from harness.machine import skip
from harness.paths import TOP
from harness.processes import wait_for
from otlp_receiver import Receiver
from asgi_environment import HERE, environment  # noqa: F401 (a fixture)
from python_package import package, python  # noqa: F401 (a fixture)

pytestmark = pytest.mark.timeout(600)
TRACE, SPAN = "12345678901234567890123456789012", "1234567890123456"
PARENT = f"00-{TRACE}-{SPAN}-01"
MANY = [",".join(f"k{i}={i}" for i in range(start, start + 8)) for start in range(0, 32, 8)]


@pytest.fixture
def service(environment, package, run):  # noqa: F811
    """service(headers, count=1) -> [the headers of each resulting call]."""
    if not (package / "sonde/libsonde-otlp.so.1").exists():
        skip("the wheel has no libsonde-otlp.so.1: libcurl's headers are missing")
    receiver = Receiver()
    options = [part for setting in ("mode=opentelemetry", "rate=1", "level=TIMESTAMPS", f"opentelemetry,url=http://127.0.0.1:{receiver.port}/spans")
               for part in ("--trace-config", setting)]
    running = run(environment / "python", HERE / "trace_context_service.py", 0, *options, name="service",
                  env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"})

    port = int(wait_for(lambda: re.search(r"listening on (\d+)", running.out) or not running.alive and running.error, 60, "the service")[1])

    def ask(headers, count=1):
        before, body = len(receiver.posts), json.dumps([{"url": f"http://127.0.0.1:{receiver.port}/call", "arguments": []}] * count).encode()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.putrequest("POST", "/test")
            for name, value in headers:
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            assert connection.getresponse().status == 200, running.error
        finally:
            connection.close()
        return [{name.lower(): value for name, value in post["headers"].items()} for post in receiver.posts[before:] if post["path"] == "/call"]

    yield ask
    receiver.close()


def parts(headers):
    """Trace id, span id and flags of a valid traceparent."""
    return re.fullmatch("00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-(0[0-3])", headers["traceparent"]).groups()


@pytest.mark.peer
def test_callers_trace_continues(service):
    for name in ("traceparent", "TraceParent", "TRACEPARENT", "tRaCePaReNt"):
        for value in (PARENT, f" {PARENT}", f"\t {PARENT} \t", f"cc-{TRACE}-{SPAN}-01-what-comes"):
            call, = service([(name, value)])
            assert (parts(call)[0], parts(call)[2]) == (TRACE, "01") and parts(call)[1] != SPAN and "tracestate" not in call, (name, value)


@pytest.mark.peer
def test_invalid_traceparent_starts_a_trace(service):
    for headers in ([], [("trace-parent", PARENT)], [("trace.parent", PARENT)], [("traceparent", PARENT)] * 2, [("traceparent", PARENT), ("Traceparent", "")],
                    [("traceparent", ""), ("traceparent", PARENT)],
                    [("traceparent", "")], [("traceparent", f"00-{'0' * 32}-{SPAN}-01")], [("traceparent", f"ff{PARENT[2:]}")], [("traceparent", PARENT + ".")],
                    [("tracestate", "foo=1")], [("traceparent", PARENT.replace("-", "_")), ("tracestate", "foo=1")]):
        call, = service(headers)
        assert parts(call)[0] != TRACE and "tracestate" not in call, headers


@pytest.mark.peer
def test_every_outgoing_call_has_its_own_span(service):
    for headers in ([], [("traceparent", PARENT)], [("traceparent", f"00-{'0' * 32}-{SPAN}-01")]):
        traces, spans, _ = zip(*map(parts, service(headers, 3)))
        assert len(set(spans)) == 3 and len(set(traces)) == 1 and (traces[0] == TRACE) == (headers == [("traceparent", PARENT)])


def members(headers):
    return [member.strip(" \t") for member in headers["tracestate"].split(",") if member.strip(" \t")] if "tracestate" in headers else []


GOOD = [(["foo=1,bar=2"], "foo=1 bar=2"), (["foo=1,bar=2", "rojo=1,congo=2", "baz=3"], "foo=1 bar=2 rojo=1 congo=2 baz=3"), ([""], ""),
        (["foo=1", ""], "foo=1"), (["", "foo=1"], "foo=1"), (["foo=1 \t , \t bar=2"], "foo=1 bar=2"), (["\t foo=1 \t"], "foo=1"),
        (["0foo=1,foo@=2,foo@bar@baz=3"], "0foo=1 foo@=2 foo@bar@baz=3"), (MANY, ",".join(MANY).replace(",", " "))]
BAD = [["foo=1,foo=2"], ["foo=1", "foo=1"], ["foo =1"], ["FOO=1"], ["@foo=1,bar=2"], ["foo=,bar=3"], ["foo=bar=baz"], ["foo=1", "z" * 257 + "=1"],
       [*MANY, "one=more"]]


@pytest.mark.peer
@pytest.mark.parametrize("flags", ["01", "00"])
def test_tracestate_is_passed_on(service, flags):
    """Also for a caller that does not sample."""
    for lines, wanted in GOOD:
        call, = service([("traceparent", PARENT[:-2] + flags), *(("TraceState", line) for line in lines)])
        assert (parts(call)[0], parts(call)[2]) == (TRACE, flags) and members(call) == wanted.split(), (lines, call)
    for name in ("trace-state", "trace.state"):
        assert "tracestate" not in service([("traceparent", PARENT[:-2] + flags), (name, "foo=1")])[0]


@pytest.mark.peer
@pytest.mark.parametrize("flags", ["01", "00"])
def test_invalid_tracestate_is_left_out(service, flags):
    """Also for a caller that does not sample, whose traceparent is passed on unchanged."""
    for lines in BAD:
        call, = service([("traceparent", PARENT[:-2] + flags), *(("tracestate", line) for line in lines)])
        assert parts(call)[0] == TRACE and (parts(call)[1] == SPAN) == (flags == "00") and "tracestate" not in call, (lines, call)


@pytest.mark.sanitized
def test_valid_context_is_passed_on(package):  # noqa: F811
    """And nothing else, with the native extension and without it."""
    assert python(package, TOP / "tests/workloads/python/passed_on.py")[0] == ""
