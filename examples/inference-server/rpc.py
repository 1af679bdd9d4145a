"""The Open Inference Protocol over gRPC."""
import functools

import grpc
import open_inference_pb2 as messages
import open_inference_pb2_grpc as services
from sonde import trace

from core import NAME, VERSION
from refused import Refused
from tensors import CONTENTS, NAMES, array_of

MESSAGE_BYTES_MAX = 16 << 20
CODES = {code.value[0]: code for code in grpc.StatusCode}


def answering(method):
    """Converts Refused into a gRPC status."""
    @functools.wraps(method)
    async def wrapper(self, request, context):
        try:
            return await method(self, request, context)
        except Refused as error:
            await context.abort(grpc.StatusCode[error.code], str(error))
    return wrapper


def inputs_of(request):
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise Refused.invalid(f"{len(request.inputs)} inputs, but {len(raw)} raw contents")
    inputs = {}
    for i, tensor in enumerate(request.inputs):
        data = raw[i] if raw else list(getattr(tensor.contents, CONTENTS.get(tensor.datatype, "bytes_contents")))
        inputs[tensor.name] = array_of(tensor.name, tensor.datatype, list(tensor.shape), data)
    return inputs


class Servicer(services.GRPCInferenceServiceServicer):
    def __init__(self, server):
        self.server = server

    async def ServerLive(self, request, context):
        return messages.ServerLiveResponse(live=True)

    async def ServerReady(self, request, context):
        return messages.ServerReadyResponse(ready=self.server.ready)

    async def ModelReady(self, request, context):
        return messages.ModelReadyResponse(ready=self.server.ready and request.name in self.server.models)

    async def ServerMetadata(self, request, context):
        return messages.ServerMetadataResponse(name=NAME, version=VERSION, extensions=["trace"])

    @answering
    async def ModelMetadata(self, request, context):
        said = self.server.find(request.name, request.version).said
        return messages.ModelMetadataResponse(**{key: said[key] for key in ("name", "versions", "platform", "inputs", "outputs")})

    @answering
    async def ModelInfer(self, request, context):
        model = self.server.find(request.model_name, request.model_version)
        headers = dict(context.invocation_metadata())
        t = model.trace.start(request.id, headers.get("traceparent"), headers.get("tracestate"))
        with t:  # ends the trace: with an error after an exception, as cancelled after asyncio.CancelledError
            t.timestamp("GRPC_WAITREAD_START")
            inputs = inputs_of(request)
            t.timestamp("GRPC_WAITREAD_END")
            t.timestamp("REQUEST_START")
            outputs = await trace.working(t, self.server.infer(model, inputs, request.id, t))
            t.timestamp("REQUEST_END")
            t.timestamp("GRPC_SEND_START")
            answer = messages.ModelInferResponse(model_name=model.name, model_version=VERSION, id=request.id)
            for name in [output.name for output in request.outputs] or outputs:
                if name not in outputs:
                    raise Refused.invalid(f"unexpected output '{name}' for model '{model.name}'")
                array = outputs[name]
                answer.outputs.add(name=name, datatype=NAMES[array.dtype], shape=array.shape)
                answer.raw_output_contents.append(array.tobytes())
            t.timestamp("GRPC_SEND_END")
        return answer

    async def TraceSetting(self, request, context):
        try:
            settings = self.server.manager.grpc(request.model_name, {name: value.value for name, value in request.settings.items()})
        except trace.Refused as error:
            await context.abort(CODES[error.args[0]], error.args[1])
        answer = messages.TraceSettingResponse()
        for name, values in settings.items():
            answer.settings[name].value.extend(values)
        return answer


async def start(server, address):
    """Returns the server and its port."""
    service = grpc.aio.server(options=[("grpc.max_receive_message_length", MESSAGE_BYTES_MAX), ("grpc.so_reuseport", 0)])
    services.add_GRPCInferenceServiceServicer_to_server(Servicer(server), service)
    port = service.add_insecure_port(address)
    await service.start()
    return service, port
