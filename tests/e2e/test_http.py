"""The page's HTTP server with hostile and careless clients: host names, methods, parameters, malformed and slow requests, too many connections. Uses
synthetic data (fake_page.c), so no root is needed."""
import gzip
import http.client
import json
import os
import re
import select
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from harness.over_socket import OverSocket, get
from harness.paths import BUILD
from harness.processes import resident_bytes, wait_for

pytestmark = pytest.mark.sanitized
FAKE_PAGE = BUILD / "tests" / "fake-page"


class Server:
    def __init__(self, mode="normal", listen="127.0.0.1:0", allowed=None, stderr=None, **environment):
        self.process = subprocess.Popen([FAKE_PAGE, mode, listen] + ([allowed] if allowed else []), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
                                        env={**os.environ, **environment})
        self.port = int(self.process.stdout.readline().removeprefix("port "))

    def stop(self):
        self.process.stdin.close()
        return self.process.wait(20)

    def ask(self, target="/", method="GET", host=None, headers=(), body=None):
        """(status, headers in lower case, body); `host` None: the correct one, "": no Host header at all."""
        lines = [f"{method} {target} HTTP/1.1"]
        if host != "":
            lines.append(f"Host: {host or f'127.0.0.1:{self.port}'}")
        lines += [*headers, "Connection: close"]
        return self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b""))

    def send(self, data):
        """Sends bytes, returns the parsed response; None when the server closed the connection without one."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as s:
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # refused before everything was sent: check the response
            reply = http.client.HTTPResponse(s, method="HEAD" if data.startswith(b"HEAD") else "GET")
            try:
                reply.begin()
                return reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read()
            except (http.client.HTTPException, ConnectionError):
                return None


@pytest.fixture(scope="module")
def server():
    s = Server()
    yield s
    assert s.stop() == 0, "the server did not end cleanly after all of this"


def test_page_and_its_headers(server):
    status, headers, body = server.ask()
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert body.startswith(b"<!doctype html>") and body.rstrip().endswith(b"</html>")
    policy = headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "connect-src 'self'", "frame-ancestors 'none'"):
        assert part in policy
    assert "unsafe" not in policy and headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers and headers["cache-control"] == "no-cache"
    assert not re.search(rb'(?:src|href)="(?!data:)', body.split(b"<script", 1)[0])


def test_page_is_compressed_and_revalidated(server):
    _, plain, body = server.ask()
    _, packed, small = server.ask(headers=["Accept-Encoding: br, gzip"])
    assert packed["content-encoding"] == "gzip" and gzip.decompress(small) == body and packed["etag"] != plain["etag"]
    assert server.ask(headers=["Accept-Encoding: gzip", f"If-None-Match: {packed['etag']}"])[0] == 304
    assert server.ask(headers=[f"If-None-Match: {plain['etag']}"])[0] == 304
    assert server.ask(headers=['If-None-Match: "0"'])[0] == 200
    assert "content-encoding" not in server.ask(headers=["Accept-Encoding: gzip;q=0"])[1]


def test_api_routes_answer(server):
    status, headers, body = server.ask("/api/v1/profile?seconds=60")
    profile = json.loads(body)
    assert status == 200 and headers["content-type"] == "application/json" and headers["cache-control"] == "no-store"
    assert sum(sum(p["weights"]) for p in profile["profiles"]) == profile["sonde"]["weight_ns"] >= 10**9
    status, headers, body = server.ask("/api/v1/profile?format=folded&pid=303")
    assert status == 200 and headers["content-disposition"] == 'attachment; filename="sonde-profile-pid303.folded"'
    assert body.decode().splitlines() == ["python3;_PyEval_EvalFrameDefault;handler 2"]
    status, headers, body = server.ask("/api/v1/profile?format=pprof&container=0123456789ab")
    assert status == 200 and headers["content-disposition"].endswith('"sonde-profile-0123456789ab.pb.gz"') and b"postgres" in gzip.decompress(body)
    assert json.loads(server.ask("/api/v1/profile?service=none")[2])["profiles"] == []
    requests = json.loads(server.ask("/api/v1/requests?max=2")[2])["requests"]
    assert len(requests) == 2 and all(sum(part["ns"] for part in r["parts"]) == r["duration_ns"] for r in requests)
    assert json.loads(server.ask("/api/v1/status")[2])["host"] == "node-7"
    assert server.ask("/healthz")[::2] == (200, b"ok\n")


def regions(**given):
    return "&".join(f"{key}={ms}" for key, ms in given.items())


@pytest.mark.parametrize("scope", ["", "&pid=101", "&pid=303", "&container=0123456789ab", "&pid=1"])
def test_heatmap_slots_equal_the_profile_of_their_region(server, scope):
    """Seconds by fifty slots; the profile of a region equals the sum of its slots."""
    status, headers, body = server.ask(f"/api/v1/heatmap?seconds=3600{scope}")
    heatmap = json.loads(body)
    assert status == 200 and headers["content-type"] == "application/json" and heatmap["slot_ms"] == 20 and heatmap["now_ms"] == 120000
    kept = [second["kept"] for second in heatmap["seconds"]]
    assert kept == [False] * 3 + [True] * 17 and all("samples" not in second for second in heatmap["seconds"][:3])
    for first, slots in ((heatmap["start_ms"] + 3000, 17 * 50), (115980, 1), (109980, 6), (109000, 50), (112100, 20)):
        at = [divmod((first - heatmap["start_ms"]) // 20 + i, 50) for i in range(slots)]
        sums = [sum(heatmap["seconds"][second][key][row] for second, row in at) for key in ("samples", "weights_ns")]
        profile = json.loads(server.ask(f"/api/v1/profile?{regions(**{'from': first, 'to': first + 20 * slots})}{scope}")[2])
        assert sums == [sum(map(sum, (p["sonde"]["counts"] for p in profile["profiles"]))), profile["sonde"]["weight_ns"]]


@pytest.mark.parametrize("scope, order, names", [("", "most", ["worker(int, char const*)", "parse_headers", "ExecSeqScan", "handler"]),
                                                 ("", "change", ["parse_headers", "handler", "worker(int, char const*)", "ExecSeqScan"]),
                                                 ("&pid=303", "most", ["handler"]), ("&pid=1", "change", [])])
def test_hotspots_sum_to_the_profile(server, scope, order, names):
    """Rows plus the remainder sum to each window's total, however many rows there are, and to the window's profile."""
    for count in range(1, 6):
        status, headers, body = server.ask(f"/api/v1/hotspots?seconds=120&order={order}&max={count}{scope}")
        answer = json.loads(body)
        assert status == 200 and headers["content-type"] == "application/json" and answer["functions"] == len(names) and answer["by"] == "self"
        assert [row["name"] for row in answer["rows"]] == names[:count]
        for i, window in enumerate(answer["windows"]):
            assert sum(row["weights_ns"][i] for row in answer["rows"]) + window["others_ns"] == window["weight_ns"]
            if i:
                profile = json.loads(server.ask(f"/api/v1/profile?{regions(**{'from': window['from_ms'], 'to': window['to_ms']})}{scope}")[2])
                assert profile["sonde"]["weight_ns"] == window["weight_ns"]
    total = json.loads(server.ask(f"/api/v1/hotspots?by=total{scope}")[2])
    assert [row["name"] for row in total["rows"]][:1] == (["main"] if names[1:] else names[:1] and ["handler"])
    assert all("others_ns" not in window for window in total["windows"])


def test_regions_are_compared(server):
    """Shares before and after, as files and on the page."""
    both = regions(baseline_from=104000, baseline_to=109000, **{"from": 112000, "to": 117000})
    status, headers, body = server.ask(f"/api/v1/compare?{both}")
    answer = json.loads(body)
    assert status == 200 and headers["content-type"] == "application/json"
    assert answer["sonde"]["compared"] == {"before": {"samples": 30, "duration_ns": 5 * 10**9, "not_observed_ns": 0},
                                         "after": {"samples": 65, "duration_ns": 5 * 10**9, "not_observed_ns": 0}}
    names = [frame["name"] for frame in answer["shared"]["frames"]]
    shares = {names[stack[-1]]: (before, after) for process in answer["profiles"]
              for stack, before, after in zip(process["samples"], process["sonde"]["before"], process["weights"])}
    assert shares == {"worker(int, char const*)": (833333333, 384615385), "parse_headers": (0, 384615385), "ExecSeqScan": (166666667, 76923077), "handler": (0, 153846154)}
    status, headers, body = server.ask(f"/api/v1/compare?{both}&format=text")
    assert status == 200 and headers["content-disposition"] == 'attachment; filename="sonde-comparison.txt"'
    assert body.decode().index("parse_headers") < body.decode().index("worker(int")
    status, headers, body = server.ask(f"/api/v1/compare?{both}&format=html&pid=101")
    assert status == 200 and headers["content-disposition"].endswith('"sonde-comparison-pid101.html"') and b"ExecSeqScan" not in body and b"parse_headers" in body
    assert server.ask(f"/api/v1/compare?{both}&format=folded&container=0123456789ab")[2].split() == [b"postgres;main;ExecSeqScan", b"250000000", b"250000000"]


@pytest.mark.parametrize("query, why", [("from=1", "one needs the other"), ("to=1", "one needs the other"), ("from=2&to=2", "later than from"), ("from=3&to=2", "later"),
                                        ("from=1&to=2&seconds=5", "not together"), ("from=0&to=3600001", "at most"), ("from=-1&to=2", "whole number"), ("from=1.5&to=2", "whole number"),
                                        ("from=1&from=1&to=2", "twice"), ("from=9000000000001&to=2", "whole number"), ("from=1e5&to=2e5", "whole number"),
                                        ("from=8000000000000&to=8000000000001", "in the future")])
def test_invalid_regions_are_refused(server, query, why):
    for target in (f"/api/v1/profile?{query}", f"/api/v1/compare?baseline_from=104000&baseline_to=105000&{query}"):
        status, _, body = server.ask(target)
        assert status == 400 and any(word in body.decode() for word in (why, "unknown parameter", "is needed here")), (target, body)
    assert why == "in the future" or all(server.ask(f"/api/v1/{what}?{query}")[0] == 400 for what in ("heatmap", "hotspots"))


@pytest.mark.parametrize("form", ["json", "html", "text", "folded"])
def test_comparison_with_an_empty_region_is_refused(server, form):
    status, _, body = server.ask(f"/api/v1/compare?baseline_from=104000&baseline_to=109000&from=112000&to=117000&pid=303&format={form}")
    assert status == 409 and b"before has no samples: nothing can be compared" in body


def test_expired_regions_are_gone(server):
    for target in ("/api/v1/profile?from=102000&to=104000", "/api/v1/compare?from=110000&to=111000&baseline_from=100000&baseline_to=101000"):
        status, _, body = server.ask(target)
        assert status == 410 and b"no longer kept" in body
    for target in ("/api/v1/compare", "/api/v1/compare?from=104000&to=105000", "/api/v1/compare?baseline_from=104000&baseline_to=105000"):
        assert server.ask(target)[0] == 400


def test_metrics_format_follows_the_accept_header(server):
    _, old, text = server.ask("/metrics")
    _, new, openmetrics = server.ask("/metrics", headers=["Accept: application/openmetrics-text; version=1.0.0"])
    assert old["content-type"].startswith("text/plain") and new["content-type"].startswith("application/openmetrics-text")
    assert b"# EOF" not in text and openmetrics.endswith(b"# EOF\n") and b"sonde_self_samples_total 19" in openmetrics


def test_head_has_headers_and_no_body(server):
    status, headers, body = server.ask("/healthz", method="HEAD")
    assert status == 200 and headers["content-length"] == "3" and body == b""


@pytest.mark.parametrize("host", ["evil.example:{port}", "localhost.evil.example:{port}", "127.0.0.1", "localhost:1", "0.0.0.0:{port}", "2130706433:{port}",
                                  "127.0.0.1:{port}:1", "127.0.0.1:{port}@evil", "[::1", "evil\xff", "x" * 5000, "192.168.0.1:{port}"])
def test_other_hosts_are_refused(server, host):
    for target in ("/", "/api/v1/profile", "/metrics", "/nothing"):
        status, headers, body = server.ask(target, host=host.format(port=server.port))
        assert status == 403 and b"DNS rebinding" in body and headers["content-type"].startswith("text/plain"), target


def test_exactly_one_host_header_is_required(server):
    for extra in (["Host: evil.example"], [f"host: 127.0.0.1:{server.port}"]):
        assert server.ask("/healthz", headers=extra)[0] == 400, extra
    assert server.ask("/healthz", host="")[0] == 400


def test_own_host_names_are_accepted(server):
    for host in (f"localhost:{server.port}", f"LOCALHOST.:{server.port}", f"[::1]:{server.port}", f"127.1.2.3:{server.port}"):
        assert server.ask("/healthz", host=host)[0] == 200
    assert server.ask("/healthz", host="")[0] == 400


def test_allowed_hosts_and_other_addresses():
    s = Server(listen="0.0.0.0:0", allowed="sonde.example.org")
    try:
        name = socket.gethostname()
        for host, status in (("sonde.example.org", 200), (f"{name}:{s.port}", 200), (f"10.1.2.3:{s.port}", 200), (f"evil.example:{s.port}", 403)):
            assert s.ask("/healthz", host=host)[0] == status, host
    finally:
        assert s.stop() == 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "X" * 2000])
def test_other_methods_are_refused(server, method):
    reply = server.ask("/api/v1/profile", method=method)
    assert reply[0] == 405 and reply[1]["allow"] == "GET, HEAD"


@pytest.mark.parametrize("query", ["seconds=0", "seconds=3601", "seconds=-1", "seconds=1e3", "seconds=", "seconds", "seconds=1&seconds=2", "pid=0", "pid=x", "pid=%00",
                                   "pid=1%002", "container=xyz", "container=../../etc/passwd", "format=exe", "format=..", "nothing=1", "=", "&&x", "service=", "service=%0a",
                                   "service=" + "a" * 300, "%ff=%fe", "seconds=%"])
def test_invalid_parameters_are_refused(server, query):
    status, headers, body = server.ask(f"/api/v1/profile?{query}")
    assert status == 400 and headers["content-type"].startswith("text/plain") and body.strip()


def test_unknown_parameters_are_refused(server):
    assert server.ask("/?x=1")[0] == 400
    assert server.ask("/api/v1/requests?pid=1")[::2] == (400, b"unknown parameter; this address knows: seconds, max, which\n")


@pytest.mark.parametrize("target", ["/nothing", "//", "/api", "/api/v1/profile/", "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/index.html", "/\xff", "*", "/healthz%00"])
def test_unknown_paths_are_not_found(server, target):
    reply = server.ask(target)
    assert reply is None or reply[0] in (400, 404)
    assert server.ask("/healthz")[0] == 200


def test_cross_site_requests_are_refused(server):
    cross = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"]
    assert server.ask("/api/v1/profile", headers=cross)[0] == 403
    assert server.ask("/", headers=["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"])[0] == 200
    assert server.ask("/api/v1/status", headers=["Sec-Fetch-Site: same-origin"])[0] == 200


def test_bodies_are_refused(server):
    assert server.ask("/healthz", headers=["Content-Length: 5"], body=b"hello")[0] == 400
    assert server.ask("/healthz", headers=["Transfer-Encoding: chunked"], body=b"5\r\nhello\r\n0\r\n\r\n")[0] == 400
    assert server.ask("/healthz", method="POST", headers=["Content-Length: 99999999999"])[0] == 405


HOST = b"Host: localhost\r\n"


@pytest.mark.parametrize("data", [
    b"", b"\r\n" * 1000, b"\0" * 1000, b"GET", b"GET /", b"GET / HTTP/1.1", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nHost", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 100000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 20000 + b"\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET / HTTP/1.1\r\n: empty\r\n\r\n",
    b"GET /?" + b"a=b&" * 3000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET http://127.0.0.1/ HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
    b"GET / HTTP/1.1\nHost: x\n\n", b"\xff\xfe\xfd / HTTP/1.1\r\n\r\n"], ids=range(21))
def test_broken_requests_are_refused_and_do_no_harm(server, data):
    reply = server.send(data)
    assert reply is None or 400 <= reply[0] < 600
    assert server.ask("/healthz")[0] == 200


def test_idle_connections_are_bounded_and_keep_nobody_out(server):
    idle, tasks = [], Path(f"/proc/{server.process.pid}/task")
    before = len(list(tasks.iterdir()))
    try:
        for _ in range(200):
            s = socket.create_connection(("127.0.0.1", server.port), timeout=5)
            s.sendall(b"GET / HTTP/1.1\r\nHost: 127")  # never completed
            idle.append(s)
            if len(idle) % 40 == 0:
                wait_for(lambda: (server.ask("/healthz") or [None])[0] == 200, 5, "an answer among idle connections")
        assert len(list(tasks.iterdir())) <= 64 + 32 + 2
    finally:
        for s in idle:
            s.close()
    wait_for(lambda: len(list(tasks.iterdir())) <= before, 30, "the end of all connections")


@pytest.mark.statistical
def test_slow_readers_of_large_answers_take_little_memory_and_keep_nobody_out():
    """Answers of 7 MB to sixty readers who read nothing: without a limit they would take 400 MB."""
    s, readers = Server("large", MALLOC_ARENA_MAX="1"), []  # one heap, so that the count is the memory in use
    try:
        size = len(s.ask("/metrics")[2])
        assert size > 5e6
        before = resident_bytes(s.process.pid)[0]
        for i in range(60):
            reader = socket.create_connection(("127.0.0.1", s.port), timeout=5)
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            accept = "application/openmetrics-text" if i % 2 else "text/plain"  # so that no two of them share an answer
            reader.sendall(f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\nAccept: {accept}\r\n\r\n".encode())
            readers.append(reader)
        wait_for(lambda: sum(bool(select.select([reader], [], [], 0)[0]) for reader in readers) == 60, 60, "the beginning of each answer, or its end")
        assert resident_bytes(s.process.pid)[0] - before < 16 * size
        assert s.ask("/healthz")[0] == 200
        wait_for(lambda: s.ask("/metrics")[0] == 200, 40, "an answer instead of those that are read too slowly")
    finally:
        for reader in readers:
            reader.close()
        assert s.stop() == 0


def closed(server):
    """The connections that the page closed, by reason."""
    return {reason: int(count) for reason, count in re.findall(r'^sonde_self_connections_closed_total\{reason="(\w+)"\} (\d+)$', server.ask("/metrics")[2].decode(), re.M)}


def from_address(server, address):
    """A connection from another loopback address: all of them are one client."""
    s = socket.socket()
    s.bind((address, 0))
    s.connect(("127.0.0.1", server.port))
    s.settimeout(30)
    return s


def test_a_client_has_its_share_of_connections():
    s, clients = Server(), []
    try:
        for i in range(20):
            clients.append(from_address(s, f"127.0.0.{i % 3 + 1}"))
            clients[-1].sendall(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n\r\n".encode())
            assert clients[-1].recv(4096).endswith(b"ok\n")
        wait_for(lambda: all(client.recv(1) == b"" for client in clients[:4]), 10, "the end of the oldest connections")
        assert closed(s)["address_limit"] >= 4  # and one for this request, unless another connection has ended
    finally:
        for client in clients:
            client.close()
        assert s.stop() == 0


def test_a_request_of_a_byte_a_second_is_ended():
    s = Server(PAGE_REQUEST_SECONDS="1")
    try:
        with socket.create_connection(("127.0.0.1", s.port), timeout=30) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nX: ")

            def send():
                try:
                    slow.sendall(b"y")
                    return select.select([slow], [], [], 0)[0] and slow.recv(1) == b""
                except ConnectionError:
                    return True
            wait_for(send, 20, "the end of the connection")
        assert closed(s) == {"no_request": 1, "slow_reader": 0, "address_limit": 0, "limit": 0}
    finally:
        assert s.stop() == 0


def test_a_reply_that_is_read_slowly_is_ended():
    """The reader takes some bytes each time: only the time of the whole reply ends it."""
    s = Server("large", PAGE_REPLY_SECONDS="1")
    descriptors = Path(f"/proc/{s.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    try:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.settimeout(30)
            slow.connect(("127.0.0.1", s.port))
            slow.sendall(f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n\r\n".encode())
            wait_for(lambda: (slow.recv(100), len(list(descriptors.iterdir())))[1] <= before, 20, "the end of the connection")  # after it, recv gives b""
            rest = 0
            while got := slow.recv(1 << 20):
                rest += len(got)
            assert rest < 5e6  # of 7 MB
        wait_for(lambda: closed(s)["slow_reader"] == 1, 10, "the count")  # an answer of /metrics is kept for a second
    finally:
        assert s.stop() == 0


def test_clients_that_wait_for_profiles_keep_nobody_out(tmp_path):
    """More of them than there are connections, while no profile is finished."""
    (tmp_path / "blocked").touch()
    s, clients = Server(PAGE_BLOCKED_BY=str(tmp_path / "blocked")), []
    try:
        for _ in range(120):
            clients.append(socket.create_connection(("127.0.0.1", s.port), timeout=30))
            clients[-1].sendall(f"GET /api/v1/profile HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n\r\n".encode())
        assert s.ask("/healthz")[0] == 200
        assert (tmp_path / "blocked").exists()
    finally:
        (tmp_path / "blocked").unlink()
        for client in clients:
            client.close()
        assert s.stop() == 0


def test_memory_of_slow_readers_is_freed_for_another_client(tmp_path):
    """Three answers of 7 MB take all memory for answers. A client at the socket that reads no answer does not wait until they count as slow."""
    s, readers = Server("large", PAGE_SOCKET=str(tmp_path / "socket")), []
    try:
        for accept in ("text/plain", "application/openmetrics-text", "text/plain"):  # so that none shares the one before
            reader = socket.create_connection(("127.0.0.1", s.port), timeout=30)
            reader.sendall(f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\nAccept: {accept}\r\n\r\n".encode())
            assert reader.recv(12) == b"HTTP/1.1 200"
            readers.append(reader)
        assert s.ask("/api/v1/heatmap")[0] == 503
        assert get(OverSocket(tmp_path / "socket"), "/api/v1/heatmap")[0] == 200
    finally:
        for reader in readers:
            reader.close()
        assert s.stop() == 0


def test_many_exports_at_once_are_all_answered(server):
    """Fewer than the 16 connections of a client, whose further ones are closed."""
    answers = []
    workers = [threading.Thread(target=lambda: answers.append(server.ask("/api/v1/profile?format=html")[0])) for _ in range(12)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert len(answers) == 12 and set(answers) <= {200, 503} and 200 in answers


def test_reset_during_a_response_does_no_harm(server):
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close() sends a reset
            s.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
    assert server.ask("/healthz")[0] == 200


def test_connections_are_kept_alive(server):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    for _ in range(3):
        c.request("GET", "/healthz")
        reply = c.getresponse()
        assert reply.read() == b"ok\n" and not reply.will_close
    c.close()


def test_failing_agent_is_an_error_with_a_reason():
    s = Server("failing")
    try:
        for target in ("/api/v1/profile", "/api/v1/profile?from=1&to=2", "/api/v1/heatmap", "/api/v1/hotspots", "/api/v1/compare?from=1&to=2&baseline_from=1&baseline_to=2", "/api/v1/requests", "/api/v1/routes", "/api/v1/calls", "/api/v1/status", "/metrics"):
            status, _, body = s.ask(target)
            assert status == 500 and b"Input/output error" in body
        assert s.ask("/")[0] == 200
        status, _, body = s.ask("/healthz")
        assert status == 503 and b"main thread has done nothing for 12 s" in body
    finally:
        assert s.stop() == 0


def test_stops_while_connections_are_open():
    s = Server()
    open_ones = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(10)]
    assert s.stop() == 0
    for c in open_ones:
        c.close()


@pytest.mark.parametrize("listen,why", [("127.0.0.1", "Invalid argument"), ("127.0.0.1:99999", "Invalid argument"), ("example.org:80", "Invalid argument"),
                                        ("::1:80", "Invalid argument"), ("127.0.0.1:-1", "Invalid argument"), ("203.0.113.7:0", "Cannot assign requested address")])
def test_invalid_listen_addresses_are_errors(listen, why):
    done = subprocess.run([FAKE_PAGE, "normal", listen], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and why in done.stderr


def test_port_in_use_is_an_error():
    s = Server()
    try:
        done = subprocess.run([FAKE_PAGE, "normal", f"127.0.0.1:{s.port}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
        assert done.returncode == 1 and "Address already in use" in done.stderr
    finally:
        s.stop()


def test_listens_on_ipv6():
    s = Server(listen="[::1]:0")
    try:
        c = http.client.HTTPConnection("::1", s.port, timeout=10)
        c.request("GET", "/healthz")
        assert c.getresponse().status == 200
        c.close()
    finally:
        assert s.stop() == 0
