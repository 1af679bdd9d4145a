"""Many connections at once, and one after another: over TLS each request is on its own connection, and memory does not grow with the number of connections."""
import random
import re
import resource
import subprocess
import sys
import time

import pytest
from harness.machine import free_port, need_command
from harness.processes import memory_bytes, wait_for
from pypi import environment
from real_servers import listens, start_nginx
from test_request_counts import counted, named
from test_requests_tls import SERVER, Client, certificate, nginx, records, watch  # noqa: F401

pytestmark = [pytest.mark.usefixtures("root"), pytest.mark.statistical, pytest.mark.timeout(600)]
CONNECTIONS, AT_ONCE, ROUNDS = 1000, 25, 3  # so many requests a second have a record each, if the node serves few others
RIGHT = 0.999
UVLOOP = ["uvicorn==0.54.0", "uvloop==0.23.0", "httptools==0.9.0"]
APP = """
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
"""


@pytest.fixture(autouse=True)
def enough_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def start_uvloop(run, folder, certificate):  # noqa: F811
    """(service, pid, port)"""
    python, port = environment("uvloop-venv", UVLOOP, [sys.executable, "/usr/bin/python3"], "sys.version_info >= (3, 10)") / "python", free_port()
    (folder / "app.py").write_text(APP)
    server = run(*named("many-uvloop"), python, "-m", "uvicorn", "--loop", "uvloop", "--lifespan", "off", "--no-access-log", "--timeout-keep-alive", 600, "--port", port, "--ssl-certfile", certificate[0],
                 "--ssl-keyfile", certificate[1], "app:app", cwd=folder, name="uvloop")
    wait_for(lambda: listens(port) or not server.alive, what="uvicorn")
    assert server.alive, server.error
    return "many-uvloop", server.pid, port


def start(kind, run, folder, certificate, nginx):  # noqa: F811
    if kind == "uvloop":
        return start_uvloop(run, folder, certificate)
    if kind == "nginx":
        return "tls-nginx", nginx.pid, nginx.port
    server = run(*named("many-asyncio"), sys.executable, SERVER, *certificate, name="asyncio")
    return "many-asyncio", server.pid, int(wait_for(lambda: server.out, what="the server"))


@pytest.mark.parametrize("kind", ["nginx", "asyncio", "uvloop"])
def test_requests_over_tls_are_on_their_own_connections(agent, run, tmp_path, certificate, nginx, kind):  # noqa: F811
    """The path of each request has the port of its client."""
    service, pid, port = start(kind, run, tmp_path, certificate, nginx)
    watching, clients = watch(agent), [Client(port) for _ in range(CONNECTIONS)]
    while not counted(watching, service):  # replies that show that TLS is in memory
        clients[0].ask()
    time.sleep(2)  # the counts of a series follow within a second
    before, judged, asked = counted(watching, service).total(), {}, 0
    random.Random(7).shuffle(clients)
    while len(judged) < CONNECTIONS and asked < ROUNDS * CONNECTIONS:
        at, ends = asked % CONNECTIONS, time.monotonic() + 1
        some = clients[at:at + AT_ONCE]
        for client in some:
            client.send()
        for client in some:
            client.receive()
        asked += AT_ONCE
        time.sleep(max(0, ends - time.monotonic()))
        judged.update({(one["start_time_unix_nano"], one["peer"]): one for one in records(watching, pid)})
    time.sleep(2)
    lost = before + asked - counted(watching, service).total()
    wrong = [one for one in judged.values() if one["route"] != "/of/p" + one["peer"].rpartition(":")[2]]
    print(f"{len(judged)} of {asked} judged, {len(wrong)} wrong, {lost} not counted")
    assert len(judged) >= CONNECTIONS * 0.9
    assert len(wrong) <= len(judged) * (1 - RIGHT), wrong[:5]
    assert abs(lost) <= asked * (1 - RIGHT)
    for client in clients:
        client.close()


WARM_UP, OF_ONE_KIND = 15_000, 35_000


def test_memory_is_bounded_for_a_hundred_thousand_connections(agent, run, tmp_path, certificate):  # noqa: F811
    """Half of them over TLS; each has one request. The windows of samples fill meanwhile, with some MiB."""
    tmp_path.chmod(0o755)
    tls = free_port()
    server = start_nginx(run, tmp_path, f"listen 127.0.0.1:{tls} ssl; ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]}; return 200 ok;",
                         before=named("many-nginx"))
    wait_for(lambda: listens(tls), what="nginx over TLS")
    watching = watch(agent)

    def connect(url, wanted):
        done = 0
        while done < wanted:
            said = subprocess.run([need_command("wrk"), "-t1", "-c16", "-d5s", "-H", "Connection: close", url], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=60).stdout
            done += int(re.search(r"(\d+) requests in", said)[1])
        return done

    def both(wanted):
        done = connect(f"http://127.0.0.1:{server.port}/", wanted) + connect(f"https://127.0.0.1:{tls}/", wanted)
        return done, memory_bytes(watching.pid)
    warmed_up, first = both(WARM_UP)
    done, last = both(OF_ONE_KIND)
    print(f"{warmed_up + done} connections: from {first >> 20} to {last >> 20} MiB")
    assert last - first < 6 << 20, f"from {first >> 20} to {last >> 20} MiB"
    wait_for(lambda: watching.used_bytes() < 64 << 20, 60, "memory, BPF included, to be within the budget")
