"""An agent exports its samples as OTLP profiles: every packet is self-contained, none is lost, none is sent twice.
tests/faults/test_profiles_receivers.py has receivers that misbehave; test_otlp_profiles.py has the packets themselves."""
import os
import re
import ssl
import subprocess

import pytest
from exporting import exporting, receiver, sets  # noqa: F401 (fixtures)
from harness.machine import free_port, need_command
from harness.processes import wait_for
from otlp_profiles import official_profcheck, profcheck, text_of  # noqa: F401 (fixtures)
from profiles_receiver import PATH, accept_and_hang_up, export_stats, total, write


WORK = {("red", "work_of_red"), ("blue painter", "work_of_blue")}  # of exporting.workload: (thread name, function)


def own_profiles(packets, workload):
    return [profile for profiles in packets for profile in profiles if profile["resource"]["process.pid"] == workload.pid]


def work_of(profiles):
    """{(thread, function)} of all their samples."""
    return {(s["attributes"].get("thread.name"), text_of(f)) for profile in profiles for s in profile["samples"] for f in s["frames"]}


def assert_packets_match_stats(packets, workload, posts, says):
    """Decodes each packet alone; together they have exactly the samples that the agent counted."""
    assert says["dropped"] == 0 and says["sent"] == says["taken"] == total(packets) > 0
    assert (len(posts), sum(len(post["body"]) for post in posts)) == (says["packets"], says["bytes"])
    ids = [profile["id"] for profiles in packets for profile in profiles]
    assert len(set(ids)) == len(ids), "a profile was sent twice"
    own = own_profiles(packets, workload)
    for profile in own:
        assert profile["resource"]["service.name"] and profile["resource"]["process.executable.path"].endswith("/threads")
        assert profile["resource"]["host.name"] == os.uname().nodename
    assert WORK <= work_of(own)
    assert not {(thread, other) for thread, _ in WORK for name, other in WORK if name != thread} & work_of(own)
    assert all(value == pytest.approx(1e9 / 97, rel=0.1) for profile in own for s in profile["samples"] for value in s["values"])


def has_names(to, count):
    """Whether that many packets have the names of the workload's functions."""
    return sum(b"work_of_red" in body and b"work_of_blue" in body for body in to.bodies()) >= count


@pytest.mark.sanitized
def test_packets_contain_every_sample_taken(exporting, receiver, profcheck, tmp_path):  # noqa: F811
    to = receiver()
    started = exporting(to.url)
    wait_for(lambda: has_names(to, 2), 120, "two packets with both threads")
    counted = started.metric("sonde_self_samples_total")
    assert started.stop() == 0
    packets, says = profcheck(*write(tmp_path, to.bodies())), export_stats(started)
    assert says["taken"] >= counted
    assert_packets_match_stats(packets, exporting.workload, to.posts, says)
    assert {(post["path"], post["headers"]["Content-Type"], post["headers"]["Content-Encoding"]) for post in to.posts} == {(PATH, "application/x-protobuf", "gzip")}
    assert len(own_profiles(packets, exporting.workload)) >= 2, "every packet has its resources itself"


@pytest.mark.peer
def test_official_messages_read_the_packets(exporting, receiver, profcheck, official_profcheck, tmp_path):  # noqa: F811
    to = receiver()
    started = exporting(to.url)
    wait_for(lambda: has_names(to, 1), 120, "a packet with both threads")
    assert started.stop() == 0
    paths = write(tmp_path, to.bodies())
    assert official_profcheck(*paths) == profcheck(*paths)


