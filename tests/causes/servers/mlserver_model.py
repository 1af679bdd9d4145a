"""The model of mlserver_start.py: does what a request's target says."""
import os

from common import Server
from mlserver import MLModel
from mlserver.types import InferenceResponse, ResponseOutput


class Work(MLModel):
    async def load(self):
        self.server = Server(["", 0, os.environ["CAUSES_LOG"], os.environ["CAUSES_FOLDER"]])
        return True

    async def predict(self, payload):
        target = payload.inputs[0].data[0]
        self.server.serve(target.decode() if isinstance(target, bytes) else target)
        return InferenceResponse(model_name=self.name, outputs=[ResponseOutput(name="next", shape=[1], datatype="BYTES", data=["ok"])])
