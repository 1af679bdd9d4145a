"""What the agent sends to OpenTelemetry's own Collector (tests/opentelemetry/collector) by HTTP and gRPC: the Collector decodes every stack that
the agent took. Profiles are in development there too, behind a feature gate."""
import json

import pytest
from collectors import collector  # noqa: F401 (a fixture)
from exporting import exporting, sets  # noqa: F401
from harness.processes import wait_for
from profiles_receiver import PATH, export_stats

pytestmark = pytest.mark.peer


def samples_of(packet):
    """(pid, frame names from the leaf on, timestamps) per sample."""
    tables = packet["dictionary"]
    strings, functions, locations, stacks = (tables[name] for name in ("stringTable", "functionTable", "locationTable", "stackTable"))

    def name(location):
        lines = locations[location].get("lines", [])
        return strings[functions[lines[0]["functionIndex"]].get("nameStrindex", 0)] if lines else ""
    for resource in packet["resourceProfiles"]:  # resource attribute keys are indices into its own string table
        pid = next(int(a["value"]["intValue"]) for a in resource["resource"]["attributes"] if strings[a["keyStrindex"]] == "process.pid")
        for profile in (profile for scope in resource["scopeProfiles"] for profile in scope["profiles"]):
            for sample in profile["samples"]:
                yield pid, tuple(name(i) for i in stacks[sample["stackIndex"]]["locationIndices"]), sample["timestampsUnixNano"]


@pytest.mark.parametrize("protocol,compression", [("http/protobuf", "zstd"), ("grpc", "gzip"), ("grpc", "zstd")])
def test_collector_decodes_all_profiles(exporting, collector, protocol, compression):  # noqa: F811
    to = collector("{profiles: {receivers: [otlp], exporters: [lines]}}", "--feature-gates=service.profilesSupport")
    started = exporting(to.urls[protocol] + (PATH if protocol != "grpc" else ""), *sets(protocol=protocol, compression=compression))
    wait_for(lambda: sum("work_of_red" in text and "work_of_blue" in text for text in map(json.dumps, to.packets())) >= 2, 120, "two packets with both threads")
    assert started.metric("sonde_self_export_failures_total") == 0 == started.metric("sonde_self_export_rejected_profiles_total")
    assert started.stop() == 0
    says = export_stats(started)
    packets = to.packets()
    assert len(packets) == says["packets"] and says["dropped"] == 0
    samples = [sample for packet in packets for sample in samples_of(packet)]
    assert sum(len(times) for _, _, times in samples) == says["sent"] == says["taken"] > 0
    own = {frame for pid, frames, _ in samples if pid == exporting.workload.pid for frame in frames}
    assert {"work_of_red", "work_of_blue"} <= own
