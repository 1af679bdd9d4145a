"""The function that a server waited in: `sonde why --json` on servers compiled as Debian compiles, without frame pointers. The agent records a process's
waits from its first request with a critical path on, so the first requests have no stacks."""
import time

import pytest
from harness.processes import wait_for
from real_servers import get, names_sleep_of_c_server, parts_of, start_c_server, why, why_without_agent

pytestmark = pytest.mark.usefixtures("root")
WAYS = ["threads", "epoll", "prefork"]


def naps_of(requests, server):
    """The sleep components of its requests."""
    return [part for r in requests if r["route"] == "/naps" and r["service"] == "server" and r["status"] == 200 and r["pid"] in server.pids
            for part in parts_of(r, "sleep")]


def assert_function(part):
    """Also before the unwind table exists: then a copy of the stack is unwound later, which may be too short for the outer frames only."""
    stack = part["stack"]
    assert stack.index("sleep_ms") + 1 == stack.index("nap_long"), part
    assert names_sleep_of_c_server(part["detail"]), part


def is_whole(part):
    return "stack" in part and part["stack"][0].endswith("_[k]") and not part["stack"][-1].startswith("[truncated")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))


def start(run, way, folder):
    server = start_c_server(run, way, folder)
    if way == "prefork":
        wait_for(lambda: len(children_of(server.pid)) == 4, what="the processes that serve")
        server.pids = children_of(server.pid)
    return server


def test_sleeping_function_is_shown_by_the_agent(sonde, agent, run, tmp_path):
    """The first requests of a process may precede its unwind table; a later one has its whole stack."""
    watching = agent("--set", "budget.one_cpu=1000%")
    servers = [start(run, way, tmp_path) for way in WAYS]

    def all_whole():
        for server in servers:
            get(server.port, "/naps?ms=40")
        requests = why(sonde, watching)
        return all(any(is_whole(part) for part in naps_of(requests, server)) for server in servers)
    wait_for(all_whole, 120, "a whole stack of each server")
    for server in servers:
        for part in naps_of(why(sonde, watching), server):
            if is_whole(part):  # another one may end below nap_long: its unwind table was not ready
                assert_function(part)


@pytest.mark.statistical
@pytest.mark.parametrize("way", WAYS)
def test_most_requests_show_the_sleeping_function(sonde, run, tmp_path, way):
    """Without an agent; including the kernel's frames."""
    server = start(run, way, tmp_path)

    def drive():
        for _ in range(8):  # unwind tables are built when the first request has been seen
            get(server.port, "/naps?ms=40")
            time.sleep(0.2)
    sleeps = [part for part in naps_of(why_without_agent(sonde, run, drive), server) if "stack" in part]
    assert len(sleeps) >= 4, sleeps
    for part in sleeps:
        assert_function(part)
    assert any(not part["stack"][-1].startswith("[truncated") for part in sleeps), sleeps
    assert any(part["stack"][0].endswith("_[k]") for part in sleeps), sleeps  # missing where the switch back to the CPU was not traced (docs/why.md)
