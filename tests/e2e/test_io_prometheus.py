"""The rules and the dashboard for I/O, loaded and queried with Debian's Prometheus that scrapes an agent."""
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from file_systems import file_system  # noqa: F401 (a fixture)
from harness.machine import need_command
from harness.processes import wait_for

PACKAGING = Path(__file__).resolve().parent.parent.parent / "packaging"
RULES = PACKAGING / "prometheus/sonde-io.rules.yml"
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: sonde
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
# What Grafana puts in place of its variables.
VARIABLES = {"$job": ".*", "$mountpoint": ".*", "$__rate_interval": "10s", "$__range": "1m"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus:
    def __init__(self, run, folder, configuration, *arguments):
        need_command("prometheus")
        config, self.port = folder / "prometheus.yml", free_port()
        config.write_text(configuration)
        self.running = run("prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{self.port}", *arguments)

    def get(self, path, **parameters):
        address = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=10) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression):
        return self.get("query", query=expression)["result"]

    def is_ready(self):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=10).close()  # until then, queries are errors
        except OSError:
            return False
        return bool(self.query('up{job="sonde"} == 1'))


@pytest.fixture
def scraped(agent, run, tmp_path, file_system):
    """(Prometheus, mount point): an agent and a Prometheus that scrapes it, while a program reads and writes, and gets errors."""
    started, point = agent("--set", "io.enabled=true", "--set", "budget.one_cpu=1000%"), file_system("tmpfs")
    prometheus = Prometheus(run, tmp_path, CONFIG.format(rules=RULES, port=started.port))
    wait_for(prometheus.is_ready, what="the first scrape")
    work = f"while :; do dd if=/dev/zero of={point}/a bs=64k count=20; dd if={point}/a of={point}/b bs=4k; head -c 1 >&3; sleep 0.2; done"
    run("sh", "-c", f"exec 3<{point}; {work} 2>/dev/null")
    return prometheus, point


@pytest.mark.peer
def test_rules_are_valid():
    need_command("promtool")
    done = subprocess.run([shutil.which("promtool"), "check", "rules", RULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.peer
def test_rules_and_panels_have_data(scraped):
    prometheus, point = scraped
    groups = prometheus.get("rules")["groups"]
    records = [rule["name"] for group in groups for rule in group["rules"] if rule["type"] == "recording"]
    assert len(records) == 5
    for name in records:
        wait_for(lambda: prometheus.query(f'{name}{{mountpoint="{point}"}}'), what=name)  # noqa: B023
    wait_for(lambda: all(rule["health"] == "ok" for group in prometheus.get("rules")["groups"] for rule in group["rules"]), what="all rules to be evaluated")
    dashboard = json.loads((PACKAGING / "grafana/sonde-io.json").read_text())
    panels = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(panels) == len(dashboard["panels"]) == 10
    time.sleep(2)
    for title, expression in panels:
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        assert "$" not in expression, expression
        if title != "Errors":
            wait_for(lambda: prometheus.query(expression), what=f"data of {title}: {expression}")  # noqa: B023
        prometheus.query(expression)
    for variable in dashboard["templating"]["list"][1:]:
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
        assert prometheus.get(f"label/{label}/values", **{"match[]": selector.replace("$job", ".*")}), variable
