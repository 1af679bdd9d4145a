"""The server without its protocols: models, queues and ensembles, and the traces and probes of each request."""
from dataclasses import dataclass, field

import numpy
from sonde import trace

import models
from batching import Batcher
from generate import Engine
from refused import Refused
from tensors import NAMES, TYPES
from workers import Pool, make_probes

NAME, VERSION = "sonde-inference-server", "1"


@dataclass
class Model:
    said: dict  # model.json
    trace: trace.Model
    batcher: Batcher = None
    steps: list = field(default_factory=list)  # of an ensemble

    @property
    def name(self):
        return self.said["name"]

    @property
    def rows_max(self):
        return min(step.rows_max for step in self.steps) if self.steps else self.batcher.rows_max


class Server:
    def __init__(self, folder, workers, directory, manager):
        self.manager, self.probes, self.ready = manager, make_probes(directory), False
        self.pool, self.engine = Pool(workers, folder, directory, self.probes), Engine(folder)
        self.models = {name: Model(said, manager.model(name, 1)) for name, said in models.descriptions(folder).items()}
        for model in self.models.values():
            if "batch" in model.said:
                model.batcher = Batcher(model.name, **model.said["batch"], pool=self.pool, probes=self.probes)
            model.steps = [self.models[name] for name in model.said.get("steps", ())]

    async def start(self):
        await self.pool.start()
        await self.engine.start()
        self.ready = True

    def close(self):
        self.pool.close()
        self.engine.child.close()

    def find(self, name, version=""):
        if name not in self.models or version not in ("", "1"):
            raise Refused.unknown(f"Request for unknown model: '{name}'" + (f" version {version}" if version else "") + " is not found")
        return self.models[name]

    async def infer(self, model, inputs, request_id, t):
        """Returns {output's name: array}. `t` is the request's trace, between REQUEST_START and REQUEST_END."""
        if not model.said["inputs"]:
            raise Refused.invalid(f"'{model.name}' writes: ask /v1/chat/completions")
        with self.probes.request(model.name, VERSION, False, request_id) as request:
            self._check(model, inputs)
            return await self._run(model, inputs, t, request.id, request_id)

    def _check(self, model, inputs):
        for wanted in model.said["inputs"]:
            array = inputs.get(wanted["name"])
            if array is None or len(inputs) != len(model.said["inputs"]):
                raise Refused.invalid(f"expected the inputs {[given['name'] for given in model.said['inputs']]}, got {list(inputs)}")
            if array.dtype != TYPES[wanted["datatype"]] or array.ndim != 2 or array.shape[1] != wanted["shape"][1]:
                raise Refused.invalid(f"input '{wanted['name']}': expected {wanted['datatype']} {wanted['shape']}, got {NAMES[array.dtype]} "
                                      f"{list(array.shape)}")
            if not numpy.isfinite(array).all():
                raise Refused.invalid(f"input '{wanted['name']}': not all are numbers")
            if not 1 <= len(array) <= model.rows_max:
                raise Refused.invalid(f"input '{wanted['name']}': expected 1 to {model.rows_max} rows, got {len(array)}")

    async def _run(self, model, inputs, t, request, request_id):
        t.timestamp("QUEUE_START")
        tensors(t, "TENSOR_QUEUE_INPUT", inputs)
        for step in model.steps:
            with t.child(step.trace) as child:
                child.set_request_id(request_id)  # as Triton's ensembles do
                child.timestamp("REQUEST_START")
                inputs = await self._run(step, inputs, child, request, request_id)
                child.timestamp("REQUEST_END")
        if model.steps:
            return inputs
        outputs, began, put_together, predicted = await model.batcher.run(inputs, len(next(iter(inputs.values()))), request)
        t.timestamp("COMPUTE_START", began)  # taken in the worker; CLOCK_MONOTONIC is the same there
        t.timestamp("COMPUTE_INPUT_END", put_together)
        t.timestamp("COMPUTE_OUTPUT_START", predicted)
        t.timestamp("COMPUTE_END")
        tensors(t, "TENSOR_BACKEND_OUTPUT", outputs)
        return outputs


def tensors(t, activity, arrays):
    if t.level & trace.TENSORS:
        for name, array in arrays.items():
            t.tensor(activity, name, NAMES[array.dtype], array.shape, array.tobytes())
