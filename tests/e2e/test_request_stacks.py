"""Which function of a server waited: `sonde why --json` on servers compiled as Debian compiles, without frame pointers."""
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness.machine import free_port, need_root
from harness.processes import wait_for
from test_requests import get, listening, watch

SOURCE = Path(__file__).resolve().parent.parent / "subjects/servers/server.c"


@pytest.fixture(scope="module")
def server_program(tmp_path_factory):
    path = tmp_path_factory.mktemp("server") / "server"
    subprocess.run(["gcc", "-std=gnu17", "-O2", "-fomit-frame-pointer", "-D_GNU_SOURCE", "-o", path, SOURCE, "-pthread"], check=True)
    return path


@pytest.mark.parametrize("way", ["threads", "epoll", "prefork"])
def test_the_function_that_slept(server_program, tmp_path, way):
    need_root()
    port = free_port()
    server = subprocess.Popen([server_program, way, str(port), tmp_path], stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(lambda: listening(port), what="the server")

        def drive():
            for _ in range(8):  # rows are made when the first has been seen
                get(port, "/naps?ms=40")
                time.sleep(0.2)
        requests = [r for r in watch(drive) if r["route"] == "/naps" and r["service"] == "server"]
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    assert len(requests) == 8
    sleeps = [part for r in requests for part in r["parts"] if part["kind"] == "sleep"]
    assert len(sleeps) == 8, requests
    whole = with_kernel = 0
    for part in sleeps:
        stack = part["stack"]
        with_kernel += stack[0].endswith("_[k]")
        # Also where its rows were not there yet: then it comes as a copy, which may be too short for the outer frames only.
        assert stack.index("sleep_ms") + 1 == stack.index("nap_long"), part
        assert "sleep_ms < nap_long" in part["detail"], part
        whole += not stack[-1].startswith("[truncated")
    assert whole >= 1, sleeps
    assert with_kernel >= 6, sleeps  # not where the return to a CPU was not traced (docs/why.md)
