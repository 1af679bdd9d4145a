"""The views of `sonde server`, and the questions of docs/sql.md: each one is asked of a server with spans, logs and metrics of two hosts with agents
and of a program with an SDK, as they send them."""
import json
import re
import time

import pytest
from centre import TOP, field, fixed64, pair, request, server, span, varint  # noqa: F401 (fixture)

SECOND, DAY = 10**9, 86400 * 10**9
QUESTIONS = re.findall(r"^### (\d+)\. .*?```sql\n(.*?)```", (TOP / "docs/sql.md").read_text(), re.M | re.S)

# By number: a part of the answer, as tab-separated values.
ANSWERS = {
    1: "/checkout\tnode-1\tshop\t5\t1000\n/checkout\tnode-2\tshop\t1\t100\n",
    2: "disk\t0.9\ncpu\t0.28\n",
    3: "node-1\tshop\t/checkout\t1000\t1.00 s: 900 ms waiting for the disk",
    4: "/checkout\tdisk\t900\tread of /var/lib/orders\t\n",
    5: "shop\t/status\t503\t1\t",
    6: "\t7\t1\t1000\n",
    7: "front\t127.0.0.1:8080 (shop)\tHTTP GET\t1\t50\n",
    8: "/checkout\tnode-2\t100\t2\n",
    9: "shop\tcpu\t100\tthis\t\tworker\t\n",
    10: "\tgateway\tPOST /checkout\tServer\t1010\n",
    11: "gateway\t/checkout\t1010\t1.00 s: 900 ms waiting for the disk\n",
    12: "node-1\tfront\t1\t20\tthe CPU ran backup (process 7) for 100 % of the wait\n",
    13: "shop\t/checkout\tnode-1\t50\t10\t5\n",
    14: "shop\t/checkout\tdisk\t150\t0\n",
    15: "shop\t/status\t",
    16: "node-1\t1\t0\n",
    17: "node-1\tslurm\t42\t/scratch\t1.00 MiB\t4.00 KiB\t30\t0\n",
    18: "node-1\tshop\torder.lost\tno stock\n",
    19: "gateway\tTimeoutError\t1\tno answer\n",
    20: "node-1\t",
    21: "otel_traces\t",
    22: "shop\tleaf\t7\nshop\tidle\t1\n",
    23: "main;idle 1000\nmain;work;leaf 7000\n",
    24: "shop\tleaf\t7\t2\n",
    25: "shop\t[lock: futex]\twork\t3\n",
}


def agent_request(items, service, host):
    """A request of an agent, which the name of its scope identifies."""
    resource = field(1, pair("service.name", service)) + field(1, pair("host.name", host))
    return field(1, field(1, resource) + field(2, field(1, field(1, "sonde")) + b"".join(field(2, item) for item in items)))


def segment(start_ns, kind, ms, **about):
    attributes = {"sonde.duration_ns": int(ms * 1e6), "sonde.owner": "this", "thread.name": "worker", **about}
    return field(11, fixed64(1, start_ns) + field(2, kind) + b"".join(field(3, pair(key, value)) for key, value in attributes.items()))


def agent_span(number, route, start_ns, ms, parts, segments=b"", status=200, **about):
    attributes = {"http.request.method": "GET", "http.route": route, "http.response.status_code": status, "sonde.sampling.weight": 1,
                  **{f"sonde.component.{kind}_ns": int(value * 1e6) for kind, value in parts.items()}, **about}
    return span(number, f"GET {route}", start_ns, int(ms * 1e6), **attributes) + segments + (field(15, field(3, 2)) if status >= 500 else b"")


def counter(name, start_ns, points, **labels):
    attributes = b"".join(field(7, pair(key, value)) for key, value in labels.items())
    data = b"".join(field(1, fixed64(2, start_ns) + fixed64(3, time_ns) + field(4, float(value)) + attributes) for time_ns, value in points)
    return field(1, name) + field(7, data + field(2, 2) + field(3, 1))


