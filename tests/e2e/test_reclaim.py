"""A request that reclaims memory of its cgroup says so, with the limit; the same is an event of the node."""
import json
import re
import sys

from harness.processes import wait_for
from memory_limits import cgroup, large_file, limited  # noqa: F401 (fixtures)
from real_servers import get, parts_of, why

# Reads the file, and then has the kernel reclaim the pages that it has read: all of that write is direct reclaim.
SERVER = """
import http.server, pathlib, sys
file, reclaim, amount = sys.argv[1:4]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(file, "rb", buffering=0) as opened:
            while opened.read(1 << 20):
                pass
        pathlib.Path(reclaim).write_text(amount)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(f"port {server.server_port}", flush=True)
server.serve_forever()
"""


def reclaiming(request):
    return [p for p in parts_of(request, "other") if "in direct reclaim of " in p["detail"]]


def test_a_request_names_the_limit_at_which_it_reclaimed(sonde, agent, run, limited, large_file):  # noqa: F811
    started, cgroup_ = agent("--set", "budget.one_cpu=1000%", "--set", "reclaim.threshold=1ms"), limited("sonde-e2e-reclaim")
    reclaim, amount = ("memory.force_empty", "0") if cgroup_.version == "v1" else ("memory.high", "8M")
    server = run(*cgroup_.command(sys.executable, "-c", SERVER, large_file, cgroup_.path / reclaim, amount), name="reclaiming")
    port = int(wait_for(lambda: re.search(r"^port (\d+)$", server.out, re.M), what="the server")[1])

    def find_request():
        get(port, "/reclaim")
        return [r for r in why(sonde, started) if r["route"] == "/reclaim" and reclaiming(r)]
    request = wait_for(find_request, what="the request")[0]
    expected = f"in direct reclaim of cgroup {cgroup_.name} ({'memory.limit_in_bytes 48.0 MiB' if cgroup_.version == 'v1' else 'memory.high 8.00 MiB'})"
    assert all(expected in p["detail"] for p in reclaiming(request)), request
    event = wait_for(lambda: [e for e in json.loads(started.text("/api/v1/events?seconds=60&max=1000"))["events"] if e["name"] == "reclaim.long" and
                              e["attributes"].get("cgroup") == cgroup_.name], what="the event")[0]
    assert expected in event["text"] and event["attributes"]["kind"] == "limit", event
    assert started.metric("sonde_reclaim_seconds_total", cgroup=cgroup_.name, kind="limit") >= sum(p["ns"] for p in reclaiming(request)) / 1e9
