"""Captures: a client of `sonde server` asks an agent for a CPU or off-CPU profile of a process."""
import hashlib
import json
import sys
import time

from centre import ask, server  # noqa: F401 (fixture)
from harness.agents import NO_REQUESTS
from off_cpu import ROOM

SCOPES = ("read", "capture", "agent", "write")


def test_capture_of_a_process(server, agent, workload, run, tmp_path):  # noqa: F811
    """Its samples are in capture_samples only, and the table captures says who asked for them."""
    tokens, hashes = tmp_path / "own", {scope: hashlib.sha256(scope.encode()).hexdigest() for scope in SCOPES}
    tokens.write_text("".join(f"sha256:{hashes[scope]} {scope} test\n" for scope in SCOPES))
    tokens.chmod(0o600)
    one, busy, sleeper = server("--token-file", tokens), workload("threads", 600), run(sys.executable, "-c", "import time\nwhile True: time.sleep(0.01)")
    centre = f"http://127.0.0.1:{one.otlp_port}"
    started = agent(*NO_REQUESTS, "--off-cpu", *ROOM, "--set", f"opamp.endpoint={centre}/v1/opamp", "--set", "opamp.interval=1", "--set", "opamp.headers=Authorization=Bearer%20agent",
                    "--set", f"otlp.captures_endpoint={centre}/v1development/profiles", "--set", "otlp.headers=Authorization=Bearer%20write", verb="agent")

    def capture(query, token="capture", method="POST"):
        return ask(one.sql_port, method, f"/captures?{query}", None, {"Authorization": f"Bearer {token}"})

    def value(sql, expected=None, timeout_s=60):
        ends = time.monotonic() + timeout_s
        while True:
            status, _, body = ask(one.sql_port, "POST", "/", sql.encode(), {"Authorization": "Bearer read"})
            if expected is None or body.decode().strip() == expected:
                assert status == 200, body
                return body.decode().strip()
            assert time.monotonic() < ends, f"{sql}: {body} and not {expected}; {one.running.error[-2000:]}"
            time.sleep(0.1)
    value("SELECT count() > 0 FROM hosts", "1")
    host = value("SELECT host FROM hosts LIMIT 1")
    assert [capture(f"host={host}&pid=1", token)[0] for token in ("read", "write", "agent")] == [401, 401, 401]
    status, headers, _ = capture("", method="GET")
    assert (status, headers["Allow"]) == (405, "POST")
    faults = [("pid=1", 400), (f"host={host}", 400), (f"host={host}&pid=1&service=x", 400), (f"host={host}&pid=1&seconds=61", 400), (f"host={host}&pid=1&kind=heap", 400), ("host=elsewhere&pid=1", 404)]
    assert [capture(query)[0] for query, _ in faults] == [status for _, status in faults]
    status, _, body = capture(f"host={host}&pid={busy.running.pid}&seconds=2")
    assert status == 202, body
    number = json.loads(body)["id"]
    value(f"SELECT groupArray(State) FROM (SELECT State FROM captures WHERE CaptureId = '{number}' ORDER BY Timestamp)", "['asked','running','done']")
    assert value("SELECT DISTINCT HostName, Seconds, Pid, TokenHash, startsWith(ClientAddress, '127.0.0.1') FROM captures") == f"{host}\t2\t{busy.running.pid}\t{hashes['capture'][:16]}\t1"
    assert int(value("SELECT Samples FROM captures WHERE State = 'done'")) > 0
    value("SELECT count() > 0 FROM capture_samples WHERE function IN ('work_of_red', 'work_of_blue')", "1")
    assert value("SELECT DISTINCT capture_id, uniqExact(resource_hash) OVER (), sum(cpu_ms) OVER () > 0 FROM capture_samples") == f"{number}\t1\t1"
    status, _, body = capture(f"host={host}&pid={sleeper.pid}&seconds=2&kind=off_cpu")
    assert status == 202, body
    number = json.loads(body)["id"]
    value(f"SELECT groupArray((State, Kind, Reason)) FROM (SELECT State, Kind, Reason FROM captures WHERE CaptureId = '{number}' ORDER BY Timestamp)", "[('asked','off_cpu',''),('running','off_cpu',''),('done','off_cpu','')]")
    value(f"SELECT groupUniqArray(kind), sum(off_cpu_ms) > 1000, sum(cpu_ms) FROM capture_samples WHERE capture_id = '{number}'", "['off_cpu']\t1\t0")
    assert value("SELECT count() FROM cpu_samples") == value("SELECT count() FROM off_cpu_samples") == "0"
    assert started.stop() == 0
