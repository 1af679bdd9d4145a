"""Evidence on the segments of a critical path: which file a thread of a pool waited for, on a loop device, whose reads a thread of the kernel does."""
import re
import subprocess
import sys

import pytest
from harness.machine import need_command, skip
from harness.processes import wait_for
from harness.results import variants
from real_servers import Server, get, why

pytestmark = pytest.mark.usefixtures("root")
FILE_BYTES = 8 << 20
POOL = """
import asyncio, concurrent.futures, os, sys
pool, file = concurrent.futures.ThreadPoolExecutor(2), os.open(sys.argv[1], os.O_RDONLY)
def read_cold():
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    for page in range(0, 2048, 2):
        os.pread(file, 4096, page * 4096)
async def serve(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    await asyncio.get_running_loop().run_in_executor(pool, read_cold)
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\nConnection: close\\r\\n\\r\\nokay")
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@pytest.fixture
def cold_file(tmp_path):
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(FILE_BYTES + (16 << 20))
    made = [subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
            for command in (["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image], ["mount", "-o", "loop", image, place])]
    if not all(made):
        skip("no ext4 on a loop device here")
    try:
        (place / "weights.bin").write_bytes(b"w" * FILE_BYTES)
        subprocess.run(["sync", "-f", place], check=True)
        yield place / "weights.bin"
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def test_disk_segment_names_the_file(sonde, agent, run, cold_file):
    running = run(sys.executable, "-c", POOL, cold_file, name="pool")
    server = Server(running, int(wait_for(lambda: re.search(r"^port (\d+)\n", running.out), what="the server")[1]), [running.pid])
    started = agent("--set", "budget.one_cpu=1000%", "--set", "requests.enabled=true")

    def look():
        get(server.port, "/")
        return [(request, segment) for request in why(sonde, started) if request["pid"] == server.pid
                for segment in request["segments"] if "pread64 of weights.bin" in segment["detail"] and segment.get("notes")]
    request, segment = wait_for(look, 60, what="a disk segment with evidence")[0]
    assert segment["tid"] != request["tid"] and segment["pid"] == server.pid, segment
    assert segment["kind"] == "disk", segment
    assert re.match(r"weights\.bin \(ext4\): .+ (in \d+ places|at offset \d+), .+/s$", segment["notes"][0]), segment
    requests = [note for note in segment["notes"] if re.match(r"loop\d+: ", note)]
    assert len(requests) == 1 and re.match(r"loop\d+: \d+ requests?, .+B, .+s( each)?: .+s queued, .+s at the device$", requests[0]), segment

    def printed():
        """The text has the evidence of the longest segment of a thread: on a busy machine that may be a wait for a CPU."""
        get(server.port, "/")
        done = subprocess.run([str(sonde), "why", "--slowest", "100", "--agent", f"127.0.0.1:{started.port}"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60)
        return re.search(r"^ +weights\.bin \(ext4\): ", done.stdout, re.M)
    wait_for(printed, 60, what="the file in the text")


BUSY = """
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        end = time.monotonic() + 0.4
        while time.monotonic() < end:
            sum(range(1000))
        self.send_response(200)
        self.end_headers()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_port, flush=True)
server.serve_forever()
"""


def test_cpu_segment_has_samples(sonde, agent, run):
    running = run(sys.executable, "-c", BUSY, name="busy")
    server = Server(running, int(wait_for(lambda: re.search(r"^port (\d+)\n", running.out), what="the server")[1]), [running.pid])
    started = agent("--set", "budget.one_cpu=1000%")

    def look():
        get(server.port, "/")
        return [segment for request in why(sonde, started) if request["pid"] == server.pid
                for segment in request["segments"] if segment["kind"] == "cpu" and segment.get("notes")]
    segment = wait_for(look, 60, what="a CPU segment with samples")[0]
    assert re.match(r"[1-9]\d* of [1-9]\d* CPU samples are in .+", segment["notes"][-1]), segment


NAPPING = """
import http.server, threading, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        worker = threading.Thread(target=time.sleep, args=(0.05,))
        worker.start()
        worker.join()
        self.send_response(200)
        self.end_headers()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_port, flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize("options", variants([], ["--off-cpu"]), ids=["by_default", "off_cpu"])
