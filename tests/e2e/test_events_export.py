"""An agent exports the events of its node as OTLP log records, over HTTP and gRPC, the last ones when it ends. tests/unit/send/test_event_export.c has
receivers that fail, tests/e2e/test_server.py the centre."""
import gzip
import os
import socket

import otlp_decoder
import pytest
from accept_queue import NAME, await_refusals, full_accept_queue
from exporting import sets
from h2_grpc_receiver import H2GrpcReceiver
from harness.processes import wait_for
from otlp_receiver import Receiver, attributes, receivers
from profiles_receiver import accept
from traced_server import official  # noqa: F401 (a fixture)


@pytest.fixture
def receiver():
    yield from receivers(Receiver)


@pytest.fixture
def grpc_receiver():
    yield from receivers(H2GrpcReceiver)


@pytest.fixture
def exporting(agent):
    def start(url, *arguments):
        return agent("--set", "budget.one_cpu=1000%", *sets(logs_endpoint=url), *arguments)
    return start


def records(bodies):
    """Every record of this name, with `attributes`, `body` and `resource` as plain values."""
    found = []
    for body in bodies:
        for resource in otlp_decoder.decode(body, "logs")["resourceLogs"]:
            scope, = resource["scopeLogs"]
            assert scope["scope"]["name"] == "sonde"
            found += [{**one, "attributes": attributes(one["attributes"]), "body": one["body"]["stringValue"], "resource": attributes(resource["resource"]["attributes"])}
                      for one in scope["logRecords"] if one["eventName"] == NAME]
    return found


def of_port(found, port):
    record, = [record for record in found if record["attributes"]["server.port"] == port]
    return record


@pytest.mark.sanitized
def test_an_event_is_a_log_record(exporting, receiver):
    """The record has the values that the page shows. The agent stops as soon as the page has the event: it sends queued events first."""
    to = receiver(accept)
    started = exporting(to.url.replace("traces", "logs"), *sets(resource_attributes="team=t"))
    with full_accept_queue() as port:
        event = await_refusals(started, port)
        assert started.stop() == 0
    record = of_port(records(gzip.decompress(post["body"]) for post in to.posts), port)
    assert (record["body"], record["timeUnixNano"]) == (event["text"], str(event["time_unix_nano"]))
    assert int(record["observedTimeUnixNano"]) >= int(record["timeUnixNano"])
    assert (record["severityNumber"], record["severityText"]) == (13, "WARN")
    assert {key: str(value) for key, value in record["attributes"].items()} == {"sonde.duration_ns": str(event["duration_ns"]), **event["attributes"]}
    assert (record["attributes"]["process.pid"], record["attributes"]["count"]) == (os.getpid(), int(event["attributes"]["count"]))
    about = record["resource"]
    assert (about["service.name"], about["host.name"], about["team"]) == ("sonde", socket.gethostname(), "t")
    assert {(post["path"], post["headers"]["Content-Type"]) for post in to.posts} == {("/v1/logs", "application/x-protobuf")}


@pytest.mark.thorough
def test_over_grpc(exporting, grpc_receiver, official):  # noqa: F811
    """As the official messages read it."""
    to = grpc_receiver()
    started = exporting(to.url, *sets(protocol="grpc"))
    with full_accept_queue() as port:
        event = await_refusals(started, port)
        wait_for(lambda: started.metric("sonde_self_events_export_events_total") >= 1, what="the export")
    assert started.stop() == 0
    judged = [record for call in to.calls for resource in official(call["body"], "logs")["resourceLogs"] for scope in resource["scopeLogs"] for record in scope["logRecords"]]
    record, = [record for record in judged if record["body"]["stringValue"] == event["text"]]
    assert (record["eventName"], record["severityNumber"], record["timeUnixNano"]) == (NAME, "SEVERITY_NUMBER_WARN", str(event["time_unix_nano"]))
    assert {"key": "server.port", "value": {"intValue": str(port)}} in record["attributes"]
    assert {call["path"] for call in to.calls} == {"/opentelemetry.proto.collector.logs.v1.LogsService/Export"}
