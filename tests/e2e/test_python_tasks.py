"""Requests of an event loop whose jobs run on a pool of threads: which thread did the job that a request's task waited for, and who had the GIL. Both are
read from the interpreter's memory, at places that depend on its version."""
import re
import threading
import time
from collections import Counter

import pytest
from harness.processes import wait_for
from python_programs import interpreter_of, versions
from real_servers import Server, get, why

pytestmark = pytest.mark.usefixtures("root")
MINORS = (8, 9, 10, 11, 12, 13)
SLOW_S, SPINS_S = 0.3, 0.2
POOL = """
import asyncio, concurrent.futures, os, threading, time
pool = concurrent.futures.ThreadPoolExecutor(2)
def spin():
    while True:
        pass
def poll():
    while True:
        time.sleep(0.001)
def stat():
    ends = time.monotonic() + SPINS_S
    while time.monotonic() < ends:
        os.stat("/")
def start():
    spinner = threading.Thread(target=spin, daemon=True)
    spinner.start()
    for _ in range(2):
        threading.Thread(target=poll, daemon=True).start()
    return spinner.native_id
JOBS = {"/slow": lambda: time.sleep(SLOW_S), "/quick": lambda: None, "/stat": stat, "/start": start}
async def serve(reader, writer):
    path = (await reader.readuntil(b"\\r\\n\\r\\n")).split()[1].decode()
    result = str(await asyncio.get_running_loop().run_in_executor(pool, JOBS[path])).encode()
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % len(result) + result)
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
""".replace("SLOW_S", str(SLOW_S)).replace("SPINS_S", str(SPINS_S))


@pytest.fixture(params=versions(*MINORS))
def server(run, request):
    running = run(interpreter_of(request.param), "-c", POOL, name="pool")
    said = wait_for(lambda: re.search(r"^port (\d+)\n", running.out), what="the server")
    return Server(running, int(said[1]), [running.pid])


def get_behind_others(server):
    """A quick request while both threads of the pool have slow ones, which end at the same time."""
    others = [threading.Thread(target=get, args=(server.port, "/slow")) for _ in range(2)]
    for other in others:
        other.start()
    time.sleep(SLOW_S / 6)
    get(server.port, "/quick")
    for other in others:
        other.join()


def is_behind(request, server):
    waited = max(request["segments"], key=lambda s: s["ns"])
    return waited["kind"] != "sleep" and waited["owner"] == "other" and waited["tid"] != server.pid


def quick_requests(sonde, agent, server):
    """No thread is woken for these. Without its task, the loop has been woken by both slow jobs, too."""
    started = agent("--set", "budget.one_cpu=1000%")

    def look():
        get_behind_others(server)
        found = [r for r in why(sonde, started, "--route", "/quick") if r["pid"] == server.pid and r["segments"] and r["duration_ns"] >= SLOW_S * 0.6e9]
        return len(found) >= 10 and found
    return wait_for(look, 90, what="records of the quick requests")


@pytest.mark.thorough
def test_job_that_waits_in_the_queue_of_a_pool(sonde, agent, server):
    found = quick_requests(sonde, agent, server)
    assert any(is_behind(r, server) for r in found), [r["segments"] for r in found]


@pytest.mark.statistical
def test_most_jobs_that_wait_in_the_queue_of_a_pool(sonde, agent, server):
    """The loop may forget who waits for a job before the byte that says that it is finished (docs/why.md)."""
    found = quick_requests(sonde, agent, server)
    assert sum(is_behind(r, server) for r in found) >= 0.8 * len(found), [r["segments"] for r in found if not is_behind(r, server)]


