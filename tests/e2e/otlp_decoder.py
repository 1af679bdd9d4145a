"""Decodes OTLP's protobuf messages into the objects of its JSON encoding, by a table of fields (opentelemetry-proto 1.x). A field missing from the
table is an error: Sonde sends no such field."""
import struct

import pprof

# {message: {field number: (name, kind)}}. A kind in brackets is repeated; one with "?" has explicit presence.
FIELDS = {
    "trace": {1: ("resourceSpans", ["ResourceSpans"])},
    "ResourceSpans": {1: ("resource", "Resource"), 2: ("scopeSpans", ["ScopeSpans"]), 3: ("schemaUrl", "string")},
    "Resource": {1: ("attributes", ["KeyValue"]), 2: ("droppedAttributesCount", "number")},
    "KeyValue": {1: ("key", "string"), 2: ("value", "AnyValue")},
    "AnyValue": {1: ("stringValue", "string?"), 2: ("boolValue", "bool?"), 3: ("intValue", "int64?"), 4: ("doubleValue", "double?"), 5: ("arrayValue", "ArrayValue")},
    "ArrayValue": {1: ("values", ["AnyValue"])},
    "ScopeSpans": {1: ("scope", "Scope"), 2: ("spans", ["Span"]), 3: ("schemaUrl", "string")},
    "Scope": {1: ("name", "string"), 2: ("version", "string")},
    "Span": {1: ("traceId", "hex"), 2: ("spanId", "hex"), 3: ("traceState", "string"), 4: ("parentSpanId", "hex"), 5: ("name", "string"), 6: ("kind", "number"),
             7: ("startTimeUnixNano", "fixed64"), 8: ("endTimeUnixNano", "fixed64"), 9: ("attributes", ["KeyValue"]), 10: ("droppedAttributesCount", "number"),
             11: ("events", ["Event"]), 12: ("droppedEventsCount", "number"), 13: ("links", ["Link"]), 15: ("status", "Status"),
             16: ("flags", "fixed32")},
    "Link": {1: ("traceId", "hex"), 2: ("spanId", "hex")},
    "Event": {1: ("timeUnixNano", "fixed64"), 2: ("name", "string"), 3: ("attributes", ["KeyValue"]), 4: ("droppedAttributesCount", "number")},
    "Status": {2: ("message", "string"), 3: ("code", "number")},
    "metrics": {1: ("resourceMetrics", ["ResourceMetrics"])},
    "ResourceMetrics": {1: ("resource", "Resource"), 2: ("scopeMetrics", ["ScopeMetrics"]), 3: ("schemaUrl", "string")},
    "ScopeMetrics": {1: ("scope", "Scope"), 2: ("metrics", ["Metric"]), 3: ("schemaUrl", "string")},
    "Metric": {1: ("name", "string"), 2: ("description", "string"), 3: ("unit", "string"), 5: ("gauge", "Gauge"), 7: ("sum", "Sum"),
               9: ("histogram", "Histogram")},
    "Gauge": {1: ("dataPoints", ["NumberDataPoint"])},
    "Sum": {1: ("dataPoints", ["NumberDataPoint"]), 2: ("aggregationTemporality", "number"), 3: ("isMonotonic", "bool")},
    "NumberDataPoint": {2: ("startTimeUnixNano", "fixed64"), 3: ("timeUnixNano", "fixed64"), 4: ("asDouble", "double?"), 6: ("asInt", "sfixed64?"),
                        7: ("attributes", ["KeyValue"])},
    "Histogram": {1: ("dataPoints", ["HistogramDataPoint"]), 2: ("aggregationTemporality", "number")},
    "HistogramDataPoint": {2: ("startTimeUnixNano", "fixed64"), 3: ("timeUnixNano", "fixed64"), 4: ("count", "fixed64"), 5: ("sum", "double?"),
                           6: ("bucketCounts", ["fixed64"]), 7: ("explicitBounds", ["double"]), 8: ("exemplars", ["Exemplar"]), 9: ("attributes", ["KeyValue"]), 10: ("flags", "number"),
                           11: ("min", "double?"), 12: ("max", "double?")},
    "Exemplar": {2: ("timeUnixNano", "fixed64"), 3: ("asDouble", "double?"), 4: ("spanId", "hex"), 5: ("traceId", "hex")},
    "logs": {1: ("resourceLogs", ["ResourceLogs"])},
    "ResourceLogs": {1: ("resource", "Resource"), 2: ("scopeLogs", ["ScopeLogs"]), 3: ("schemaUrl", "string")},
    "ScopeLogs": {1: ("scope", "Scope"), 2: ("logRecords", ["LogRecord"]), 3: ("schemaUrl", "string")},
    "LogRecord": {1: ("timeUnixNano", "fixed64"), 2: ("severityNumber", "number"), 3: ("severityText", "string"), 5: ("body", "AnyValue"),
                  6: ("attributes", ["KeyValue"]), 11: ("observedTimeUnixNano", "fixed64"), 12: ("eventName", "string")},
    "ProcessContext": {1: ("resource", "Resource"), 2: ("attributes", ["KeyValue"])},
}
PACKED = {"fixed64": 8, "double": 8}
SCALARS = {
    "string": bytes.decode, "hex": bytes.hex, "number": int, "bool": bool,
    "int64": lambda value: str(value - (value >> 63 << 64)),  # the JSON encoding writes numbers of 64 bits as strings
    "fixed32": lambda field: int.from_bytes(field, "little"), "fixed64": lambda field: str(int.from_bytes(field, "little")),
    "sfixed64": lambda field: str(int.from_bytes(field, "little", signed=True)),
    "double": lambda field: struct.unpack("<d", field)[0],
}


def value_of(field, kind):
    return decode(field, kind) if kind in FIELDS else SCALARS[kind](field)


def decode(body, kind="trace"):
    """The object of a message: a "trace", "metrics" or "logs" packet, or any other message of the table."""
    found = {}
    for number, fields in pprof._message(body).items():
        name, kind_of_field = FIELDS[kind][number]
        if isinstance(kind_of_field, list):
            inner, = kind_of_field
            size = PACKED.get(inner)
            fields = [part for field in fields for part in ([field[at:at + size] for at in range(0, len(field), size)] if size else [field])]
            found[name] = [value_of(field, inner) for field in fields]
            continue
        field, = fields
        value = value_of(field, kind_of_field.rstrip("?"))
        if kind_of_field.endswith("?") or kind_of_field in FIELDS or value not in (0, False, "", "0"):
            found[name] = value
    return found
