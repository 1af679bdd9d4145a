"""The rules and the dashboard for losses of the network: promtool evaluates the rules on given series, and Debian's Prometheus loads and queries them
with the metrics of an agent."""
import json
import re

import pytest
from harness.processes import wait_for
from test_drops import lose_packets
from test_io_prometheus import CONFIG, PACKAGING, Prometheus
from test_requests_prometheus import judge_rules

pytestmark = pytest.mark.peer
RULES = PACKAGING / "prometheus/sonde-drops.rules.yml"
VARIABLES = {"$cgroup": ".*", "$__rate_interval": "10s"}
# A healthy node; one whose peer loses packets, whose service is too slow; and one that loses packets to two peers alike.
SERIES = """
rule_files: ["{rules}"]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'sonde_drops_refused_connections_total{{instance="healthy",cgroup="/a",port="80"}}', values: '0x30'}}
      - {{series: 'sonde_drops_refused_connections_total{{instance="slow",cgroup="/a",port="80"}}', values: '0x5 3+3x30'}}
      - {{series: 'sonde_drops_retransmissions_total{{instance="healthy",cgroup="/a",cause="timeout"}}', values: '0+6x30'}}
      - {{series: 'sonde_drops_retransmissions_total{{instance="slow",cgroup="/a",cause="timeout"}}', values: '0+120x30'}}
      - {{series: 'sonde_drops_retransmissions_total{{instance="slow",cgroup="/a",cause="fast"}}', values: '0+1200x30'}}
      - {{series: 'sonde_drops_peer_retransmissions_total{{instance="healthy",peer="10.0.0.3:80"}}', values: '0+6x30'}}
      - {{series: 'sonde_drops_peer_retransmissions_total{{instance="slow",peer="10.0.0.3:80"}}', values: '0+1800x30'}}
      - {{series: 'sonde_drops_peer_retransmissions_total{{instance="slow",peer="10.0.0.4:80"}}', values: '0+600x30'}}
      - {{series: 'sonde_drops_peer_retransmissions_total{{instance="cut",peer="10.0.0.3:80"}}', values: '0+1200x30'}}
      - {{series: 'sonde_drops_peer_retransmissions_total{{instance="cut",peer="10.0.0.4:80"}}', values: '0+1200x30'}}
      - {{series: 'sonde_drops_packets_total{{instance="healthy",cgroup="/a",class="policy",reason="NETFILTER_DROP"}}', values: '0+600x30'}}
      - {{series: 'sonde_drops_packets_total{{instance="slow",cgroup="/a",class="fault",reason="SOCKET_RCVBUFF"}}', values: '0+600x30'}}
    promql_expr_test:
      - {{expr: 'round(peer:sonde_drops_retransmissions:ratio5m{{instance="slow"}}, 0.25)', eval_time: 20m, exp_samples: [
          {{labels: '{{instance="slow",peer="10.0.0.3:80"}}', value: 0.75}},
          {{labels: '{{instance="slow",peer="10.0.0.4:80"}}', value: 0.25}}]}}
    alert_rule_test:
      - {{eval_time: 10m, alertname: SondeConnectionsRefused}}
      - eval_time: 20m
        alertname: SondeConnectionsRefused
        exp_alerts: [{{exp_labels: {{severity: warning, instance: slow, cgroup: /a, port: "80"}},
                       exp_annotations: {{summary: "Port 80 of /a on slow refuses connections: its accept queue is full"}}}}]
      - eval_time: 20m
        alertname: SondeRetransmissionTimeouts
        exp_alerts: [{{exp_labels: {{severity: warning, instance: slow, cgroup: /a}},
                       exp_annotations: {{summary: "TCP of /a on slow waits for 2 retransmission timeouts a second"}}}}]
      - eval_time: 20m
        alertname: SondePathLoses
        exp_alerts: [{{exp_labels: {{severity: warning, instance: slow, peer: "10.0.0.3:80"}},
                       exp_annotations: {{summary: "slow sends 30 segments a second to 10.0.0.3:80 again, most of all that it sends again"}}}}]
      - eval_time: 20m
        alertname: SondeNodeLoses
        exp_alerts: [{{exp_labels: {{severity: warning, instance: cut}}, exp_annotations: {{summary: "cut sends 40 segments a second to several peers again"}}}}]
      - eval_time: 20m
        alertname: SondePacketsDropped
        exp_alerts: [{{exp_labels: {{severity: warning, instance: slow, cgroup: /a, reason: SOCKET_RCVBUFF}},
                       exp_annotations: {{summary: "The kernel of slow drops 10 packets a second of /a: SOCKET_RCVBUFF"}}}}]
"""


def test_rules_are_valid_and_alert(tmp_path):
    judge_rules(tmp_path, RULES, SERIES)


def test_rules_and_panels_have_data(agent, run, tmp_path):
    started = agent("--set", "budget.one_cpu=1000%")
    prometheus = Prometheus(run, tmp_path, CONFIG.format(rules=RULES, port=started.port))
    wait_for(prometheus.is_ready, what="the first scrape")

    def has_data(expression):
        lose_packets()
        return prometheus.query(expression)
    groups = prometheus.get("rules")["groups"]
    records = [rule["name"] for group in groups for rule in group["rules"] if rule["type"] == "recording"]
    assert len(records) == 4
    for name in records:
        wait_for(lambda: has_data(name), what=name)  # noqa: B023
    wait_for(lambda: all(rule["health"] == "ok" for group in prometheus.get("rules")["groups"] for rule in group["rules"]), what="all rules to be evaluated")
    dashboard = json.loads((PACKAGING / "grafana/sonde-drops.json").read_text())
    panels = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(panels) == len(dashboard["panels"]) == 8
    for title, expression in panels:
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        assert "$" not in expression, expression
        prometheus.query(expression)
        if title not in ("Waits for a timeout", "Packets dropped by a rule", "Refused connections"):
            wait_for(lambda: has_data(expression), what=f"data of {title}: {expression}")  # noqa: B023
    selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", dashboard["templating"]["list"][1]["query"]["query"]).groups()
    assert prometheus.get(f"label/{label}/values", **{"match[]": selector})
