"""The alert for kills for memory: promtool evaluates it on given series."""
import pytest
from test_io_prometheus import PACKAGING
from test_requests_prometheus import judge_rules

pytestmark = pytest.mark.peer
RULES = PACKAGING / "prometheus/sonde-oom.rules.yml"
# A service whose series begins with its first kill, one that was killed again, and one whose only kill was long ago.
SERIES = """
rule_files: ["{rules}"]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'sonde_oom_kills_total{{instance="a",service_name="first",limit="cgroup"}}', values: '_x30 1x30'}}
      - {{series: 'sonde_oom_kills_total{{instance="a",service_name="again",limit="node"}}', values: '3x32 4x30'}}
      - {{series: 'sonde_oom_kills_total{{instance="a",service_name="former",limit="cgroup"}}', values: '1x60'}}
    alert_rule_test:
      - eval_time: 35m
        alertname: SondeProcessKilledForMemory
        exp_alerts:
          - {{exp_labels: {{severity: warning, instance: a, service_name: first}}, exp_annotations: {{summary: "The kernel killed a process of first on a for memory"}}}}
          - {{exp_labels: {{severity: warning, instance: a, service_name: again}}, exp_annotations: {{summary: "The kernel killed a process of again on a for memory"}}}}
      - {{eval_time: 58m, alertname: SondeProcessKilledForMemory}}
"""


def test_the_alert_is_valid_and_fires(tmp_path):
    judge_rules(tmp_path, RULES, SERIES)
