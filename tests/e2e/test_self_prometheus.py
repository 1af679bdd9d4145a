"""The rules for the agent itself: promtool evaluates them on given series."""
import pytest
from test_io_prometheus import PACKAGING
from test_requests_prometheus import judge_rules

pytestmark = pytest.mark.peer
RULES = PACKAGING / "prometheus/sonde.rules.yml"
# A healthy node; one without an agent, or that does not let Prometheus in; one that sees only a part; and one whose main thread has stopped.
SERIES = """
rule_files: ["{rules}"]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'up{{job="sonde",instance="healthy"}}', values: '1x40'}}
      - {{series: 'up{{job="sonde",instance="down"}}', values: '0x40'}}
      - {{series: 'sonde_self_last_turn_timestamp_seconds{{instance="healthy"}}', values: '0+60x40'}}
      - {{series: 'sonde_self_last_turn_timestamp_seconds{{instance="stalled"}}', values: '0+60x20 1200x20'}}
      - {{series: 'sonde_self_probe_attached{{instance="healthy",probe="requests",method="fentry"}}', values: '1x40'}}
      - {{series: 'sonde_self_probe_attached{{instance="blind",probe="requests",method=""}}', values: '0x40'}}
      - {{series: 'sonde_requests_tls_stopped{{instance="healthy"}}', values: '0x40'}}
      - {{series: 'sonde_requests_tls_attachments_refused{{instance="healthy"}}', values: '0x40'}}
      - {{series: 'sonde_requests_tls_stopped{{instance="blind"}}', values: '0x5 1x35'}}
      - {{series: 'sonde_requests_tls_attachments_refused{{instance="blind"}}', values: '3x40'}}
      - {{series: 'sonde_requests_tls_attachments_refused{{instance="refused"}}', values: '3x40'}}
      - {{series: 'sonde_requests_tls_attachments_refused{{instance="ended"}}', values: '3x10 0x30'}}
      - {{series: 'sonde_self_budget_detail{{instance="healthy",detail="full"}}', values: '1x40'}}
      - {{series: 'sonde_self_budget_detail{{instance="blind",detail="full"}}', values: '0x40'}}
      - {{series: 'sonde_self_budget_memory_cuts_total{{instance="healthy",what="caches"}}', values: '0+1x40'}}
      - {{series: 'sonde_self_budget_memory_cuts_total{{instance="blind",what="caches"}}', values: '0+12x40'}}
      - {{series: 'sonde_self_losses_total{{instance="healthy",reason="ring_full"}}', values: '0+30x40'}}
      - {{series: 'sonde_self_losses_total{{instance="healthy",reason="sideband"}}', values: '0+6000x40'}}
      - {{series: 'sonde_self_losses_total{{instance="blind",reason="ring_full"}}', values: '0+120x40'}}
      - {{series: 'sonde_self_cpu_seconds_total{{instance="healthy"}}', values: '0+1x20 0+1x19'}}
      - {{series: 'sonde_self_cpu_seconds_total{{instance="restarts"}}', values: '0+1x8 0+1x8 0+1x8 0+1x12'}}
    alert_rule_test:
      - {{eval_time: 4m, alertname: SondeDown}}
      - eval_time: 30m
        alertname: SondeDown
        exp_alerts: [{{exp_labels: {{severity: warning, job: sonde, instance: down}}, exp_annotations: {{summary: "Sonde on down does not answer"}}}}]
      - {{eval_time: 20m, alertname: SondeStalled}}
      - eval_time: 30m
        alertname: SondeStalled
        exp_alerts: [{{exp_labels: {{severity: warning, instance: stalled}},
                       exp_annotations: {{summary: "Sonde on stalled answers, but its main thread has stopped"}}}}]
      - {{eval_time: 15m, alertname: SondeRestarts}}
      - eval_time: 35m
        alertname: SondeRestarts
        exp_alerts: [{{exp_labels: {{severity: warning, instance: restarts}},
                       exp_annotations: {{summary: "Sonde on restarts has started again more than twice within an hour"}}}}]
      - {{eval_time: 10m, alertname: SondeNotAttached}}
      - eval_time: 30m
        alertname: SondeNotAttached
        exp_alerts: [{{exp_labels: {{severity: warning, instance: blind, probe: requests}},
                       exp_annotations: {{summary: "Sonde on blind could not attach: requests"}}}}]
      - {{eval_time: 10m, alertname: SondeTlsStopped}}
      - eval_time: 30m
        alertname: SondeTlsStopped
        exp_alerts:
          - {{exp_labels: {{severity: warning, instance: blind}}, exp_annotations: {{summary: "Sonde on blind does not read all requests over TLS"}}}}
          - {{exp_labels: {{severity: warning, instance: refused}}, exp_annotations: {{summary: "Sonde on refused does not read all requests over TLS"}}}}
      - eval_time: 30m
        alertname: SondeDetailReduced
        exp_alerts: [{{exp_labels: {{severity: info, instance: blind, detail: full}},
                       exp_annotations: {{summary: "Sonde on blind has reduced its detail to keep to budget.one_cpu"}}}}]
      - eval_time: 30m
        alertname: SondeMemoryShort
        exp_alerts: [{{exp_labels: {{severity: info, instance: blind, what: caches}},
                       exp_annotations: {{summary: "Sonde on blind keeps freeing caches to keep to budget.memory"}}}}]
      - eval_time: 30m
        alertname: SondeLosses
        exp_alerts: [{{exp_labels: {{severity: info, instance: blind, reason: ring_full}},
                       exp_annotations: {{summary: "Sonde on blind loses records: ring_full"}}}}]
"""


def test_rules_are_valid_and_alert(tmp_path):
    judge_rules(tmp_path, RULES, SERIES)
