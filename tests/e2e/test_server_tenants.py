"""Tenants of the centre: each has its own tokens, and no token of one reaches the data of another."""
import hashlib
import subprocess
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from centre import ask, engine_library, field, request, run_in_engine, server, span  # noqa: F401 (fixture)
from harness.processes import wait_for

TRACES = "trace.v1.TraceService"
SECRET = "SECRET-of-b"


def write_tokens(path, *rights):
    """The token of each line is the text of its rights: "read@a"."""
    path.write_text("".join(f"sha256:{hashlib.sha256(right.encode()).hexdigest()} {right} test\n" for right in rights))
    path.chmod(0o600)


def bearer(token, tenant=None):
    return {"Authorization": f"Bearer {token}", **({"X-Sonde-Tenant": tenant} if tenant is not None else {})}


def query(one, token, sql, tenant=None, **headers):
    status, _, body = ask(one.sql_port, "POST", "/", sql.encode(), {**bearer(token, tenant), **headers})
    return status, body.decode(errors="replace").strip()


def wait_for_value(one, token, sql, expected, tenant=None):
    wait_for(lambda: query(one, token, sql, tenant) == (200, expected), 30, f"{sql} of {token}", one.running.error)


def rows_of(name):
    return request([span(1, name=f"GET /{name}", **{"http.route": f"/{name}"})], service=f"shop-{name}", host=f"host-{name}")


@pytest.fixture
def tenants(server, tmp_path):  # noqa: F811
    """A server with a span of the tenant a, a span with a secret of the tenant b, and one of the default tenant."""
    tokens = tmp_path / "own"
    write_tokens(tokens, "write@a", "read@a", "write@b", "read@b", "write", "read", "admin")
    one = server("--token-file", tokens)
    one.tokens = tokens
    assert one.post("/v1/traces", rows_of("a"), bearer("write@a"))[0] == 200
    assert one.call(TRACES, rows_of(SECRET), ("authorization", "Bearer write@b"))[0] == 0
    assert one.post("/v1/traces", rows_of("default"), bearer("write"))[0] == 200
    for reader, route in (("read@a", "/a"), ("read@b", f"/{SECRET}"), ("read", "/default")):
        wait_for_value(one, reader, "SELECT Route FROM otel_traces", route)
    return one


def test_a_tenant_has_its_own_rows(tenants):
    """By SQL, the JSON API and a browser's session; a batch that two tenants send is stored for both."""
    one = tenants
    assert query(one, "read@a", "SELECT host, route FROM requests") == (200, "host-a\t/a")
    assert query(one, "admin", "SELECT Route FROM otel_traces") == (200, "/default"), "the default tenant's"
    for tenant, route in (("a", "/a"), ("b", f"/{SECRET}"), ("", "/default")):
        assert query(one, "admin", "SELECT Route FROM otel_traces", tenant) == (200, route)
    assert query(one, "read@a", "SELECT 1", "a") == (200, "1")
    for reader in ("read@a", "read"):
        status, text = query(one, reader, "SELECT Route FROM otel_traces", "b")
        assert status == 403 and text == "X-Sonde-Tenant is for clients with a token of the scope admin"
    assert query(one, "admin", "SELECT 1", "c")[0] == query(one, "admin", "SELECT 1", "../b")[0] == 404
    assert one.post("/v1/traces", rows_of("x"), bearer("write@a", "b"))[0] == 403
    body = ask(one.sql_port, "GET", "/api/v1/services", None, bearer("read@a"))[2]
    assert b"shop-a" in body and b"default" not in body and SECRET.encode() not in body
    assert ask(one.sql_port, "GET", "/metrics", None, bearer("read@a"))[0] == 403
    metrics = ask(one.sql_port, "GET", "/metrics", None, bearer("read"))[2].decode()
    assert 'sonde_server_spool_bytes{tenant="a"}' in metrics and "\nsonde_server_spool_bytes " in metrics
    cookie = {"Cookie": ask(one.sql_port, "POST", "/login", "read@a", {})[1]["Set-Cookie"].split(";")[0]}
    body = ask(one.sql_port, "GET", "/api/v1/services", None, cookie)[2]
    assert b"shop-a" in body and SECRET.encode() not in body
    assert ask(one.sql_port, "GET", "/api/v1/services", None, {**cookie, "X-Sonde-Tenant": "b"})[0] == 403
    batch = rows_of("same")
    for _ in range(2):
        assert [one.post("/v1/traces", batch, bearer(f"write@{tenant}"))[0] for tenant in "ab"] == [200, 200]
    for tenant in "ab":
        wait_for_value(one, f"read@{tenant}", "SELECT count() FROM otel_traces WHERE Route = '/same'", "1")


