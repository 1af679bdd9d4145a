"""Profiles as OTLP packets, each decoded alone and checked by the rules of profcheck.py. The packets come from tests/unit/export/make_profiles.c, so
every name and sum is known; test_profiles_export.py checks the profiles of an agent."""
import subprocess

import pytest
from harness.machine import skip
from harness.paths import BUILD
from otlp_profiles import official_profcheck, profcheck, text_of  # noqa: F401 (fixtures)

@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    program = BUILD / "tests/unit/export/make-profiles"
    if not program.exists():
        skip("make-profiles is not built (cmocka is missing)")
    folder = tmp_path_factory.mktemp("profiles")
    subprocess.run([program, folder], check=True, timeout=60)
    return folder


def packets_of(folder, name):
    return sorted(folder.glob(f"{name}.*.otlp"), key=lambda path: int(path.name.split(".")[1]))


def folded(packets, period_ns=None):
    """{process;root;...;leaf: samples} of all packets together, in the folded format; profiles without timestamps are counted by their period."""
    found = {}
    for profiles in packets:
        for profile in profiles:
            for sample in profile["samples"]:
                frames = [text_of(f).replace(";", ":") + ("_[k]" if f["type"] in ("kernel", "bpf") else "") for f in reversed(sample["frames"])]
                key = ";".join([profile["resource"]["process.command"], *frames])
                found[key] = found.get(key, 0) + (sum(sample["values"]) // period_ns if period_ns else len(sample["times"]))
    return found


SUMS = {"typical": 100_000_000, "hostile": 60_000_000, "deep": 10_000_000, "dropped": 100_000_000, "many": 6000 * 20_000_000 + 6000 * 5999 // 2,
        "hot": 30000 * 1_000_000}


@pytest.mark.sanitized
@pytest.mark.parametrize("name", SUMS)
def test_every_packet_decodes_alone(generated, profcheck, name):  # noqa: F811
    paths = packets_of(generated, name)
    small = name in ("many", "hot")
    assert len(paths) >= (3 if small else 1)
    assert all(path.stat().st_size <= (1 << 17 if small else 1 << 20) for path in paths)
    packets = profcheck(*paths)
    assert sum(sum(s["values"]) for profiles in packets for p in profiles for s in p["samples"]) == SUMS[name]
    ids = [p["id"] for profiles in packets for p in profiles]
    assert len(set(ids)) == len(ids)


@pytest.mark.peer
def test_official_messages_read_the_same(generated, profcheck, official_profcheck):  # noqa: F811
    """Each packet is also decoded in a process of its own: OpenTelemetry's messages keep no state between packets."""
    for path in sorted(generated.glob("*.otlp")):
        assert official_profcheck(path) == profcheck(path), path


def test_empty_profile_has_no_packet(generated):
    assert not packets_of(generated, "empty")


def test_totals_equal_the_folded_stacks(generated, profcheck):  # noqa: F811
    """The same profile in the other format, stack by stack."""
    for name, period_ns in (("typical", 10_000_000), ("many", None)):
        expected = {stack: int(count) for stack, _, count in (line.rpartition(" ") for line in (generated / f"{name}.folded").read_text().splitlines())}
        assert folded(profcheck(*packets_of(generated, name)), period_ns) == expected and len(expected) > 5


def test_names_and_resource_attributes_are_complete(generated, profcheck):  # noqa: F811
    (profiles,) = profcheck(*packets_of(generated, "typical"))
    by_pid = {profile["resource"]["process.pid"]: profile for profile in profiles}
    assert set(by_pid) == {4711, 99}
    assert by_pid[99]["resource"] == {
        "process.pid": 99, "process.parent_pid": 1, "process.command": "python3", "process.executable.path": "/usr/bin/python3.11", "service.name": "train",
        "container.id": "0123456789abcdef" * 4, "container.runtime": "docker", "k8s.pod.uid": "6e2f4c7a-0000-4000-8000-000000000001", "slurm.job.id": "17",
        "k8s.namespace.name": "ml", "k8s.pod.name": "train-0", "k8s.container.name": "worker", "k8s.pod.label.app": "train", "host.name": "node \ufffd"}
    frames = [frame for sample in by_pid[4711]["samples"] for frame in sample["frames"]]
    main = next(frame for frame in frames if frame["name"] == "main")
    assert main == {"name": "main", "mapping": "/usr/bin/server", "address": 0x1180, "type": "native", "build_id": "0123456789abcdef0123456789abcdef01234567"}
    assert {frame["type"] for profile in profiles for sample in profile["samples"] for frame in sample["frames"]} == {"native", "kernel", "bpf", "truncated"}
    assert {text_of(f) for s in by_pid[99]["samples"] for f in s["frames"]} >= {"libcuda.so.1+0x4711", "[truncated: no unwind table]"}
    assert all(profile["period"] == 10_000_000 and profile["duration"] == 60_000_000_000 for profile in profiles)


def test_samples_have_timestamps_and_links(generated, profcheck):  # noqa: F811
    """Two samples per timestamp, a third of them without a link; two stacks that differ in one frame stay distinct."""
    samples = [s for profiles in profcheck(*packets_of(generated, "many")) for p in profiles for s in p["samples"]]
    assert sum(len(s["times"]) for s in samples) == 12000 and all(len(s["times"]) == len(s["values"]) for s in samples)
    assert sum(len(s["times"]) for s in samples if not s["trace_id"]) == 4000
    assert {(s["trace_id"], s["span_id"]) for s in samples if s["trace_id"]} == {(f"{i:016x}" * 2, f"{7:016x}") for i in (1, 2)}
    assert len({tuple(f["name"] for f in s["frames"]) for s in samples}) == 6000


def test_profcheck_rejects_broken_packets(generated, profcheck, tmp_path):  # noqa: F811
    """One field of a valid packet is changed: the check reports it."""
    good = packets_of(generated, "typical")[0].read_bytes()
    extra = tmp_path / "orphan.otlp"
    extra.write_bytes(good + b"\x12\x08\x2a\x06orphan")  # an unused string in the dictionary
    assert "nothing refers to" in profcheck(extra, broken=True)
    twice = tmp_path / "again.otlp"
    twice.write_bytes(good + b"\x12\x06\x2a\x04main")
    assert "a row twice" in profcheck(twice, broken=True)
    bare = tmp_path / "bare.otlp"
    bare.write_bytes(good + b"\x0a\x00")  # an empty resource
    assert "no process.pid" in profcheck(bare, broken=True)
    late = tmp_path / "late.otlp"
    late.write_bytes(good.replace((1785585600000000000).to_bytes(8, "little"), (1785585600000000001).to_bytes(8, "little")))
    profcheck(late)  # without timestamps, nothing lies outside the interval
    many = packets_of(generated, "many")[0].read_bytes()
    start = 1785585600000000000
    at = many.rindex(start.to_bytes(8, "little"))  # the start of the last profile, or a timestamp of it
    late.write_bytes(many[:at] + (1785585500000000000).to_bytes(8, "little") + many[at + 8:])
    assert "a timestamp outside" in profcheck(late, broken=True)
