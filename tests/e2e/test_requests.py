"""`sonde why` on servers that nobody wrote for it: nginx with a slow service behind it, and Python's threading server."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request

import pytest
from harness.machine import free_port, need_command, need_root
from harness.paths import BUILD
from harness.processes import wait_for

SONDE = BUILD / "sonde"

PYTHON_SERVER = textwrap.dedent("""
    import http.server, sys, threading, time
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith("/sleep"):
                time.sleep(0.08)
            if self.path.startswith("/lock"):
                lock = threading.Lock()
                lock.acquire()
                threading.Timer(0.08, lock.release).start()
                lock.acquire()
            if self.path.startswith("/cpu"):
                end = time.thread_time() + 0.08
                while time.thread_time() < end:
                    pass
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")
        def log_message(self, *arguments):
            pass
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
""")


def listening(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def get(port, target):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}{target}", timeout=30).read()


@pytest.fixture
def python_server():
    need_root()
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", PYTHON_SERVER, str(port)])
    wait_for(lambda: listening(port), what="the server")
    yield port, process.pid
    process.kill()
    process.wait()


@pytest.fixture
def nginx(python_server, tmp_path):
    path = need_command("nginx")
    port = free_port()
    (tmp_path / "big").write_bytes(os.urandom(3_000_000))
    (tmp_path / "nginx.conf").write_text(f"""
        worker_processes 1; daemon off; user root; pid {tmp_path}/pid; error_log {tmp_path}/errors; events {{ }}
        http {{ access_log off; sendfile on;
          client_body_temp_path {tmp_path}/1; proxy_temp_path {tmp_path}/2; fastcgi_temp_path {tmp_path}/3;
          uwsgi_temp_path {tmp_path}/4; scgi_temp_path {tmp_path}/5;
          server {{ listen 127.0.0.1:{port}; location /f/ {{ alias {tmp_path}/; }}
                    location /p/ {{ proxy_pass http://127.0.0.1:{python_server[0]}/; }} }} }}""")
    process = subprocess.Popen([path, "-c", tmp_path / "nginx.conf", "-e", tmp_path / "errors"])
    wait_for(lambda: listening(port), what="nginx")
    yield port
    process.send_signal(signal.SIGTERM)
    process.wait()


def watch(drive):
    """The requests that `sonde why` saw while `drive` ran: it says on standard error that it watches."""
    with tempfile.TemporaryFile() as said:
        def errors():
            return os.pread(said.fileno(), 1 << 16, 0).decode()
        why = subprocess.Popen([SONDE, "why", "--json", "--last", "10s", "--slowest", "1000"], stdout=subprocess.PIPE, stderr=said, text=True)
        wait_for(lambda: "watching for" in errors() or why.poll() is not None, 60, "sonde why to watch")
        drive()
        out, _ = why.communicate(timeout=60)
        assert why.returncode == 0, errors()
    requests = json.loads(out)
    for r in requests:
        assert sum(part["ns"] for part in r["parts"]) == r["duration_ns"]
    return requests


def only(requests, pid, route):
    found = [r for r in requests if (pid is None or r["pid"] == pid) and r["route"] == route]
    assert len(found) == 1, [(r["pid"], r["route"]) for r in requests]
    return found[0]


def share(request, kind):
    return sum(part["ns"] for part in request["parts"] if part["kind"] == kind)


def test_causes_in_python_threads(python_server):
    port, pid = python_server
    requests = watch(lambda: [get(port, target) for target in ("/sleep?token=secret", "/lock", "/cpu")])
    for route, kind in (("/sleep", "sleep"), ("/lock", "lock"), ("/cpu", "cpu")):
        request = only(requests, pid, route)
        assert request["status"] == 200 and request["method"] == "GET"
        assert share(request, kind) >= 40_000_000, request
        assert share(request, "unattributed") <= request["duration_ns"] / 10, request
    assert "secret" not in json.dumps(requests)


def test_nginx_waits_for_the_service_behind_it(nginx, python_server):
    requests = watch(lambda: [get(nginx, "/p/sleep"), get(nginx, "/f/big")])
    slow = only(requests, None, "/p/sleep")
    assert slow["service"] and share(slow, "downstream") >= 40_000_000, slow
    assert any(f"127.0.0.1:{python_server[0]}" in part["detail"] for part in slow["parts"])
    big = only(requests, None, "/f/big")
    assert big["bytes_out"] > 3_000_000  # header by writev, body by sendfile