HANDOVERS = """
import asyncio, os, queue, threading, time
def work(jobs, done):
    while True:
        number, seconds = jobs.get()
        time.sleep(seconds)
        os.write(done, bytes([number]))
async def serve(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\n")
    await asyncio.sleep(EARLY_S)
    number = next(n for n in range(2) if n not in waiting)
    waiting[number] = asyncio.get_running_loop().create_future()
    queues[number].put((number, SLOW_S))
    await waiting[number]
    del waiting[number]
    writer.write(str(threads[number].native_id).encode())
    await writer.drain()
    writer.close()
def read(done):
    for number in os.read(done, 2):
        waiting[number].set_result(None)
async def main():
    done, write = os.pipe()
    for each in queues:
        threads.append(threading.Thread(target=work, args=(each, write), daemon=True))
        threads[-1].start()
    asyncio.get_running_loop().add_reader(done, read, done)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
waiting, threads, queues = {}, [], [queue.SimpleQueue(), queue.SimpleQueue()]
asyncio.run(main())
""".replace("SLOW_S", str(SLOW_S)).replace("EARLY_S", str(SLOW_S / 10))


@pytest.fixture(params=versions(*MINORS))
def handing_over(run, request):
    running = run(interpreter_of(request.param), "-c", HANDOVERS, name="handovers")
    said = wait_for(lambda: re.search(r"^port (\d+)\n", running.out), what="the server")
    return Server(running, int(said[1]), [running.pid])


def get_in_turn(server):
    """Two requests. When the first one gives its job to a thread, the loop has sent the beginning of the second one's reply last."""
    threads = []
    others = [threading.Thread(target=lambda: threads.append(int(get(server.port, "/job").body))) for _ in range(2)]
    for other in others:
        other.start()
        time.sleep(SLOW_S / 20)
    for other in others:
        other.join()
    return set(threads)


@pytest.mark.thorough
def test_thread_to_which_a_task_gives_a_job(sonde, agent, handing_over):
    """The loop learns of the end of a job by a pipe: only who gave it is known."""
    started = agent("--set", "budget.one_cpu=1000%")

    def look():
        workers = get_in_turn(handing_over)
        found = [r for r in why(sonde, started, "--route", "/job") if r["pid"] == handing_over.pid and r["segments"]]
        last = sorted(found, key=lambda r: r["start_time_unix_nano"])[-2:]
        waits = [max(r["segments"], key=lambda s: s["ns"]) for r in last]
        return {s["tid"] for s in waits if s["owner"] == "this" and s["kind"] == "sleep"} == workers
    wait_for(look, 60, what="two requests, each with the thread that did its job")


CHILDREN = """
import asyncio, concurrent.futures, threading, time
pool = concurrent.futures.ThreadPoolExecutor(4)
def job():
    time.sleep(SLOW_S)
    return threading.get_native_id()
async def child():
    return await asyncio.get_running_loop().run_in_executor(pool, job)
async def gather():
    return (await asyncio.gather(child()))[0]
async def wait():
    done, _ = await asyncio.wait({asyncio.ensure_future(child())})
    return done.pop().result()
async def group():
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(child())
    return task.result()
WAYS = {"/gather": gather, "/wait": wait, "/wait_for": lambda: asyncio.wait_for(child(), 60), "/task": lambda: asyncio.ensure_future(child())}
if hasattr(asyncio, "TaskGroup"):
    WAYS["/group"] = group
async def serve(reader, writer):
    path = (await reader.readuntil(b"\\r\\n\\r\\n")).split()[1].decode()
    result = str(await WAYS[path]()).encode()
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % len(result) + result)
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("ways", *WAYS, "port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
""".replace("SLOW_S", str(SLOW_S))


