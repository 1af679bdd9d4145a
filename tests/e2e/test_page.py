"""The page of a real agent in Chromium (web/tests/see.mjs): the node, one process, one container, and a slow request, as a reader sees them.
web/tests/page.test.mjs covers how exact data is displayed, and interaction."""
import json
import re
import subprocess

import pytest
from harness.machine import need_command
from harness.paths import TOP
from harness.processes import wait_for
from harness.workloads import workload_path
from cgroups import CONTAINER, cgroup, cgroup_roots  # noqa: F401 (a fixture)
from real_servers import get, start_prefork
from printed_durations import figure


@pytest.fixture
def see():
    """see(agent, look...): what each look shows; the page must log no error and request nothing from other servers."""
    node = need_command("node")
    need_command("chromium", "chromium-browser", "google-chrome")

    def ask(agent, *looks):
        done = subprocess.run([node, TOP / "web/tests/see.mjs", f"http://127.0.0.1:{agent.port}/", *map(json.dumps, looks)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        assert not any(look["complaints"] for look in seen), seen
        return seen
    return ask


def name(label):
    """A frame's label without its numbers."""
    return re.sub(r", [\d.]+ %, .*$", "", label)


def percent(text):
    return float(re.match(r"[\d.]+", text)[0])


def figure_on_page(text):
    return figure(text.replace("µs", "us"))


def test_page_shows_node_process_and_container(agent, see, run, cgroup):  # noqa: F811
    version = "v1" if cgroup_roots("v1") else "unified"  # the version that container managers use on a hybrid machine
    folders = cgroup(version, f"docker/{CONTAINER}" if version == "v1" else f"system.slice/docker-{CONTAINER}.scope")
    enter = " && ".join(f"echo $$ > {folder}/cgroup.procs" for folder in folders)
    inside = run("sh", "-c", f"{enter} && exec '{workload_path('deep')}' 10 200", name="inside")
    outside = run(workload_path("noreturn"), 200, name="outside")
    started = agent("--rate", 99)

    def sampled(pid, frames):
        folded = started.text(f"/api/v1/profile?format=folded&pid={pid}")
        return any(frames in line for line in folded.splitlines())
    wait_for(lambda: sampled(inside.pid, "recurse;deep_leaf") and sampled(outside.pid, "never_returns"), 120, "samples of both")
    node, process, by_note, container = see(
        started, {"search": "deep_leaf"}, {"hash": f"pid={inside.pid}", "search": "deep_leaf"}, {"choose": str(outside.pid), "search": "never_returns"},
        {"choose": CONTAINER[:12], "search": "deep_leaf"})

    assert name(node["stack"][0]) == "all processes" and node["chosen"].startswith("Whole node") and 0 < percent(node["matched"]) < 100, node
    for seen, pid, command in ((process, inside.pid, "deep"), (by_note, outside.pid, "noreturn")):
        assert name(seen["stack"][0]) == f"{command} (pid {pid})" and seen["hash"] == f"pid={pid}", seen
        assert seen["chosen"].split()[:2] == [command, str(pid)] and percent(seen["matched"]) > 0, seen
    assert name(container["stack"][0]) == f"container {CONTAINER[:12]}" and list(map(name, container["below"])) == ["deep"], container
    assert container["hash"] == f"container={CONTAINER}" and container["chosen"].split()[:2] == ["deep", CONTAINER[:12]], container
    assert percent(container["matched"]) > 0, container
    for seen in (process, container):
        stack = list(map(name, seen["stack"]))
        assert stack.index("main") < stack.index("recurse") < stack.index("deep_leaf"), stack


def test_page_shows_an_opened_slow_request(agent, see, run):
    server, started = start_prefork(run), agent()
    get(server.port, "/sleep?0.3")

    def known():
        return [r for r in json.loads(started.text("/api/v1/requests"))["requests"] if r["route"] == "/sleep"]
    recorded = wait_for(known, what="the request")[0]
    on_node, on_server, elsewhere = see(started, {"hash": "requests=each", "open": "/sleep"}, {"hash": f"pid={server.pids[0]}", "open": "/sleep"}, {"hash": "pid=1"})
    for seen in (on_node, on_server):
        opened = seen["opened"]
        duration, slack = figure_on_page(opened["duration"])
        assert abs(duration - recorded["duration_ns"]) <= slack and duration >= 300e6
        assert opened["cause"] == recorded["cause"]
        assert "sleep" in [part[0] for part in opened["parts"]]
        figures = [figure_on_page(part[1]) for part in opened["parts"]]
        assert len(figures) == len(recorded["parts"]) and figures == sorted(figures, reverse=True)
        assert abs(sum(ns for ns, _ in figures) - duration) <= slack + sum(rounded for _, rounded in figures), opened
        assert abs(sum(percent(part[2]) for part in opened["parts"] if "<" not in part[2]) - 100) <= 0.1 * len(figures), opened
        assert opened["segments"] == len(recorded["segments"])
        assert abs(opened["bar"] - 1) < 0.02, "the bar is the whole time"
    assert [r["what"] for r in on_server["requests"]] == ["GET /sleep"]
    assert elsewhere["requests"] == []
