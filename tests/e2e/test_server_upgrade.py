"""A data directory of an earlier version of `sonde server`: its tables get the columns that are new, for the rows that there are, too."""
import re
import subprocess
import sys

from centre import engine_library, request, server, span  # noqa: F401 (fixture)

# Runs statements in the engine, without a server: library, directory, statements.
RUN = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.chdb_connect.restype, library.chdb_query_n.restype = ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
library.chdb_query_n.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t
library.chdb_result_error.restype, library.chdb_result_error.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
library.chdb_close_conn.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
connection = library.chdb_connect(2, (ctypes.c_char_p * 2)(b"clickhouse", b"--path=" + sys.argv[2].encode()))
errors = [library.chdb_result_error(library.chdb_query_n(connection[0], sql.encode(), len(sql.encode()), b"TSV", 3)) for sql in sys.argv[3:]]
library.chdb_close_conn(connection)
assert not any(errors), errors
"""


def test_old_tables_get_new_columns(server, tmp_path):  # noqa: F811
    one = server()
    create = one.value("SHOW CREATE TABLE otel_traces FORMAT TSVRaw")
    assert one.running.stop() == 0
    old, count = re.subn(r"\n *`\w+` [^\n]* MATERIALIZED [^\n]*", "", create)
    assert count == 6
    row = ("INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanKind, ServiceName, ResourceAttributes, SpanAttributes) VALUES "
           "(now64(9), 'old', 'Server', 'shop', {'host.name': 'node-1'}, {'http.route': '/old', 'http.response.status_code': '503'})")
    subprocess.run([sys.executable, "-c", RUN, engine_library(), tmp_path / "old/engine", "CREATE DATABASE otel ENGINE = Atomic", old, row],
                   check=True, timeout=120, env={"TZ": "UTC"})
    again = server("--data", tmp_path / "old")
    again.await_value("SELECT host, route, status, weight, slow FROM requests", "node-1\t/old\t503\t1\tfalse")
    assert again.post("/v1/traces", request([span(1, **{"http.route": "/new"})]))[0] == 200
    again.await_value("SELECT route FROM requests ORDER BY route", "/new\n/old")
    assert again.running.error == ""
