"""Profiles over gRPC, to a receiver of our own (h2_grpc_receiver.py) and to grpcio's server with OpenTelemetry's own service: the content equals that
sent over HTTP (test_profiles_export.py). tests/faults/test_profiles_grpc_receivers.py has receivers that misbehave."""
import os
import socket
import subprocess
import threading

import pytest
from exporting import by_grpc, exporting, sets  # noqa: F401 (fixtures)
from grpc_receiver import grpc_receiver  # noqa: F401
from harness.machine import free_port, need_command
from harness.processes import wait_for
from otlp_profiles import profcheck  # noqa: F401
from profiles_grpc import h2_receiver  # noqa: F401
from profiles_receiver import export_stats, total, write
from test_profiles_export import WORK, own_profiles, work_of
from tap import Tap


@pytest.mark.sanitized
def test_packets_arrive_by_grpc(by_grpc, exporting, h2_receiver, profcheck, tmp_path):  # noqa: F811
    to = h2_receiver()
    started = by_grpc(to.url, *sets(headers="authorization=Bearer%20abc,x-two=2", timeout=7000))
    wait_for(lambda: any(b"work_of_red" in body and b"work_of_blue" in body for body in to.bodies()), 120, "a packet with both threads")
    assert started.stop() == 0
    packets, says = profcheck(*write(tmp_path, to.bodies())), export_stats(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"] == total(packets) > 0 and says["packets"] == len(to.calls)
    assert WORK <= work_of(own_profiles(packets, exporting.workload))
    for call in to.calls:
        assert call["path"] == "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
        sent = {name: call["headers"][name] for name in ("authorization", "x-two", "content-type", "te", "grpc-timeout", "grpc-encoding")}
        assert sent == {"authorization": "Bearer abc", "x-two": "2", "content-type": "application/grpc", "te": "trailers", "grpc-timeout": "7000m", "grpc-encoding": "gzip"}


@pytest.mark.peer
@pytest.mark.parametrize("compression,answers_gzip", [("gzip", True), ("none", False)])
def test_packets_contain_every_sample_taken(by_grpc, exporting, grpc_receiver, profcheck, tmp_path, compression, answers_gzip):  # noqa: F811
    to = grpc_receiver(gzip=answers_gzip)
    started = by_grpc(to.url, *sets(compression=compression, headers="authorization=Bearer%20abc,x-two=2", timeout=7000))
    wait_for(lambda: len(to.calls) >= 3 and any(b"work_of_red" in call["body"] and b"work_of_blue" in call["body"] for call in to.calls), 120, "three packets, one with both threads")
    counted = started.metric("sonde_self_samples_total")
    assert started.metric("sonde_self_export_failures_total") == 0
    assert started.stop() == 0
    packets = profcheck(*write(tmp_path, to.bodies()))
    says = export_stats(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"] >= counted > 0
    assert total(packets) == says["sent"] and len(to.calls) == says["packets"]
    raw = sum(len(call["body"]) + 5 for call in to.calls)
    assert says["bytes"] < raw if compression == "gzip" else says["bytes"] == raw
    for call in to.calls:
        assert (call["metadata"]["authorization"], call["metadata"]["x-two"]) == ("Bearer abc", "2") and call["metadata"]["user-agent"].startswith("sonde/")
        assert 0 < call["remaining_s"] <= 7, "the server knows the deadline"
    assert WORK <= work_of(own_profiles(packets, exporting.workload))


@pytest.mark.peer
def test_restarted_receiver_misses_nothing(by_grpc, grpc_receiver, profcheck, tmp_path):  # noqa: F811
    """The receiver is killed during the export, with its connections, and restarts without state."""
    first = grpc_receiver(port=free_port())  # below the ephemeral port range, so that it stays free until the restart
    started = by_grpc(first.url)
    wait_for(lambda: len(first.calls) >= 2, 60, "two packets")
    first.close()
    failures = started.metric("sonde_self_export_failures_total")
    wait_for(lambda: started.metric("sonde_self_export_failures_total") > failures, 60, "a call without an answer")
    second = grpc_receiver(port=first.port)
    wait_for(lambda: len(second.calls) >= 2, 60, "two packets of a receiver that knows nothing")
    assert started.stop() == 0
    says = export_stats(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"]
    assert total(profcheck(*write(tmp_path, second.bodies()))) > 0
    assert total(profcheck(*write(tmp_path, first.bodies() + second.bodies()))) == says["taken"]


@pytest.mark.thorough
@pytest.mark.sanitized
def test_receiver_is_read_from_the_environment(agent, workload, h2_receiver):  # noqa: F811
    """A gRPC endpoint is a host: no path is appended. tests/unit/agent/test_config.c and lib/otlp/test_settings.c test each variable."""
    to = h2_receiver()
    workload("threads", 600)
    environment = {"OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT": to.url + "/", "OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                   "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_HEADERS": "x-one=1"}
    started = agent(*sets(interval=1), verb="agent", env=dict(os.environ, **environment))
    wait_for(lambda: to.calls, 60, "a packet")
    assert started.stop() == 0 and export_stats(started)["dropped"] == 0
    assert to.calls[0]["headers"]["x-one"] == "1" and "by gRPC" in started.running.error


@pytest.mark.peer
def test_tls_verifies_both_certificates(by_grpc, grpc_receiver, tmp_path):  # noqa: F811
    """HTTP/2 negotiated by TLS. Packets go only to a receiver with a trusted certificate, with a client certificate if the receiver requires one."""
    openssl = need_command("openssl")
    for name, options in (("server", ["-addext", "subjectAltName=IP:127.0.0.1"]), ("client", [])):
        subprocess.run([openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", tmp_path / f"{name}.key",
                        "-out", tmp_path / f"{name}.pem", *options], check=True, capture_output=True)
    to = grpc_receiver(tls=[tmp_path / "server.key", tmp_path / "server.pem", tmp_path / "client.pem"])
    started = by_grpc(to.url, *sets(certificate=tmp_path / "client.pem"))
    wait_for(lambda: started.metric("sonde_self_export_failures_total") > 0, 60, "a call to a receiver that is not trusted")
    assert started.stop() == 0 and not to.calls
    started = by_grpc(to.url, *sets(certificate=tmp_path / "server.pem", client_certificate=tmp_path / "client.pem", client_key=tmp_path / "client.key"))
    wait_for(lambda: to.calls, 60, "a packet")
    assert started.stop() == 0 and export_stats(started)["dropped"] == 0


class Proxy:
    """An HTTP proxy that connects every client to one port, whatever it requests."""

    def __init__(self, port):
        self.port, self.asked, self.listener = port, [], socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            head = b""
            while not head.endswith(b"\r\n\r\n"):  # the client sends nothing else before the response
                head += client.recv(1)
            self.asked.append(head.decode().splitlines()[0])
            server = socket.create_connection(("127.0.0.1", self.port))
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            for ends in ((client, server), (server, client)):
                threading.Thread(target=Tap.carry, args=(*ends, bytearray()), daemon=True).start()


def test_packets_pass_an_http_proxy(by_grpc, h2_receiver):  # noqa: F811
    """The proxy itself does not speak HTTP/2 and only tunnels it."""
    to = h2_receiver()
    proxy = Proxy(int(to.url.rpartition(":")[2]))
    started = by_grpc("http://collector.invalid:4317", env=dict(os.environ, http_proxy=proxy.url, no_proxy=""))
    wait_for(lambda: to.calls, 60, "a packet")
    assert started.stop() == 0 and export_stats(started)["dropped"] == 0
    assert set(proxy.asked) == {"CONNECT collector.invalid:4317 HTTP/1.1"}


def test_grpc_url_with_a_path_is_refused(sonde):
    """Only HTTP URLs have a path: the setting is refused, and nothing is sent to the wrong place."""
    done = subprocess.run([sonde, "agent", *sets(protocol="grpc", profiles_endpoint="http://127.0.0.1:9/v1development/profiles")], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode != 0 and "a URL of gRPC has no path" in done.stderr, done.stderr
