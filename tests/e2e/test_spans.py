"""An agent exports the requests that it observes as OTLP spans: the caller's trace, components that add up, failures, exemplars that name the spans, and
receivers that fail. tests/unit/send/test_span_export.c has the cases that need a clock."""
import re
import socket

import pytest
from exporting import sets
from harness.processes import wait_for
from otlp_receiver import receivers
from real_servers import get, start_prefork
from span_packets import PATH, SpansReceiver
from traced_server import official  # noqa: F401 (a fixture)

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SERVICE = "spans-server"


@pytest.fixture
def receiver():
    """receiver(answers..., options...): a SpansReceiver."""
    yield from receivers(SpansReceiver)


@pytest.fixture
def exporting(agent):
    def start(url, *arguments, **options):
        """With room for what AddressSanitizer needs: beyond its limit the agent drops spans that wait."""
        return agent("--set", "budget.one_cpu=1000%", "--set", "budget.memory=1GiB", *sets(traces_endpoint=url), *arguments, **options)
    return start


@pytest.fixture
def server(run):
    return start_prefork(run, before=("env", f"OTEL_SERVICE_NAME={SERVICE}"))


def await_spans(to, count):
    return wait_for(lambda: (found := to.spans(SERVICE)) if len(to.spans(SERVICE)) >= count else None, 30, f"{count} spans")


@pytest.mark.sanitized
def test_spans_of_requests(exporting, receiver, server, official):  # noqa: F811
    """In the trace of the caller, if it named one; the components add up to the duration, and so do the events."""
    to = receiver()
    started = exporting(to.url)
    assert get(server.port, "/sleep?0.2", traceparent=f"00-{TRACE}-{PARENT}-01", Cookie="secret=" + "x" * 300).status == 200
    assert get(server.port, "/status?503").status == 503
    spans = {span["name"]: span for span in await_spans(to, 2)}
    slow, failed = spans["GET /sleep"], spans["GET /status"]
    assert (slow["traceId"], slow["parentSpanId"], slow["flags"]) == (TRACE, PARENT, 0x301)
    assert failed["traceId"] != TRACE and "parentSpanId" not in failed and failed["flags"] == 0x101
    assert len({slow["spanId"], failed["spanId"], PARENT}) == 3 and slow["kind"] == failed["kind"] == 2
    assert (failed["status"]["code"], failed["attributes"]["error.type"]) == (2, "503") and "status" not in slow
    about = slow["attributes"]
    assert (about["http.request.method"], about["http.route"], int(about["http.response.status_code"]), int(about["server.port"])) == ("GET", "/sleep", 200, server.port)
    assert about["client.address"] == "127.0.0.1" and int(about["process.pid"]) in server.pids and int(about["sonde.sampling.weight"]) >= 0
    duration = int(slow["endTimeUnixNano"]) - int(slow["startTimeUnixNano"])
    assert sum(int(value) for key, value in about.items() if key.startswith("sonde.component.")) == duration
    lengths = [int(next(pair["value"]["intValue"] for pair in event["attributes"] if pair["key"] == "sonde.duration_ns")) for event in slow["events"]]
    assert sum(lengths) == duration and int(about.get("sonde.component.sleep_ns", 0)) >= 200_000_000, slow
    assert not any(b"secret" in body or b"Cookie" in body for body in to.bodies())
    for body in to.bodies():
        official(body)
    assert {(post["path"], post["headers"]["Content-Type"]) for post in to.posts} == {(PATH, "application/x-protobuf")}
    page = started.get("/metrics", {"Accept": "application/openmetrics-text"})[2].decode()
    exemplars = set(re.findall(r'duration_seconds_bucket\{service_name="spans-server".* # \{trace_id="(\w+)",span_id="(\w+)"\} ', page))
    assert exemplars == {(span["traceId"], span["spanId"]) for span in (slow, failed)}
    assert started.stop() == 0


def send_header(port, target, header):
    with socket.create_connection(("127.0.0.1", port), 60) as s:
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n".encode())
        s.recv(10000)


def test_header_of_the_caller(exporting, receiver, server):
    """It is found in any form, and its sampled flag is honoured; an invalid one begins a trace."""
    to, valid = receiver(), f"00-{TRACE}-{PARENT}"
    started = exporting(to.url)
    headers = {"title": f"Traceparent: {valid}-01", "dense": f"tracePARENT:{valid}-01", "far": f"X: {'y' * 1700}\r\nA: b\r\nc: d\r\ntraceparent: {valid}-01",
               "invalid": f"traceparent: {valid.upper()}-01\r\nX-traceparent: {valid}-01", "unsampled": f"traceparent: {valid}-00"}
    for name, header in headers.items():
        send_header(server.port, f"/{name}", header)
    send_header(server.port, "/status?500", headers["unsampled"])
    spans = {span["attributes"]["http.route"]: span for span in await_spans(to, 5)}
    assert {route: (span["traceId"] == TRACE, span.get("parentSpanId"), span["flags"]) for route, span in spans.items()} == {
        "/title": (True, PARENT, 0x301), "/dense": (True, PARENT, 0x301), "/far": (True, PARENT, 0x301), "/invalid": (False, None, 0x101),
        "/status": (True, PARENT, 0x300)}
    assert started.metric("sonde_self_spans_export_unsampled_total") >= 1
    assert started.stop() == 0


@pytest.mark.thorough
@pytest.mark.alone
def test_receiver_that_fails_costs_only_spans(exporting, receiver, server):
    """A refused packet is dropped and counted, and the last requests are sent at the end. The receiver serves the agent's posts on this node, too, but these
    make no spans."""
    to = receiver(400, 200)
    started = exporting(to.url)
    get(server.port, "/")
    wait_for(lambda: started.metric("sonde_self_spans_export_dropped_spans_total", reason="refused") == 1, 30, "the refused span")
    get(server.port, "/sleep?0.01")
    assert started.stop() == 0
    said = re.search(r"spans: (\d+) were sent to \S+, in (\d+) packets of \d+ bytes in all; (\d+) were dropped", started.running.error)
    assert tuple(map(int, said.groups())) == (1, 1, 1)
    assert len(to.posts) == len(to.spans()) == 2