def test_hostile_sql_does_not_reach_another_tenant(tenants, tmp_path):
    """By tables, views, system tables, functions, joins, settings, errors and files. (The control: the same query of b finds its secret.)"""
    one = tenants
    data = tmp_path / "data"
    theirs = data / "tenants" / "b" / "engine"
    parts = [path for path in theirs.glob("store/*/*/*/*.bin") if path.stat().st_size]
    assert parts, "files of b that a knows the paths of"
    tables = query(one, "read@a", "SELECT concat(database, '.', name) FROM system.tables WHERE name != 'models'")[1].split("\n")
    # system.models waits for a program that is not there.
    assert "otel.otel_traces" in tables and "system.parts" in tables
    for table in tables:
        status, text = query(one, "read@a", f"SELECT * FROM {table} LIMIT 10000 FORMAT TSV")
        assert SECRET not in text and "host-default" not in text, table
    attacks = [
        "SELECT * FROM merge('otel', '.*') FORMAT Vertical",
        "SELECT * FROM merge(REGEXP('.*'), '.*') LIMIT 1000",
        "SELECT * FROM `tenants/b`.otel_traces", "SELECT * FROM b.otel_traces", "SELECT * FROM default.otel_traces",
        "SELECT * FROM remote('127.0.0.1', otel.otel_traces)",
        "SELECT * FROM (SELECT * FROM remote('127.0.0.1', otel.otel_traces) SETTINGS readonly = 0)",
        "SELECT * FROM mergeTreeIndex('otel', 'otel_traces')",
        "SELECT * FROM mergeTreeAnalyzeIndexes('otel', 'otel_traces', Duration > 0)",
        "SELECT query, query_id FROM system.processes",
        "SELECT toUInt64(SpanName) FROM otel_traces", "SELECT toUInt64(ServiceName) FROM otel_traces",
        "SELECT count() FROM otel_traces PREWHERE throwIf(ServiceName LIKE '%SECRET%') = 0",
        "SELECT * FROM otel_traces AS x LEFT JOIN otel.otel_traces AS y ON 1 = 1",
        "SELECT dictGet('otel.otel_traces', 'Route', 1)", "SELECT joinGet('otel.otel_traces', 'Route', 1)",
        "SHOW DATABASES", "SHOW PROCESSLIST", "SHOW CREATE TABLE otel_traces", "EXPLAIN ESTIMATE SELECT * FROM otel_traces",
        f"SELECT groupArray(_path) FROM file('{theirs}/**', 'RawBLOB', 'x String')",
        f"SELECT * FROM (SELECT groupArray(_path) FROM file('{theirs}/**', 'RawBLOB', 'x String') SETTINGS readonly = 0)",
        f"SELECT file('{data}/own')", f"SELECT file('{one.tokens}')",
        f"SELECT * FROM default.`{parts[0]}`",
        *(f"SELECT file('{path}', 'unreadable')" for path in parts),
        *(f"SELECT file('{data}/engine/../tenants/b/engine/{path.relative_to(theirs)}', 'unreadable')" for path in parts[:3]),
        *(f"SELECT file('/proc/self/root{path}', 'unreadable')" for path in parts[:3]),
        *(f"SELECT file('{path}', 'unreadable')" for path in Path(data / "tenants" / "b" / "spool").glob("*")),
    ]
    for sql in attacks:
        status, text = query(one, "read@a", sql)
        assert SECRET not in text and "host-default" not in text, (sql, text[:500])
        assert "file(" not in sql or status == 400 or text in ("unreadable", "[]"), (sql, status, text[:500])
    assert query(one, "read@b", f"SELECT length(file('{parts[0]}', '')) > 0") == (200, "1"), "a file of its own"
    for path in ("/?database=b&query=SELECT+1", "/?tenant=b&query=SELECT+1", "/?query=SELECT+1&X-Sonde-Tenant=b"):
        assert ask(one.sql_port, "GET", path, None, bearer("read@a"))[0] == 400
    slow = [threading.Thread(target=query, args=(one, "read@b", "SELECT sleepEachRow(1) FROM numbers(3) FORMAT Null")) for _ in range(8)]
    for thread in slow:
        thread.start()
    begin = time.monotonic()
    assert query(one, "read@a", "SELECT Route FROM otel_traces") == (200, "/a") and time.monotonic() - begin < 3, "b's queries are in no one else's way"
    for thread in slow:
        thread.join()
    assert SECRET in query(one, "read@b", "SELECT toUInt64(SpanName) FROM otel_traces")[1]


