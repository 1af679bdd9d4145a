"""The JSON API of `sonde server`: its figures are those of what was sent, its answers have the schemas of its OpenAPI document, its examples work, and
it refuses what it does not know."""
import collections
import hashlib
import json
import math
import random
import re
import subprocess
import time
import urllib.parse

import jsonschema
import pytest
from centre import TOP, ask, field, fixed64, pair, request, server, span  # noqa: F401 (fixture)
from pypi import environment
from test_server_sql import agent_request, agent_span, counter, fill, profile, segment

SECOND, MS, HOUR = 10**9, 10**6, 3600 * 10**9
API = "/api/v1/"


def moment(time_ns):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_ns // SECOND)) + f".{time_ns % SECOND:09}Z"


def get(one, path, parameters=None, headers=None, verb="GET"):
    """(status, JSON of the answer or its text)"""
    query = "?" + urllib.parse.urlencode(parameters) if parameters else ""
    status, about, body = ask(one.sql_port, verb, API + path + query, None, headers or {})
    return status, json.loads(body) if about.get("Content-Type") == "application/json" else body.decode("utf-8", "replace")


def answer(one, path, /, **parameters):
    status, body = get(one, path, parameters)
    assert status == 200, f"{path} {parameters}: {body}"
    return body


# ---- figures ----

