"""Reads a ProcessContext message from standard input and prints it as JSON. opentelemetry-proto (PyPI) has no process_context.proto yet, so the
message is composed of the official messages that it has."""
import json
import sys

import opentelemetry.proto.resource.v1.resource_pb2  # noqa: F401 (registers the messages)
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

official = "opentelemetry/proto/common/v1/common.proto", "opentelemetry/proto/resource/v1/resource.proto"
file = descriptor_pb2.FileDescriptorProto(name="process_context.proto", package="p", syntax="proto3", dependency=official)
message = file.message_type.add(name="ProcessContext")
message.field.add(name="resource", number=1, type=11, label=1, type_name=".opentelemetry.proto.resource.v1.Resource")
message.field.add(name="attributes", number=2, type=11, label=3, type_name=".opentelemetry.proto.common.v1.KeyValue")
descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
context = message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName("p.ProcessContext"))
print(json.dumps(json_format.MessageToDict(context.FromString(sys.stdin.buffer.read()))))
