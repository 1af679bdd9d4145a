"""A container runtime's CRI server on grpcio, for tests with the marker `peer` (cri_runtime.py): `cri_server.py SOCKET STATE`. Serves
ListPodSandbox and ListContainers from the JSON file STATE, read anew for each call. Google's protobuf encodes the messages. Prints each call."""
import concurrent.futures
import json
import sys
import threading
from pathlib import Path

import grpc
from cri_messages import MESSAGE, MESSAGES, TEXT
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

def classes():
    file = descriptor_pb2.FileDescriptorProto(name="cri.proto", package="runtime.v1", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            one = message.field.add(name=field, number=number, label=3 if str(kind).endswith("*") or kind == "map" else 1, type=MESSAGE if isinstance(kind, str) else kind)
            if kind == "map":
                entry = message.nested_type.add(name="".join(part.title() for part in field.split("_")) + "Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=1, type=TEXT)
                entry.field.add(name="value", number=2, label=1, type=TEXT)
                one.type_name = f".runtime.v1.{name}.{entry.name}"
            elif isinstance(kind, str):
                one.type_name = ".runtime.v1." + kind.rstrip("*")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"runtime.v1.{name}")) for name in MESSAGES}


def main(socket, state):
    made = classes()

    def answer(method):
        def call(request, context):
            assert request == b"", request
            print(method, flush=True)
            said = json.loads(Path(state).read_text())
            if "code" in said:
                context.abort(grpc.StatusCode[said["code"]], said["words"])
            return json_format.ParseDict({key: value for key, value in said.items() if key in [f.name for f in made[method + "Response"].DESCRIPTOR.fields]},
                                         made[method + "Response"]()).SerializeToString()
        return grpc.unary_unary_rpc_method_handler(call)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", {m: answer(m) for m in ("ListPodSandbox", "ListContainers")}),))
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:3])
