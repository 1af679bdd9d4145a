"""One nginx worker kept busy by wrk: the worker on the first CPU and wrk on the second, so that the scheduler's placement does not affect the
comparison."""
import re
import subprocess
import time
from contextlib import contextmanager

import measure
from measure import which

PORT = 18080
SLICE_MS = 200
URL = f"http://127.0.0.1:{PORT}/"


class Load:
    def __init__(self, pid, connections):
        self.pid, self.connections = pid, connections

    def wrk(self, seconds):
        return ["taskset", "-c", "1", which("wrk"), "-t1", f"-c{self.connections}", f"-d{seconds}s", URL]

    def run(self, seconds):
        """Requests per second."""
        said = subprocess.run(self.wrk(seconds), capture_output=True, text=True, check=True).stdout
        return float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1])


def configure(folder):
    (folder / "html").mkdir(parents=True)
    (folder / "html/index.html").write_text("hello\n")
    for path in (folder.parent, folder):
        path.chmod(0o755)
    temporary = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    path = folder / "nginx.conf"
    path.write_text(f"""
        daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors; events {{ worker_connections 256; }}
        http {{ access_log off; keepalive_requests 100000000; {temporary}
                server {{ listen 127.0.0.1:{PORT}; location / {{ root {folder}/html; }} }} }}""")
    return path


@contextmanager
def saturated(folder, connections=16):
    """A Load, warmed up. Creates `folder`, whose parent is made accessible to every user."""
    configuration = configure(folder)
    with measure.running("taskset", "-c", "0", which("nginx"), "-c", configuration, "-e", folder / "errors") as server:
        if not measure.wait_until(lambda: measure.get(PORT, "/"), 10):
            raise RuntimeError("nginx does not answer: " + (folder / "errors").read_text()[-300:])
        load = Load(server.pid, connections)
        load.run(1)
        yield load


def toggled(load, folder, rounds, build):
    """{way: ((median, lower quartile, upper quartile) of the change in requests per second, the same in CPU per request)}, in percent
    (request_toggle.c); wrk runs throughout."""
    program = measure.compile_program("request_toggle.c", folder, f"-I{build.parent}", f"-I{build}/probes", "-lbpf")
    with measure.running(*load.wrk(3600)):
        time.sleep(1)
        said = subprocess.run([program, str(load.pid), str(SLICE_MS), str(rounds)], check=True, stdout=subprocess.PIPE, text=True).stdout
    figures = {way: tuple(map(float, numbers.split())) for way, numbers in (line.split(":") for line in said.splitlines())}
    return {way: (numbers[:3], numbers[3:]) for way, numbers in figures.items()}


def format_change(change):
    return f"{change[0]:+.1f} % (half of the slices: {change[1]:+.1f} to {change[2]:+.1f})"
