"""Prints the JSON encoding of an OTLP packet on standard input, by opentelemetry-proto's messages: `official_json.py trace` or `metrics`."""
import base64
import json
import sys

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def hexadecimal(value, key=""):
    """Converts ids to hexadecimal, as OTLP's JSON encoding requires."""
    if isinstance(value, dict):
        return {key: hexadecimal(of, key) for key, of in value.items()}
    if isinstance(value, list):
        return [hexadecimal(of) for of in value]
    return base64.b64decode(value).hex() if key in ("traceId", "spanId", "parentSpanId") else value


kind = {"trace": ExportTraceServiceRequest, "metrics": ExportMetricsServiceRequest}[sys.argv[1]]
print(json.dumps(hexadecimal(MessageToDict(kind.FromString(sys.stdin.buffer.read()), use_integers_for_enums=True))))