def make_requests(begin_ns, end_ns):
    """Requests of agents and of an SDK, some of them before and after the time; one begins with it, and one at its end."""
    draw, requests = random.Random(7), []
    times = [begin_ns, end_ns, begin_ns - 1, end_ns - 1] + [draw.randrange(begin_ns - HOUR, end_ns + HOUR // 4) for _ in range(500)]
    for number, time_ns in enumerate(times, 1):
        service, host, route = draw.choice([("shop", "node-1"), ("shop", "node-2"), ("front", "node-1")]) + (draw.choice(["/checkout", "/status", "/it's"]),)
        slow, status = draw.random() < 0.1, draw.choice([200, 200, 200, 404, 503])
        parts = {"cpu": draw.randrange(1, 50), "disk": draw.randrange(900) if slow else 0}
        requests.append({"number": number, "time_ns": time_ns, "service": service, "host": host, "source": "sonde", "method": "GET", "route": route, "status": status,
                         "ms": sum(parts.values()), "slow": slow, "failed": status >= 500, "weight": 0 if slow else draw.choice([1, 1, 5]), "parts": parts,
                         "cause": f"{parts['disk']} ms waiting for the disk" if slow else ""})
    for number in range(1000, 1040):
        requests.append({"number": number, "time_ns": draw.randrange(begin_ns, end_ns), "service": "gateway", "host": "node-3", "source": "sdk", "method": "", "route": "/checkout",
                         "status": "", "ms": draw.randrange(1, 2000), "slow": False, "failed": False, "weight": 1, "parts": {}, "cause": ""})
    return requests


def send_requests(one, requests):
    by_place = collections.defaultdict(list)
    for it in requests:
        by_place[it["service"], it["host"], it["source"]].append(it)
    for (service, host, source), all_of_it in by_place.items():
        if source == "sdk":
            packet = request([span(it["number"], "GET /checkout", it["time_ns"], it["ms"] * MS, **{"http.route": it["route"]}) for it in all_of_it], service, host)
        else:
            packet = agent_request([agent_span(it["number"], it["route"], it["time_ns"], it["ms"], it["parts"], status=it["status"], **{
                "sonde.sampling.weight": it["weight"], **({"sonde.slow": True, "sonde.cause": it["cause"]} if it["slow"] else {})}) for it in all_of_it], service, host)
        assert one.post("/v1/traces", packet)[::2] == (200, b"")


def quantile(rows, level):
    threshold, seen = math.ceil(sum(it["weight"] for it in rows) * level), 0
    for it in sorted(rows, key=lambda it: it["ms"]):
        seen += it["weight"]
        if seen >= threshold:
            return it["ms"]


def expected_routes(requests):
    groups = collections.defaultdict(list)
    for it in requests:
        groups[it["service"], it["source"], it["method"], it["route"]].append(it)
    rows = []
    for (service, source, method, route), all_of_it in groups.items():
        slow, p50, slowest = [it for it in all_of_it if it["slow"]], quantile(all_of_it, 0.5), max(it["ms"] for it in all_of_it)
        parts = collections.Counter()
        for it in slow:
            parts.update(it["parts"])
        rows.append({"service": service, "source": source, "method": method, "route": route, "hosts": len({it["host"] for it in all_of_it}),
                     "requests": sum(it["weight"] for it in all_of_it), "failed_requests": sum(it["weight"] for it in all_of_it if it["failed"]),
                     "recorded": len(all_of_it), "slow_recorded": len(slow), "p50_ms": p50, "p90_ms": quantile(all_of_it, 0.9), "p99_ms": quantile(all_of_it, 0.99),
                     "max_ms": slowest, "lost_ms": sum(it["ms"] - p50 for it in slow), "slow_parts_ms": {name: ms for name, ms in parts.items() if ms},
                     "slowest_cause": max(slow, key=lambda it: it["ms"])["cause"] if slow else ""})
    return sorted(rows, key=lambda row: (-row["lost_ms"], -row["requests"], row["service"], row["source"], row["method"], row["route"]))


def check_requests(one, requests, time_of_it):
    def numbers(**parameters):
        got = answer(one, "requests", limit=10000, **time_of_it, **parameters)
        assert not got["truncated"]
        return sorted(int(row["trace_id"], 16) for row in got["requests"])

    def those(chosen):
        return sorted(it["number"] for it in requests if chosen(it))
    assert numbers() == those(lambda it: True) and 1 in numbers() and 2 not in numbers() and 3 not in numbers() and 4 in numbers(), "the end is not part of the time"
    assert numbers(service="shop", host="node-2") == those(lambda it: it["service"] == "shop" and it["host"] == "node-2")
    assert numbers(route="/it's", method="GET") == those(lambda it: it["route"] == "/it's")
    assert numbers(source="sdk") == those(lambda it: it["source"] == "sdk")
    assert numbers(status="503") == those(lambda it: it["status"] == 503) == numbers(failed="true")
    assert numbers(failed="false", slow="true") == those(lambda it: it["slow"] and not it["failed"])
    assert numbers(cause="WAITING for the disk") == those(lambda it: it["slow"]) == numbers(slow="true")
    assert numbers(min_duration="500ms") == those(lambda it: it["ms"] >= 500)
    longest = answer(one, "requests", limit=3, **time_of_it)
    assert [row["duration_ms"] for row in longest["requests"]] == sorted((it["ms"] for it in requests), reverse=True)[:3] and longest["truncated"]
    latest = answer(one, "requests", limit=5, order="time", **time_of_it)
    assert [row["time"] for row in latest["requests"]] == [moment(ns) for ns in sorted((it["time_ns"] for it in requests), reverse=True)[:5]]
    for row in answer(one, "requests", limit=10000, **time_of_it)["requests"]:
        it = next(it for it in requests if it["number"] == int(row["trace_id"], 16))
        assert row == {"time": moment(it["time_ns"]), "host": it["host"], "service": it["service"], "source": it["source"], "method": it["method"], "route": it["route"],
                       "status": str(it["status"]), "duration_ms": it["ms"], "failed": it["failed"], "slow": it["slow"], "cause": it["cause"], "parts_ms": it["parts"],
                       "upstream": "", "upstream_call": "", "weight": it["weight"], "trace_id": f"{it['number']:032x}", "span_id": f"{it['number']:016x}"}


def check_routes_and_services(one, requests, time_of_it):
    got = answer(one, "routes", **time_of_it)["routes"]
    for row in got:
        row["slow_parts_ms"] = {name: ms for name, ms in row["slow_parts_ms"].items() if ms}
        number = int(row.pop("slowest_trace_id"), 16)
        slowest = next(it for it in requests if it["number"] == number)
        assert slowest["ms"] == row["max_ms"] and slowest["route"] == row["route"]
    assert got == expected_routes(requests)
    shop = answer(one, "routes", service="shop", host="node-2", route="/status", source="sonde", **time_of_it)["routes"]
    assert shop[0]["requests"] == sum(it["weight"] for it in requests if (it["service"], it["host"], it["route"]) == ("shop", "node-2", "/status")) and len(shop) == 1
    rows = {row["service"]: row for row in answer(one, "services", **time_of_it)["services"]}
    assert sorted(rows) == ["front", "gateway", "quiet", "shop"], "quiet has samples only"
    for name, source in [("shop", "sonde"), ("front", "sonde"), ("gateway", "sdk")]:
        of_it = [it for it in requests if it["service"] == name]
        assert rows[name]["requests"] == {source: sum(it["weight"] for it in of_it)} and rows[name]["failed_requests"] == {source: sum(it["weight"] for it in of_it if it["failed"])}
        assert rows[name]["hosts"] == len({it["host"] for it in of_it}) and rows[name]["spans"] == len(of_it) + (name == "gateway")
    assert (rows["shop"]["cpu_ms"], rows["shop"]["events"], rows["quiet"]["cpu_ms"], rows["quiet"]["requests"]) == (12, 1, 5, {})
    assert rows["gateway"]["last_seen"] == moment(max(it["time_ns"] for it in requests if it["service"] == "gateway"))
    assert [row["service"] for row in answer(one, "services", host="node-2", **time_of_it)["services"]] == ["shop"]


def check_profiles(one, time_of_it, before):
    def stacks(**parameters):
        return {";".join(row["stack"]): row["ms"] for row in answer(one, "profile", **{**time_of_it, **parameters})["stacks"]}
    assert stacks(service="shop", host="node-1") == {"main;work;leaf": 7, "main;idle": 3}
    assert stacks(service="shop", host="node-2") == {"main;leaf": 2} and stacks(host="node-2") == {"main;leaf": 2}
    assert stacks() == {"main;work;leaf": 7, "main;idle": 3, "main;leaf": 2, "sleepy": 5} and stacks(route="/checkout") == {"main;idle": 2}
    assert stacks(kind="off_cpu") == {"main;work;[lock: futex]": 3} and stacks(**before) == {"main;leaf": 6, "main;idle": 2}
    assert answer(one, "profile", limit=2, **time_of_it)["stacks"] == [{"stack": ["[other stacks]"], "ms": 10}, {"stack": ["main", "work", "leaf"], "ms": 7}]
    assert len(answer(one, "profile", limit=4, **time_of_it)["stacks"]) == 4 and answer(one, "profile", limit=1, **time_of_it)["stacks"] == [{"stack": ["[other stacks]"], "ms": 17}]

    def compare(**parameters):
        got = answer(one, "profile/compare", **time_of_it, **parameters)
        return [(row["function"], row["ms"], row["baseline_ms"], round(row["change"], 3)) for row in got["functions"]], \
            [(";".join(row["stack"]), row["ms"], row["baseline_ms"], row["share"], row["baseline_share"]) for row in got["stacks"]]
    functions, by_stack = compare(service="shop", host="node-1", baseline_from=before["from"], baseline_to=before["to"])
    assert functions == [("idle", 3, 2, 0.05), ("leaf", 7, 6, -0.05)]
    assert by_stack == [("main;leaf", 0, 6, 0, 0.75), ("main;work;leaf", 7, 0, 0.7, 0), ("main;idle", 3, 2, 0.3, 0.25)]
    assert compare(service="shop", host="node-1", baseline_ago="2h") == (functions, by_stack), "the same time, two hours before"
    assert compare(service="shop", host="node-1", baseline_host="node-2")[0] == [("idle", 3, 0, 0.3), ("leaf", 7, 2, -0.3)]
    assert compare(service="shop", baseline_service="quiet")[0] == [("sleepy", 0, 5, -1), ("leaf", 9, 0, 0.75), ("idle", 3, 0, 0.25)]


def test_figures_are_those_of_what_was_sent(server):  # noqa: F811
    one = server()
    now = time.time_ns()
    begin, end = now - HOUR, now - HOUR // 4
    requests = make_requests(begin, end)
    send_requests(one, requests)
    other = span(5000, "SELECT", begin + 1, MS).replace(field(6, 2), field(6, 3), 1)  # of a client
    whole = agent_span(6000, "/whole", now - 10 * HOUR, 30, {"cpu": 10, "disk": 20}, segment(now - 10 * HOUR, "cpu", 10) + segment(now - 10 * HOUR + 10 * MS, "disk", 20, **{"sonde.detail": "read of /a"}),
                       **{"sonde.slow": True, "sonde.cause": "the disk"})
    hour = now - now % HOUR
    job = {"manager": "slurm", "job_id": "42", "mountpoint": "/scratch", "fstype": "ext4", "layer": ""}
    metrics = [counter("sonde_io_write_bytes", hour, [(hour, 0), (hour + 1, 1 << 20)], **job), counter("sonde_io_read_bytes", hour, [(hour + 1, 4096)], **job),
               counter("sonde_io_write_bytes", hour, [(hour + 1, 7)], **{**job, "job_id": "43"}), counter("sonde_io_operations", hour, [(hour + 1, 30)], **job),
               counter("sonde_build_info", now, [(now, 1)], version="0.1.0", kernel="6.18.0", machine="x86_64"), counter("sonde_self_losses", now, [(now, 5)], reason="ring_full")]
    event = fixed64(1, begin + 5) + field(5, field(1, "no stock")) + field(6, pair("item", "7")) + field(12, "order.lost")
    for path, packet in [("traces", request([other], "gateway", "node-3")), ("traces", agent_request([whole], "shop", "node-1")), ("traces", request([span(6000, "inner", now - 10 * HOUR, MS)], "gateway", "node-3")),
                         ("metrics", agent_request(metrics, "sonde", "node-1")), ("logs", request([event], "shop", "node-1"))]:
        assert one.post("/v1/" + path, packet)[::2] == (200, b""), path
    of_route = next(it["number"] for it in requests if it["route"] == "/checkout" and it["source"] == "sonde" and begin <= it["time_ns"] < end)
    for packet in [profile(begin, "cpu", {("main", "work", "leaf"): 7, ("main", "idle"): 1}), profile(begin + 1, "cpu", {("main", "idle"): 2}, trace=of_route),
                   profile(begin + 2, "cpu", {("main", "leaf"): 2}, host="node-2"), profile(begin + 3, "cpu", {("sleepy",): 5}, "quiet", "node-4"),
                   profile(begin, "off_cpu", {("main", "work", "[lock: futex]"): 3}), profile(end, "cpu", {("main", "after"): 100}),
                   profile(begin - 2 * HOUR, "cpu", {("main", "leaf"): 6, ("main", "idle"): 2})]:
        assert one.post("/v1development/profiles", packet)[::2] == (200, b"")
    one.await_value("SELECT (SELECT count() FROM otel_traces), (SELECT count() FROM otel_logs), (SELECT count() FROM otel_metrics_sum), (SELECT count() FROM profile_samples)",
                    f"{len(requests) + 3}\t1\t7\t9")
    time_of_it, before = {"from": moment(begin), "to": moment(end)}, {"from": moment(begin - 2 * HOUR), "to": moment(end - 2 * HOUR)}
    within = [it for it in requests if begin <= it["time_ns"] < end]
    check_requests(one, within, time_of_it)
    check_routes_and_services(one, within, time_of_it)
    check_profiles(one, time_of_it, before)
    got = answer(one, f"requests/{6000:032x}")
    assert sorted((row["route"], row["parts_ms"], row["cause"]) for row in got["requests"]) == [("/whole", {"cpu": 10, "disk": 20}, "the disk"), ("inner", {}, "")]
    assert [(row["begin"], row["kind"], row["duration_ms"], row["detail"], row["span_id"]) for row in got["segments"]] == [
        (moment(now - 10 * HOUR), "cpu", 10, "", f"{6000:016x}"), (moment(now - 10 * HOUR + 10 * MS), "disk", 20, "read of /a", f"{6000:016x}")]
    assert sorted((row["service"], row["name"], row["kind"], row["duration_ms"]) for row in got["spans"]) == [("gateway", "inner", "Server", 1), ("shop", "GET /whole", "Server", 30)]
    jobs = answer(one, "io", **{"from": moment(hour + HOUR // 2), "to": moment(hour + HOUR)}, limit=1)
    assert jobs["truncated"] and jobs["jobs"] == [{"host": "node-1", "manager": "slurm", "job": "42", "mountpoint": "/scratch", "fstype": "ext4", "layer": "", "read_bytes": 4096,
                                                  "write_bytes": 1 << 20, "operations": 30, "errors": 0}], "the whole hour that the time begins in"
    assert [row["write_bytes"] for row in answer(one, "io", job="43", manager="slurm", mountpoint="/scratch", host="node-1", **{"from": moment(hour)})["jobs"]] == [7]
    assert answer(one, "events", service="shop", host="node-1", name="order.lost", **time_of_it)["events"] == [
        {"time": moment(begin + 5), "host": "node-1", "service": "shop", "name": "order.lost", "severity": "", "text": "no stock", "attributes": {"item": "7"}, "trace_id": ""}]
    hosts = {row["host"]: row for row in answer(one, "hosts")["hosts"]}
    assert sorted(hosts) == ["node-1", "node-2", "node-3"] and (hosts["node-1"]["agent_version"], hosts["node-1"]["lost_events"], hosts["node-1"]["healthy"]) == ("0.1.0", 5, None)
    assert hosts["node-3"]["spans"] == 42 and [row["host"] for row in answer(one, "hosts", host="node-2")["hosts"]] == ["node-2"]


# ---- the document ----

EXAMPLE = {"trace_id": f"{1:032x}", "from": "2026-11-30T10:00:00+01:00", "to": "2090-01-01T00:00:00Z", "last": "15m", "limit": "7", "min_duration": "250ms", "baseline_from": "2026-11-29T09:00:00Z",
           "baseline_to": "2026-11-29T10:00:00Z", "baseline_ago": "24h"}


def documented(one):
    """(path, its description)"""
    document = answer(one, "openapi.json")
    assert document["openapi"] == "3.1.0" and all(path.startswith(API) and list(item) == ["get"] for path, item in document["paths"].items())
    return [(path.removeprefix(API), item["get"]) for path, item in document["paths"].items()]


def test_answers_have_the_schemas_of_the_document(server):  # noqa: F811
    """And each parameter of the document is accepted, and in no other endpoint."""
    one = server()
    fill(one)
    paths = documented(one)
    assert len(paths) == 9
    names = {parameter["name"] for _, about in paths for parameter in about["parameters"]}
    for path, about in paths:
        schema = about["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        full = path.replace("{trace_id}", EXAMPLE["trace_id"])
        needed = {"baseline_ago": "24h"} if path == "profile/compare" else {}
        got = answer(one, full, **needed)
        jsonschema.Draft202012Validator(schema).validate(got)
        assert got["version"] == 1 and "empty" not in got and all(got[name] for name, kind in schema["properties"].items() if kind.get("type") == "array"), path
        known = {parameter["name"] for parameter in about["parameters"] if parameter["in"] == "query"}
        for parameter in about["parameters"]:
            if parameter["in"] == "path":
                continue
            value = EXAMPLE.get(parameter["name"]) or parameter["schema"].get("enum", ["x"])[-1]
            together = {"baseline_from": ["baseline_to"], "baseline_to": ["baseline_from"]}.get(parameter["name"], [])
            given = {**(needed if not parameter["name"].startswith("baseline") else {}), parameter["name"]: value, **{name: EXAMPLE[name] for name in together}}
            jsonschema.Draft202012Validator(schema).validate(answer(one, full, **given))
        for name in names - known:
            status, text = get(one, full, {name: "1"})
            assert status == 400 and text.startswith(name + ": "), f"{path} {name}: {text}"


def test_examples_of_the_document_for_people(server):  # noqa: F811
    """Each example of docs/api.md has the answer below it, but for times; each endpoint has one."""
    one = server()
    fill(one)
    examples = re.findall(r"```sh\ncurl '?http://127\.0\.0\.1:7080(/api/v1/[^\s']*)'?\n```\n\n```json\n(.*?)```", (TOP / "docs/api.md").read_text(), re.S)
    shown = {path.split("?")[0].removeprefix(API) for path, _ in examples}
    assert {path.replace("{trace_id}", f"{1:032x}") for path, _ in documented(one)} == shown

    def without_times(text):
        return json.loads(re.sub(r'"20\d\d-\d\d-\d\dT[^"]*Z"', '"TIME"', text))
    for path, expected in examples:
        status, _, body = ask(one.sql_port, "GET", path, None, {})
        assert status == 200, body
        got, expected = without_times(body.decode()), without_times(expected)
        for name, rows in expected.items():
            assert got[name][:len(rows)] == rows if isinstance(rows, list) else got[name] == rows, f"{path}: {json.dumps(got[name])}"


@pytest.mark.peer
def test_document_is_valid_for_a_validator(server):  # noqa: F811
    """That of the package openapi-spec-validator."""
    one = server()
    python = environment("openapi", ["openapi-spec-validator"], ["/usr/bin/python3"], "True") / "python"
    text = json.dumps(answer(one, "openapi.json"))
    done = subprocess.run([python, "-c", "import json, sys; from openapi_spec_validator import validate; validate(json.load(sys.stdin))"], input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]


# ---- what is refused ----

HOSTILE = ["' OR 1 --", "'; DROP TABLE otel_traces; --", "\\' OR 1=1 #", "x' UNION ALL SELECT * FROM system.tables --", "{service:String}", "{limit:UInt64}", "%s%n", "\u2018 OR 1", "a\nb", "')", "\x01\x7f", "\udcff",
           "x" * 512]


def test_hostile_parameters(server):  # noqa: F811
    one = server()
    assert one.post("/v1/traces", request([span(1, "it's", **{"http.route": "' OR 1 --"})]))[0] == 200
    one.await_value("SELECT count() FROM otel_traces", "1")
    texts = {path: [it["name"] for it in about["parameters"] if it["schema"].get("maxLength")] for path, about in documented(one) if "{" not in path}
    for value in HOSTILE:
        raw = urllib.parse.quote(value.encode("utf-8", "surrogateescape"), safe="")
        for path, names in texts.items():
            query = "&".join(f"{name}={raw}" for name in names)
            status, _, body = ask(one.sql_port, "GET", f"{API}{path}?{query}", None, {})
            got = json.loads(body) if status == 200 else body
            assert status == 200 and got["empty"], f"{path} {value!r}: {body}"
    assert len(answer(one, "requests", route="' OR 1 --")["requests"]) == 1, "a value is compared as it is"
    for path, named in [("requests?service=%00", "service"), ("requests?service=a%00b", "service"), ("requests?service=" + "x" * 513, "service"), ("requests?service=" + "x" * 100000, "service"),
                        ("requests?limit=99999999999999999999999", "limit"), ("requests?limit=1e3", "limit"), ("requests?limit=-1", "limit"), ("requests?limit=0x10", "limit"),
                        ("requests?min_duration=inf", "min_duration"), ("requests?min_duration=1e9", "min_duration"), ("requests?last=99999999999h", "last"), ("requests?from=0", "from"),
                        ("requests?from=2026-11-30T10:00:00+01:00", "from"), ("requests?to=9999-12-31T23:59:59Z", "to"), ("requests?from=2026-02-30T00:00:00Z", "from"),
                        ("requests?order=duration--", "order"), ("requests?slow=1", "slow"), ("requests?service=a&service=b", "service"), ("requests?service", "service"),
                        ("requests?%27%3B=1", "';"), ("requests/x", "trace_id"), ("requests/" + "0" * 33, "trace_id"), ("requests/", "trace_id"), ("requests/" + "F" * 32, "trace_id"),
                        ("hosts?last=1h", "last"), ("profile?kind=off_cpu'", "kind")]:
        status, _, body = ask(one.sql_port, "GET", API + path, None, {})
        assert status == 400 and body.decode().startswith(named + ": "), f"{path[:80]}: {status} {body[:200]}"
    assert get(one, "nothing")[0] == 404 and "/api/v1/profile/compare" in get(one, "nothing")[1] and get(one, "requests/" + "0" * 32) == (
        404, "no span of this trace has arrived, or it is not kept any more\n")
    assert get(one, "services", verb="POST")[0] == 405 and get(one, "openapi.json", verb="POST")[0] == 405
    assert one.value("SELECT count() FROM otel_traces") == "1"


def test_empty_answers_say_why(server):  # noqa: F811
    one = server("--keep", "7")
    one.await_value("SELECT 1", "1")
    assert answer(one, "requests")["empty"] == "the server has no requests in the 7 days that it keeps"
    assert answer(one, "hosts")["empty"] == "no such host has sent anything in the last day"
    now = time.time_ns()
    for packet in [agent_request([agent_span(1, "/a", now - 2 * HOUR, 5, {"cpu": 5})], "shop", "node-1"), request([span(2, start_ns=now)], "front", "node-2")]:
        assert one.post("/v1/traces", packet)[0] == 200
    assert one.post("/v1development/profiles", profile(now, "cpu", {("main",): 1}))[0] == 200
    one.await_value("SELECT (SELECT count() FROM otel_traces), (SELECT count() FROM profile_samples)", "2\t1")
    expected = [("requests", {"service": "nix"}, "the server has no requests of the service nix in the 7 days that it keeps; it has 2 of others"),
                ("routes", {"service": "shop"}, f"the server has no requests of the service shop of this time: it has 1, from {moment(now - 2 * HOUR)} to {moment(now - 2 * HOUR)}"),
                ("requests", {"to": moment(now - 240 * HOUR)}, "the server has no requests of this time: it keeps 7 days"),
                ("requests", {"status": "418"}, "there are 1 requests in this time, but none that the other parameters choose"),
                ("profile", {"kind": "off_cpu"}, "the server has no off_cpu samples in the 7 days that it keeps"),
                ("profile", {"route": "/a"}, "there are 1 cpu samples in this time, but none that the other parameters choose"),
                ("profile/compare", {"baseline_host": "node-9"},
                 "there are 1 cpu samples in this time; the baseline: the server has no cpu samples of the host node-9 in the 7 days that it keeps; it has 1 of others"),
                ("services", {"last": "1ns"}, None), ("events", {}, "the server has no events in the 7 days that it keeps"), ("io", {}, "the server has no metrics of I/O in the 7 days that it keeps")]
    for path, parameters, why in expected:
        got = answer(one, path, **parameters)
        assert got["empty"] == why if why else got["empty"].startswith("the server has no spans, CPU profiles or events of this time: it has 3, from "), path


@pytest.mark.thorough
def test_an_answer_that_is_too_large_is_refused_alone(server):  # noqa: F811
    """140 MB of text in 10,000 events. The server goes on."""
    one = server()
    now = time.time_ns()
    for number in range(10):
        events = [fixed64(1, now - 1000 * number - i) + field(5, field(1, f"{number} {i} " + "x" * 14000)) + field(12, "large") for i in range(1000)]
        assert one.post("/v1/logs", request(events))[0] == 200
    one.await_value("SELECT count() FROM otel_logs", "10000", 120)
    status, text = get(one, "events", {"limit": 10000})
    assert status == 400 and text.startswith("the answer is too large, or takes too much time or memory: choose a shorter time"), text[:200]
    assert len(answer(one, "events", limit=100)["events"]) == 100


def test_page_is_for_browsers_alone(server):  # noqa: F811
    """At the address of SQL, whose clients get what they got without it."""
    one = server()
    page = (TOP / "build/web/web_centre.html").read_bytes()

    def ask_top(path, method="GET", body=None, **headers):
        return ask(one.sql_port, method, path, body, headers)
    status, headers, body = ask_top("/", Accept="text/html,application/xhtml+xml")
    assert (status, body) == (200, page) and headers["Content-Type"].startswith("text/html") and "connect-src 'self'" in headers["Content-Security-Policy"]
    assert ask_top("/")[::2] == ask_top("/", Accept="*/*")[::2] == (400, b"the query is empty\n")
    one.await_value("SELECT 1", "1")
    for path, method, sql in [("/?query=SELECT+1", "GET", None), ("/", "POST", b"SELECT 1")]:
        assert ask_top(path, method, sql, Accept="text/html")[::2] == (200, b"1\n")


def test_rights(server, tmp_path):  # noqa: F811
    """As of SQL: the scope read."""
    tokens = tmp_path / "own"
    tokens.write_text("".join(f"sha256:{hashlib.sha256(scope.encode()).hexdigest()} {scope} test\n" for scope in ("read", "write", "agent", "capture", "admin")))
    tokens.chmod(0o600)
    one = server("--token-file", tokens)
    for path in ("services", "openapi.json", "requests/" + "0" * 32, "nothing"):
        statuses = [get(one, path, headers={"Authorization": f"Bearer {scope}"})[0] for scope in ("write", "agent", "capture", "other")] + [get(one, path)[0]]
        assert statuses == [401] * 5, path
    assert [get(one, "hosts", headers={"Authorization": f"Bearer {scope}"})[0] for scope in ("read", "admin")] == [200, 200]
    assert get(one, "hosts", headers={"Authorization": "Bearer read", "Origin": "http://evil.example"})[0] == 403
