"""The rules that every OTLP profiles packet must keep on its own, independent of earlier packets. Packets are decoded by profiles_messages.py. As a
program (`python profcheck.py FILE...` in an environment with opentelemetry-proto) it uses OpenTelemetry's own messages and prints one line of JSON
per packet. Raises SystemExit with the reason for a packet that breaks a rule."""
import gzip
import json
import sys

TABLES = ("mapping", "location", "function", "link", "string", "attribute", "stack")


def check(condition, what):
    if not condition:
        raise SystemExit(f"profcheck: {what}")


class Packet:
    def __init__(self, request):
        self.request = request
        self.dictionary = self.request.dictionary
        self.rows = {name: getattr(self.dictionary, f"{name}_table") for name in TABLES}
        self.used = {name: {0} for name in TABLES}
        check(self.request.resource_profiles, "no resource profiles")
        self.check_tables()

    def check_tables(self):
        for name, rows in self.rows.items():
            check(rows, f"{name}_table is empty")
            encoded = [row.encode() if name == "string" else row.SerializeToString(deterministic=True) for row in rows]
            check(len(set(encoded)) == len(encoded), f"{name}_table has a row twice")
            check(encoded[0] == b"" or name == "link", f"{name}_table[0] is not the zero value")
        for number, link in enumerate(self.rows["link"]):
            check((len(link.trace_id), len(link.span_id)) == (16, 8), "identifiers of a link have not 16 and 8 bytes")
            check(any(link.trace_id + link.span_id) == (number > 0), "a link of zeros that is not the first, or a first one that is something")

    def row(self, table, index):
        check(0 <= index < len(self.rows[table]), f"{table} {index} of {len(self.rows[table])}")
        self.used[table].add(index)
        return self.rows[table][index]

    def text(self, index):
        return self.row("string", index)

    def attributes(self, indices):
        found = {}
        for index in indices:
            row = self.row("attribute", index)
            key = self.text(row.key_strindex)
            self.text(row.unit_strindex)
            check(index > 0 and key and key not in found and row.HasField("value"), f"attribute '{key}' twice, or without key or value")
            found[key] = getattr(row.value, row.value.WhichOneof("value"))
        return found

    def frame(self, index):
        location = self.row("location", index)
        check(index > 0, "a stack refers to location 0")
        mapping = self.row("mapping", location.mapping_index)
        check(mapping.memory_start < mapping.memory_limit or mapping.memory_start == mapping.memory_limit == 0, "a mapping without extent")
        attributes = self.attributes(mapping.attribute_indices)
        file, kind = self.text(mapping.filename_strindex), self.attributes(location.attribute_indices)["profile.frame.type"]
        names = []
        for line in location.lines:
            function = self.row("function", line.function_index)
            check(line.function_index > 0 and line.line >= 0 and line.column >= 0 and function.start_line >= 0, "a line of no function")
            names.append(self.text(function.name_strindex))
            self.text(function.system_name_strindex), self.text(function.filename_strindex)
        check(len(names) <= 1, "more than one line")
        return {"name": names[0] if names else "", "mapping": file, "address": location.address, "type": kind,
                "build_id": attributes.get("process.executable.build_id.gnu", "")}

    def stack(self, index):
        row = self.row("stack", index)
        check(index > 0 and row.location_indices, "a sample without a stack")
        return [self.frame(location) for location in row.location_indices]

    def sample(self, sample, start, end, shape):
        values, times = list(sample.values), list(sample.timestamps_unix_nano)
        check(values and (len(times) == len(values) or (not times and len(values) == 1)), "values and timestamps do not fit")
        check(all(start <= time < end for time in times), f"a timestamp outside of [{start}, {end})")
        check(shape[0] in (None, bool(times)), "samples of different shapes in a profile")
        shape[0] = bool(times)
        link = self.row("link", sample.link_index)
        return {"frames": self.stack(sample.stack_index), "attributes": self.attributes(sample.attribute_indices), "values": values, "times": times,
                "trace_id": link.trace_id.hex() if sample.link_index else "", "span_id": link.span_id.hex() if sample.link_index else ""}

    def profile(self, profile):
        start, shape, seen = profile.time_unix_nano, [None], set()
        types = [(self.text(t.type_strindex), self.text(t.unit_strindex)) for t in (profile.sample_type, profile.period_type)]
        waits = types == [("off_cpu", "nanoseconds"), ("", "")] and not profile.period
        check(waits or types == [("cpu", "nanoseconds")] * 2, f"types {types}")
        check(len(profile.profile_id) == 16 and any(profile.profile_id), "no profile_id")
        check(not profile.original_payload and not profile.original_payload_format and not profile.dropped_attributes_count, "an original payload")
        self.attributes(profile.attribute_indices)
        for sample in profile.samples:
            identity = (sample.stack_index, frozenset(sample.attribute_indices), sample.link_index)
            check(identity not in seen, "two samples of the same identity")
            seen.add(identity)
        return {"start": start, "duration": profile.duration_nano, "period": profile.period, "type": types[0][0], "id": profile.profile_id.hex(),
                "samples": [self.sample(s, start, start + profile.duration_nano, shape) for s in profile.samples]}

    def read(self):
        profiles = []
        for resource in self.request.resource_profiles:
            pairs = [(pair.key, getattr(pair.value, pair.value.WhichOneof("value"))) for pair in resource.resource.attributes]
            check(len(dict(pairs)) == len(pairs) and "process.pid" in dict(pairs), "an attribute of a resource twice, or no process.pid")
            check(resource.scope_profiles, "no scope profiles")
            for scope in resource.scope_profiles:
                check(scope.scope.name == "sonde" and scope.scope.version and scope.profiles, "no scope, or no profiles in it")
                profiles += [{"resource": dict(pairs), **self.profile(profile)} for profile in scope.profiles]
        for name in TABLES:
            orphans = set(range(len(self.rows[name]))) - self.used[name]
            check(not orphans, f"{name}_table has rows that nothing refers to: {sorted(orphans)[:5]}")
        return profiles


def body_of(path):
    """The body of a packet file, decompressed if needed."""
    with open(path, "rb") as file:
        body = file.read()
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body


def main(paths):
    from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest
    for path in paths:
        request, known = ExportProfilesServiceRequest.FromString(body_of(path)), ExportProfilesServiceRequest()
        known.CopyFrom(request)
        known.DiscardUnknownFields()
        check(known.ByteSize() == request.ByteSize(), "fields that the messages do not have")
        print(json.dumps(Packet(request).read()))


if __name__ == "__main__":
    main(sys.argv[1:])
