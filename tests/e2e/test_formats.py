"""Exporter output read by other projects' readers: go tool pprof, protoc, speedscope's schema, promtool and Prometheus' Python parsers. The profiles
come from tests/unit/export/make_profiles.c, so that no privileges are needed and every name and sum is known."""
import gzip
import json
import re
import subprocess

import pprof
import pytest

from harness.machine import need_command
from harness.paths import BUILD, TOP
from harness.workloads import go_pprof

PROFILES = {"typical": (10, 100_000_000), "dropped": (10, 100_000_000), "hostile": (6, 60_000_000), "deep": (1, 10_000_000),
            "empty": (0, 0)}

# The message's field names and numbers from its published definition (github.com/google/pprof, proto/profile.proto): a second copy,
# independent of src/export/pprof.c, for protoc.
PROFILE_PROTO = """
syntax = "proto3";
message Profile { repeated ValueType sample_type = 1; repeated Sample sample = 2; repeated Mapping mapping = 3;
  repeated Location location = 4; repeated Function function = 5; repeated string string_table = 6; int64 drop_frames = 7;
  int64 keep_frames = 8; int64 time_nanos = 9; int64 duration_nanos = 10; ValueType period_type = 11; int64 period = 12;
  repeated int64 comment = 13; int64 default_sample_type = 14; }
message ValueType { int64 type = 1; int64 unit = 2; }
message Sample { repeated uint64 location_id = 1; repeated int64 value = 2; repeated Label label = 3; }
message Label { int64 key = 1; int64 str = 2; int64 num = 3; int64 num_unit = 4; }
message Mapping { uint64 id = 1; uint64 memory_start = 2; uint64 memory_limit = 3; uint64 file_offset = 4; int64 filename = 5;
  int64 build_id = 6; bool has_functions = 7; bool has_filenames = 8; bool has_line_numbers = 9; bool has_inline_frames = 10; }
message Location { uint64 id = 1; uint64 mapping_id = 2; uint64 address = 3; repeated Line line = 4; bool is_folded = 5; }
message Line { uint64 function_id = 1; int64 line = 2; int64 column = 3; }
message Function { uint64 id = 1; int64 name = 2; int64 system_name = 3; int64 filename = 4; int64 start_line = 5; }
"""

