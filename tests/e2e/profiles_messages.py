"""Decodes OTLP profiles into objects with the attributes of OpenTelemetry's own messages, by a table of fields (opentelemetry-proto 1.10,
v1development), so that packets are checked without packages from PyPI. A field missing from the table is an error."""
import struct

import pprof

# {message: {field number: (name, kind)}}. A kind in brackets is repeated; a field of kind "oneof ..." belongs to the oneof `value`.
FIELDS = {
    "Request": {1: ("resource_profiles", ["ResourceProfiles"]), 2: ("dictionary", "Dictionary")},
    "ResourceProfiles": {1: ("resource", "Resource"), 2: ("scope_profiles", ["ScopeProfiles"]), 3: ("schema_url", "string")},
    "Resource": {1: ("attributes", ["KeyValue"]), 2: ("dropped_attributes_count", "number")},
    "KeyValue": {1: ("key", "string"), 2: ("value", "AnyValue")},
    "AnyValue": {1: ("string_value", "oneof string"), 2: ("bool_value", "oneof bool"), 3: ("int_value", "oneof int64"), 4: ("double_value", "oneof double"),
                 5: ("array_value", "oneof ArrayValue")},
    "ArrayValue": {1: ("values", ["AnyValue"])},
    "ScopeProfiles": {1: ("scope", "Scope"), 2: ("profiles", ["Profile"]), 3: ("schema_url", "string")},
    "Scope": {1: ("name", "string"), 2: ("version", "string")},
    "Profile": {1: ("sample_type", "ValueType"), 2: ("samples", ["Sample"]), 3: ("time_unix_nano", "fixed64"), 4: ("duration_nano", "number"), 5: ("period_type", "ValueType"),
                6: ("period", "int64"), 7: ("profile_id", "bytes"), 8: ("dropped_attributes_count", "number"), 9: ("original_payload_format", "string"),
                10: ("original_payload", "bytes"), 11: ("attribute_indices", ["int64"])},
    "ValueType": {1: ("type_strindex", "int64"), 2: ("unit_strindex", "int64")},
    "Sample": {1: ("stack_index", "int64"), 2: ("attribute_indices", ["int64"]), 3: ("link_index", "int64"), 4: ("values", ["int64"]), 5: ("timestamps_unix_nano", ["fixed64"])},
    "Dictionary": {1: ("mapping_table", ["Mapping"]), 2: ("location_table", ["Location"]), 3: ("function_table", ["Function"]), 4: ("link_table", ["Link"]),
                   5: ("string_table", ["string"]), 6: ("attribute_table", ["KeyValueAndUnit"]), 7: ("stack_table", ["Stack"])},
    "Mapping": {1: ("memory_start", "number"), 2: ("memory_limit", "number"), 3: ("file_offset", "number"), 4: ("filename_strindex", "int64"),
                5: ("attribute_indices", ["int64"])},
    "Location": {1: ("mapping_index", "int64"), 2: ("address", "number"), 3: ("lines", ["Line"]), 4: ("attribute_indices", ["int64"])},
    "Line": {1: ("function_index", "int64"), 2: ("line", "int64"), 3: ("column", "int64")},
    "Function": {1: ("name_strindex", "int64"), 2: ("system_name_strindex", "int64"), 3: ("filename_strindex", "int64"), 4: ("start_line", "int64")},
    "Link": {1: ("trace_id", "bytes"), 2: ("span_id", "bytes")},
    "KeyValueAndUnit": {1: ("key_strindex", "int64"), 2: ("value", "AnyValue"), 3: ("unit_strindex", "int64")},
    "Stack": {1: ("location_indices", ["int64"])},
}
SCALARS = {"string": bytes.decode, "bytes": bytes, "number": int, "bool": bool, "int64": lambda value: value - (value >> 63 << 64),
           "fixed64": lambda field: int.from_bytes(field, "little"), "double": lambda field: struct.unpack("<d", field)[0]}
DEFAULTS = {"string": "", "bytes": b"", "number": 0, "bool": False, "int64": 0, "fixed64": 0, "double": 0.0}


class Message:
    def __init__(self, kind, body):
        self.body, self.present = bytes(body), set()
        for name, kind_of_field in FIELDS[kind].values():
            if isinstance(kind_of_field, list):
                setattr(self, name, [])
            elif kind_of_field in DEFAULTS:
                setattr(self, name, DEFAULTS[kind_of_field])
            elif kind_of_field in FIELDS:
                setattr(self, name, Message(kind_of_field, b"") if kind_of_field != "AnyValue" else None)
        for number, field in pprof._fields(self.body):
            assert number in FIELDS[kind], f"field {number} of {kind}, which the messages do not have"
            name, kind_of_field = FIELDS[kind][number]
            if isinstance(kind_of_field, list):
                getattr(self, name).extend(self.elements(kind_of_field[0], field))
            elif kind_of_field in FIELDS and name in self.present:  # protobuf merges repeated occurrences of a message field
                setattr(self, name, Message(kind_of_field, getattr(self, name).body + field))
            else:
                setattr(self, name, self.value_of(kind_of_field.removeprefix("oneof "), field))
            self.present.add(name)

    @staticmethod
    def value_of(kind, field):
        return Message(kind, field) if kind in FIELDS else SCALARS[kind](field)

    @classmethod
    def elements(cls, kind, field):
        """A single element, or all elements of a packed field."""
        if kind == "int64":
            return map(SCALARS[kind], pprof._numbers([field]))
        if kind == "fixed64":
            return [SCALARS[kind](field[at:at + 8]) for at in range(0, len(field), 8)]
        return [cls.value_of(kind, field)]

    def HasField(self, name):
        return name in self.present

    def WhichOneof(self, _):
        field, = self.present
        return field

    def SerializeToString(self, **_):
        return self.body


def request(body):
    """The ExportProfilesServiceRequest of a packet."""
    return Message("Request", body)
