"""Which function of a server waited: `sonde why --json` on servers compiled as Debian compiles, without frame pointers."""
import time

import pytest
from harness.processes import wait_for
from real_servers import get, parts_of, start_c_server, why, why_without_agent

pytestmark = pytest.mark.usefixtures("root")
WAYS = ["threads", "epoll", "prefork"]


def naps_of(requests, server):
    """The parts of its requests that are sleeps."""
    return [part for r in requests if r["route"] == "/naps" and r["service"] == "server" and r["status"] == 200 and r["pid"] in server.pids
            for part in parts_of(r, "sleep")]


def assert_function(part):
    """Also where its unwind table was not there yet: then the stack comes as a copy, which may be too short for the outer frames only."""
    stack = part["stack"]
    assert stack.index("sleep_ms") + 1 == stack.index("nap_long"), part
    assert "sleep_ms < nap_long" in part["detail"], part


def is_whole(part):
    return part["stack"][0].endswith("_[k]") and not part["stack"][-1].startswith("[truncated")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))


def start(run, way, folder):
    server = start_c_server(run, way, folder)
    if way == "prefork":
        wait_for(lambda: len(children_of(server.pid)) == 4, what="the processes that serve")
        server.pids = children_of(server.pid)
    return server


def test_function_that_slept(sonde, agent, run, tmp_path):
    """The first requests of a process may come before its unwind table is there; a later one has its whole stack."""
    watching = agent("--set", "budget.cpu=100%")
    servers = [start(run, way, tmp_path) for way in WAYS]

    def all_whole():
        for server in servers:
            get(server.port, "/naps?ms=40")
        requests = why(sonde, watching)
        return all(any(is_whole(part) for part in naps_of(requests, server)) for server in servers)
    wait_for(all_whole, 120, "a whole stack of each server")
    for server in servers:
        for part in naps_of(why(sonde, watching), server):
            assert_function(part)


@pytest.mark.statistical
@pytest.mark.parametrize("way", WAYS)
def test_most_requests_have_the_function_that_slept(sonde, run, tmp_path, way):
    """Without an agent; and the kernel's part, too."""
    server = start(run, way, tmp_path)

    def drive():
        for _ in range(8):  # tables are made when the first has been seen
            get(server.port, "/naps?ms=40")
            time.sleep(0.2)
    sleeps = naps_of(why_without_agent(sonde, run, drive), server)
    assert len(sleeps) == 8, sleeps
    for part in sleeps:
        assert_function(part)
    assert any(not part["stack"][-1].startswith("[truncated") for part in sleeps), sleeps
    assert sum(part["stack"][0].endswith("_[k]") for part in sleeps) >= 6, sleeps  # not where the return to a CPU was not traced (docs/why.md)
