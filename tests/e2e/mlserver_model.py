"""The model that test_mlserver.py serves with MLServer, and its client: `mlserver_model.py GRPC_PORT` sends requests over gRPC."""
import asyncio
import sys

from mlserver import MLModel
from mlserver.types import InferenceResponse, ResponseOutput


class Echo(MLModel):
    """Returns its input; raises an error when the input is named "fail"."""

    async def load(self):
        if self.settings.parameters.extra.get("broken"):
            raise ValueError("broken on purpose")
        return True

    async def predict(self, payload):
        given = payload.inputs[0]
        if given.name == "fail":
            raise ValueError("fails on request")
        return InferenceResponse(model_name=self.name, model_version=self.version,
                                 outputs=[ResponseOutput(name="out", shape=given.shape, datatype=given.datatype, data=given.data)])


class Stream(Echo):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            for _ in range(3):
                yield await Echo.predict(self, payload)
                await asyncio.sleep(0)


async def ask(port):
    import grpc
    from mlserver.grpc.converters import ModelInferRequestConverter
    from mlserver.grpc.dataplane_pb2_grpc import GRPCInferenceServiceStub
    from mlserver.types import InferenceRequest, RequestInput

    def request(model, identity):
        given = InferenceRequest(id=identity, inputs=[RequestInput(name="in", shape=[1, 2], datatype="FP32", data=[1.0, 2.0])])
        return ModelInferRequestConverter.from_types(given, model_name=model, model_version="")

    async def requests(*all):
        for one in all:
            yield one
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = GRPCInferenceServiceStub(channel)
        answer = await stub.ModelInfer(request("plain", "by-grpc"))
        print("answer", answer.id)
        async for part in stub.ModelStreamInfer(requests(request("stream", "by-stream"))):
            print("part", part.id)


if __name__ == "__main__":
    asyncio.run(ask(int(sys.argv[1])))