def profile(time_ns, kind, stacks, service="shop", host="node-1", trace=0):
    """A request of one profile: {functions, the outermost first: milliseconds}; of threads that work for the trace of that number."""
    names = sorted({name for stack in stacks for name in stack})
    strings = ["", kind, "nanoseconds", *names]
    locations = b"".join(field(2, field(3, field(1, i + 1))) for i in range(len(names)))
    functions = b"".join(field(3, field(1, i + 3)) for i in range(len(names)))
    rows = b"".join(field(7, field(1, bytes(names.index(name) + 1 for name in reversed(stack)))) for stack in stacks)
    dictionary = field(1, b"") + field(2, b"") + locations + field(3, b"") + functions + field(4, b"") + field(4, field(1, trace.to_bytes(16, "big")) + field(2, trace.to_bytes(8, "big"))) + b"".join(field(5, text) for text in strings) + \
        field(6, b"") + field(7, b"") + rows
    samples = b"".join(field(2, field(1, i + 1) + field(3, int(trace > 0)) + field(4, varint(ms * 10**6)) + field(5, time_ns.to_bytes(8, "little"))) for i, ms in enumerate(stacks.values()))
    resource = field(1, pair("service.name", service)) + field(1, pair("host.name", host))
    return field(1, field(1, resource) + field(2, field(2, field(1, field(1, 1) + field(2, 2)) + samples + fixed64(3, time_ns)))) + field(2, dictionary)


