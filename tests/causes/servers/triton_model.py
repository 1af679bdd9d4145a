"""The Python model of triton_start.py: does what a request's target says, or calls another model for it."""
import json
import os

import triton_python_backend_utils as pb
from common import Server

NEXT = b"/clean?id=0"


class TritonPythonModel:
    def initialize(self, arguments):
        self.server = Server(["", 0, os.environ["CAUSES_LOG"], os.environ["CAUSES_FOLDER"]])
        parameters = json.loads(arguments["model_config"]).get("parameters", {})
        self.calls = parameters.get("calls", {}).get("string_value")

    def answer(self, request):
        target = pb.get_input_tensor_by_name(request, "target")
        if self.calls:
            pb.InferenceRequest(model_name=self.calls, requested_output_names=["next"], inputs=[target]).exec()
        else:
            self.server.serve(target.as_numpy()[0].decode())
        made = target.as_numpy().copy()
        made[0] = NEXT
        return pb.InferenceResponse([pb.Tensor("next", made)])

    def execute(self, requests):
        return [self.answer(request) for request in requests]
