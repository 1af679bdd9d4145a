"""The critical path of requests of an event loop with a pool of threads: the work of another thread for the request is a component of it. The handler
calls sleep for 200 ms; the measured wait may be shorter only by the time that the thread needs to fall asleep."""
import re
import sys

import pytest
from harness.processes import wait_for
from real_servers import Server, get, total, why
from test_requests_tls import certificate, watch  # noqa: F401 (a fixture)
from test_streams import UNVERIFIED

pytestmark = pytest.mark.usefixtures("root")
SLEEP_NS = 200_000_000
EVENT_LOOP = """
import asyncio, concurrent.futures, ssl, sys, threading, time
pool, lock = concurrent.futures.ThreadPoolExecutor(4), threading.Lock()
def sleep_locked():
    with lock:
        time.sleep(0.2)
WAYS = {"/pool": lambda loop: loop.run_in_executor(pool, time.sleep, 0.2), "/lock": lambda loop: loop.run_in_executor(pool, sleep_locked),
        "/timer": lambda loop: asyncio.sleep(0.2)}
async def serve(reader, writer):
    path = (await reader.readuntil(b"\\r\\n\\r\\n")).split()[1].decode()
    await WAYS[path](asyncio.get_running_loop())
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\nConnection: close\\r\\n\\r\\nokay")
    await writer.drain()
    writer.close()
async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if sys.argv[1:] else None
    if context:
        context.load_cert_chain(*sys.argv[1:])
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def start_event_loop(run, *certificate):
    running = run(sys.executable, "-c", EVENT_LOOP, *certificate, name="event-loop")
    said = wait_for(lambda: re.search(r"^port (\d+)\n", running.out), what="the server")
    return Server(running, int(said[1]), [running.pid])


@pytest.fixture
def event_loop(run):
    return start_event_loop(run)


def find_request(sonde, agent, server, route, tls=None):
    """A request of that route, with its critical path, whose segments sum to the duration as the components do. Some kernels do not trace every
    switch (docs/why.md): a request with such a gap is not the one."""
    def look():
        get(server.port, route, tls)
        return [r for r in why(sonde, agent, "--route", route) if r["pid"] == server.pid and not any("not recorded" in s["detail"] for s in r["segments"])]
    request = wait_for(look, 30, what=f"the record of {route}")[0]
    segments = request["segments"]
    assert segments, request
    end_ns = 0
    for segment in segments:
        assert segment["start_ns"] == end_ns and segment["ns"] > 0, segments
        end_ns += segment["ns"]
    assert end_ns == request["duration_ns"] >= SLEEP_NS, request
    return request


def assert_pool_is_followed(request):
    assert total(request, "sleep") >= SLEEP_NS / 2 and total(request, "unattributed") < SLEEP_NS / 4, request
    longest = max(request["segments"], key=lambda s: s["ns"])
    assert longest["kind"] == "sleep" and longest["tid"] != request["tid"] and longest["pid"] == request["pid"], longest
    assert longest["owner"] == "this" and "clock_nanosleep" in longest["detail"], longest


def test_thread_of_a_pool_is_followed(sonde, agent, event_loop):
    assert_pool_is_followed(find_request(sonde, agent("--set", "budget.one_cpu=1000%"), event_loop, "/pool"))


def assert_timer_is_inferred(request):
    longest = max(request["segments"], key=lambda s: s["ns"])
    assert longest["kind"] == "sleep" and longest["evidence"] == "inferred" and longest["tid"] == request["tid"], request


def test_timer_of_a_loop_is_inferred(sonde, agent, event_loop):
    assert_timer_is_inferred(find_request(sonde, agent("--set", "budget.one_cpu=1000%"), event_loop, "/timer"))


@pytest.mark.thorough
def test_paths_over_tls_are_the_same(sonde, run, agent, certificate):  # noqa: F811
    server, watching = start_event_loop(run, *certificate), watch(agent)
    assert_timer_is_inferred(find_request(sonde, watching, server, "/timer", UNVERIFIED))
    assert_pool_is_followed(find_request(sonde, watching, server, "/pool", UNVERIFIED))


def test_without_the_recorder_there_is_no_path(sonde, agent, event_loop):
    started = agent("--set", "budget.one_cpu=1000%", "--set", "recorder.enabled=false")
    get(event_loop.port, "/pool")
    request, = wait_for(lambda: [r for r in why(sonde, started, "--route", "/pool") if r["pid"] == event_loop.pid], 20, what="the record")
    assert request["segments"] == [] and total(request, "unattributed") >= SLEEP_NS / 2, request
