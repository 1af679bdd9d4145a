"""Data directories of other versions of `sonde server`: those of an earlier one are migrated with the rows that they have, and those of a newer one refused."""
import subprocess
from pathlib import Path

from centre import LISTEN, engine_library, request, run_in_engine, server, span  # noqa: F401 (fixture)

# The statements of the first version with all tables of metrics and profiles (2026-11-29), before tables had a version.
OLD = (Path(__file__).parent / "server_schema_0.sql").read_text().split(";\n\n")[:-1]
ROWS = [
    "otel_traces (Timestamp, TraceId, SpanKind, ServiceName, ResourceAttributes, SpanAttributes) VALUES "
    "(now64(9), 'old', 'Server', 'shop', {'host.name': 'node-1'}, {'http.route': '/old', 'http.response.status_code': '503'})",
    "otel_logs (Timestamp, ServiceName, ResourceAttributes, Body, EventName) VALUES (now64(9), 'sonde', {'host.name': 'node-1'}, 'a task is blocked', 'blocked.task')",
    "otel_metrics_sum (ResourceAttributes, ServiceName, MetricName, Attributes, TimeUnix, Value) VALUES "
    "({'host.name': 'node-1'}, 'sonde', 'sonde_build_info', {'version': '0.0.9', 'kernel': '5.10'}, now64(9), 1)",
    "profile_samples (Timestamp, HostName, ServiceName, ProfileType, Unit, Value, StackHash, ResourceHash) VALUES (now64(9), 'node-1', 'shop', 'cpu', 'nanoseconds', 7000000, 1, 2)",
    "profile_stacks VALUES (today(), 1, ['main', 'work'], [3, 4])",
    "profile_resources VALUES (today(), 2, 'shop', {'host.name': 'node-1'})",
]


def test_data_of_an_earlier_version_is_migrated(server, sonde, tmp_path):  # noqa: F811
    """Its rows are in the views with all that is new; a second start finds nothing to migrate."""
    statements = ["CREATE DATABASE otel ENGINE = Atomic", *OLD, *(f"INSERT INTO otel.{row}" for row in ROWS)]
    run_in_engine(tmp_path / "old", *statements)
    done = subprocess.run([sonde, "server", "--migrate", "--data", tmp_path / "old", "--engine", engine_library()], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"The tables in {tmp_path}/old/engine have version 1\n", "")
    again = server("--data", tmp_path / "old")
    again.await_value("SELECT host, route, status, weight, slow FROM requests", "node-1\t/old\t503\t1\tfalse")
    assert again.value("SELECT host, name, text FROM events") == "node-1\tblocked.task\ta task is blocked"
    assert again.value("SELECT host, agent_version, kernel, spans FROM hosts") == "node-1\t0.0.9\t5.10\t1"
    assert again.value("SELECT service, function, cpu_ms FROM cpu_samples") == "shop\twork\t7"
    assert again.value("SELECT count() FROM captures") == again.value("SELECT count() FROM capture_samples") == "0"
    assert again.post("/v1/traces", request([span(1, **{"http.route": "/new"})]))[0] == 200
    again.await_value("SELECT route FROM requests ORDER BY route", "/new\n/old")
    assert again.value("SELECT Version, count() FROM schema_versions GROUP BY Version") == "1\t1"
    assert again.running.error == ""


def test_data_of_a_newer_version_is_refused(server, sonde, tmp_path):  # noqa: F811
    """Nothing of it is changed: the newer version finds what it left."""
    one = server()
    one.await_value("SELECT count() FROM requests", "0")
    assert one.running.stop() == 0
    newer = "INSERT INTO otel.schema_versions (Version, Hash, Program) VALUES (999, 1, '7.7.7')"
    run_in_engine(tmp_path / "data", newer)
    for arguments in (["--migrate"], LISTEN):
        done = subprocess.run([sonde, "server", *arguments, "--data", tmp_path / "data", "--engine", engine_library()], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "the tables have version 999, of sonde 7.7.7" in done.stderr, done.stderr
