"""A gRPC server with OpenTelemetry's own services, for tests (grpc_receiver.py): `grpc_server.py FOLDER OPTIONS`, the options as JSON. Writes each
call, with its metadata, to a file in FOLDER; prints its port when it listens."""
import concurrent.futures
import json
import sys
import threading
import time
from pathlib import Path

import grpc
from google.protobuf import any_pb2, duration_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics, metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as profiles, profiles_service_pb2_grpc as profiles_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace, trace_service_pb2_grpc as trace_grpc


def details(code, retry_ms):
    """A google.rpc.Status with RetryInfo."""
    delay = duration_pb2.Duration(seconds=retry_ms // 1000, nanos=retry_ms % 1000 * 1000000).SerializeToString()
    info = any_pb2.Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\x0a" + bytes([len(delay)]) + delay).SerializeToString()
    return b"\x08" + bytes([code]) + b"\x1a" + bytes([len(info)]) + info


class Receiver:
    """`answers`: one per call, in order; the last one repeats. {} accepts; "code" (with "words", "retry_ms") fails, "rejected" is a partial success,
    "trailer" adds a trailer of that many bytes, "after_s" delays the answer."""

    def __init__(self, folder, options):
        self.folder, self.answers, self.lock, self.count = Path(folder), options["answers"], threading.Lock(), 0

    def take(self, signal, request, context):
        at = time.monotonic()
        with self.lock:
            number, self.count = self.count, self.count + 1
            answer = self.answers[min(number, len(self.answers) - 1)]
        call = {"signal": signal, "metadata": {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}, "answer": answer,
                "remaining_s": context.time_remaining(), "at": at}
        (self.folder / f"{number}.otlp").write_bytes(request.SerializeToString(deterministic=True))
        (self.folder / f"{number}.new").write_text(json.dumps(call))
        (self.folder / f"{number}.new").rename(self.folder / f"{number}.json")
        if "after_s" in answer:
            time.sleep(answer["after_s"])
        if "trailer" in answer:
            context.set_trailing_metadata((("x-large", "x" * answer["trailer"]),))
        if "retry_ms" in answer:
            context.set_trailing_metadata((("grpc-status-details-bin", details(grpc.StatusCode[answer["code"]].value[0], answer["retry_ms"])),))
        if "code" in answer:
            context.abort(grpc.StatusCode[answer["code"]], answer.get("words", ""))
        return answer


def serve(folder, options):
    receiver = Receiver(folder, options)

    class Profiles(profiles_grpc.ProfilesServiceServicer):
        def Export(self, request, context):
            answer, response = receiver.take("profiles", request, context), profiles.ExportProfilesServiceResponse()
            if "rejected" in answer:
                response.partial_success.rejected_profiles = answer["rejected"]
                response.partial_success.error_message = answer.get("words", "")
            return response

    class Traces(trace_grpc.TraceServiceServicer):
        def Export(self, request, context):
            answer, response = receiver.take("traces", request, context), trace.ExportTraceServiceResponse()
            if "rejected" in answer:
                response.partial_success.rejected_spans = answer["rejected"]
                response.partial_success.error_message = answer.get("words", "")
            return response

    class Metrics(metrics_grpc.MetricsServiceServicer):
        def Export(self, request, context):
            receiver.take("metrics", request, context)
            return metrics.ExportMetricsServiceResponse()

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)],
                         compression=grpc.Compression.Gzip if options["gzip"] else None)
    if "profiles" not in options["without"]:
        profiles_grpc.add_ProfilesServiceServicer_to_server(Profiles(), server)
    trace_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    metrics_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
    where = f"127.0.0.1:{options['port']}"
    if options["tls"]:
        key, certificate, client = (Path(path).read_bytes() for path in options["tls"])
        port = server.add_secure_port(where, grpc.ssl_server_credentials([(key, certificate)], client, True))
    else:
        port = server.add_insecure_port(where)
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    serve(sys.argv[1], json.loads(sys.argv[2]))