def test_tokens_of_a_new_tenant_are_taken_at_once_and_its_data_stays(tenants, server, sonde, tmp_path):  # noqa: F811
    one = tenants
    assert one.post("/v1/traces", rows_of("c"), bearer("write@c"))[0] == 401
    write_tokens(one.tokens, "write@c", "read@c", "read@a", "admin")
    wait_for(lambda: one.post("/v1/traces", rows_of("c"), bearer("write@c"))[0] == 200, 20, "the tenant c", one.running.error)
    wait_for_value(one, "read@c", "SELECT Route FROM otel_traces", "/c")
    assert query(one, "read@b", "SELECT 1")[0] == 401
    assert query(one, "admin", "SELECT Route FROM otel_traces", "b") == (200, f"/{SECRET}")
    assert one.running.stop() == 0
    again = server("--token-file", one.tokens)
    wait_for_value(again, "read@c", "SELECT Route FROM otel_traces", "/c")
    wait_for_value(again, "admin", "SELECT Route FROM otel_traces", "/default")
    assert query(again, "admin", "SELECT 1", "b")[0] == 404, "no token names it"
    assert again.running.stop() == 0
    write_tokens(one.tokens, "read@b")
    third = server("--token-file", one.tokens)
    wait_for_value(third, "read@b", "SELECT Route FROM otel_traces", f"/{SECRET}")
    assert third.running.stop() == 0

    def migrate():
        return subprocess.run([sonde, "server", "--migrate", "--data", tmp_path / "data", "--engine", engine_library()], capture_output=True, text=True, timeout=120)
    assert migrate().returncode == 0
    run_in_engine(tmp_path / "data" / "tenants" / "c", "INSERT INTO otel.schema_versions (Version, Hash, Program) VALUES (999, 1, '7.7.7')")
    done = migrate()
    assert done.returncode == 1 and "the tables have version 999" in done.stderr, "tenants without a token are migrated, too"


def test_agents_and_captures_are_of_a_tenant(server, tmp_path):  # noqa: F811
    """A capture is asked for in the tenant of its token, among the agents of that tenant."""
    tokens = tmp_path / "own"
    write_tokens(tokens, "agent@a", "read@a", "capture@a", "read@b", "capture@b", "admin")
    one = server("--token-file", tokens)

    def attribute(key, value):
        return field(1, key) + field(2, field(1, value))
    description = b"".join(field(1, attribute(key, value)) for key, value in (("service.name", "sonde"), ("host.name", "node-a")))
    assert one.post("/v1/opamp", field(1, bytes(range(16))) + field(2, 1) + field(3, description), bearer("agent@a"))[0] == 200
    wait_for_value(one, "read@a", "SELECT HostName FROM agent_reports", "node-a")
    assert query(one, "read@b", "SELECT count() FROM agent_reports") == (200, "0")

    def capture(token):
        status, _, body = ask(one.sql_port, "POST", f"/captures?host={quote('node-a')}&pid=1", None, bearer(token))
        return status, body.decode()
    assert capture("capture@a")[0] == 409, "this agent takes none"
    assert capture("capture@b") == (404, "no agent of the host node-a reports by OpAMP\n") == capture("admin")
