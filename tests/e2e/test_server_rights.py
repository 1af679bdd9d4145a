"""Who may send to the centre and ask it: tokens with scopes, the first token, TLS."""
import hashlib
import http.client
import re
import ssl
import stat
from pathlib import Path

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


def browse(one, method, path, body=None, cookie=None, **headers):
    return ask(one.sql_port, method, path, body, {**({"Cookie": f"other=1; {cookie}"} if cookie else {}), **headers})


def sign_in(one, token):
    """The cookie of a session."""
    status, headers, body = browse(one, "POST", "/login", token)
    assert (status, body) == (200, b'{"needs_token":true,"signed_in":true}\n')
    cookie, *attributes = headers["Set-Cookie"].split("; ")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"] and token not in cookie
    return cookie


def test_a_browser_signs_in_with_a_token(server, tmp_path):  # noqa: F811
    """It gets the page without a token, and with the cookie of a session the JSON API, but nothing that changes anything or is not of the page."""
    tokens = tmp_path / "own"

    def write(*scopes):
        tokens.write_text("".join(f"sha256:{hashlib.sha256(scope.encode()).hexdigest()} {scope} test\n" for scope in scopes))
        tokens.chmod(0o600)
    write("read", "write", "admin")
    one = server("--token-file", tokens)
    html = {"Accept": "text/html,*/*;q=0.8"}
    status, headers, body = browse(one, "GET", "/", **html)
    assert status == 200 and b"all nodes" in body and headers["Content-Type"].startswith("text/html")
    assert browse(one, "GET", "/", None, None, **html, **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0] == 200, "a link of another site"
    assert [browse(one, method, path, text, None, **html)[0] for method, path, text in
            (("GET", "/?query=SELECT+1", None), ("POST", "/", "SELECT 1"), ("GET", "/metrics", None), ("GET", "/api/v1/hosts", None))] == [401] * 4
    assert b"<html" in browse(one, "GET", "/", b"SELECT 1", None, **html)[2], "and not an answer of SQL"
    assert browse(one, "GET", "/login")[2] == b'{"needs_token":true,"signed_in":false}\n'

    def refusal(token):
        status, headers, body = browse(one, "POST", "/login", token)
        assert "Set-Cookie" not in headers and "WWW-Authenticate" not in headers
        return status, body.decode()
    for token in ("wrong", "", "x" * 300):
        assert refusal(token) == (403, "This token is not known here: it is wrong, or it has been revoked.\n")
    assert refusal("write") == (403, "This token has no right to read: `sonde token new --scope read` makes one that has.\n")
    assert "requests without a valid token" in one.running.error or "request without a valid token" in one.running.error

    reader, admin = sign_in(one, "read"), sign_in(one, "admin")
    assert reader != admin and browse(one, "GET", "/login", None, reader)[2] == b'{"needs_token":true,"signed_in":true}\n'
    assert browse(one, "GET", "/api/v1/hosts", None, reader)[0] == browse(one, "GET", "/api/v1/openapi.json", None, admin)[0] == 200
    assert ask(one.sql_port, "GET", "/api/v1/hosts", None, bearer("read"))[0] == 200
    assert [browse(one, method, path, None, admin)[0] for method, path in
            (("POST", "/captures?host=x&pid=1"), ("GET", "/captures"), ("GET", "/?query=SELECT+1"), ("POST", "/api/v1/hosts"), ("GET", "/metrics"))] == [401] * 5
    foreign = {"Origin": "http://elsewhere.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert [browse(one, "POST", path, "read", admin, **foreign)[0] for path in ("/login", "/logout")] == [403] * 2
    assert browse(one, "GET", "/api/v1/hosts", None, reader, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert browse(one, "GET", "/api/v1/hosts", None, reader[:-1] + ("1" if reader[-1] == "0" else "0"))[0] == 401

    status, headers, body = browse(one, "POST", "/logout", None, reader)
    assert headers["Set-Cookie"] == "sonde-session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0" and b'"signed_in":false' in body
    assert browse(one, "GET", "/api/v1/hosts", None, reader)[0] == 401 and browse(one, "GET", "/api/v1/hosts", None, admin)[0] == 200
    write("read")
    wait_for(lambda: browse(one, "GET", "/api/v1/hosts", None, admin)[0] == 401, 20, "the end of a session with its token")
    statuses = [browse(one, "POST", "/login", "wrong")[0] for _ in range(30)]
    assert statuses.count(429) >= 15 and browse(one, "POST", "/login", "read")[0] == 429, "attempts are limited, and right ones with them"
    assert ask(one.sql_port, "GET", "/api/v1/hosts", None, bearer("read"))[0] == 200, "but not other clients"
    assert 'sonde_server_rate_limited_requests_total{interface="login"}' in ask(one.sql_port, "GET", "/metrics", None, bearer("read"))[2].decode()


def test_the_cookie_goes_over_tls_only(server, files):  # noqa: F811
    one = server(*OPEN, "--tls-certificate", files.certificate, "--tls-key", files.key)
    token = Path(re.search(r"in (\S+first-token)", one.running.out)[1]).read_text()
    connection = connect(one.sql_port, files.made / "one.crt")
    connection.request("POST", "/login", token)
    assert connection.getresponse().headers["Set-Cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")


def test_no_token_is_asked_for_where_none_is_needed(server):  # noqa: F811
    one = server()
    assert browse(one, "GET", "/login")[2] == b'{"needs_token":false,"signed_in":false}\n'
    assert browse(one, "POST", "/login", "x")[0] == 404
    assert browse(one, "GET", "/login", None, None, Host="elsewhere.example")[0] == 403
