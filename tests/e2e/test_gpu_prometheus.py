"""The rules and the dashboard for GPUs: promtool evaluates the rules on given series, and Debian's Prometheus queries the panels with the metrics of an
agent that loads the fake of NVIDIA's library."""
import json
import re

import pytest
from gpu_fake import gpus  # noqa: F401 (a fixture)
from harness.agents import NO_REQUESTS
from harness.processes import wait_for
from test_io_prometheus import CONFIG, PACKAGING, Prometheus
from test_requests_prometheus import judge_rules

pytestmark = pytest.mark.peer
RULES = PACKAGING / "prometheus/sonde-gpu.rules.yml"
VARIABLES = {"$gpu": ".*", "$__rate_interval": "10s"}
# A healthy GPU under a limit of power, one that is lost, one that is hot, and three with errors: of a program (31), a first Xid 79, an old one.
SERIES = """
rule_files: ["{rules}"]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'hw_status{{instance="a",gpu="0",hw_id="G0",hw_type="gpu",hw_state="failed"}}', values: '0x60'}}
      - {{series: 'hw_status{{instance="b",gpu="1",hw_id="G1",hw_type="gpu",hw_state="failed"}}', values: '1x60'}}
      - {{series: 'sonde_gpu_throttled{{instance="a",gpu="0",hw_id="G0",reason="power_cap"}}', values: '1x60'}}
      - {{series: 'sonde_gpu_throttled{{instance="c",gpu="0",hw_id="G2",reason="hw_thermal"}}', values: '1x60'}}
      - {{series: 'sonde_gpu_xids_total{{instance="a",gpu="0",pci="0000:10:00",xid="31"}}', values: '0x29 1x30'}}
      - {{series: 'sonde_gpu_xids_total{{instance="b",gpu="1",pci="0000:11:00",xid="79"}}', values: '_x29 1x30'}}
      - {{series: 'sonde_gpu_xids_total{{instance="c",gpu="0",pci="0000:10:00",xid="79"}}', values: '3x60'}}
      - {{series: 'sonde_gpu_driver_responds{{instance="b"}}', values: '1x30 0x30'}}
      - {{series: 'sonde_gpu_hangs_total{{instance="a",gpu="0",hw_id="G0"}}', values: '0x60'}}
      - {{series: 'sonde_gpu_hangs_total{{instance="b",gpu="1",hw_id="G1"}}', values: '0x30 1x30'}}
    alert_rule_test:
      - eval_time: 35m
        alertname: SondeGpuLost
        exp_alerts: [{{exp_labels: {{severity: critical, instance: b, gpu: "1", hw_id: G1, hw_type: gpu, hw_state: failed}},
                       exp_annotations: {{summary: "GPU 1 (G1) of b is lost or must be reset"}}}}]
      - eval_time: 35m
        alertname: SondeGpuXid
        exp_alerts: [{{exp_labels: {{severity: warning, instance: b, gpu: "1", pci: "0000:11:00", xid: "79"}},
                       exp_annotations: {{summary: "GPU 1 (0000:11:00) of b had an Xid 79"}}}}]
      - {{eval_time: 45m, alertname: SondeGpuXid}}
      - eval_time: 35m
        alertname: SondeGpuHangs
        exp_alerts: [{{exp_labels: {{severity: warning, instance: b, gpu: "1", hw_id: G1}},
                       exp_annotations: {{summary: "GPU 1 of b does not finish the work of a process"}}}}]
      - eval_time: 35m
        alertname: SondeGpuThrottled
        exp_alerts: [{{exp_labels: {{severity: warning, instance: c, gpu: "0", hw_id: G2}},
                       exp_annotations: {{summary: "GPU 0 of c runs with reduced clocks because of heat or its power supply"}}}}]
      - eval_time: 35m
        alertname: SondeGpuDriverHangs
        exp_alerts: [{{exp_labels: {{severity: critical, instance: b}}, exp_annotations: {{summary: "NVIDIA's driver on b hangs or refuses all calls"}}}}]
"""


def test_rules_are_valid_and_alert(tmp_path):
    judge_rules(tmp_path, RULES, SERIES)


def test_panels_have_data(agent, run, tmp_path, gpus):  # noqa: F811
    work = run("sleep", "600")
    gpus.write(f"process 0 {work.pid} 1073741824", f"sample 0 {work.pid} 60 0")
    started = agent(*NO_REQUESTS, env=gpus.environment)
    prometheus = Prometheus(run, tmp_path, CONFIG.format(rules=RULES, port=started.port))
    wait_for(prometheus.is_ready, what="the first scrape")
    wait_for(lambda: all(rule["health"] == "ok" for group in prometheus.get("rules")["groups"] for rule in group["rules"]), what="all rules to be evaluated")
    dashboard = json.loads((PACKAGING / "grafana/sonde-gpu.json").read_text())
    panels = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(panels) == len(dashboard["panels"]) == 10
    for title, expression in panels:
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        assert "$" not in expression, expression
        wait_for(lambda: prometheus.query(expression), what=f"data of {title}: {expression}")  # noqa: B023
    selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", dashboard["templating"]["list"][1]["query"]["query"]).groups()
    assert prometheus.get(f"label/{label}/values", **{"match[]": selector})
