"""An agent sends what it samples as OTLP profiles: every packet whole in itself, none forgotten, none twice. What receivers do wrong is in
tests/faults/test_profiles_receivers.py; the packets themselves are in test_otlp_profiles.py."""
import os
import re
import ssl
import subprocess

import pytest
from harness.machine import free_port, need_command
from harness.processes import wait_for
from profiles_receiver import PATH, ProfilesReceiver, accept_and_hang_up, told, total, write
from test_otlp_profiles import profcheck, text_of  # noqa: F401


@pytest.fixture
def receiver():
    made = []

    def make(*answers, **options):
        made.append(ProfilesReceiver(*answers, **options))
        return made[-1]
    yield make
    for one in made:
        one.close()


def sets(**values):
    return [text for key, value in values.items() for text in ("--set", f"otlp.{key}={value}")]


@pytest.fixture
def exporting(agent, subject):
    """exporting(url, ...) starts something to sample, and an agent that sends it, with room for what waits however much else runs on the node."""
    def start(url, *arguments, **options):
        start.subject = subject("threads", 600)
        return agent("--rate", "97", "--set", "budget.cpu=100%", "--set", "budget.memory=1GiB", *sets(profiles_endpoint=url, interval=1), *arguments, verb="agent", **options)
    return start


def test_packets_add_up_to_what_the_agent_took(exporting, receiver, profcheck, tmp_path):
    """Each packet is decoded alone, by OpenTelemetry's messages; what is in all of them is what the agent counted, sample by sample."""
    to = receiver()
    started = exporting(to.url)
    wait_for(lambda: len(to.posts) >= 3, 60, "three packets")
    counted = started.metric("sonde_self_samples_total")
    assert started.stop() == 0
    packets = profcheck(*write(tmp_path, to.bodies()))
    says = told(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"] >= counted > 0
    assert total(packets) == says["sent"]
    assert (len(to.posts), sum(len(post["body"]) for post in to.posts)) == (says["packets"], says["bytes"])
    assert {(post["path"], post["headers"]["Content-Type"], post["headers"]["Content-Encoding"]) for post in to.posts} == {(PATH, "application/x-protobuf", "gzip")}
    ids = [profile["id"] for profiles in packets for profile in profiles]
    assert len(set(ids)) == len(ids), "a profile was sent twice"
    own = [profile for profiles in packets for profile in profiles if profile["resource"]["process.pid"] == exporting_pid(exporting)]
    assert len(own) >= 2, "every packet has its resources itself"
    for profile in own:
        assert profile["resource"]["service.name"] and profile["resource"]["process.executable.path"].endswith("/threads")
        assert profile["resource"]["host.name"] == os.uname().nodename
    stacks = {(s["attributes"].get("thread.name"), text_of(f)) for profile in own for s in profile["samples"] for f in s["frames"]}
    assert {("red", "work_of_red"), ("blue painter", "work_of_blue")} <= stacks
    assert not {("red", "work_of_blue"), ("blue painter", "work_of_red")} & stacks
    assert all(value == pytest.approx(1e9 / 97, rel=0.1) for profile in own for s in profile["samples"] for value in s["values"])


def test_what_a_packet_tells_of_equal_samples(exporting, receiver, profcheck, tmp_path):
    """Without times they are one value; the smallest that there is goes out as zstd."""
    to, zstd = receiver(), need_command("zstd")
    started = exporting(to.url, *sets(timestamp_resolution="none", system_names="false", compression="zstd"))
    wait_for(lambda: len(to.posts) >= 2, 60, "two packets")
    assert started.stop() == 0
    says = told(started)
    assert {post["headers"]["Content-Encoding"] for post in to.posts} == {"zstd"} and sum(len(post["body"]) for post in to.posts) == says["bytes"]
    bodies = [subprocess.run([zstd, "-dc"], input=post["body"], stdout=subprocess.PIPE, check=True).stdout for post in to.posts]
    packets = profcheck(*write(tmp_path, bodies))
    samples = [s for profiles in packets for profile in profiles for s in profile["samples"]]
    assert says["dropped"] == 0 and says["sent"] == says["taken"] > len(samples), "the threads of the subject are in their loops all the time"
    assert all(not s["times"] and len(s["values"]) == 1 for s in samples)
    assert sum(s["values"][0] for s in samples) == pytest.approx(says["sent"] * 1e9 / 97, rel=0.1)


@pytest.mark.plain_build  # what it rounds test_otlp_profiles.c knows
def test_how_exactly_a_packet_tells_times_is_chosen(exporting, receiver, profcheck, tmp_path):
    to = receiver()
    started = exporting(to.url, *sets(timestamp_resolution="17ms"))
    wait_for(lambda: len(to.posts) >= 2, 60, "two packets")
    assert started.stop() == 0
    packets = profcheck(*write(tmp_path, to.bodies()))
    assert total(packets) == told(started)["sent"] > 0
    for profiles in packets:
        times = {time for profile in profiles for s in profile["samples"] for time in s["times"]}
        between = {time for time in times if time % 2 ** 24}
        assert len(between) <= 1 and (times > between or profiles is packets[-1]), "what would be before the packet is at its beginning"


@pytest.mark.plain_build  # ten times slower it has the waits of a whole busy node to send
def test_waits_are_profiles_of_their_own(exporting, receiver, profcheck, tmp_path):
    """The main thread waits for the others all the time: what is told of it in all packets is not more than passed."""
    to = receiver()
    started = exporting(to.url, "--waits", *sets(interval=3))
    wait_for(lambda: started.metric("sonde_waiting_seconds_total", service_name="threads", reason="lock") > 4, 60, "a look at who waits")
    uptime = float(re.search(r'"uptime_seconds":([0-9.]+)', started.text("/api/v1/status"))[1])
    assert started.stop() == 0
    says, path = told(started), os.readlink(f"/proc/{exporting_pid(exporting)}/exe").encode()
    assert says["dropped"] == 0 and says["sent"] == says["taken"]
    packets = profcheck(*write(tmp_path, [body for body in to.bodies() if path in body]))  # the node may have thousands of waits a second
    assert {frozenset(profile["type"] for profile in profiles) for profiles in packets} == {frozenset({"cpu"}), frozenset({"off_cpu"})}
    main = [s for profiles in packets for p in profiles if p["type"] == "off_cpu" for s in p["samples"] if s["attributes"]["thread.id"] == exporting_pid(exporting)]
    assert {(s["frames"][0]["name"], s["frames"][0]["type"]) for s in main} == {("[lock: futex]", "wait")}
    assert 4e9 < sum(sum(s["values"]) for s in main) < (uptime + 30) * 1e9  # until the agent has ended
    ids = [profile["id"] for profiles in packets for profile in profiles]
    assert len(set(ids)) == len(ids), "a profile was sent twice"


def exporting_pid(exporting):
    return exporting.subject.pid


def test_a_receiver_that_is_restarted_misses_nothing(exporting, receiver, profcheck, tmp_path):
    """It forgets all that it knew; what comes then needs nothing of it, and what could not be delivered meanwhile comes too."""
    first = receiver(accept_and_hang_up, port=free_port())
    started = exporting(first.url)
    wait_for(lambda: len(first.posts) >= 2, 60, "two packets")
    first.close()
    failures = started.metric("sonde_self_export_failures_total")
    wait_for(lambda: started.metric("sonde_self_export_failures_total") > failures, 60, "a post that nobody answers")
    second = receiver(port=first.port)
    wait_for(lambda: len(second.posts) >= 3, 60, "three packets of a receiver that knows nothing")
    assert started.stop() == 0
    packets = profcheck(*write(tmp_path, second.bodies()))
    assert total(packets) > 0
    says = told(started)
    assert says["dropped"] == 0 and says["sent"] == says["taken"]
    assert total(profcheck(*write(tmp_path, first.bodies() + second.bodies()))) == says["taken"]


def test_nothing_is_sent_unless_asked_for(agent):
    started = agent(verb="agent")
    assert "sonde_self_export" not in started.text("/metrics")
    assert started.stop() == 0 and "profiles" not in started.running.error


def test_the_environment_says_where_to(exporting, receiver, agent, subject):
    """The standard variables; those of the signal win, and what is set for Sonde itself wins over both."""
    to, other = receiver(), receiver()
    environment = dict(os.environ, OTEL_EXPORTER_OTLP_ENDPOINT=to.base + "/", OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20abc,x-two=2",
                       OTEL_EXPORTER_OTLP_COMPRESSION="gzip", OTEL_EXPORTER_OTLP_PROFILES_COMPRESSION="none")
    subject("threads", 600)
    started = agent(*sets(interval=1), verb="agent", env=environment)
    wait_for(lambda: to.posts, 60, "a packet")
    assert started.stop() == 0
    headers = {name.lower(): value for name, value in to.posts[0]["headers"].items()}
    assert to.posts[0]["path"] == PATH and (headers["authorization"], headers["x-two"]) == ("Bearer abc", "2") and "content-encoding" not in headers
    before = len(to.posts)
    environment["OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT"] = to.base + "/elsewhere"
    started = agent(*sets(interval=1), verb="agent", env=environment)
    wait_for(lambda: len(to.posts) > before, 60, "a packet")
    assert started.stop() == 0 and to.posts[-1]["path"] == "/elsewhere"
    before = len(to.posts)
    started = agent(*sets(interval=1, profiles_endpoint=other.url), verb="agent", env=environment)
    wait_for(lambda: other.posts, 60, "a packet")
    assert started.stop() == 0 and len(to.posts) == before
    assert not {"authorization", "x-two"} & {name.lower() for post in other.posts for name in post["headers"]}, "another receiver's word"


@pytest.mark.parametrize("variables", [{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"},
                                       {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://$(NODE_IP):4318"},
                                       {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9/path", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}])
def test_an_environment_for_others_stops_nobody(agent, variables):
    started = agent(verb="agent", env=dict(os.environ, **variables))
    assert "sonde_self_export" not in started.text("/metrics")
    assert "by the environment alone profiles are not sent" in started.running.error


def test_secrets_are_not_shown(agent, sonde, tmp_path):
    secret = ["profiles_endpoint=http://me:hidden-word@127.0.0.1:9/p?key=hidden-key", "headers=authorization=hidden-token"]
    shown = subprocess.run([sonde, "agent", *(text for one in secret for text in ("--set", "otlp." + one)), "--print-config"], capture_output=True, text=True)
    assert shown.returncode == 0 and "http://127.0.0.1:9/p" in shown.stdout and "hidden-" not in shown.stdout + shown.stderr
    config = tmp_path / "sonde.yaml"
    config.write_text(shown.stdout)
    again = subprocess.run([sonde, "agent", "-c", config, "--print-config"], capture_output=True, text=True)
    assert again.returncode == 0, "what was printed is refused: " + again.stderr
    differing = [line.split(":")[0] for line in again.stdout.splitlines() if line not in shown.stdout.splitlines()]
    assert differing == ["  profiles_endpoint", "  headers"] and again.stdout.count('""') == shown.stdout.count('""') + 2, "a part of a secret was read back"
    for bad in ('profiles_endpoint: "me:hidden-word@host"', 'headers: "a=\\thidden-token"'):
        config.write_text(f"otlp:\n  {bad}\n")
        done = subprocess.run([sonde, "agent", "-c", config], capture_output=True, text=True)
        assert done.returncode != 0 and "hidden-" not in done.stderr and "otlp." in done.stderr, done.stderr
    started = agent("--rate", "97", *(text for one in secret for text in ("--set", "otlp." + one)), "--set", "otlp.interval=1", verb="agent")
    wait_for(lambda: started.metric("sonde_self_export_failures_total") > 0, 60, "a post that nobody answers")
    page = started.text("/metrics") + started.text("/api/v1/status")
    assert started.stop() == 0
    assert "hidden-" not in page + started.running.error and "http://127.0.0.1:9/p" in started.running.error


def test_tls(exporting, receiver, tmp_path):
    """Only who has the authority's word is spoken to, and only with a certificate of ours if he asks for one."""
    openssl = need_command("openssl")

    def make(name, *options):
        subprocess.run([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", tmp_path / f"{name}.key",
                        "-out", tmp_path / f"{name}.pem", *options], check=True, capture_output=True)
    make("server", "-addext", "subjectAltName=IP:127.0.0.1")
    make("client")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(tmp_path / "client.pem")
    to = receiver(tls=context)
    started = exporting(to.url, *sets(certificate=tmp_path / "client.pem"))
    wait_for(lambda: started.metric("sonde_self_export_failures_total") > 0, 60, "a post to somebody who is not trusted")
    assert started.stop() == 0 and not to.posts
    started = exporting(to.url, *sets(certificate=tmp_path / "server.pem", client_certificate=tmp_path / "client.pem", client_key=tmp_path / "client.key"))
    wait_for(lambda: to.posts, 60, "a packet")
    assert started.stop() == 0 and told(started)["dropped"] == 0
