"""W3C Trace Context over HTTP, by the protocol of the W3C's own harness (trace_context_service.py): a request with some headers is sent to a
server with our middleware, which calls back, and what that call carries is looked at. The single vectors are in
tests/unit/lib/trace/test_{sampling,otel}.c and, for what is passed on in Python, below; here is what becomes of headers on the way: their names, their
number, the space around them."""
import http.client
import json
import re

import pytest
from harness.machine import free_port, skip
from harness.processes import wait_for
from otlp_receiver import Receiver
from test_asgi import HERE, environment  # noqa: F401 (a fixture)
from test_python import package, python  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.timeout(600), pytest.mark.plain_build]  # as test_asgi.py
TRACE, SPAN = "12345678901234567890123456789012", "1234567890123456"
PARENT = f"00-{TRACE}-{SPAN}-01"
MANY = [",".join(f"k{i}={i}" for i in range(start, start + 8)) for start in range(0, 32, 8)]


@pytest.fixture
def service(environment, package, run):  # noqa: F811
    """service(headers, count=1) -> [the headers of each call that came of it]."""
    if not (package / "sonde/libsonde-otlp.so.1").exists():
        skip("the wheel has no libsonde-otlp.so.1: libcurl's headers are missing")
    receiver, port = Receiver(), free_port()
    options = [part for setting in ("mode=opentelemetry", "rate=1", "level=TIMESTAMPS", f"opentelemetry,url=http://127.0.0.1:{receiver.port}/spans")
               for part in ("--trace-config", setting)]
    running = run(environment / "python", HERE / "trace_context_service.py", port, *options, name="service",
                  env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"})

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

    def ready():
        assert running.alive, running.error
        try:
            return ask([], 0) == []
        except OSError:
            return False
    wait_for(ready, 60, "the service")
    yield ask
    receiver.close()


def parts(headers):
    """Trace, span and flags of a valid traceparent."""
    return re.fullmatch("00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-(0[0-3])", headers["traceparent"]).groups()


def test_a_callers_trace_goes_on(service):
    for name in ("traceparent", "TraceParent", "TRACEPARENT", "tRaCePaReNt"):
        for value in (PARENT, f" {PARENT}", f"\t {PARENT} \t", f"cc-{TRACE}-{SPAN}-01-what-comes"):
            call, = service([(name, value)])
            assert (parts(call)[0], parts(call)[2]) == (TRACE, "01") and parts(call)[1] != SPAN and "tracestate" not in call, (name, value)


def test_what_is_no_traceparent_begins_a_trace(service):
    for headers in ([], [("trace-parent", PARENT)], [("trace.parent", PARENT)], [("traceparent", PARENT)] * 2, [("traceparent", PARENT), ("Traceparent", "")],
                    [("traceparent", ""), ("traceparent", PARENT)],
                    [("traceparent", "")], [("traceparent", f"00-{'0' * 32}-{SPAN}-01")], [("traceparent", f"ff{PARENT[2:]}")], [("traceparent", PARENT + ".")],
                    [("tracestate", "foo=1")], [("traceparent", PARENT.replace("-", "_")), ("tracestate", "foo=1")]):
        call, = service(headers)
        assert parts(call)[0] != TRACE and "tracestate" not in call, headers


def test_every_call_is_a_span(service):
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


@pytest.mark.parametrize("flags", ["01", "00"])
def test_tracestate(service, flags):
    """Also of a caller that does not sample."""
    for lines, wanted in GOOD:
        call, = service([("traceparent", PARENT[:-2] + flags), *(("TraceState", line) for line in lines)])
        assert (parts(call)[0], parts(call)[2]) == (TRACE, flags) and members(call) == wanted.split(), (lines, call)
    for name in ("trace-state", "trace.state"):
        assert "tracestate" not in service([("traceparent", PARENT[:-2] + flags), (name, "foo=1")])[0]


@pytest.mark.parametrize("flags", ["01", "00"])
def test_a_tracestate_that_is_none_is_left_out(service, flags):
    """Also of a caller that does not sample, whose traceparent is passed on as it came."""
    for lines in BAD:
        call, = service([("traceparent", PARENT[:-2] + flags), *(("tracestate", line) for line in lines)])
        assert parts(call)[0] == TRACE and (parts(call)[1] == SPAN) == (flags == "00") and "tracestate" not in call, (lines, call)


def test_what_is_passed_on(package):  # noqa: F811
    """Only what is valid, with the native part and without it; the vectors are those of tests/unit/lib/trace."""
    out, _ = python(package, """
from sonde import _native, _silent, trace
ids = "12345678901234567890123456789012-1234567890123456"
parent, many = f"00-{ids}-01", ",".join(f"k{number}=1" for number in range(32))
good_parents = [parent, f"00-{ids}-ff", f"cc-{ids}-01", f"cc-{ids}-01-what-comes"]
bad_parents = ["", parent + "-what-comes", f"cc-{ids}-01.what-comes", f"cc-{ids}-01what", f"ff-{ids}-01", f"0.-{ids}-01", f"000-{ids}-01", parent.replace("12345678901234567890", "0" * 20) + " ",
               f"00-{'0' * 32}-1234567890123456-01", "00-12345678901234567890123456789012-0000000000000000-01", f"00-{ids}-1", f"00-{ids}-0A", parent + "\\n", " " + parent]
good_states = ["foo=1", " foo=1 \\t , \\t bar=2,", ",foo=1", "0foo=1", "foo@=1,foo@bar@baz=2", "a-_*/@b=x y", "foo= 1", "z" * 256 + "=1", "foo=" + "z" * 256, many, many + ","]
bad_states = ["", ",", "foo", "foo=", "foo=1,foo=2", "foo =1", "FOO=1", "@foo=1", "-a=1", "fo.o=1", "foo=1=2", "foo=b\\tr", "foo=\\x7f", "foo=1;b=2", "z" * 257 + "=1",
              "foo=" + "z" * 257, many + ",one=more"]
for Trace in (_native.Trace, _silent.Trace):
    for kind in (str, str.encode):
        for p in good_parents + bad_parents:
            wanted = {"traceparent": p} if p in good_parents else {}
            assert Trace(kind(p)).context() == Trace(kind(p), kind("foo")).context() == wanted, (Trace, p)
            assert Trace(kind(p), kind("foo=1")).context() == ({**wanted, "tracestate": "foo=1"} if wanted else {}), (Trace, p)
        for state in good_states + bad_states:
            wanted = {"tracestate": state} if state in good_states else {}
            assert Trace(kind(parent), tracestate=kind(state)).context() == {"traceparent": parent, **wanted}, (Trace, state)
    assert Trace().context() == Trace(None, None).context() == Trace(5, 5).context() == Trace(tracestate="foo=1").context() == {}
    assert not Trace(parent) and Trace(parent).level == Trace(parent).id == 0 and not Trace(parent).active
""")
    assert out == ""
