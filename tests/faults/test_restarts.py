"""Agents that start, end and are killed again and again under load: clients of servers whose functions are probed see no error, and every byte is right."""
import http.client
import os
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "e2e"))
from harness.machine import free_port, need_command  # noqa: E402
from harness.processes import wait_for  # noqa: E402
from harness.workloads import workload_path  # noqa: E402
from real_servers import listens, start_nginx  # noqa: E402
from test_requests_tls import SERVER, certificate  # noqa: E402, F401

pytestmark = [pytest.mark.usefixtures("root"), pytest.mark.statistical, pytest.mark.timeout(600)]
RESTARTS = 20
UNVERIFIED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
UNVERIFIED.check_hostname, UNVERIFIED.verify_mode = False, ssl.CERT_NONE


class Client:
    """Calls ask() again and again, in a thread of its own, until it fails."""

    def __init__(self, name, ask):
        self.name, self.ask, self.replies, self.error, self.ends = name, ask, 0, None, False
        self.thread = threading.Thread(target=self.repeat)
        self.thread.start()

    def repeat(self):
        try:
            while not self.ends:
                self.ask()
                self.replies += 1
        except Exception as error:  # noqa: BLE001 (the test reports it)
            self.error = error

    def end(self):
        self.ends = True
        self.thread.join()


def asking(port, target, body, tls):
    """Requests on one connection, whose replies are compared with `body`."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=UNVERIFIED) if tls else http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask():
        connection.request("GET", target)
        reply = connection.getresponse()
        assert reply.status == 200 and reply.read() == body, "another reply"
    return ask


def h2load(url):
    """A hundred streams on two connections."""
    def ask():
        said = subprocess.run([need_command("h2load"), "-n", "100", "-c", "2", "-m", "5", url], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60).stdout
        assert "100 succeeded, 0 failed, 0 errored, 0 timeout" in said, said
    return ask


@pytest.fixture
def load(run, tmp_path, certificate):  # noqa: F811
    """Clients of servers with OpenSSL on the socket and in memory, with Go's TLS and without TLS."""
    tmp_path.chmod(0o755)
    content = os.urandom(20_000)
    (tmp_path / "content").write_bytes(content)
    tls, http2, http2_tls = (free_port() for _ in range(3))
    nginx = start_nginx(run, tmp_path, f"listen 127.0.0.1:{tls} ssl; listen 127.0.0.1:{http2} http2; listen 127.0.0.1:{http2_tls} ssl http2;"
                                       f"ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]}; root {tmp_path};")
    wait_for(lambda: all(map(listens, (tls, http2, http2_tls))), what="nginx")
    in_memory, in_go = run(sys.executable, SERVER, *certificate, name="asyncio"), run(workload_path("tls_server"), *certificate, name="go")
    memory_port, go_port = (int(wait_for(lambda: server.out, what="the server")) for server in (in_memory, in_go))  # noqa: B023
    asks = {"HTTP/1": asking(nginx.port, "/content", content, False), "OpenSSL on the socket": asking(tls, "/content", content, True),
            "OpenSSL in memory": asking(memory_port, "/of/p", b"ok\n", True), "Go": asking(go_port, "/large", b"x" * 50_000, True),
            "HTTP/2": h2load(f"http://127.0.0.1:{http2}/content"), "HTTP/2 over TLS": h2load(f"https://127.0.0.1:{http2_tls}/content")}
    clients = [Client(name, ask) for name, ask in asks.items()]
    yield clients
    for client in clients:
        client.end()


def test_no_client_sees_an_error(agent, load):
    for number in range(RESTARTS):
        watching, before = agent("--set", "budget.one_cpu=1000%"), [client.replies for client in load]
        wait_for(lambda: watching.metric("sonde_requests_tls_attachments"), 60, "the agent to attach to TLS")  # noqa: B023
        wait_for(lambda: all(client.error or client.replies > old for client, old in zip(load, before)), 60, "replies while the agent runs")  # noqa: B023
        watching.running.kill() if number % 2 else watching.stop()
    for client in load:
        client.end()
    assert {client.name: client.error for client in load if client.error} == {}
