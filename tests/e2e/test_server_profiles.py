"""Profiles in `sonde server`: the flame graph by SQL is the one of the packets that the agent sent."""
import time
from collections import Counter

from centre import engine_library, start_server
from exporting import exporting, receiver, sets  # noqa: F401 (fixtures)
from harness.processes import wait_for
from otlp_profiles import profcheck, text_of  # noqa: F401 (fixtures)
from profiles_receiver import PATH, write

FOLDED = "SELECT service, thread, arrayStringConcat(stack, ';') AS folded, sum(toInt64(round({value} * 1e6))) FROM {view} WHERE day >= today() - 1 GROUP BY ALL"


def folded_of(profiles):
    """{(service, thread, folded stack): nanoseconds} of decoded packets."""
    totals = Counter()
    for profile in profiles:
        for sample in profile["samples"]:
            stack = ";".join(text_of(frame) for frame in reversed(sample["frames"]))
            totals[profile["resource"]["service.name"], sample["attributes"].get("thread.name", ""), stack] += sum(sample["values"])
    return totals


def folded_in(server, view, value):
    rows = (line.split("\t") for line in server.value(FOLDED.format(view=view, value=value)).split("\n"))
    return Counter({(service, thread, stack.replace("\\'", "'").replace("\\\\", "\\")): int(ns) for service, thread, stack, ns in rows})


def test_flame_graph_is_that_of_the_packets(run, sonde, exporting, receiver, profcheck, tmp_path):  # noqa: F811
    to, library = receiver(), engine_library()
    agent = exporting(to.url, "--set", "off_cpu.enabled=true")
    wait_for(lambda: sum(b"work_of_red" in body and b"work_of_blue" in body for body in to.bodies()) >= 2, 120, "two packets with both threads")
    assert agent.stop() == 0
    packets = profcheck(*write(tmp_path, to.bodies()))
    one = start_server(run, sonde, tmp_path / "data", library=library)
    for body in to.bodies():
        assert one.post(PATH, body)[::2] == (200, b"")
    profiles = {kind: [p for profiles in packets for p in profiles if p["type"] == kind] for kind in ("cpu", "off_cpu")}
    samples = sum(max(len(s["times"]), 1) for kind in profiles.values() for p in kind for s in p["samples"])
    one.await_value("SELECT count() FROM profile_samples", str(samples))
    assert folded_in(one, "cpu_samples", "cpu_ms") == folded_of(profiles["cpu"])
    assert folded_in(one, "off_cpu_samples", "off_cpu_ms") == folded_of(profiles["off_cpu"])
    frames = {(f["name"], f["mapping"], f["build_id"], f["address"], f["type"]) for kind in profiles.values() for p in kind for s in p["samples"] for f in s["frames"]}
    assert one.value("SELECT uniqExact(Function, Mapping, BuildId, Address, Type) FROM profile_frames") == str(len(frames))
    assert one.value("SELECT arrayExists(f -> f NOT IN (SELECT FrameHash FROM profile_frames), groupUniqArrayArray(Frames)) FROM profile_stacks") == "0"
    assert one.value("SELECT any(ResourceAttributes['process.executable.path']) LIKE '%/threads' FROM cpu_samples JOIN profile_resources"
                     " ON resource_hash = ResourceHash WHERE function = 'work_of_red'") == "1"
    assert one.running.stop() == 0