def test_wait_of_another_thread_has_its_stack(sonde, agent, run, options):
    running = run(sys.executable, "-c", NAPPING, name="napping")
    server = Server(running, int(wait_for(lambda: re.search(r"^port (\d+)\n", running.out), what="the server")[1]), [running.pid])
    started = agent("--set", "budget.one_cpu=1000%", *options)

    def look():
        get(server.port, "/")
        return [segment for request in why(sonde, started) if request["pid"] == server.pid
                for segment in request["segments"] if segment["kind"] == "sleep" and segment["tid"] != request["tid"] and segment.get("notes")]
    segment = wait_for(look, 60, what="a sleep of another thread with its stack")[0]
    assert re.match(r"thread \d+ waited \d.* ms in .*sleep", segment["notes"][-1]), segment


SLOW = """
import asyncio, concurrent.futures, http.server, sys, time
def slow_query():
    time.sleep(0.05)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        slow_query()
        self.send_response(200)
        self.end_headers()
async def serve(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    await asyncio.get_running_loop().run_in_executor(None, slow_query)
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
    await writer.drain()
    writer.close()
async def loop():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
if sys.argv[1] == "pool":
    asyncio.run(loop())
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_port, flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize("way", ["threads", "pool"])
def test_sleeping_function_is_named_by_default(sonde, agent, run, way):
    """The function of a handler, and of a job that an event loop gave to a pool: there also in the component and its stack."""
    running = run(sys.executable, "-c", SLOW, way, name="slow")
    server = Server(running, int(wait_for(lambda: re.search(r"^port (\d+)\n", running.out), what="the server")[1]), [running.pid])
    started = agent("--set", "budget.one_cpu=1000%")

    def look():
        get(server.port, "/")
        return [(request, segment["notes"][-1]) for request in why(sonde, started) if request["pid"] == server.pid
                for segment in request["segments"] if segment["kind"] == "sleep" and "slow_query" in " ".join(segment.get("notes", []))]
    request, note = wait_for(look, 60, what="a sleep with its function")[0]
    assert re.match(r"thread \d+ waited \d.* ms in (\w+\.)*slow_query\(\) <string>:\d+, calling clock_nanosleep", note), note
    if way == "threads":
        return
    part = max((part for part in request["parts"] if part["kind"] == "sleep"), key=lambda part: part["ns"])
    assert re.match(r"clock_nanosleep in thread \d+ .* in slow_query\(\) <string>:\d+(: |$)", part["detail"]), part
    assert "slow_query" in part["stack"] and part["stack"][0].endswith("_[k]"), part


NATIVE = """
#include <arpa/inet.h>
#include <stdio.h>
#include <unistd.h>
KIND static void slow_query(void)
{
    usleep(50000);
    __asm__ volatile("");
}
int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    char request[4096];
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 8) || getsockname(listener, (struct sockaddr *)&at, &size))
        return 1;
    printf("port %d\\n", ntohs(at.sin_port));
    fflush(stdout);
    for (int client; (client = accept(listener, 0, 0)) >= 0; close(client))
        if (read(client, request, sizeof(request)) > 0) {
            slow_query();
            dprintf(client, "HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n");
        }
}
"""


def test_native_function_has_its_source_line(sonde, agent, run, tmp_path):
    """Also a function that was inlined into main."""
    need_command("cc")
    source = tmp_path / "native.c"
    source.write_text(NATIVE)
    started = agent("--set", "budget.one_cpu=1000%")
    for name, kind in (("apart", "__attribute__((noinline))"), ("inlined", "__attribute__((always_inline)) inline")):
        subprocess.run(["cc", "-O2", "-g", f"-DKIND={kind}", "-o", tmp_path / name, source], check=True)
        running = run(tmp_path / name, name=name)
        port = int(wait_for(lambda: re.search(r"^port (\d+)\n", running.out), what="the server")[1])

        def look():
            get(port, "/")
            return [part["detail"] for request in why(sonde, started) if request["pid"] == running.pid
                    for part in request["parts"] if part["kind"] == "sleep" and "native.c" in part["detail"]]
        detail = wait_for(look, 60, what="a source line")[0]
        assert re.match(r"clock_nanosleep in slow_query\(\) native\.c:7, calling usleep", detail), detail
