"""Requests take as long, by the agent's count, as clients of other projects measure: h2load, nghttp and wrk, with TLS and without, clients of gRPC in Go and Python,
tritonclient and openai. Each request is counted once, with its status. A client's mean may differ from the agent's by 1 ms, or by 5 %."""
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from harness.machine import free_port, need_command
from harness.processes import wait_for
from pypi import environment, go_program
from real_servers import listens, start_nginx, start_threading
from test_examples import clients, prepared, serve  # noqa: F401 (fixtures)
from test_request_counts import NO_BUDGET, named
from test_requests_tls import certificate, watch  # noqa: F401

pytestmark = [pytest.mark.usefixtures("root"), pytest.mark.statistical, pytest.mark.timeout(600)]
HTTP, GRPC = "http_server_request_duration_seconds", "rpc_server_call_duration_seconds"
REQUESTS, AT_ONCE = 100, 10
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1}
LOCATIONS = "location /fast {{ return 200 ok; }} location /failing {{ return 503; }} location /sleep {{ proxy_pass http://127.0.0.1:{}; }}"


@pytest.fixture
def nginx(run, tmp_path, certificate):  # noqa: F811
    """{"http1", "http2", "http1-tls", "http2-tls": the URL of an nginx}; /sleep takes 80 ms."""
    tmp_path.chmod(0o755)
    ports = {way: free_port() for way in ("http2", "http1-tls", "http2-tls")}
    listens_at = "".join(f"listen 127.0.0.1:{port} {'ssl ' if 'tls' in way else ''}{'http2' if 'http2' in way else ''}; " for way, port in ports.items())
    server = start_nginx(run, tmp_path, f"{listens_at} ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]}; "
                         + LOCATIONS.format(start_threading(run).port), before=named("timed-nginx"))
    wait_for(lambda: all(map(listens, ports.values())), what="nginx")
    return {way: f"{'https' if 'tls' in way else 'http'}://127.0.0.1:{port}" for way, port in {"http1": server.port, **ports}.items()}