# speedscope's documented format (file-format-spec.ts), sampled profiles. Additional fields are allowed: speedscope ignores unknown fields.
SPEEDSCOPE_SCHEMA = {
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "name": {"type": "string"},
        "exporter": {"type": "string"},
        "activeProfileIndex": {"type": "number"},
        "shared": {
            "type": "object",
            "required": ["frames"],
            "properties": {"frames": {"type": "array", "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "file": {"type": "string"}, "line": {"type": "number"},
                               "col": {"type": "number"}}}}},
        },
        "profiles": {"type": "array", "items": {
            "type": "object",
            "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
            "properties": {
                "type": {"const": "sampled"},
                "name": {"type": "string"},
                "unit": {"enum": ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]},
                "startValue": {"type": "number"},
                "endValue": {"type": "number"},
                "samples": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
                "weights": {"type": "array", "items": {"type": "number"}},
            }}},
    },
}


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The directory with typical.pb.gz, typical.folded, metrics.om, ..."""
    program = BUILD / "tests/unit/export/make-profiles"
    if not program.exists():
        pytest.fail(f"{program} has not been built")
    folder = tmp_path_factory.mktemp("formats")
    subprocess.run([str(program), str(folder)], check=True, timeout=60)
    return folder


@pytest.mark.peer
@pytest.mark.parametrize("name", PROFILES)
def test_go_tool_pprof_reads_every_profile(generated, name):
    raw = go_pprof("-raw", generated / f"{name}.pb.gz")
    assert "samples/count cpu/nanoseconds[dflt]" in raw
    values = [(int(a), int(b)) for a, b in re.findall(r"^ +(\d+) +(\d+):(?: |$)", raw, re.M)]
    assert (sum(a for a, _ in values), sum(b for _, b in values)) == PROFILES[name]


@pytest.mark.peer
def test_go_tool_pprof_names_frames_mappings_and_labels(generated):
    raw = go_pprof("-raw", generated / "typical.pb.gz")
    assert "Period: 10000000\n" in raw and "Duration: 1m0s" in raw and "Time: 2026-08-01 12:00:00" in raw
    for line in [
        r"0x2000 M=\d std::vector<int>::push_back\(int&&\) ",
        r"0x2010 M=\d std::vector<int>::push_back\(int&&\) ",
        r"0x1180 M=\d main server\.c:42",
        r"0xffffffff81234567 M=\d vfs_read ",
        r"0x4711 M=\d libcuda\.so\.1\+0x4711 ",
        r"0x0 \[truncated: no unwind table\] ",
        r"0x0/0x3000/0x0 /usr/bin/server 0123456789abcdef0123456789abcdef01234567 \[FN\]\[FL\]\[LN\]",
        r"0xffffffff81234000/0xffffffff81235000/0x0 \[kernel\.kallsyms\]  \[FN\]",
        r"process:\[server\].*service\.name:\[shop\].*thread:\[worker; \"1\"\]",
        r"container\.id:\[0123456789abcdef.* process:\[python3\]",
        r"pid:\[4711\] port:\[80\] tid:\[4712\]",
        r"a \"key\":\[\\text\] linux\.cgroup\.path",
    ]:
        assert re.search(line, raw), f"{line}\n{raw}"


@pytest.mark.peer
def test_go_tool_pprof_sums_match(generated):
    top = go_pprof("-top", "-unit=ms", generated / "typical.pb.gz")
    assert "Type: cpu" in top and "File: server" in top
    assert re.search(r"^ +50ms 50\.00% .* std::vector<int>::push_back\(int&&\)$", top, re.M), top
    assert re.search(r" 60ms 60\.00%  main$", top, re.M), top
    of_one = go_pprof("-top", "-unit=ms", "-tagfocus=process=python3", generated / "typical.pb.gz")
    assert "main" not in of_one and "libcuda.so.1+0x4711" in of_one
    traces = go_pprof("-traces", generated / "deep.pb.gz")
    assert len(re.findall(r"^ +(?:10ms +)?f\d+$", traces, re.M)) == 1000


@pytest.mark.peer
def test_go_tool_pprof_prints_dropped_samples(generated):
    assert "Comment: 3 samples were dropped" in go_pprof("-raw", generated / "dropped.pb.gz")


@pytest.mark.parametrize("name", PROFILES)
def test_protoc_decodes_every_field(generated, name, tmp_path):
    protoc = need_command("protoc")
    (tmp_path / "profile.proto").write_text(PROFILE_PROTO)
    done = subprocess.run([protoc, f"--proto_path={tmp_path}", "--decode=Profile", "profile.proto"],
                          input=gzip.decompress((generated / f"{name}.pb.gz").read_bytes()), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert not re.search(r"^ *\d+: ", text, re.M), "a field that profile.proto does not have"  # protoc prints unknown fields by number
    samples = re.findall(r"^sample \{\n(.*?)^\}", text, re.M | re.S)
    values = [list(map(int, re.findall(r"^  value: (\d+)$", sample, re.M))) for sample in samples]
    assert (sum(v[0] for v in values), sum(v[1] for v in values)) == PROFILES[name]


@pytest.mark.parametrize("name", PROFILES)
def test_json_matches_speedscopes_schema(generated, name):
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")
    data = json.loads((generated / f"{name}.json").read_text())
    jsonschema.validate(data, SPEEDSCOPE_SCHEMA)
    frames, count, weight_ns = data["shared"]["frames"], 0, 0
    for profile in data["profiles"]:
        ours = profile["sonde"]
        assert len(profile["samples"]) == len(profile["weights"]) == len(ours["counts"]) == len(ours["sample_threads"])
        assert sum(profile["weights"]) == profile["endValue"]
        assert all(number < len(frames) for sample in profile["samples"] for number in sample)
        assert all(number < len(ours["threads"]) for number in ours["sample_threads"])
        rows = [(tuple(sample), thread) for sample, thread in zip(profile["samples"], ours["sample_threads"])]
        assert len(set(rows)) == len(rows)
        count, weight_ns = count + sum(ours["counts"]), weight_ns + sum(profile["weights"])
    assert (count, weight_ns) == PROFILES[name] == (data["sonde"]["samples"], data["sonde"]["weight_ns"])
    keys = [(f["name"], f.get("file"), f["kind"], f["mapping"]) for f in frames]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", PROFILES)
def test_folded_lines_are_valid_for_flamegraph_pl(generated, name):
    lines = (generated / f"{name}.folded").read_text().splitlines()
    counts = [int(re.fullmatch(r"(\S.*) (\d+)", line)[2]) for line in lines]
    assert sum(counts) == PROFILES[name][0]
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines)
    if name == "deep":
        assert lines[0].split(" ")[0].split(";") == ["deep", *(f"f{i}" for i in reversed(range(1000)))]


@pytest.mark.parametrize("name", PROFILES)
def test_pprof_sums_match_the_profile(generated, name):
    samples, _ = pprof.read(generated / f"{name}.pb.gz")
    assert (sum(s.count for s in samples), sum(s.ns for s in samples)) == PROFILES[name]


def test_all_formats_agree(generated):
    """The same stacks with the same counts in the pprof, folded and JSON formats."""
    folded = {}
    for line in (generated / "typical.folded").read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        folded[stack.replace("_[k]", "")] = int(count)
    from_pprof, from_json = {}, {}
    for sample in pprof.read(generated / "typical.pb.gz")[0]:
        stack = ";".join([sample.labels["process"], *sample.frames])
        from_pprof[stack] = from_pprof.get(stack, 0) + sample.count
    data = json.loads((generated / "typical.json").read_text())
    for profile in data["profiles"]:
        for sample, count in zip(profile["samples"], profile["sonde"]["counts"]):
            stack = ";".join([profile["sonde"]["resource"]["process.command"], *(data["shared"]["frames"][i]["name"] for i in sample)])
            from_json[stack] = from_json.get(stack, 0) + count
    assert folded == from_pprof == from_json


@pytest.mark.peer
def test_promtool_accepts_the_metrics(generated):
    promtool = need_command("promtool")
    done = subprocess.run([promtool, "check", "metrics"], input=(generated / "metrics.txt").read_bytes(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()


@pytest.mark.peer
@pytest.mark.parametrize("path, parser", [("metrics.om", "prometheus_client.openmetrics.parser"), ("metrics.txt", "prometheus_client.parser")])
def test_prometheus_parsers_read_the_metrics(generated, path, parser):
    module = pytest.importorskip(parser, reason="python3-prometheus-client is not installed")
    families = {f.name: f for f in module.text_string_to_metric_families((generated / path).read_bytes().decode())}
    losses = families["sonde_self_losses"]
    assert losses.type == "counter" and losses.documentation == 'Lost records,\nby "reason" \\ why.'
    assert [(s.name, s.labels, s.value) for s in losses.samples] == [
        ("sonde_self_losses_total", {"reason": "ring_full"}, 1.0),
        ("sonde_self_losses_total", {"reason": 'hostile "\\\n\ufffd\ufffd <&'}, 2.0)]
    assert families["sonde_self_memory_bytes"].samples[0].value == 0.1 + 0.2
    assert families["sonde_self_samples"].samples[0].value == 12345678901
    histogram = families["sonde_request_duration_seconds"]
    assert [s.value for s in histogram.samples if s.name.endswith("_bucket")] == [1, 3, 3, 6, 10]
    assert [s.value for s in histogram.samples if s.name.endswith(("_sum", "_count"))] == [61.25, 10]
    if path.endswith(".om"):
        assert histogram.unit == "seconds" and families["sonde_build"].type == "info"


def test_every_exporter_is_documented():
    """Each format has its name in docs/page.md or docs/formats.md, and each suffix in sonde-record(1)."""
    sources = "".join(path.read_text() for path in (TOP / "src/export").glob("*.c"))
    exporters = re.findall(r'\.name = "(\w+)",\s*\.suffix = "([^"]+)"', sources)
    assert len(exporters) >= 4
    words, manual = (TOP / "docs/formats.md").read_text() + (TOP / "docs/page.md").read_text(), (TOP / "docs/man/sonde-record.1").read_text().replace("\\-", "-")
    for name, suffix in exporters:
        assert name in words.lower() and suffix in manual, name
