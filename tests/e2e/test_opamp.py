"""OpAMP with OpenTelemetry's own packages (tests/opentelemetry/opamp): its server takes the reports of an agent, and `sonde server` those of its client."""
import json
import os
import socket

import pytest
from centre import server  # noqa: F401 (fixture)
from harness.machine import free_port, skip
from harness.paths import TOP
from harness.processes import wait_for
from otlp_receiver import attributes

pytestmark = pytest.mark.peer
OPAMP = TOP / "build/opentelemetry/opamp"


@pytest.fixture
def opamp(run):
    if not OPAMP.exists():
        skip("OpenTelemetry's OpAMP has not been built here: tests/opentelemetry/build")
    return lambda *arguments: run(OPAMP, *arguments, name="opamp")


def test_official_server_takes_reports(agent, opamp):
    """The first report has everything, the others what is new, until the server asks for everything again."""
    address = f"127.0.0.1:{free_port()}"
    peer = opamp("server", address)
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", int(address.partition(":")[2]))) == 0, 20, "the server")
    started = agent("--set", f"opamp.endpoint=http://{address}/v1/opamp", "--set", "opamp.interval=1", "--set", "otlp.resource_attributes=team=t")

    def messages():
        return [json.loads(line) for line in peer.out.splitlines()]
    wait_for(lambda: len(messages()) >= 5, 30, "reports")
    assert started.stop() == 0 and peer.error == ""
    seen = messages()
    assert [message.get("sequenceNum", "0") for message in seen] == [str(i) for i in range(len(seen))] and len({message["instanceUid"] for message in seen}) == 1
    assert ["agentDescription" in message for message in seen[:5]] == ["effectiveConfig" in message for message in seen[:5]] == [True, False, False, True, False]
    identity, others = (attributes(seen[0]["agentDescription"][name]) for name in ("identifyingAttributes", "nonIdentifyingAttributes"))
    assert (identity["service.name"], identity["host.name"], identity["team"]) == ("sonde", socket.gethostname(), "t")
    assert others["os.version"] == os.uname().release and others["os.type"] == "linux"
    health = seen[0]["health"]
    assert health["healthy"] and health["status"] == "running" and set(health["componentHealthMap"]) == {"budget", "losses", "probes"}
    assert "effectiveConfig" not in seen[-1] and "agentDisconnect" in seen[-1] and all("agentDisconnect" not in message for message in seen[:-1])


def test_reports_of_the_official_client(server, opamp):  # noqa: F811
    one = server()
    peer = opamp("client", f"http://127.0.0.1:{one.otlp_port}/v1/opamp", "node-8")
    one.await_value("SELECT HostName, ServiceName, ServiceVersion, KernelRelease, Healthy, Status, Problems, Config FROM agent_reports WHERE Config != '' LIMIT 1",
                    "node-8\tother\t7\t5.10\tfalse\tbroken\tout of order\treceivers:\\n")
    assert peer.stop() == 0 and "connected" in peer.out and peer.error == ""