def test_equal_samples_without_timestamps_are_merged(exporting, receiver, profcheck, tmp_path):  # noqa: F811
    """The smallest packets, compressed with zstd."""
    to, zstd = receiver(), need_command("zstd")
    started = exporting(to.url, *sets(timestamp_resolution="none", system_names="false", compression="zstd"))
    wait_for(lambda: len(to.posts) >= 2, 60, "two packets")
    assert started.stop() == 0
    says = export_stats(started)
    assert {post["headers"]["Content-Encoding"] for post in to.posts} == {"zstd"} and sum(len(post["body"]) for post in to.posts) == says["bytes"]
    bodies = [subprocess.run([zstd, "-dc"], input=post["body"], stdout=subprocess.PIPE, check=True).stdout for post in to.posts]
    samples = [s for profiles in profcheck(*write(tmp_path, bodies)) for profile in profiles for s in profile["samples"]]  # profcheck rejects equal samples
    assert says["dropped"] == 0 and says["sent"] == says["taken"] > 0
    assert all(not s["times"] and len(s["values"]) == 1 for s in samples)
    assert sum(s["values"][0] for s in samples) == pytest.approx(says["sent"] * 1e9 / 97, rel=0.1)


def test_waits_are_separate_profiles(exporting, receiver, run, profcheck, tmp_path):  # noqa: F811
    """A process that almost only sleeps: its waits in all packets are no longer than the agent's run time."""
    (tmp_path / "sleeper").symlink_to("/usr/bin/python3")  # a name of its own: other processes of the node sleep too
    to, sleeper = receiver(), run(tmp_path / "sleeper", "-c", "import time\nwhile True:\n    time.sleep(0.1)")
    started = exporting(to.url, "--off-cpu")
    wait_for(lambda: started.metric("sonde_off_cpu_seconds_total", service_name="sleeper", reason="sleep") > 1, 60, "waits")
    uptime = float(re.search(r'"uptime_seconds":([0-9.]+)', started.text("/api/v1/status"))[1])
    assert started.stop() == 0
    says = export_stats(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"]
    packets = profcheck(*write(tmp_path, [body for body in to.bodies() if b"sleeper" in body]))
    assert {frozenset(profile["type"] for profile in profiles) for profiles in packets} <= {frozenset({"cpu"}), frozenset({"off_cpu"})}
    own = [s for p in own_profiles(packets, sleeper) if p["type"] == "off_cpu" for s in p["samples"]]
    assert {s["frames"][0]["type"] for s in own} == {"wait"}
    sleeping = [s for s in own if s["frames"][0]["name"].startswith("[sleep: ")]
    assert 1e9 < sum(sum(s["values"]) for s in sleeping) < (uptime + 30) * 1e9  # the agent's run time, plus the time it takes to end
    ids = [profile["id"] for profiles in packets for profile in profiles]
    assert len(set(ids)) == len(ids), "a profile was sent twice"


@pytest.mark.thorough
def test_restarted_receiver_misses_nothing(exporting, receiver, profcheck, tmp_path):  # noqa: F811
    """The new receiver has no state: later packets must not depend on earlier ones, and undelivered packets are sent again."""
    first = receiver(accept_and_hang_up, port=free_port())  # below the ephemeral port range, so that it stays free until the restart
    started = exporting(first.url)
    wait_for(lambda: len(first.posts) >= 2, 60, "two packets")
    first.close()
    failures = started.metric("sonde_self_export_failures_total")
    wait_for(lambda: started.metric("sonde_self_export_failures_total") > failures, 60, "a post without an answer")
    second = receiver(port=first.port)
    wait_for(lambda: len(second.posts) >= 2, 60, "two packets of the restarted receiver")
    assert started.stop() == 0
    says = export_stats(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"]
    assert total(profcheck(*write(tmp_path, second.bodies()))) > 0
    assert total(profcheck(*write(tmp_path, first.bodies() + second.bodies()))) == says["taken"]
    warning, = [line for line in started.running.error.splitlines() if "profiles cannot be delivered to http://127.0.0.1" in line]
    assert " after " not in warning, "the reason, and not how long it took: equal warnings are logged once"


@pytest.mark.thorough
def test_receiver_is_read_from_the_environment(receiver, agent, workload):  # noqa: F811
    """From the standard variables. tests/unit/agent/test_config.c tests each variable, and that settings take precedence."""
    to = receiver()
    environment = dict(os.environ, OTEL_EXPORTER_OTLP_ENDPOINT=to.base + "/", OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20abc,x-two=2",
                       OTEL_EXPORTER_OTLP_COMPRESSION="gzip", OTEL_EXPORTER_OTLP_PROFILES_COMPRESSION="none")
    workload("threads", 600)
    started = agent(*sets(interval=1), verb="agent", env=environment)
    wait_for(lambda: to.posts, 60, "a packet")
    assert started.stop() == 0
    headers = {name.lower(): value for name, value in to.posts[0]["headers"].items()}
    assert to.posts[0]["path"] == PATH and (headers["authorization"], headers["x-two"]) == ("Bearer abc", "2") and "content-encoding" not in headers


@pytest.mark.thorough
def test_unusable_environment_does_not_stop_the_agent(agent):
    """Nothing is sent, which the log reports; without such variables nothing is logged."""
    started = agent(verb="agent", env=dict(os.environ, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9/path", OTEL_EXPORTER_OTLP_PROTOCOL="grpc"))
    assert "sonde_self_export" not in started.text("/metrics")
    assert "by the environment alone the agent does not send there" in started.running.error
    assert started.stop() == 0
    started = agent(verb="agent")
    assert "sonde_self_export" not in started.text("/metrics")
    assert started.stop() == 0 and "profiles" not in started.running.error


def test_secrets_are_not_shown(agent, sonde, tmp_path):
    secret = ["profiles_endpoint=http://me:hidden-word@127.0.0.1:9/p?key=hidden-key", "headers=authorization=hidden-token"]
    shown = subprocess.run([sonde, "agent", *(text for one in secret for text in ("--set", "otlp." + one)), "--print-config"], capture_output=True, text=True)
    assert shown.returncode == 0 and "http://127.0.0.1:9/p" in shown.stdout and "hidden-" not in shown.stdout + shown.stderr
    config = tmp_path / "sonde.yaml"
    config.write_text(shown.stdout)
    again = subprocess.run([sonde, "agent", "-c", config, "--print-config"], capture_output=True, text=True)
    assert again.returncode == 0, "the printed configuration is refused: " + again.stderr
    differing = [line.split(":")[0] for line in again.stdout.splitlines() if line not in shown.stdout.splitlines()]
    assert differing == ["  profiles_endpoint", "  headers"] and again.stdout.count('""') == shown.stdout.count('""') + 2, "a part of a secret was read back"
    for bad in ('profiles_endpoint: "me:hidden-word@host"', 'headers: "a=\\thidden-token"'):
        config.write_text(f"otlp:\n  {bad}\n")
        done = subprocess.run([sonde, "agent", "-c", config], capture_output=True, text=True)
        assert done.returncode != 0 and "hidden-" not in done.stderr and "otlp." in done.stderr, done.stderr
    started = agent("--rate", "97", *(text for one in secret for text in ("--set", "otlp." + one)), "--set", "otlp.interval=1", verb="agent")
    wait_for(lambda: started.metric("sonde_self_export_failures_total") > 0, 60, "a post without an answer")
    page = started.text("/metrics") + started.text("/api/v1/status")
    assert started.stop() == 0
    assert "hidden-" not in page + started.running.error and "http://127.0.0.1:9/p" in started.running.error


@pytest.mark.thorough
def test_tls_verifies_both_certificates(exporting, receiver, tmp_path):  # noqa: F811
    """Packets go only to a receiver with a trusted certificate, with a client certificate if the receiver requires one."""
    openssl = need_command("openssl")

    def make(name, *options):
        subprocess.run([openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", tmp_path / f"{name}.key",
                        "-out", tmp_path / f"{name}.pem", *options], check=True, capture_output=True)
    make("server", "-addext", "subjectAltName=IP:127.0.0.1")
    make("client")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(tmp_path / "client.pem")
    to = receiver(tls=context)
    started = exporting(to.url, *sets(certificate=tmp_path / "client.pem"))
    wait_for(lambda: started.metric("sonde_self_export_failures_total") > 0, 60, "a post to a receiver that is not trusted")
    assert started.stop() == 0 and not to.posts
    started = exporting(to.url, *sets(certificate=tmp_path / "server.pem", client_certificate=tmp_path / "client.pem", client_key=tmp_path / "client.key"))
    wait_for(lambda: to.posts, 60, "a packet")
    assert started.stop() == 0 and export_stats(started)["dropped"] == 0
