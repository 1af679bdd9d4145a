"""`sonde requests`: the table of routes, abnormal requests, and baselines, on synthetic data and on a real server."""
import json
import re
import subprocess

import pytest
from harness.processes import wait_for
from real_servers import get, start_c_server
from synthetic_agent import synthetic_agent  # noqa: F401 (a fixture)
from terminal import Terminal
from test_http import Server


def run_requests(sonde, *arguments):
    return subprocess.run([str(sonde), "requests", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def ask_json(sonde, arguments, address):
    return subprocess.run([str(sonde), *arguments, "--json", "--agent", address], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.sanitized
def test_table_of_routes(sonde, synthetic_agent):
    done = run_requests(sonde, "--agent", synthetic_agent("normal"))
    assert done.returncode == 0 and done.stderr == "", done
    period, heading, *rows = [re.split(r"  +", line.strip()) for line in done.stdout.splitlines()]
    assert period == ["Requests of the last 60.0 s by route, most time lost first. LOST: how much longer slow requests took than the median of the last 5 minutes."]
    assert heading == ["SERVICE", "ROUTE", "PROTOCOL", "LOST", "TIME", "RATE/S", "P50", "P99", "TTFT", "FAILED", "SAMPLE", "TOP CAUSE"]
    assert rows == [["shop :8100", "POST /cart", "http/1", "~4.10 s", "~19.0 s", "~20.00", "~12.0 ms", "~80.0 ms", "~9.00 ms", "~5.0%", "240",
                     "waiting for a lock held by another thread: the holder slept in checkout (shop.py:12); fails: status 503 (~60 requests)"],
                    ["nginx.service :80", "GET /", "http/1", "0", "90.0 ms", "0.50", "3.00 ms", "-", "-", "0.0%", "30", "always about 3.00 ms: on a CPU"],
                    ["nginx", "GET /static/app.js", "http/1", "-", "0", "-", "-", "-", "-", "-", "0", "-"],
                    ["~: estimated from a random sample of the requests"],
                    ["LOST -: the median of the last 5 minutes needs 20 sampled requests; such a route has 0, and is ranked by its TIME"],
                    ["P99 -: needs a SAMPLE of 100"],
                    ["SAMPLE 0: only slow or failed requests of the route were recorded; FAILED is their number, not a share"]]
    one = run_requests(sonde, "--service", "shop :8100", "--agent", synthetic_agent("normal"))
    assert len(one.stdout.splitlines()) == 4 and "/cart" in one.stdout
    unknown = run_requests(sonde, "--service", "unknown", "--agent", synthetic_agent("normal"))
    assert unknown.stdout == "None of the 3 routes recorded in the last 60.0 s matches.\n", unknown


@pytest.mark.sanitized
@pytest.mark.parametrize("arguments", [["requests"], ["requests", "--abnormal"], ["why"]])
def test_empty_answer_says_why(sonde, synthetic_agent, arguments):
    """Nothing could be observed, a half was, or all of it: three different answers. The traffic that cannot be read is listed."""
    def ask(mode):
        done = subprocess.run([str(sonde), *arguments, "--agent", synthetic_agent(mode)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return done.stdout.splitlines()
    what = "abnormal request" if "--abnormal" in arguments else "HTTP request"
    refused, half = ask("empty"), ask("large")
    assert refused[0] == f"Nothing was observed in the last 60.0 s: whether there was an {what} is not known."
    assert refused[1] == "Requests cannot be observed: fentry: Operation not permitted. See sonde doctor."
    assert half[:2] == [f"No {what} was seen in the last 60.0 s; only 30.0 s of it were observed.", "For a half of it budget.one_cpu was too small."]
    assert [line.split() for line in half[-4:]] == [["PORT", "SERVICE", "PROTOCOL", "BYTES/S", "NEW", "CONN."], ["8443", "envoy", "TLS", "3.00", "MiB", "12"],
                                                    ["5432", "postgres", "unknown", "protocol", "1.00", "MiB", "0"], ["and", "2", "more"]]
    as_json = json.loads(ask_json(sonde, arguments, synthetic_agent("empty")))["coverage"]
    assert as_json["nothing"] == refused[0] and as_json["observed_seconds"] == 0 and as_json["asked_seconds"] == 60
    assert as_json["gaps"] == [{"reason": "not_attached", "seconds": 60, "text": refused[1]}]
    assert as_json["opaque_ports"][0] == {"port": 8443, "service": "envoy", "protocol": "TLS", "bytes_per_second": 3 << 20, "connections": 12}



@pytest.mark.sanitized
def test_json_of_routes_is_the_agents(sonde):
    """Decoding the agent's JSON and writing it again loses nothing."""
    server = Server("normal")
    try:
        done = run_requests(sonde, "--json", "--agent", f"127.0.0.1:{server.port}")
        routes = json.loads(done.stdout)["routes"]
        assert json.loads(done.stdout) == json.loads(server.ask("/api/v1/routes")[2])
    finally:
        server.stop()
    assert routes[0]["usual"]["parts"] == [{"kind": "cpu", "p50_ns": 10**7, "p99_ns": 2 * 10**7}, {"kind": "lock", "p50_ns": 10**6, "p99_ns": 7 * 10**7}]
    assert routes[0]["slow"] == {"requests": 9, "p50_ns": 430 * 10**6, "explained": 9,
                                 "known": 0, "parts": [{"kind": "cpu", "p50_ns": 30 * 10**6}, {"kind": "lock", "p50_ns": 400 * 10**6}]}
    assert "usual" not in routes[2] and "top_kind" not in routes[2]


@pytest.mark.sanitized
def test_abnormal_requests_are_grouped(sonde, synthetic_agent):
    address = synthetic_agent("normal")
    done = run_requests(sonde, "--abnormal", "--agent", address)
    period, heading, *rows = [re.split(r"  +", line.strip()) for line in done.stdout.splitlines()]
    assert period == ["Failed and slow requests of the last 60.0 s by route and cause, most time lost first:"]
    assert heading == ["SERVICE", "ROUTE", "LOST", "REQUESTS", "SLOWEST", "CAUSE"]
    assert rows == [["shop :8100", "POST /cart", "~3.76 s", "~9", "430 ms", "status 503, slow: waiting for a lock held by another thread"],
                    ["~: estimated from a random sample of the requests"]]
    as_json = json.loads(run_requests(sonde, "--abnormal", "--json", "--agent", address).stdout)["requests"]
    assert [(r["route"], r["group"]["requests"]) for r in as_json] == [("/cart", 9)]


def test_each_needs_abnormal(sonde):
    done = run_requests(sonde, "--each")
    assert done.returncode == 2 and "--each needs --abnormal" in done.stderr, done


@pytest.mark.sanitized
def test_abnormal_requests_one_line_each(sonde, synthetic_agent):
    address = synthetic_agent("normal")
    done = run_requests(sonde, "--abnormal", "--each", "--agent", address)
    period, heading, *rows = [re.split(r"  +", line.strip()) for line in done.stdout.splitlines()]
    assert period == ["Failed and slow requests of the last 60.0 s, earliest first:"]
    assert heading == ["TIME", "REMOTE", "UPSTREAM", "REQUEST", "TOOK", "UPSTREAM", "STATUS", "REASON", "CAUSE"]
    assert len(rows) == 1 and rows[0][1:] == ["-", "127.0.0.1:5432", "POST /cart", "430 ms", "20.0 ms", "503", "status 503, 36 times the median",
                                              "93 % waiting for a lock at pthread_mutex_lock < checkout"]
    as_json = json.loads(run_requests(sonde, "--abnormal", "--each", "--json", "--agent", address).stdout)["requests"]
    assert [(r["route"], r["upstream"], r["upstream_ns"], r["usual"]["p50_ns"]) for r in as_json] == [("/cart", "127.0.0.1:5432", 20 * 10**6, 12 * 10**6)]


@pytest.mark.sanitized
def test_hostile_names_send_nothing_to_the_terminal(sonde, synthetic_agent):
    for arguments in ([], ["--abnormal"], ["--abnormal", "--each"]):
        done = run_requests(sonde, *arguments, "--agent", synthetic_agent("hostile"))
        assert done.returncode == 0 and "owned" in done.stdout and not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stdout), done


def test_failing_agent_is_an_error(sonde, synthetic_agent):
    done = run_requests(sonde, "--agent", synthetic_agent("failing"))
    assert done.returncode == 1 and done.stdout == "" and "does not answer" in done.stderr, done


def test_table_is_live_on_a_terminal(sonde, synthetic_agent):
    """Redraws until Ctrl-C; on a terminal of its own, so that the test does not depend on the terminal of the suite."""
    shown = Terminal(sonde, "requests", "--agent", synthetic_agent("normal"))
    try:
        shown.wait_for(lambda seen: seen.count("\033[H\033[2J") > 1 and seen.count("waiting for a lock held") > 1, what="the table, twice")
        shown.type("\x03")
        assert shown.end() == 0, shown.seen
    finally:
        shown.kill()


def test_slow_request_is_compared_with_its_route(sonde, agent, run, tmp_path):
    """A short sleep is usual; a long one is slow, and the sentence says so. Requests are sent until enough of them are in the sample."""
    started, server = agent(), start_c_server(run, "threads", tmp_path)
    address = f"127.0.0.1:{started.port}"

    def route():
        for row in json.loads(run_requests(sonde, "--json", "--last", "5m", "--agent", address).stdout)["routes"]:
            if row["route"] == "/sleep" and row["sampled"]:
                return row

    def usual():
        for _ in range(40):
            get(server.port, "/sleep?ms=1")
        row = route()
        return row if row and row["usual"]["explained"] >= 60 and row["usual"]["p50_ns"] < 10**8 else None
    wait_for(usual, 60, "a sample of requests")
    get(server.port, "/sleep?ms=400")

    def sentence():
        done = subprocess.run([str(sonde), "why", "--route", "/sleep", "-n", "1", "--last", "5m", "--agent", address], capture_output=True, text=True, timeout=60)
        return re.search(r"Why: 4\d\d ms: 4\d\d ms asleep, .*; usually (.+) \(median of (\d+) requests\)$", done.stdout, re.M)
    assert int(wait_for(sentence, 60, "the sentence")[2]) >= 20
    row = route()
    assert row["lost_ns"] >= 390e6 and row["port"] == server.port, row
    # On a loaded machine the short sleeps wait for a CPU, and may lose more time together.
    assert max(cause["group"]["lost_ns"] for cause in row["causes"] if cause["kind"] == "sleep") >= 390e6, row
    assert sum(cause["group"]["lost_ns"] for cause in row["causes"]) == row["lost_ns"], row
    assert row["slow"]["requests"] >= 1 and row["top_count"] >= 1, row
    lines = run_requests(sonde, "--abnormal", "--each", "--last", "5m", "--agent", address).stdout.splitlines()
    assert [line for line in lines if " GET /sleep " in line and " times the median " in line and " asleep, " in line], lines
