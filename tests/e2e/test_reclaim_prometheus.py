"""The rules and the dashboard for reclaim of memory: promtool evaluates the rules on given series, and Debian's Prometheus loads and queries them with the
metrics of an agent."""
import json
import re

import pytest
from harness.processes import wait_for
from memory_limits import cgroup, large_file, limited  # noqa: F401 (fixtures)
from test_io_prometheus import CONFIG, PACKAGING, Prometheus
from test_requests_prometheus import judge_rules

pytestmark = pytest.mark.peer
RULES = PACKAGING / "prometheus/sonde-reclaim.rules.yml"
VARIABLES = {"$cgroup": ".*", "$__rate_interval": "10s"}
# A healthy node, one with a service at its limit, and one that is short of memory itself.
SERIES = """
rule_files: ["{rules}"]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'sonde_reclaim_seconds_total{{instance="healthy",cgroup="/a",kind="limit"}}', values: '0+0.6x30'}}
      - {{series: 'sonde_reclaim_seconds_total{{instance="full",cgroup="/a",kind="limit"}}', values: '0x5 15+15x30'}}
      - {{series: 'sonde_reclaim_seconds_total{{instance="small",cgroup="/a",kind="node"}}', values: '0+6x30'}}
      - {{series: 'sonde_reclaim_seconds_total{{instance="small",cgroup="/b",kind="compaction"}}', values: '0+6x30'}}
    alert_rule_test:
      - {{eval_time: 10m, alertname: SondeCgroupShortOfMemory}}
      - eval_time: 20m
        alertname: SondeCgroupShortOfMemory
        exp_alerts: [{{exp_labels: {{severity: warning, instance: full, cgroup: /a}},
                       exp_annotations: {{summary: "Threads of /a on full reclaim memory for 25% of the time: it is at its limit"}}}}]
      - eval_time: 20m
        alertname: SondeNodeShortOfMemory
        exp_alerts: [{{exp_labels: {{severity: warning, instance: small}}, exp_annotations: {{summary: "Threads on small reclaim or compact its memory for 20% of the time"}}}}]
"""


def test_rules_are_valid_and_alert(tmp_path):
    judge_rules(tmp_path, RULES, SERIES)


def test_rules_and_panels_have_data(agent, run, tmp_path, limited, large_file):  # noqa: F811
    started, limits = agent("--set", "budget.one_cpu=1000%"), limited("sonde-e2e-prometheus")
    prometheus = Prometheus(run, tmp_path, CONFIG.format(rules=RULES, port=started.port))
    wait_for(prometheus.is_ready, what="the first scrape")

    def has_data(expression):
        limits.reclaim(large_file)
        return prometheus.query(expression)
    groups = prometheus.get("rules")["groups"]
    records = [rule["name"] for group in groups for rule in group["rules"] if rule["type"] == "recording"]
    assert len(records) == 2
    for name in records:
        wait_for(lambda: has_data(name), what=name)  # noqa: B023
    wait_for(lambda: all(rule["health"] == "ok" for group in prometheus.get("rules")["groups"] for rule in group["rules"]), what="all rules to be evaluated")
    dashboard = json.loads((PACKAGING / "grafana/sonde-reclaim.json").read_text())
    panels = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(panels) == len(dashboard["panels"]) == 6
    for title, expression in panels:
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        assert "$" not in expression, expression
        prometheus.query(expression)
        if limits.version == "v2" or "cgroup v2" not in title:
            wait_for(lambda: has_data(expression), what=f"data of {title}: {expression}")  # noqa: B023
    selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", dashboard["templating"]["list"][1]["query"]["query"]).groups()
    assert prometheus.get(f"label/{label}/values", **{"match[]": selector})