def output_of(*command):
    """Of a client with a real-time priority: its own waits for a CPU would be part of what it measures."""
    done = subprocess.run([need_command("chrt"), "-f", "1", *map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def assert_same(watching, name, durations_s, within_s=1e-3, **labels):
    """`durations_s`: what the client measured of each request with these labels. Only these requests have the labels."""
    def value(of):
        return watching.metric(f"{name}_{of}", **labels)
    wait_for(lambda: value("count") >= len(durations_s), 60, f"{len(durations_s)} requests with {labels}", seen=watching.metrics)
    assert value("count") == len(durations_s), labels
    ours, theirs = value("sum") / len(durations_s), statistics.mean(durations_s)
    print(f"{labels}: {len(durations_s)} requests, {ours * 1e3:.2f} ms, by the client {theirs * 1e3:.2f} ms")
    assert abs(ours - theirs) <= max(within_s, 0.05 * theirs), (labels, ours, theirs)


def h2load(url, path, log):
    log.unlink(missing_ok=True)
    output_of(need_command("h2load"), "-n", REQUESTS, "-c", 2, "-m", AT_ONCE // 2, "--log-file", log, f"{url}{path}")
    return [(int(status), int(us) / 1e6) for _, status, us in map(str.split, log.read_text().splitlines())]


@pytest.mark.parametrize("way", ["http2", "http2-tls"])
def test_h2load(agent, nginx, tmp_path, way):
    watching = watch(agent)
    for path, status in (("/sleep", 200), ("/fast", 200), ("/failing", 503)):
        found = h2load(nginx[way], path, tmp_path / "log")
        assert {reply for reply, _ in found} == {status} and len(found) == REQUESTS
        assert_same(watching, HTTP, [took_s for _, took_s in found], service_name="timed-nginx", http_route=path, http_response_status_code=status)


@pytest.mark.parametrize("way", ["http2", "http2-tls"])
def test_nghttp(agent, nginx, way):
    watching = watch(agent)
    said = output_of(need_command("nghttp"), "-n", "-s", "-m", AT_ONCE, f"{nginx[way]}/sleep")
    found = [float(time) * UNITS[unit] for time, unit in re.findall(r"^ *\d+ +\+\S+ +\+\S+ +([\d.]+)(us|ms|s) +200 +\d+ /sleep$", said, re.M)]
    assert len(found) == AT_ONCE, said
    assert_same(watching, HTTP, found, service_name="timed-nginx", http_route="/sleep", http_response_status_code=200)


@pytest.mark.parametrize("way", ["http1", "http1-tls"])
def test_wrk(agent, nginx, way):
    """wrk ends without the reply to the last request of each connection, which the server has counted. The mean is that of connections which always wait for a reply: what
    wrk prints as latency is corrected for requests that it could not send."""
    watching = watch(agent)
    said = output_of(need_command("wrk"), "-t1", f"-c{AT_ONCE}", "-d5s", f"{nginx[way]}/sleep")
    requests, took_s = re.search(r"(\d+) requests in ([\d.]+)s", said).groups()
    requests, theirs = int(requests), AT_ONCE * float(took_s) / int(requests)
    assert "Socket errors" not in said and "Non-2xx" not in said, said

    def counted(of):
        return watching.metric(f"{HTTP}_{of}", service_name="timed-nginx", http_route="/sleep", http_response_status_code=200)
    wait_for(lambda: counted("count") >= requests, what="the requests to be counted")
    assert requests <= counted("count") <= requests + AT_ONCE
    ours = counted("sum") / counted("count")
    print(f"{requests} requests, {ours * 1e3:.2f} ms, by the client {theirs * 1e3:.2f} ms")
    assert abs(ours - theirs) <= max(1e-3, 0.05 * theirs), (ours, theirs)


PYTHON_CLIENT = """
import sys, time, grpc
port, method, count = sys.argv[1:]
channel = grpc.insecure_channel("127.0.0.1:" + port)
grpc.channel_ready_future(channel).result()
def call():
    began, status = time.monotonic_ns(), 0
    try:
        channel.unary_unary("/test.Service/" + method)(b"hello")
    except grpc.RpcError as error:
        status = error.code().value[0]
    return status, time.monotonic_ns() - began
for _ in range(int(count)):
    print(*call())
"""


@pytest.mark.parametrize("client", ["go", "python"])
def test_clients_of_grpc(agent, run, client):
    program = go_program("grpc_go")
    server = run(program, "serve", 0, name="grpc-go")
    port = wait_for(lambda: re.search(r"^port (\d+)\n", server.out), what="the server")[1]
    call = (program, "call") if client == "go" else (environment("grpcio-venv", ["grpcio==1.74.0"], [sys.executable, "/usr/bin/python3"], "True") / "python", "-c", PYTHON_CLIENT)
    watching = agent(*NO_BUDGET)
    for method, status, name in (("Sleep", 0, "OK"), ("Fail", 5, "NOT_FOUND")):
        found = [tuple(map(int, line.split())) for line in output_of(*call, port, method, REQUESTS).splitlines()]
        assert len(found) == REQUESTS and {code for code, _ in found} == {status}
        assert_same(watching, GRPC, [ns / 1e9 for _, ns in found], rpc_method=f"test.Service/{method}", rpc_response_status_code=name)


INFERENCE = Path(__file__).with_name("timed_inference.py")


def test_clients_of_inference(agent, serve, clients):  # noqa: F811
    """tritonclient over gRPC and HTTP, and the time to the first token of openai, which takes a millisecond or two to read an event."""
    server = serve()
    watching = agent(*NO_BUDGET)
    found = json.loads(output_of(clients, INFERENCE, server.port, server.grpc_port))
    assert_same(watching, GRPC, found["grpc"], rpc_method="inference.GRPCInferenceService/ModelInfer forest", rpc_response_status_code="OK")
    assert_same(watching, HTTP, found["http"], http_route="/v2/models/forest/infer", http_response_status_code=200)
    assert_same(watching, "gen_ai_server_time_to_first_token_seconds", found["first_token"], 3e-3, http_route="/v1/chat/completions", gen_ai_request_model="writer")
