"""The page over TLS: certificates that are replaced while it runs, and clients that verify them."""
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess

import pytest
from harness.machine import need_command
from harness.paths import TOP
from harness.processes import wait_for
from test_access import FAST, LINE, TOKEN, write
from test_http import FAKE_PAGE, Server
from test_io_prometheus import Prometheus


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two certificates that sign themselves: one.crt and one.key, two.crt and two.key."""
    folder, openssl = tmp_path_factory.mktemp("tls"), need_command("openssl")
    for name in ("one", "two"):
        subprocess.run([openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.crt",
                        "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                       cwd=folder, stdin=subprocess.DEVNULL, check=True, capture_output=True, timeout=60)
    return folder


@pytest.fixture
def files(made, tmp_path):
    """install(name) puts that certificate and its key in place, at files.certificate and files.key."""
    def install(name):
        for suffix in ("key", "crt"):
            shutil.copy(made / f"{name}.{suffix}", tmp_path / f"new.{suffix}")
            (tmp_path / f"new.{suffix}").rename(tmp_path / f"page.{suffix}")
    install.certificate, install.key, install.made = tmp_path / "page.crt", tmp_path / "page.key", made
    install("one")
    return install


def connect(port, authority, versions=None):
    trusted = ssl.create_default_context(cafile=str(authority))
    if versions:
        trusted.minimum_version = trusted.maximum_version = versions
    return http.client.HTTPSConnection("localhost", port, context=trusted, timeout=20)


def get(connection, path="/healthz", headers=None):
    connection.request("GET", path, headers=headers or {})
    reply = connection.getresponse()
    return reply.status, reply.read()


def trusts(port, authority):
    try:
        return get(connect(port, authority)) == (200, b"ok\n")
    except ssl.SSLCertVerificationError:
        return False


@pytest.mark.sanitized
def test_replaced_certificate_is_for_new_connections(files, tmp_path):
    one, two = files.made / "one.crt", files.made / "two.crt"
    errors = tmp_path / "errors"
    s = Server(stderr=errors.open("w"), PAGE_CERTIFICATE=str(files.certificate), PAGE_KEY=str(files.key))
    try:
        before = connect(s.port, one)
        assert get(before) == (200, b"ok\n") and before.sock.version() == "TLSv1.3"
        assert not trusts(s.port, two)
        files("two")
        wait_for(lambda: trusts(s.port, two), 30, "the new certificate")
        assert not trusts(s.port, one) and get(before) == (200, b"ok\n")
        before.close()
        files.certificate.write_text("no certificate\n")
        wait_for(lambda: "the certificate that was read before stays in use" in errors.read_text(), 30, "the refusal")
        assert "page.tls_certificate and page.tls_key cannot be used: the first must have a certificate in PEM" in errors.read_text() and trusts(s.port, two)
        files("one")
        wait_for(lambda: trusts(s.port, one), 30, "the first certificate again")
    finally:
        assert s.stop() == 0


@pytest.mark.sanitized
def test_old_versions_and_plain_text_are_refused(files):
    s = Server(PAGE_CERTIFICATE=str(files.certificate), PAGE_KEY=str(files.key))
    try:
        assert get(connect(s.port, files.certificate, ssl.TLSVersion.TLSv1_2)) == (200, b"ok\n")
        hello = subprocess.run([need_command("openssl"), "s_client", "-connect", f"127.0.0.1:{s.port}", "-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"],
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        assert "Cipher is (NONE)" in hello.stdout
        assert s.ask("/healthz") is None and trusts(s.port, files.certificate)
    finally:
        assert s.stop() == 0


def test_certificate_with_another_key_is_an_error(files):
    done = subprocess.run([FAKE_PAGE, "normal", "127.0.0.1:0"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
                          env={**os.environ, "PAGE_CERTIFICATE": str(files.certificate), "PAGE_KEY": str(files.made / "two.key")})
    assert done.returncode == 1 and "the key of that certificate" in done.stderr and "PRIVATE" not in done.stderr


def test_files_that_cannot_be_used_end_the_start_for_good(files, sonde, tmp_path):
    """With status 2, after which sonde.service is not started again; --print-config finds the same."""
    assert "\nRestartPreventExitStatus=2\n" in (TOP / "packaging/sonde.service.in").read_text()
    tls = ("--set", f"page.tls_certificate={files.certificate}", "--set")
    for wrong, why in [((*tls, f"page.tls_key={files.made}/two.key"), "the key of that certificate"), ((*tls, "page.tls_key=/none"), "page.tls_key: /none: No such file"),
                       (("--set", f"page.token_file={write(tmp_path / 'tokens', '')}"), "has no token"), (("--listen", "0.0.0.0:0"), "page.token_file")]:
        for more in ((), ("--print-config",)):
            done = subprocess.run([sonde, "up", "--listen", "127.0.0.1:0", *wrong, *more], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            assert done.returncode == 2 and why in done.stderr and ("budget:" in done.stdout) == bool(more), done
    done = subprocess.run([sonde, "up", *tls, f"page.tls_key={files.key}", "--print-config"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done


def test_subcommands_verify_the_certificate(files, sonde):
    s = Server(PAGE_CERTIFICATE=str(files.certificate), PAGE_KEY=str(files.key))

    def ask(address, **environment):
        return subprocess.run([sonde, "requests", "--json", "--agent", address], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                              env={**os.environ, **environment})
    try:
        trusted = ask(f"https://localhost:{s.port}", SONDE_CA_FILE=str(files.certificate))
        assert trusted.stdout.startswith('{"coverage"'), trusted.stderr
        for unknown in ({}, {"SONDE_CA_FILE": str(files.made / "two.crt")}, {"SONDE_CA_FILE": "/nowhere"}):
            refused = ask(f"https://localhost:{s.port}", **unknown)
            assert refused.returncode == 1 and "in the environment variable SONDE_CA_FILE" in refused.stderr and not refused.stdout
        assert f"its address is https://127.0.0.1:{s.port}" in ask(f"127.0.0.1:{s.port}").stderr
    finally:
        assert s.stop() == 0


@pytest.mark.peer
def test_prometheus_scrapes_with_the_documented_entry_for_other_machines(files, run, tmp_path):
    entry = re.search(r"^(scrape_configs:\n  - job_name: sonde\n    scheme: https.*?)^```$", (TOP / "docs/operate.md").read_text(), re.M | re.S)[1]
    s = Server(PAGE_CERTIFICATE=str(files.certificate), PAGE_KEY=str(files.key), PAGE_TOKENS=str(write(tmp_path / "tokens", LINE)))
    try:
        config = entry.replace("/etc/prometheus/sonde-token", str(write(tmp_path / "token", TOKEN))).replace("/etc/prometheus/sonde-ca.crt", str(files.certificate))
        nodes = write(tmp_path / "nodes.yml", f'- targets: ["localhost:{s.port}"]\n')
        config = config.replace("/etc/prometheus/sonde-nodes.yml", str(nodes)).replace("scrape_interval: 15s", "scrape_interval: 1s")
        (tmp_path / "check.yml").write_text(config)
        done = subprocess.run([need_command("promtool"), "check", "config", tmp_path / "check.yml"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        prometheus = Prometheus(run, tmp_path, config)
        wait_for(prometheus.is_ready, what="the first scrape")
        wait_for(lambda: prometheus.query('sonde_self_samples_total{job="sonde"}'), what="a metric")
    finally:
        assert s.stop() == 0


@pytest.mark.thorough
def test_agent_reloads_its_certificate_and_says_what_travels_in_clear_text(agent, tmp_path, files, sonde):
    tokens = write(tmp_path / "tokens", LINE)
    clear = agent("--listen", "0.0.0.0:0", *FAST, "--set", f"page.token_file={tokens}", wait=False)
    wait_for(lambda: "tokens and answers travel in clear text between 0.0.0.0:0 and its clients" in clear.running.error, 60, "the warning")
    assert clear.stop() == 0
    config = write(tmp_path / "sonde.yaml", f"page:\n  tls_certificate: {files.certificate}\n  tls_key: {files.key}\n  token_file: {tokens}\n")
    started = agent("--config", config, "--listen", "0.0.0.0:0", *FAST, wait=False)
    wait_for(lambda: "https://0.0.0.0:" in started.running.out, 60, "the agent's address")
    assert "clear text" not in started.running.error
    port = int(re.search(r"https://0\.0\.0\.0:(\d+)/", started.running.out)[1])
    status, body = get(connect(port, files.certificate), "/api/v1/status", {"Authorization": f"Bearer {TOKEN}"})
    assert status == 200 and json.loads(body)["host"] and get(connect(port, files.certificate), "/api/v1/status")[0] == 401
    doctor = subprocess.run([sonde, "doctor", "--json", "--agent", f"https://localhost:{port}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90,
                            env={**os.environ, "SONDE_CA_FILE": str(files.certificate)})
    (fact,) = [fact["value"] for fact in json.loads(doctor.stdout)["facts"] if fact["name"] == "running agent"]
    assert fact == f"https://localhost:{port} wants a token (environment variable SONDE_TOKEN)"
    write(config, f"page:\n  tls_certificate: {files.made}/two.crt\n  tls_key: {files.made}/two.key\n  token_file: {tokens}\n")
    os.kill(started.pid, signal.SIGHUP)
    wait_for(lambda: "configuration reloaded; changed: page.tls_certificate, page.tls_key" in started.running.error, 30, "the reload")
    assert trusts(port, files.made / "two.crt")
    write(config, f"page:\n  token_file: {tokens}\n")
    os.kill(started.pid, signal.SIGHUP)
    wait_for(lambda: "a restart is needed for: page.tls_certificate, page.tls_key" in started.running.error, 30, "the sentence")
    assert trusts(port, files.made / "two.crt")
    alone = subprocess.run([sonde, "up", "--set", "page.tls_key=/x"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert alone.returncode == 2 and "page.tls_key is set without page.tls_certificate" in alone.stderr
