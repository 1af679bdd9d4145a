"""A data directory of an earlier version of `sonde server`: its tables get the columns that are new, for the rows that there are, too."""
import re

from centre import request, run_in_engine, server, span  # noqa: F401 (fixture)


def test_old_tables_get_new_columns(server, tmp_path):  # noqa: F811
    one = server()
    create = one.value("SHOW CREATE TABLE otel_traces FORMAT TSVRaw")
    assert one.running.stop() == 0
    old, count = re.subn(r"\n *`\w+` [^\n]* MATERIALIZED [^\n]*", "", create)
    assert count == 6
    row = ("INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanKind, ServiceName, ResourceAttributes, SpanAttributes) VALUES "
           "(now64(9), 'old', 'Server', 'shop', {'host.name': 'node-1'}, {'http.route': '/old', 'http.response.status_code': '503'})")
    run_in_engine(tmp_path / "old", "CREATE DATABASE otel ENGINE = Atomic", old, row)
    again = server("--data", tmp_path / "old")
    again.await_value("SELECT host, route, status, weight, slow FROM requests", "node-1\t/old\t503\t1\tfalse")
    assert again.post("/v1/traces", request([span(1, **{"http.route": "/new"})]))[0] == 200
    again.await_value("SELECT route FROM requests ORDER BY route", "/new\n/old")
    assert again.running.error == ""
