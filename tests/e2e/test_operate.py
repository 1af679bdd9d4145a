"""docs/operate.md: its Prometheus entry is scraped by Debian's Prometheus, and each alert and loss has a line."""
import re
import subprocess

import pytest

from harness.machine import need_command
from harness.paths import TOP
from harness.processes import wait_for
from test_io_prometheus import Prometheus

TEXT = (TOP / "docs/operate.md").read_text()
ENTRY = re.search(r"^```yaml\n(rule_files:.*?)^```$", TEXT, re.M | re.S)[1]
RULES = sorted((TOP / "packaging/prometheus").glob("*.rules.yml"))


def rows(heading):
    """The first cells of the table below a heading."""
    table = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [name for line in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", line)]


def test_each_alert_has_a_line():
    alerts = [name for path in RULES for name in re.findall(r"alert: (\w+)", path.read_text())]
    assert alerts and sorted(rows("Alerts")) == sorted(alerts)


def test_each_loss_has_a_line():
    reasons = re.findall(r'X\(\w+,\s*"(\w+)"', (TOP / "src/model/loss.h").read_text())
    assert reasons and sorted(rows("Losses")) == sorted(reasons)


def test_each_right_of_the_unit_has_a_line():
    unit = (TOP / "packaging/sonde.service.in").read_text()
    bounding = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.M)[1].split()
    table = TEXT.partition("\n## Secure\n")[2].partition("\n## ")[0]
    assert sorted(bounding) == sorted(re.findall(r"`(CAP_\w+)`", table))


@pytest.mark.peer
def test_prometheus_scrapes_with_the_documented_entry(agent, run, tmp_path):
    started = agent()
    need_command("promtool")
    config = ENTRY.replace("/usr/share/sonde/prometheus", str(TOP / "packaging/prometheus"))
    (tmp_path / "check.yml").write_text(config)
    done = subprocess.run(["promtool", "check", "config", tmp_path / "check.yml"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"{len(RULES)} rule files found" in done.stdout, done.stdout + done.stderr
    # The port of this agent, and time compressed.
    config = config.replace("127.0.0.1:7070", f"127.0.0.1:{started.port}").replace("scrape_interval: 15s", "scrape_interval: 1s")
    prometheus = Prometheus(run, tmp_path, "global: {evaluation_interval: 1s}\n" + config)
    wait_for(prometheus.is_ready, what="the first scrape")
    wait_for(lambda: prometheus.query('sonde_build_info{job="sonde"}'), what="a metric of the agent")

    def evaluated():
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        return rules if rules and all(rule["health"] == "ok" for rule in rules) else None
    rules = wait_for(evaluated, what="all rules to be evaluated")
    assert {rule["name"] for rule in rules if rule["type"] == "alerting" and rule["state"] == "firing"} == set()
