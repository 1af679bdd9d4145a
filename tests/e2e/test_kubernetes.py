"""The objects for Kubernetes: the chart as Helm renders it, decoded as strictly as by the API server, and the features of Sonde that they use. The
commands and values of docs/kubernetes.md."""
import hashlib
import os
import re
import subprocess

import pytest
import yaml
from harness.machine import skip
from harness.paths import BUILD, TOP

CHART, MANIFEST, VALUES = TOP / "packaging/helm/sonde", TOP / "packaging/kubernetes/sonde.yaml", TOP / "packaging/kubernetes/values.yaml"
TEXT = (TOP / "docs/kubernetes.md").read_text()
CHECK = BUILD / "kubernetes/check"
IMAGE = {"image": {"repository": "registry.example/sonde", "tag": "0.1.0-git1.0"}}


def objects(text):
    """{kind: object}"""
    found = [each for each in yaml.safe_load_all(text) if each]
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


def container(found):
    (only,) = found["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    return only


@pytest.fixture
def render(tmp_path):
    """render(values, kube_version) -> what the chart gives; a failure is an AssertionError with the reason."""
    if not CHECK.exists():
        skip("tests/kubernetes/build has not been run, or could not")

    def run(values, **environment):
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
        done = subprocess.run([CHECK, CHART, tmp_path / "values.yaml"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})
        assert done.returncode == 0, done.stderr
        return done.stdout
    return run


def test_arguments_are_those_of_the_agent(sonde, tmp_path):
    found = objects(MANIFEST.read_text())
    (tmp_path / "sonde.yaml").write_text(found["ConfigMap"]["data"]["sonde.yaml"])
    (tmp_path / "tokens").write_text(f"sha256:{'0' * 64} read\n")
    subcommand, *arguments = container(found)["args"]
    arguments = [argument.replace("/etc/sonde/token/", f"{tmp_path}/").replace("/etc/sonde/", f"{tmp_path}/") for argument in arguments]
    done = subprocess.run([sonde, subcommand, *arguments, "--print-config"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and yaml.safe_load(done.stdout)["page"]["listen"] == "127.0.0.1:7070", done.stderr


def test_selectors_and_mounts_agree():
    found = objects(MANIFEST.read_text())
    spec = found["DaemonSet"]["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    volumes = {volume["name"] for volume in spec["template"]["spec"]["volumes"]}
    assert volumes == {mount["name"] for mount in container(found)["volumeMounts"]}
    unit = (TOP / "packaging/sonde.service.in").read_text()
    assert "CapabilityBoundingSet=" + " ".join(f"CAP_{name}" for name in container(found)["securityContext"]["capabilities"]["add"]) in unit


def test_version_is_that_of_the_program():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert f"version: '{chart['appVersion']}'," in (TOP / "meson.build").read_text() and chart["version"] == chart["appVersion"]


def test_documented_certificate_has_the_name_that_prometheus_verifies(tmp_path):
    commands = re.search(r"^ec=.*?(?=^kubectl)", TEXT, re.M | re.S)[0]
    subprocess.run(["sh", "-ec", commands], cwd=tmp_path, stdin=subprocess.DEVNULL, check=True, capture_output=True, timeout=60)
    name = yaml.safe_load((CHART / "values.yaml").read_text())["tls"]["serverName"]
    subprocess.run(["openssl", "verify", "-CAfile", "ca.crt", "-verify_hostname", name, "tls.crt"], cwd=tmp_path, check=True, capture_output=True, timeout=60)


@pytest.mark.peer
def test_documented_values_install_and_scrape(render):
    values = {}
    for block in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.M | re.S):
        values |= yaml.safe_load(block)
    found = objects(render(values))
    assert "--listen=0.0.0.0:7070" in container(found)["args"] and found["DaemonSet"]["spec"]["template"]["spec"]["nodeSelector"]["sonde"] == "on"
    assert found["ServiceMonitor"]["spec"]["endpoints"][0]["tlsConfig"]["serverName"] == "sonde" and found["PrometheusRule"]


@pytest.mark.peer
def test_manifest_is_the_rendered_chart(render):
    rendered = render(yaml.safe_load(VALUES.read_text()))
    assert MANIFEST.read_text().partition("---\n")[2] == rendered.partition("---\n")[2]


@pytest.mark.peer
def test_token_of_the_chart_is_one_that_the_agent_accepts(render):
    secret = objects(render(IMAGE))["Secret"]["stringData"]
    assert secret["tokens"].startswith(f"sha256:{hashlib.sha256(secret['token'].encode()).hexdigest()} read ") and len(secret["token"]) > 40


@pytest.mark.peer
def test_all_values_are_rendered(render):
    values = IMAGE | {"tls": {"secretName": "sonde-tls", "serverName": "sonde.example"}, "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "sampleLimit": 7},
                      "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
                      "token": {"secretName": "own"}, "config": {"off_cpu": {"enabled": True}}, "page": {"enabled": False, "port": 9999}, "hostNetwork": False,
                      "hostPaths": {"containerRuntime": "", "tracing": "/sys/kernel/tracing"}, "priorityClassName": "system-node-critical",
                      "affinity": {"nodeAffinity": {}}, "podLabels": {"team": "a"}, "podAnnotations": {"a": "b"}, "nodeSelector": {"pool": "x"},
                      "resources": {"limits": {"memory": "128Mi"}}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    found = objects(render(values))
    pod, own = found["DaemonSet"]["spec"]["template"], container(found)
    assert own["args"][0] == "agent" and "--listen=0.0.0.0:9999" in own["args"] and "--set=page.tls_key=/etc/sonde/tls/tls.key" in own["args"]
    assert own["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "page", "scheme": "HTTPS"}
    assert "/run/containerd" not in str(pod) and "Secret" not in found
    assert pod["metadata"]["labels"]["team"] == "a" and pod["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}] and pod["spec"]["dnsPolicy"] == "ClusterFirst"
    assert yaml.safe_load(found["ConfigMap"]["data"]["sonde.yaml"]) == {"off_cpu": {"enabled": True}}
    (endpoint,) = found["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["scheme"] == "https" and endpoint["authorization"]["credentials"] == {"name": "own", "key": "token"} and endpoint["tlsConfig"]["serverName"] == "sonde.example"
    assert found["ServiceMonitor"]["spec"]["sampleLimit"] == 7
    assert found["Service"]["metadata"]["labels"][found["ServiceMonitor"]["spec"]["jobLabel"]] == "sonde"
    assert found["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items() <= found["Service"]["metadata"]["labels"].items()


@pytest.mark.peer
@pytest.mark.parametrize("values, address", [({}, "127.0.0.1"), ({"tls": {"secretName": "sonde-tls"}}, "0.0.0.0"), ({"page": {"listen": "0.0.0.0"}}, "0.0.0.0"),
                                             ({"tls": {"secretName": "sonde-tls"}, "page": {"listen": "127.0.0.1"}}, "127.0.0.1")])
def test_other_machines_reach_the_agent_only_with_tls_or_by_choice(render, values, address):
    own = container(objects(render(IMAGE | values)))
    assert f"--listen={address}:7070" in own["args"] and own["livenessProbe"]["httpGet"]["host"] == own["startupProbe"]["httpGet"]["host"] == "127.0.0.1"


@pytest.mark.peer
def test_rules_of_the_chart_are_those_of_the_packages(render):
    found = objects(render(IMAGE | {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}}))["PrometheusRule"]
    groups = [group for path in sorted((TOP / "packaging/prometheus").glob("*.rules.yml")) for group in yaml.safe_load(path.read_text())["groups"]]
    assert len(groups) > 5 and found["spec"]["groups"] == groups and found["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.peer
def test_profile_of_apparmor_is_named_as_the_version_wants(render):
    new, old = render(IMAGE, KUBE_VERSION="v1.31.0"), render(IMAGE, KUBE_VERSION="v1.26.0")
    assert "appArmorProfile" in new and "apparmor.security.beta" not in new
    assert "appArmorProfile" not in old and "container.apparmor.security.beta.kubernetes.io/sonde: unconfined" in old


@pytest.mark.peer
@pytest.mark.parametrize("values, why", [({}, "image.repository"), ({"image": {"repository": "a"}}, "image.tag"), (IMAGE | {"serviceMonitor": {"enabled": True}}, "serviceMonitor.enabled needs tls.secretName"),
                                         (IMAGE | {"hostNetwork": False}, "hostNetwork: false needs"), (IMAGE | {"page": {"listen": "::"}}, "listen"), (IMAGE | {"tolerations": "all"}, "tolerations"), (IMAGE | {"toleration": []}, "toleration"),
                                         (IMAGE | {"resources": {"limit": {}}}, 'unknown field "spec.template.spec.containers[0].resources.limit"')])
def test_wrong_values_are_refused(render, values, why):
    with pytest.raises(AssertionError, match=why.replace("[", r"\[").replace("]", r"\]")):
        render(values)
