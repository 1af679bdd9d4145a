"""Who may send to the centre and ask it: tokens with scopes, the first token, TLS."""
import hashlib
import http.client
import re
import ssl
import stat

from centre import ask, field, request, server, span  # noqa: F401 (fixture)
from harness.processes import wait_for
from http2_client import POST, Http2Client, message
from test_page_tls import connect, files, made  # noqa: F401 (fixtures)

TRACES = "trace.v1.TraceService"
OPEN = ["--listen", "0.0.0.0:0", "--otlp-listen", "0.0.0.0:0", "--grpc-listen", "0.0.0.0:0"]
UNAUTHENTICATED = 16


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_tokens_have_scopes(server, tmp_path):  # noqa: F811
    """On loopback addresses, too, if a file is given. It is read again when it changes."""
    def line(scope):
        return f"sha256:{hashlib.sha256(scope.encode()).hexdigest()} {scope} test\n"
    tokens = tmp_path / "own"
    tokens.write_text(line("read") + line("write") + line("agent") + line("admin"))
    tokens.chmod(0o600)
    one = server("--token-file", tokens)
    assert "clients with a token of the scope write can send" in one.running.out and "of the scope read can ask" in one.running.out

    def rights(token):
        headers = bearer(token) if token else {}
        by_http, _, _ = one.post("/v1/traces", request([span(1)]), headers)
        by_grpc, _ = one.call(TRACES, request([span(1)]), *[("authorization", value) for value in headers.values()])
        asked = ask(one.sql_port, "GET", "/?query=SELECT+1", None, headers)[0]
        return by_http, by_grpc, asked
    nothing, sends, asks = (401, UNAUTHENTICATED, 401), (200, 0, 401), (401, UNAUTHENTICATED, 200)
    assert [rights(token) for token in (None, "other", "agent", "read", "write", "admin")] == [nothing, nothing, nothing, asks, sends, (200, 0, 200)]
    report = field(1, bytes(16))
    assert [one.post("/v1/opamp", report, bearer(token))[0] for token in ("write", "agent", "admin")] == [401, 200, 200]
    assert b"the scope agent (or admin) is needed" in one.post("/v1/opamp", report)[2]
    tokens.write_text(line("read"))
    wait_for(lambda: rights("write") == nothing, 20, "the end of a token")


def test_open_addresses_have_a_first_token_and_tls(server, files, tmp_path):  # noqa: F811
    tls = ["--tls-certificate", files.certificate, "--tls-key", files.key]
    one = server(*OPEN, *tls)
    first = tmp_path / "data" / "first-token"  # as standard output is no terminal
    token = first.read_text().strip()
    assert str(first) in one.running.out and "sonde_" not in one.running.out and stat.S_IMODE(first.stat().st_mode) == 0o600
    assert one.running.out.count("https://0.0.0.0:") == 3 and "clear text" not in one.running.error
    kept = tmp_path / "data" / "tokens"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and token not in kept.read_text()

    def by_https(port, authority, method, path, body=None, **headers):
        connection = connect(port, files.made / f"{authority}.crt")
        connection.request(method, path, body, {**bearer(token), **headers})
        return connection.getresponse().status

    def by_grpc(number):
        connection = Http2Client(one.grpc_port, tls=True)
        stream = connection.ask(f"/opentelemetry.proto.collector.{TRACES}/Export", ("content-type", "application/grpc"), ("authorization", f"Bearer {token}"), method=POST,
                                body=message(request([span(number)] * 600)))  # several records of TLS
        status = connection.reply(stream)["grpc-status"]
        serial = ssl.DER_cert_to_PEM_cert(connection.socket.getpeercert(True))
        connection.close()
        return status, serial == (files.made / f"{by_grpc.authority}.crt").read_text()
    by_grpc.authority = "one"
    assert by_https(one.otlp_port, "one", "POST", "/v1/traces", request([span(1)]), **{"Content-Type": "application/x-protobuf"}) == 200
    assert by_grpc(2) == ("0", True)
    assert by_https(one.sql_port, "one", "GET", "/?query=SELECT+1") == 200
    for port in (one.otlp_port, one.sql_port, one.grpc_port):
        try:
            assert ask(port, "GET", "/ping", None, bearer(token))[0] != 200, "clear text is refused"
        except (OSError, http.client.HTTPException):
            pass
    files.certificate.write_text((files.made / "two.crt").read_text())
    wait_for(lambda: "stays in use" in one.running.error, 20, "the other certificate without its key", one.running.error)
    assert by_grpc(3)[1] and by_https(one.sql_port, "one", "GET", "/?query=SELECT+1") == 200
    files("two")
    by_grpc.authority = "two"
    wait_for(lambda: by_grpc(4)[1], 20, "the other certificate", one.running.error)
    assert by_https(one.sql_port, "two", "GET", "/?query=SELECT+1") == 200 and one.running.error.count("stays in use") == 1
    assert one.running.stop() == 0
    again = server(*OPEN, "--listen", "127.0.0.1:0", *tls)
    assert "sonde_" not in again.running.out and f"http://127.0.0.1:{again.sql_port}/" in again.running.out
    assert again.value("SELECT count() FROM otel_traces") is not None and by_https(again.otlp_port, "two", "GET", "/v1/traces") == 405


def test_open_addresses_without_tls_are_a_warning(server):  # noqa: F811
    one = server("--otlp-listen", "0.0.0.0:0")
    assert "travel in clear text" in one.running.error and "all users of this machine can ask" in one.running.out
    assert one.post("/v1/traces", request([span(1)]))[0] == 401 and one.call(TRACES, request([span(1)]))[0] == 0
    status, _, text = ask(one.sql_port, "POST", "/captures?host=x&pid=1", None, {})
    assert status == 403 and b"captures need a token" in text, "on addresses that need none, too"


def test_requests_of_a_client_are_limited(server, tmp_path):  # noqa: F811
    """Beyond its rate, a client is refused over HTTP and gRPC, while others are answered."""
    tokens = tmp_path / "own"
    tokens.write_text("".join(f"sha256:{hashlib.sha256(name.encode()).hexdigest()} admin test\n" for name in ("many", "few")))
    tokens.chmod(0o600)
    one = server("--token-file", tokens, "--send-rate", 1, "--query-rate", 1)

    def post(token):
        return one.post("/v1/traces", request([span(1)]), bearer(token))

    def metric():
        return ask(one.sql_port, "GET", "/metrics", None, bearer("few"))[2].decode()
    refused = next(answer for answer in (post("many") for _ in range(1000)) if answer[0] != 200)
    assert refused[0] == 429 and refused[1]["Retry-After"] == "5" and post("few")[0] == 200
    calls = [one.call(TRACES, request([span(1)]), ("authorization", "Bearer many")) for _ in range(10)]
    assert any(status == 8 and "too many calls" in text for status, text in calls) and one.call(TRACES, request([span(1)]), ("authorization", "Bearer few"))[0] == 0
    assert int(re.search(r'^sonde_server_rate_limited_requests_total\{interface="otlp"\} (\d+)', metric(), re.M)[1]) >= 2
    asked = next(answer for answer in (ask(one.sql_port, "GET", "/ping", None, bearer("many")) for _ in range(1000)) if answer[0] != 200)
    assert asked[0] == 429 and 'sonde_server_rate_limited_requests_total{interface="sql"} 1' in metric()
