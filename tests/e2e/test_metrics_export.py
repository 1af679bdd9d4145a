"""An agent exports the metrics of /metrics by OTLP: the same series, exact values, start times, receivers that fail. tests/unit/agent/test_metrics_export.c
has the cases that need a clock."""
import os
import re
import subprocess

import otlp_decoder
import pytest
from exporting import sets
from file_systems import file_system  # noqa: F401 (a fixture)
from harness.machine import free_port
from harness.processes import wait_for
from metrics_packets import PATH, MetricsReceiver, points_of, series_of
from otlp_receiver import receivers
from profiles_receiver import accept, accept_and_hang_up
from traced_server import official  # noqa: F401 (a fixture)

PAGE_LINE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)(?: # .*)?')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


@pytest.fixture
def receiver():
    """receiver(answers..., options...): a MetricsReceiver."""
    yield from receivers(MetricsReceiver)


@pytest.fixture
def exporting(agent):
    """exporting(url, ...) starts an agent that exports its metrics once a second."""
    def start(url, *arguments, **options):
        return agent("--set", "budget.one_cpu=1000%", "--set", "io.enabled=true", *sets(metrics_endpoint=url, metrics_interval=1), *arguments, verb="agent", **options)
    return start


def page_series(started):
    """{"name{labels}": value} of /metrics, with labels in the order of their names."""
    _, _, body = started.get("/metrics", {"Accept": "application/openmetrics-text"})
    found = {}
    for line in body.decode().splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = PAGE_LINE.fullmatch(line).groups()
        inside = ",".join(f'{key}="{text}"' for key, text in sorted(LABEL.findall(labels or "")))
        found[f"{name}{{{inside}}}" if inside else name] = float(value)
    return found


def next_packet(to, count=2):
    """The last of `count` further packets: its collection began after the call."""
    before = len(to.posts)
    wait_for(lambda: len(to.posts) >= before + count, 60, "packets")
    return otlp_decoder.decode(to.bodies()[before + count - 1], "metrics")


def only_counts(series):
    """Without gauges, which may change and change back."""
    return {name: value for name, value in series.items() if re.search(r"_(total|bucket|count|sum|info)(\{|$)", name)}


def last_words(agent):
    """What an agent prints at exit: points sent, packets, bytes, points dropped."""
    said = re.search(r"metrics: (\d+) points were sent to \S+, in (\d+) packets of (\d+) bytes in all; (\d+) were dropped", agent.running.error)
    assert said, agent.running.error
    return dict(zip(("points", "packets", "bytes", "dropped"), map(int, said.groups())))


@pytest.mark.sanitized
@pytest.mark.alone  # with the requests of other tests, its series do not fit one packet
def test_series_are_those_of_the_page(exporting, receiver, file_system):  # noqa: F811
    """All of them, by the names that Prometheus stores; those that stand still have the same value."""
    to, point = receiver(), file_system("tmpfs")
    started = exporting(to.url)
    subprocess.run(["dd", "if=/dev/zero", f"of={point}/a b\"c", "bs=4k", "count=3"], check=True, capture_output=True)
    wait_for(lambda: started.metric("sonde_io_write_bytes_total", mountpoint=str(point)), what="the page to have the write")
    before = page_series(started)
    packet = next_packet(to)
    after = page_series(started)
    sent = series_of(packet)
    assert set(before) & set(after) <= set(sent) <= set(before) | set(after)
    standing = {name: value for name, value in only_counts(before).items() if after.get(name) == value}
    assert len(standing) > 50 and any("sonde_io_write_bytes_total" in name for name in standing)
    assert {name: sent[name] for name in standing} == standing
    resource = packet["resourceMetrics"][0]
    said = {pair["key"]: pair["value"]["stringValue"] for pair in resource["resource"]["attributes"]}
    assert (said["service.name"], said["host.name"], said["service.instance.id"]) == ("sonde", os.uname().nodename, os.uname().nodename)
    assert started.stop() == 0
    says = last_words(started)
    assert says["dropped"] == 0 and says["packets"] == len(to.posts) and says["bytes"] == sum(len(post["body"]) for post in to.posts)
    assert says["points"] == sum(len(list(points_of(packet))) for packet in to.packets())
    assert {(post["path"], post["headers"]["Content-Type"], post["headers"]["Content-Encoding"]) for post in to.posts} == {(PATH, "application/x-protobuf", "gzip")}


def test_last_packet_has_everything_until_the_end(exporting, receiver, file_system):  # noqa: F811
    """Exact bytes of a program that ended just before the agent, at whatever point of the interval."""
    to, point = receiver(), file_system("tmpfs")
    started = exporting(to.url, *sets(metrics_interval=300))
    subprocess.run(["dd", "if=/dev/zero", f"of={point}/data", "bs=4k", "count=777"], check=True, capture_output=True)
    assert started.stop() == 0
    packet, = to.packets()
    written = [(int(p["asInt"]), metric["unit"], metric["sum"]["isMonotonic"]) for metric, p, _ in points_of(packet)
               if metric["name"] == "sonde_io_write_bytes" and {"key": "mountpoint", "value": {"stringValue": str(point)}} in p["attributes"]]
    assert written == [(777 * 4096, "By", True)]


@pytest.mark.thorough
@pytest.mark.alone  # the cgroup of another test may vanish and come again, and its series with it
def test_each_series_keeps_its_start(exporting, receiver, file_system):  # noqa: F811
    """A series starts with the agent; a later series starts at the collection before it appeared."""
    to, point = receiver(), file_system("tmpfs")
    started = exporting(to.url)
    wait_for(lambda: len(to.posts) >= 2, 60, "two packets")
    subprocess.run(["dd", "if=/dev/zero", f"of={point}/data", "bs=4k", "count=1"], check=True, capture_output=True)
    name = "sonde_io_write_bytes"

    def has_write(packet):
        return any(metric["name"] == name and str(point) in str(p["attributes"]) for metric, p, _ in points_of(packet))
    wait_for(lambda: sum(map(has_write, to.packets())) >= 2, 60, "two packets with the write")
    assert started.stop() == 0
    starts, times = {}, []
    packets = to.packets()
    for packet in packets:
        times.append({int(p["timeUnixNano"]) for _, p, _ in points_of(packet)})
        for metric, p, _ in points_of(packet):
            assert ("startTimeUnixNano" in p) == ("gauge" not in metric)
            if "gauge" not in metric:
                assert int(p["startTimeUnixNano"]) < int(p["timeUnixNano"])
                starts.setdefault((metric["name"], str(sorted(map(str, p.get("attributes", ()))))), set()).add(int(p["startTimeUnixNano"]))
    assert all(len(of_packet) == 1 for of_packet in times) and sorted(map(max, times)) == list(map(max, times))
    assert not {series: of_series for series, of_series in starts.items() if len(of_series) > 1}
    agent_start = min(min(of_series) for of_series in starts.values())
    assert starts["sonde_self_losses", str([str({"key": "reason", "value": {"stringValue": "ring_full"}})])] == {agent_start}
    first = next(i for i, packet in enumerate(packets) if has_write(packet))
    of_write, = {min(of_series) for (metric, labels), of_series in starts.items() if metric == name and str(point) in labels}
    assert agent_start < of_write <= max(times[first - 1])


@pytest.mark.thorough
def test_receiver_that_comes_back_gets_the_present_values(exporting, receiver, file_system):  # noqa: F811
    """The next packet has the present values, including bytes written in the meantime; nothing was queued."""
    first, point = receiver(accept_and_hang_up, port=free_port()), file_system("tmpfs")
    started = exporting(first.url)
    wait_for(lambda: first.posts, 60, "a packet")
    first.close()
    wait_for(lambda: started.metric("sonde_self_metrics_export_dropped_points_total", reason="unreachable") > 0, 60, "a collection that is dropped")
    subprocess.run(["dd", "if=/dev/zero", f"of={point}/data", "bs=4k", "count=5"], check=True, capture_output=True)
    wait_for(lambda: started.metric("sonde_io_write_bytes_total", mountpoint=str(point)) == 5 * 4096, what="the page to have the write")
    second = receiver(port=first.port)
    sent = series_of(next_packet(second))
    assert started.stop() == 0
    assert [value for name, value in sent.items() if name.startswith("sonde_io_write_bytes_total{") and str(point) in name] == [5 * 4096]
    assert sum(value for name, value in sent.items() if name.startswith("sonde_self_metrics_export_dropped_points_total")) > 0
    times = [int(p["timeUnixNano"]) for packet in second.packets() for _, p, _ in points_of(packet)][:1]
    assert times[0] > max(int(p["timeUnixNano"]) for packet in first.packets() for _, p, _ in points_of(packet))
    warnings = [line for line in started.running.error.splitlines() if "metrics cannot be delivered to http://127.0.0.1" in line]
    assert len(warnings) == 1 and f"{first.url} accepts metrics again" in started.running.error


def test_rejected_points_are_counted_and_logged(exporting, receiver):
    """A partial success: 3 points, with a reason."""
    to = receiver(lambda handler: handler.answer(200, b"\x0a\x0c\x08\x03\x12\x08too late"), accept)
    started = exporting(to.url)
    wait_for(lambda: started.metric("sonde_self_metrics_export_rejected_points_total") == 3, 60, "the count of rejected points")
    assert started.metric("sonde_self_metrics_export_dropped_points_total") == 0
    assert started.stop() == 0
    assert f"{to.url} rejected 3 points of a packet: too late" in started.running.error


@pytest.mark.thorough
def test_refused_packets_are_dropped(exporting, receiver):
    to = receiver(400)
    started = exporting(to.url)
    wait_for(lambda: started.metric("sonde_self_metrics_export_dropped_points_total", reason="refused") > 0, 60, "a packet that is dropped")
    assert started.stop() == 0
    assert last_words(started)["points"] == 0


@pytest.mark.peer
def test_official_messages_read_the_packets(exporting, receiver, official):  # noqa: F811
    to = receiver()
    started = exporting(to.url)
    packet = next_packet(to)
    assert started.stop() == 0
    body = next(body for body in to.bodies() if otlp_decoder.decode(body, "metrics") == packet)
    assert series_of(official(body, "metrics")) == series_of(packet)


@pytest.mark.thorough
def test_nothing_is_sent_without_an_endpoint(agent):
    started = agent(verb="agent")
    assert "sonde_self_metrics_export" not in started.text("/metrics")
    assert started.stop() == 0 and "metrics" not in started.running.error
