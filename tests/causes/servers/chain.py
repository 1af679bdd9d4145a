"""nginx in front of uvicorn in front of PostgreSQL. PORT LOG FOLDER"""
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

port, log, folder = sys.argv[1:]
HERE, DATABASE_USER = Path(__file__).resolve().parent, "postgres"
NGINX = """daemon off; worker_processes 2; pid {at}/nginx.pid; error_log stderr warn; user root;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;
  uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
  upstream application {{ server 127.0.0.1:{application}; keepalive 1024; }}
  server {{ listen 127.0.0.1:{port} backlog=1024; location / {{ proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection ""; }} }}
}}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_port(number):
    for _ in range(600):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", number)) == 0:
                return
        time.sleep(0.05)
    sys.exit(f"nothing listens on port {number}")


def start_database(at):
    """PostgreSQL refuses to run as root."""
    number, data = free_port(), at / "data"
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    user = pwd.getpwnam(DATABASE_USER)
    os.chown(at, user.pw_uid, user.pw_gid)
    as_user = ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]
    subprocess.run([*as_user, programs / "initdb", "-A", "trust", "-D", data, "--no-sync"], check=True, stdout=subprocess.DEVNULL, cwd=at)
    return number, subprocess.Popen([*as_user, programs / "postgres", "-D", data, "-p", str(number), "-c", f"unix_socket_directories={at}", "-c", "fsync=off"], cwd=at)


def main():
    at = Path(tempfile.mkdtemp(prefix="sonde-causes-chain-", dir="/dev/shm"))
    started = []
    try:
        database, process = start_database(at)
        started.append(process)
        application = free_port()
        wait_for_port(database)
        started.append(subprocess.Popen([sys.executable, HERE / "chain_app.py", str(application), log, folder, str(database), DATABASE_USER]))
        wait_for_port(application)
        (at / "nginx.conf").write_text(NGINX.format(at=at, port=port, application=application))
        started.append(subprocess.Popen(["nginx", "-c", at / "nginx.conf", "-p", at, "-e", "stderr"]))
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGINT if process is started[0] else signal.SIGTERM)  # SIGINT: PostgreSQL does not wait for its clients
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
        shutil.rmtree(at)


signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
main()
