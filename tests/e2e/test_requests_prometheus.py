"""The rules and the dashboard for requests, loaded and queried with Debian's Prometheus that scrapes an agent, which also stores the exemplars; and rules
that promtool evaluates on given series."""
import json
import re
import shutil
import subprocess
import time

import pytest
from exporting import sets
from harness.machine import need_command
from harness.processes import wait_for
from real_servers import get, start_prefork
from test_io_prometheus import CONFIG, PACKAGING, Prometheus

pytestmark = pytest.mark.peer
RULES = PACKAGING / "prometheus/sonde-requests.rules.yml"
VARIABLES = {"$service": ".*", "$route": ".*", "$__rate_interval": "10s", "$__range": "1m"}
SERVICE = "prometheus-server"
# 10 requests a second for 40 minutes, a tenth of them failed in the second half, when p99 rises from 25 ms to 750 ms.
SERIES = """
rule_files: ["{rules}"]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'http_server_request_duration_seconds_count{{instance="n",service_name="s",http_request_method="GET",http_route="/"}}', values: '0+600x40'}}
      - {{series: 'http_server_request_duration_seconds_count{{instance="n",service_name="s",http_request_method="GET",http_route="/",error_type="500"}}', values: '0x20 66+66x20'}}
      - {{series: 'http_server_request_duration_seconds_bucket{{instance="n",service_name="s",http_request_method="GET",http_route="/",le="0.025"}}', values: '0+600x20 12000x20'}}
      - {{series: 'http_server_request_duration_seconds_bucket{{instance="n",service_name="s",http_request_method="GET",http_route="/",le="0.75"}}', values: '0+600x40'}}
      - {{series: 'http_server_request_duration_seconds_bucket{{instance="n",service_name="s",http_request_method="GET",http_route="/",le="+Inf"}}', values: '0+600x40'}}
    promql_expr_test:
      - {{expr: 'service:http_server_requests:rate5m', eval_time: 15m, exp_samples: [{{labels: 'service:http_server_requests:rate5m{{instance="n",service_name="s"}}', value: 10}}]}}
      - {{expr: 'service:http_server_request_errors:ratio5m', eval_time: 15m, exp_samples: [{{labels: 'service:http_server_request_errors:ratio5m{{instance="n",service_name="s"}}', value: 0}}]}}
      - {{expr: 'route:http_server_request_duration_seconds:p99_5m < 0.025', eval_time: 15m, exp_samples: [{{labels: 'route:http_server_request_duration_seconds:p99_5m{{instance="n",service_name="s",http_request_method="GET",http_route="/"}}', value: 0.02475}}]}}
    alert_rule_test:
      - {{eval_time: 15m, alertname: SondeRequestErrors}}
      - {{eval_time: 15m, alertname: SondeRequestsSlow}}
      - eval_time: 38m
        alertname: SondeRequestErrors
        exp_alerts: [{{exp_labels: {{severity: warning, instance: n, service_name: s}}, exp_annotations: {{summary: "9.91% of the requests of s on n fail"}}}}]
"""


def promtool(*arguments):
    need_command("promtool")
    done = subprocess.run([shutil.which("promtool"), *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def judge_rules(tmp_path, rules, series):
    """The rules are valid, and have the expected results for the given series."""
    promtool("check", "rules", rules)
    (tmp_path / "test.yml").write_text(series.format(rules=rules))
    promtool("test", "rules", tmp_path / "test.yml")


def test_rules_are_valid_and_alert(tmp_path):
    judge_rules(tmp_path, RULES, SERIES)


@pytest.fixture
def scraped(agent, run, tmp_path):
    """(agent, Prometheus): while a server serves and fails."""
    started = agent("--set", "budget.one_cpu=1000%", *sets(traces_endpoint="http://127.0.0.1:9/"))
    server = start_prefork(run, before=("env", f"OTEL_SERVICE_NAME={SERVICE}"))
    need_command("prometheus")
    config = CONFIG.format(rules=RULES, port=started.port)
    prometheus = Prometheus(run, tmp_path, config, "--enable-feature=exemplar-storage")
    wait_for(prometheus.is_ready, what="the first scrape")
    for i in range(40):
        get(server.port, "/status?503" if i % 10 == 0 else "/sleep?0.02")
        time.sleep(0.1)
    return started, prometheus


def test_rules_panels_and_exemplars_have_data(scraped):
    started, prometheus = scraped
    groups = prometheus.get("rules")["groups"]
    records = [rule["name"] for group in groups for rule in group["rules"] if rule["type"] == "recording"]
    assert len(records) == 6
    for name in records:
        wait_for(lambda: prometheus.query(f'{name}{{service_name="{SERVICE}"}}'), what=name)  # noqa: B023
    wait_for(lambda: all(rule["health"] == "ok" for group in prometheus.get("rules")["groups"] for rule in group["rules"]), what="all rules to be evaluated")
    dashboard = json.loads((PACKAGING / "grafana/sonde-requests.json").read_text())
    panels = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(panels) == len(dashboard["panels"]) == 9
    for title, expression in panels:
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        assert "$" not in expression, expression
        prometheus.query(expression)
        if title != "Traffic that cannot be read":
            wait_for(lambda: prometheus.query(expression.replace("10s", "1m")), what=f"data of {title}: {expression}")  # noqa: B023
    for variable in dashboard["templating"]["list"][1:]:
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
        assert prometheus.get(f"label/{label}/values", **{"match[]": selector.replace("$service", ".*")}), variable
    selector = f'http_server_request_duration_seconds_bucket{{service_name="{SERVICE}"}}'
    exemplars = prometheus.get("query_exemplars", query=selector, start=time.time() - 60, end=time.time())
    values = [exemplar for series in exemplars for exemplar in series["exemplars"]]
    assert {series["seriesLabels"]["http_route"] for series in exemplars} == {"/sleep", "/status"}
    assert all(re.fullmatch("[0-9a-f]{32}", v["labels"]["trace_id"]) and re.fullmatch("[0-9a-f]{16}", v["labels"]["span_id"]) for v in values)
    sums = f'sum by (http_route) (http_server_request_duration_seconds_count{{service_name="{SERVICE}"}})'
    wait_for(lambda: {series["metric"]["http_route"]: series["value"][1] for series in prometheus.query(sums)} == {"/sleep": "36", "/status": "4"}, what="exact counts")
