"""docs/operate.md: its Prometheus entry is scraped by Debian's Prometheus, its gates fail when they should, and each alert and loss has a line."""
import json
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


def gate(program, text):
    return subprocess.run(program, input=text, capture_output=True, text=True, timeout=60)


def test_gate_names_probes_that_are_not_attached(agent):
    program = ["awk", re.search(r"^awk '(.*)'$", TEXT, re.M)[1]]
    metrics = re.sub(r"^(sonde_self_probe_attached{.*}) 0$", r"\1 1", agent().text("/metrics"), flags=re.M)
    assert (gate(program, metrics).returncode, gate(program, "").returncode) == (0, 1)
    done = gate(program, re.sub(r"^(sonde_self_probe_attached{.*}) 1$", r"\1 0", metrics, count=1, flags=re.M))
    assert done.returncode == 1 and done.stdout.count("sonde_self_probe_attached") == 1


@pytest.mark.peer
def test_gate_of_doctor_wants_the_core_probes(sonde):
    program = [need_command("jq"), "-e", re.search(r"^sudo sonde doctor --json \| jq -e '(.*)'$", TEXT, re.M)[1]]
    found = json.loads(subprocess.run([sonde, "doctor", "--json"], capture_output=True, text=True, check=True, timeout=120).stdout)
    for probe in found["probes"]:
        probe["attached"] = True
    assert gate(program, json.dumps(found)).returncode == 0
    for name in re.findall(r'"([^"]+)"', program[2]):
        lacking = {"probes": [probe | {"attached": probe["probe"] != name} for probe in found["probes"]]}
        assert gate(program, json.dumps(lacking)).returncode == 1, name


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
