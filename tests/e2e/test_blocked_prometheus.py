"""The alert for blocked tasks: promtool evaluates it on given series."""
import pytest
from test_io_prometheus import PACKAGING
from test_requests_prometheus import judge_rules

pytestmark = pytest.mark.peer
RULES = PACKAGING / "prometheus/sonde-blocked.rules.yml"
# A node whose tasks are blocked for a moment at a time, and one with a task that stays blocked.
SERIES = """
rule_files: ["{rules}"]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'sonde_blocked_oldest_seconds{{instance="busy"}}', values: '0 15 0 70 0 20x15'}}
      - {{series: 'sonde_blocked_oldest_seconds{{instance="stuck"}}', values: '0+60x20'}}
    alert_rule_test:
      - {{eval_time: 2m, alertname: SondeTaskBlocked}}
      - eval_time: 10m
        alertname: SondeTaskBlocked
        exp_alerts: [{{exp_labels: {{severity: warning, instance: stuck}},
                       exp_annotations: {{summary: "A task on stuck has been blocked in the kernel for 10m 0s"}}}}]
"""


def test_the_alert_is_valid_and_fires(tmp_path):
    judge_rules(tmp_path, RULES, SERIES)
