"""The text output of `sonde why`: words and numbers that add up, the function that slept, and its output when data is incomplete."""
import json
import re
import subprocess

import pytest
from harness.paths import TOP
from harness.processes import wait_for
from printed_durations import figure
from real_servers import get, names_sleep_of_c_server, start_c_server
from synthetic_agent import synthetic_agent  # noqa: F401 (a fixture)

# "8. POST /shop.Cart/Add took 4.07 ms, status OK  (shop :8100, grpc, over TLS, process 7, began 18:14:30.666)", and the line below it.
HEAD = re.compile(r"^(\d+)\. (\S+) (\S+) took (\S+ \S+), (?:status (\w+)|no reply seen)  \((\S+(?: :\d+)?)(?:, (?:http/2|grpc))?(?:, over TLS)?, "
                  r"process (\d+), began [\d:.]+\)\n   Why: (.+)$", re.M)
PART = re.compile(r"^ +([\d.]+)%  +([\d.]+ \S+)  (\w+) +(#*) *(.*)$", re.M)


def run_why(sonde, *arguments):
    return subprocess.run([str(sonde), "why", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def requests_in(text):
    """[(groups of the head line, [groups of each component], all its lines)] of the printed requests; asserts that each adds up."""
    found = []
    first = text.find("\n\n1. ")  # behind the heading, which on a busy node a sentence precedes; none: why there is no request
    for block in re.split(r"\n\n", text[first:].strip("\n")) if first >= 0 else []:
        if block.startswith("Cannot be read: "):  # other services of this node
            continue
        head, parts = HEAD.match(block), PART.findall(block)
        assert head and parts, block
        whole, slack = figure(head[4])
        for share, duration, kind, bar, _ in parts:
            ns, rounded = figure(duration)
            slack += rounded
            assert abs(float(share) - 100 * ns / whole) <= 0.05 + 100 * (rounded + figure(head[4])[1]) / whole, block
            assert kind == "in" or abs(len(bar) - 30 * float(share) / 100) <= 0.52, block  # "in 3 smaller ones" has no bar
        assert abs(sum(figure(part[1])[0] for part in parts) - whole) <= slack, block
        assert abs(sum(float(part[0]) for part in parts) - 100) <= 0.05 * len(parts) + 1e-9, block
        found.append((head.groups(), parts, block))
    return found


def test_component_kinds_match_the_document():
    kinds = re.findall(r'X\(\w+, "(\w+)"\) +/\* ([^*]+) \*/', (TOP / "src/model/request.h").read_text())
    assert len(kinds) > 5 and re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", (TOP / "docs/why.md").read_text(), re.M) == kinds


@pytest.mark.sanitized
def test_text_output_adds_up(sonde, synthetic_agent):
    done = run_why(sonde, "-n", 10, "--agent", synthetic_agent("normal"))
    assert done.returncode == 0 and done.stderr == "", done
    assert done.stdout.startswith("The 4 slowest requests of the last 60.0 s:\n\n1. GET /users/{id}/orders took 812 ms, status 200  (nginx.service :80, process 101, began ")
    requests = requests_in(done.stdout)
    assert [r[0][:4] for r in requests] == [("1", "GET", "/users/{id}/orders", "812 ms"), ("2", "POST", "/cart", "430 ms"),
                                            ("3", "GET", "/static/app.js", "96.0 ms"), ("4", "GET", "/", "3.00 ms")]
    assert requests[0][0][7] == "74 % waiting for another service: postgres at 127.0.0.1:5432"
    assert requests[0][1] == [("13.8", "112 ms", "cpu", "####", "parse_headers < worker < main"),
                              ("73.9", "600 ms", "downstream", "#" * 22, "read from 127.0.0.1:5432"),
                              ("7.4", "60.0 ms", "run_queue", "##", "python3 ran instead"), ("4.9", "40.0 ms", "unattributed", "#", "")]
    assert "pthread_mutex_lock\n" not in done.stdout, "stacks were not asked for"
    first = run_why(sonde, "-n", 1, "--agent", synthetic_agent("normal"))
    assert len(requests_in(first.stdout)) == 1 and first.stdout.startswith("The slowest request of the last 60.0 s:\n"), first


@pytest.mark.sanitized
def test_groups_lead_with_time_lost_and_cause(sonde, synthetic_agent):
    done = run_why(sonde, "--agent", synthetic_agent("normal"))
    assert done.returncode == 0 and done.stderr == "", done
    assert done.stdout.startswith("Requests of the last 60.0 s by route and cause, most time lost first:\n\n"
                                  "1. POST /cart  (shop :8100): lost ~3.76 s in ~9 slow requests\n"
                                  "   Cause: status 503, slow: waiting for a lock held by another thread\n"
                                  "   Example: 430 ms, status 503, process 303, began "), done.stdout
    heads = re.findall(r"^\d+\. (.*)$", done.stdout, re.M)
    assert heads[1:] == ["GET /users/{id}/orders  (nginx.service :80): 3 requests took 1.90 s", "GET /static/app.js  (nginx): 1 request took 96.0 ms",
                         "GET /  (nginx): 30 requests took 90.0 ms, none is slower than usual"]
    assert "   Usual: not known yet: it needs 20 sampled requests of this route in 5 minutes, and there are 3\n" in done.stdout
    assert done.stdout.count("   Path:\n") == 2, "the example has its path"
    assert re.findall(r"^    \+\S+ \S+ +(\S+ \S+  \w.*)$", done.stdout, re.M)[:2] == [  # as much of each kind as the components: 400 ms lock, 30 ms cpu
        "20.0 ms  cpu 20.0 ms", "410 ms  lock 400 ms, other kinds 10.0 ms  in thread 310 pool-1"], done.stdout
    answer = json.loads(run_why(sonde, "--json", "--agent", synthetic_agent("normal")).stdout)
    as_json = answer["requests"]
    assert [(g["route"], g["cause"], g["group"]) for g in answer["groups"]] == [(r["route"], r["group_cause"], r["group"]) for r in as_json]
    assert [(r["route"], r["service"], r["unit"], r["port"], r["group"]) for r in as_json[:2]] == [
        ("/cart", "shop", "", 8100, {"requests": 9, "lost_ns": 3762 * 10**6, "time_ns": 3870 * 10**6, "estimated": True}),
        ("/users/{id}/orders", "nginx", "nginx.service", 80, {"requests": 3, "lost_ns": 0, "time_ns": 1900 * 10**6, "estimated": False})]
    single = json.loads(run_why(sonde, "--json", "-n", 10, "--agent", synthetic_agent("normal")).stdout)
    assert "groups" not in single and all("group" not in r for r in single["requests"])


def test_failures_beyond_the_printed_groups_are_listed(sonde, synthetic_agent):
    done = run_why(sonde, "--agent", synthetic_agent("many"))
    assert re.findall(r"^\d+\. ", done.stdout, re.M)[-1] == "10. " and (
        "Failures with less time lost:\n   POST /cart  (shop :8100): lost ~3.76 s in ~9 slow requests, status 503, slow: waiting for a lock held by another thread\n\n"
        "~: estimated from a random sample of the requests\n"
        '2 more groups: `sonde why --json` prints all, in "groups" and "requests" (an example of each).\n') in done.stdout, done.stdout[-600:]
    assert "   Failed: process 303 replied with status 503 after 430 ms (it was slow, too); it waited 20.0 ms of that for 127.0.0.1:5432. Sonde does not see the error itself: see the log of that process.\n" in run_why(
        sonde, "--agent", synthetic_agent("normal")).stdout


def test_service_is_selected_by_name_unit_or_port(sonde, synthetic_agent):
    address = synthetic_agent("normal")
    for service, routes in (("nginx", 3), ("nginx.service", 1), ("nginx.service :80", 1), ("shop :8100", 1), ("shop :8101", 0)):
        for more in ([], ["-n", 10]):
            done = run_why(sonde, "--json", "--service", service, *more, "--agent", address)
            assert len(json.loads(done.stdout)["requests"]) == routes, (service, more, done)


def test_service_and_route_select(sonde, synthetic_agent):
    address = synthetic_agent("normal")
    by_route = run_why(sonde, "-n", 10, "--route", "/cart", "--agent", address)
    assert [r[0][2] for r in requests_in(by_route.stdout)] == ["/cart"], by_route
    everything = {r[0][5]: r[0][2] for r in requests_in(run_why(sonde, "-n", 10, "--agent", address).stdout)}
    by_service = run_why(sonde, "-n", 10, "--service", "nginx", "--agent", address)
    assert "nginx" in everything and {r[0][5] for r in requests_in(by_service.stdout)} == {"nginx", "nginx.service :80"}, by_service
    assert run_why(sonde, "--service", "unknown", "--agent", address).stdout.startswith("None of the ")


def test_wrong_trace_id_is_an_error(sonde):
    for operands in (["0af7651916cd43dd8448eb211c80319"], ["x" * 32], ["0af7651916cd43dd8448eb211c80319c", "other"]):
        done = run_why(sonde, *operands)
        assert done.returncode == 2 and f"'{operands[-1]}' is no trace ID" in done.stderr, done


def test_stacks_follow_their_component(sonde, synthetic_agent):
    done = run_why(sonde, "-n", 10, "--stacks", "--agent", synthetic_agent("normal"))
    lines = [line.strip() for line in done.stdout.splitlines()]
    at = next(i for i, line in enumerate(lines) if " lock  " in line)
    assert lines[at + 1:at + 7] == ["futex_wait_[k]", "__x64_sys_futex_[k]", "pthread_mutex_lock", "checkout", "handle", "[truncated: no rows]"], done.stdout


def test_over_budget_is_reported(sonde, synthetic_agent):
    """The synthetic agent works at half its rate, which is reported."""
    done = run_why(sonde, "--agent", synthetic_agent("large"))
    assert done.returncode == 0 and "the agent keeps to its CPU limit (budget.one_cpu). Reduced: CPU samples at half the rate. Complete: off-CPU time" in done.stderr, done


@pytest.mark.sanitized
def test_html_file_holds_the_requests(sonde, synthetic_agent, tmp_path):
    """The page holds exactly the JSON; web/tests checks its content."""
    address, file = synthetic_agent("normal"), tmp_path / "why.html"
    done = run_why(sonde, "-n", 3, "--html", file, "--agent", address)
    assert done.returncode == 0 and done.stdout == done.stderr == "", done
    data = re.search(r'<script id="requests" type="application/json">(.*?)</script>', file.read_text(), re.S)[1]
    assert json.loads(data) == json.loads(run_why(sonde, "-n", 3, "--json", "--agent", address).stdout)
    assert run_why(sonde, "-n", 3, "--html", "-", "--agent", address).stdout == file.read_text()
    one = run_why(sonde, "--route", "/cart", "--html", "-", "--agent", address)
    assert "<title>Sonde: POST /cart took 430 ms</title>" in one.stdout


def test_html_with_other_formats_is_an_error(sonde, tmp_path):
    for option in ("--json", "--stacks"):
        done = run_why(sonde, option, "--html", tmp_path / "why.html", "--agent", "127.0.0.1:1")
        assert done.returncode == 2 and "--html cannot be combined" in done.stderr, done
    done = run_why(sonde, "--html", tmp_path / "none" / "why.html", "--agent", "127.0.0.1:1")
    assert done.returncode == 1 and "none" in done.stderr, done


def test_failing_agent_is_an_error(sonde, synthetic_agent):
    done = run_why(sonde, "--agent", synthetic_agent("failing"))
    assert done.returncode == 1 and done.stdout == "" and "does not answer" in done.stderr, done


def test_text_output_has_a_real_servers_stack(sonde, agent, run, tmp_path):
    started, server = agent(), start_c_server(run, "threads", tmp_path)

    def seen():
        """A request after the server's unwind table exists; where the switch back to the CPU was not traced, the kernel frames are missing
        (docs/why.md)."""
        get(server.port, "/naps?ms=120")
        done = run_why(sonde, "-n", 1000, "--stacks", "--last", "5m", "--agent", f"127.0.0.1:{started.port}")
        assert done.returncode == 0, done.stderr
        return [r for r in requests_in(done.stdout) if r[0][2] == "/naps" and int(r[0][6]) == server.pid and "_[k]\n" in r[2]
                    and "[truncated: unwind table not ready]" not in r[2]]
    for head, parts, block in wait_for(seen, what="a request in the words of sonde why"):
        assert figure(head[3])[0] >= 120e6 and [part for part in parts if part[2] == "sleep"], block
        frames = block.partition("  sleep  ")[2].splitlines()
        assert names_sleep_of_c_server(frames[0]), block
        frames = [frame.strip() for frame in frames[1:]]
        assert frames[0].endswith("_[k]") and frames.index("nap_long") == frames.index("sleep_ms") + 1, block
    just_now = run_why(sonde, "--last", "5m", "--agent", f"127.0.0.1:{started.port}")
    assert "The agent has been running for" in just_now.stderr