def fill(one):
    now = time.time_ns() - 60 * SECOND
    slow = agent_span(1, "/checkout", now, 1000, {"cpu": 100, "disk": 900}, segment(now, "cpu", 100) +
                      segment(now + SECOND // 10, "disk", 900, **{"sonde.detail": "read of /var/lib/orders"}),
                      **{"sonde.slow": True, "sonde.cause": "1.00 s: 900 ms waiting for the disk"})
    fast = [agent_span(number, "/checkout", now, 50, {"cpu": 20}) for number in range(2, 6)]
    failed = agent_span(6, "/status", now, 1, {"cpu": 1}, status=503)
    before = agent_span(7, "/checkout", now - 3 * DAY // 2, 10, {"cpu": 10, "disk": 0})
    front = agent_span(8, "/", now, 50, {"downstream": 30, "run_queue": 20},
                       segment(now, "run_queue", 20, **{"sonde.notes": "the CPU ran backup (process 7) for 100 % of the wait"}),
                       **{"sonde.upstream": "127.0.0.1:8080 (shop)", "sonde.upstream.call": "HTTP GET"})
    other = agent_span(9, "/checkout", now, 100, {"cpu": 100})
    exception = field(11, fixed64(1, now) + field(2, "exception") + field(3, pair("exception.type", "TimeoutError")) + field(3, pair("exception.message", "no answer")))
    sdk = field(1, (1).to_bytes(16, "big")) + field(2, (99).to_bytes(8, "big")) + field(5, "POST /checkout") + field(6, 2) + fixed64(7, now) + fixed64(8, now + 1010 * 10**6) + \
        field(9, pair("http.route", "/checkout")) + exception
    event = fixed64(1, now) + field(5, field(1, "no stock")) + field(12, "order.lost")
    hour = now - now % (3600 * SECOND)
    job = {"manager": "slurm", "job_id": "42", "mountpoint": "/scratch", "fstype": "ext4", "layer": ""}
    metrics = [counter("sonde_io_write_bytes", hour, [(hour, 0), (hour + SECOND, 1 << 20)], **job), counter("sonde_io_read_bytes", hour, [(hour + SECOND, 4096)], **job),
               counter("sonde_io_operations", hour, [(hour + SECOND, 30)], **job), counter("sonde_build_info", now, [(now, 1)], version="0.1.0", kernel="6.18.0", machine="x86_64"),
               counter("sonde_self_losses", now, [(now, 5)], reason="ring_full")]
    for path, packet in [("traces", agent_request([slow, *fast, failed, before], "shop", "node-1")), ("traces", agent_request([front], "front", "node-1")),
                         ("traces", agent_request([other], "shop", "node-2")), ("traces", request([sdk], "gateway", "node-3")),
                         ("logs", request([event], "shop", "node-1")), ("metrics", agent_request(metrics, "sonde", "node-1"))]:
        assert one.post("/v1/" + path, packet)[::2] == (200, b""), path
    today = time.time_ns()
    for packet in [profile(today, "cpu", {("main", "work", "leaf"): 7, ("main", "idle"): 1}), profile(today - DAY, "cpu", {("main", "leaf"): 2, ("main", "idle"): 1}),
                   profile(today, "off_cpu", {("main", "work", "[lock: futex]"): 3})]:
        assert one.post("/v1development/profiles", packet)[::2] == (200, b"")
    one.await_value("SELECT (SELECT count() FROM otel_traces), (SELECT count() FROM otel_logs), (SELECT count() FROM otel_metrics_sum), (SELECT count() FROM profile_samples)",
                    "10\t1\t6\t5")


def test_questions_of_the_document(server):  # noqa: F811
    """Each one has the answer that the data has; the document's questions and the answers here are the same ones."""
    one = server()
    fill(one)
    assert [int(number) for number, _ in QUESTIONS] == sorted(ANSWERS) and len(QUESTIONS) >= 20
    for number, sql in QUESTIONS:
        status, text = one.query(sql)
        assert status == 200 and ANSWERS[int(number)] in text, f"question {number}: {text}"
    attribute = one.value("EXPLAIN indexes = 1 SELECT time FROM requests WHERE attributes['customer.id'] = 'no one'")
    assert "values_SpanAttributes" in attribute, "a condition on an attribute uses its index through the view"
    search = one.value("EXPLAIN header = 1 SELECT host, method, route, status FROM requests WHERE slow ORDER BY weight")
    assert "Route" in search and "Attributes" not in search, "a search does not read the attributes"
    assert one.value("SELECT host, agent_version, kernel, machine, lost_events, spans, healthy FROM hosts WHERE host = 'node-1'") == "node-1\t0.1.0\t6.18.0\tx86_64\t5\t7\t\\N"


def component(healthy, status, error="", components=b""):
    return field(1, int(healthy)) + (field(3, error) if error else b"") + field(4, status) + components


def report(sequence, description=b"", config="", last=False, start_ns=1):
    """What an agent that started at that time reports by OpAMP."""
    parts = b"".join(field(6, field(1, name) + field(2, part)) for name, part in {"budget": component(False, "least", "budget.one_cpu: reduced: off-CPU time"),
                                                                                  "losses": component(True, "7 since the start"), "probes": component(True, "")}.items())
    file = field(6, field(1, field(1, field(1, "sonde.yaml") + field(2, field(1, config))))) if config else b""
    return field(1, bytes(range(16))) + field(2, sequence) + description + (field(9, b"") if last else field(5, component(True, "running", components=fixed64(2, start_ns) + parts)) + file)


def test_reports_of_agents_are_in_hosts(server):  # noqa: F811
    """Parts that a report leaves out are those of the report before; a server that lacks them asks for them."""
    one = server()
    names = [field(1, pair(*it)) for it in {"service.name": "sonde", "service.version": "0.2.0", "host.name": "node-9"}.items()] + [field(2, pair("os.version", "6.18.1")), field(2, pair("host.arch", "arm64"))]
    description = field(3, b"".join(names))
    about = field(1, bytes(range(16)))
    reply = lambda body, **options: one.post("/v1/opamp", body, **options)[::2]  # noqa: E731
    assert reply(report(1)) == (200, about + field(6, 1) + field(7, 5)), "all is asked for"
    assert reply(report(2, description, "budget:\n  memory: 64MiB\n"), compressed=True) == (200, about + field(7, 5)) == reply(report(3))
    host = "SELECT agent_version, kernel, machine, healthy, status, detail, problems, lost_events, config FROM hosts WHERE host = 'node-9'"
    seen = "0.2.0\t6.18.1\taarch64\t{}\tbudget:\\n  memory: 64MiB\\n".format
    one.await_value(host, seen("true\trunning\tleast\tbudget: budget.one_cpu: reduced: off-CPU time\t7"))
    assert one.value("SELECT count() FROM agent_reports") == "1"
    view = one.value("SELECT as_select FROM system.tables WHERE name = 'hosts'").replace("\\'", "'")
    for seconds, expected in [(590, "true\trunning"), (620, "false\tsilent")]:
        later = view.replace("now()", f"(now() + toIntervalSecond({seconds}))")
        assert one.value(f"SELECT healthy, status FROM ({later}) WHERE host = 'node-9'") == expected, f"{seconds} s later"
    assert reply(report(4, last=True)) == (200, about + field(7, 5))
    one.await_value("SELECT healthy, status FROM hosts WHERE host = 'node-9'", "\\N\tstopped")
    assert one.post("/v1/opamp", b"\xff")[0] == 400 and one.post("/v1/opamp", b"\0" * (1 << 21))[0] == 413 and one.post("/v1/opamp", b"\0" * (1 << 21), compressed=True)[0] == 413
    assert one.post("/v1/opamp", report(5), {"Content-Type": "application/json"})[0] == 415
    answers = [reply(report(5, description, start_ns=start_ns))[1] for start_ns in (1, 2, 1)]  # of two agents in turn
    assert answers[:2] == [about + field(7, 5)] * 2 and answers[2][:-16] == about + field(7, 5) + field(8, field(1, b"." * 16))[:-16]
    assert "two agents have the same machine id and host name (node-9)" in one.running.error


def test_dashboard(server):  # noqa: F811
    """Each query of the dashboard for Grafana has a result, with Grafana's macros replaced as Grafana does."""
    one = server()
    fill(one)
    dashboard = json.loads((TOP / "packaging/grafana/sonde-centre.json").read_text())
    queries = [dashboard["templating"]["list"][1]["query"], *(target["rawSql"] for panel in dashboard["panels"] for target in panel["targets"])]
    for query in queries:
        sql = re.sub(r"\$__timeFilter\((\w+)\)", r"\1 >= toDateTime(now() - 3600) AND \1 <= toDateTime(now())", query).replace("${service:singlequote}", "'shop','front'")
        status, text = one.query(sql)
        assert status == 200 and text, f"{sql}: {text}"
    assert one.value(queries[0]) == "front\ngateway\nshop" and len(queries) == 12


def test_io_of_jobs_by_hour(server):  # noqa: F811
    """The growth of counters; a series from the day before begins at its first point of the day, and one that begins anew counts whole."""
    one, day = server(), time.time_ns() // DAY * DAY - DAY
    job = {"manager": "slurm", "job_id": "7", "mountpoint": "/", "fstype": "ext4", "layer": ""}
    hours = [day + hour * 3600 * SECOND for hour in range(4)]
    old = counter("sonde_io_write_bytes", day - 3600 * SECOND, [(hours[0], 1000), (hours[0] + SECOND, 1100), (hours[1], 1500)], **job)
    anew = counter("sonde_io_write_bytes", hours[2], [(hours[2] + SECOND, 10), (hours[3], 30)], **job)
    assert one.post("/v1/metrics", agent_request([old, anew], "sonde", "node-1"))[0] == 200
    one.await_value("SELECT groupArray(write_bytes) FROM (SELECT write_bytes FROM io_by_job WHERE day = yesterday() ORDER BY hour)", "[100,400,10,20]")


def test_views_are_replaced_but_not_those_of_others(server, tmp_path):  # noqa: F811
    """An old view of ours, by its comment; a table of the same name without it."""
    one = server()
    one.await_value("SELECT 1", "1")
    assert one.running.stop() == 0
    metadata = next((tmp_path / "data/engine").glob("**/requests.sql"))
    assert "made by sonde server, " in metadata.read_text()
    metadata.write_text("ATTACH VIEW _ UUID '00000000-0000-4000-8000-000000000001' (`old` UInt8) AS SELECT 1 AS old COMMENT 'made by sonde server, 0'\n")
    metadata.with_name("events.sql").write_text("ATTACH VIEW _ UUID '00000000-0000-4000-8000-000000000002' (`mine` UInt8) AS SELECT 7 AS mine\n")
    one = server()
    one.await_value("SELECT count() FROM requests WHERE time > now()", "0")
    assert one.value("SELECT * FROM events") == "7" and "otel.events is not a view of sonde server" in one.running.error