def get_at_once(port, path):
    """The threads that did the jobs of two requests."""
    threads = []
    others = [threading.Thread(target=lambda: threads.append(int(get(port, path).body))) for _ in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    return set(threads)


@pytest.mark.thorough
@pytest.mark.parametrize("version", versions(*MINORS))
def test_job_of_a_task_that_the_requests_task_waits_for(sonde, agent, run, version):
    """Two requests at once, whose jobs end together: each has the thread of its own job, in each way of waiting for a task."""
    running = run(interpreter_of(version), "-c", CHILDREN, name="children")
    said = wait_for(lambda: re.search(r"^ways (.+) port (\d+)\n", running.out), what="the server")
    ways, port = set(said[1].split()), int(said[2])
    started = agent("--set", "budget.one_cpu=1000%")

    def look():
        for way in sorted(ways):
            workers = get_at_once(port, way)
            found = [r for r in why(sonde, started, "--route", way) if r["pid"] == running.pid and r["segments"]]
            last = sorted(found, key=lambda r: r["start_time_unix_nano"])[-2:]
            waits = [max(r["segments"], key=lambda s: s["ns"]) for r in last]
            if {s["tid"] for s in waits if s["owner"] == "this" and s["evidence"] == "measured"} == workers:
                ways.discard(way)
        return not ways
    wait_for(look, 60, what="two requests, each with the thread of its job")


TURNS = """
import asyncio, threading, time
def spin():
    while True:
        pass
async def compute():
    ends = time.thread_time() + COMPUTES_S
    while time.thread_time() < ends:
        pass
    await asyncio.sleep(SLOW_S)
async def block():
    time.sleep(SLOW_S)
async def quick():
    pass
WAYS = {"/compute": compute, "/block": block, "/quick": quick}
async def serve(reader, writer):
    path = (await reader.readuntil(b"\\r\\n\\r\\n")).split()[1].decode()
    await WAYS[path]()
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
    await writer.drain()
    writer.close()
async def main():
    threading.Thread(target=spin, daemon=True).start()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
COMPUTES_S = 0.1
TURNS = TURNS.replace("SLOW_S", str(SLOW_S)).replace("COMPUTES_S", str(COMPUTES_S))


@pytest.mark.parametrize("version", versions(*MINORS))
def test_turn_of_another_task(sonde, agent, run, version):
    """The loop is blocked until it reads two requests at once. The first one computes before the second one has its turn, and replies later."""
    running = run(interpreter_of(version), "-c", TURNS, name="turns")
    port = int(wait_for(lambda: re.search(r"^port (\d+)\n", running.out), what="the server")[1])
    started = agent("--set", "budget.one_cpu=1000%")

    def is_without(request):
        """Its own time on a CPU does not contain the other one's."""
        own = sum(s["ns"] for s in request["segments"] if s["kind"] == "cpu" and s["owner"] == "this")
        others = sum(s["ns"] for s in request["segments"] if s["kind"] in ("loop_busy", "unattributed") and s["owner"] in ("other", "several"))
        return others >= COMPUTES_S * 0.5e9 and own < COMPUTES_S * 0.3e9

    def look():
        clients = [threading.Thread(target=get, args=(port, path)) for path in ("/block", "/compute", "/quick")]
        for client in clients:
            client.start()
            time.sleep(SLOW_S / 6)
        for client in clients:
            client.join()
        return any(is_without(r) for r in why(sonde, started, "--route", "/quick") if r["pid"] == running.pid and r["segments"])
    wait_for(look, 60, what="a quick request that waited for the other one's turn")


def holders_of_the_gil(sonde, agent, server):
    """Pollers take it for moments and wake those that wait for it. Returns the spinner, and how long each thread held it for requests that waited; 0: the
    rest of their time."""
    started = agent("--set", "budget.one_cpu=1000%")
    get(server.port, "/slow")  # the agent knows the process before the spinner begins
    spinner = int(get(server.port, "/start").body)

    def look():
        get(server.port, "/stat")
        found = [r for r in why(sonde, started, "--route", "/stat") if r["pid"] == server.pid and r["segments"]]
        return len(found) >= 3 and found
    held = Counter()
    for request in wait_for(look, 60, what="records of requests that wait for the GIL"):
        for segment in request["segments"]:
            held[segment["tid"] if segment["kind"] == "lock" else 0] += segment["ns"]
    return spinner, held


def test_holder_of_the_gil(sonde, agent, server):
    spinner, held = holders_of_the_gil(sonde, agent, server)
    assert held[spinner] == max(ns for tid, ns in held.items() if tid), held


@pytest.mark.statistical
def test_share_of_the_holder_of_the_gil(sonde, agent, server):
    spinner, held = holders_of_the_gil(sonde, agent, server)
    assert held[spinner] >= 0.85 * (sum(held.values()) - held[0]), held
    assert held[spinner] >= 0.05 * sum(held.values()), held  # on a busy machine most of it is `run_queue`
