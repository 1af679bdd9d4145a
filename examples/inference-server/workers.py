"""Processes that compute: a child with a pipe to it, the pool of workers, and what a worker does.

A worker is given one batch at a time, so that none waits behind another's slow one while a worker is idle. One that dies fails the batch that it
had and is replaced.
"""
import asyncio
import collections
import contextlib
import multiprocessing
import signal
import time
from dataclasses import dataclass

import numpy
from sonde import inference
from sonde.pair import next_id

import models
from refused import Refused

PROBES = ["request_*", "batch_*", "worker_*", "predict_*", "model_load_*"]
spawning = multiprocessing.get_context("spawn")  # gRPC's threads do not outlive a fork


def make_probes(directory):
    """Each process has its own provider; in a directory they are one file, and one bpftrace hears them all."""
    return inference.Inference("inference_server", PROBES, directory)


def live(target, *arguments):
    """A child's life: it ends when the server closes the pipe or is no more. Ctrl-C is the server's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        target(*arguments)


class Child:
    """A process that runs target(*arguments, pipe). Its first word says that it is `ready`; `heard` is called with each further one, `gone` when it
    has ended after that; both in the loop."""

    def __init__(self, target, *arguments, heard, gone):
        self.pipe, other = spawning.Pipe()
        self.process = spawning.Process(target=live, args=(target, *arguments, other), daemon=True)
        self.process.start()
        other.close()
        self.heard, self.gone, self.loop = heard, gone, asyncio.get_running_loop()
        self.ready = self.loop.create_future()
        self.loop.add_reader(self.pipe.fileno(), self._read)

    def _read(self):
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            self.close()
            if self.ready.done():
                self.gone()
            else:
                self.ready.set_exception(RuntimeError("a process ended before it was ready"))
            return
        if self.ready.done():
            self.heard(said)
        else:
            self.ready.set_result(None)

    def close(self):
        """Ends it, once it has done what it is doing."""
        if not self.pipe.closed:
            self.loop.remove_reader(self.pipe.fileno())
            self.pipe.close()
            self.process.join(5)

    def send(self, what):
        try:
            self.pipe.send(what)
        except OSError:
            pass  # it has ended, and `gone` is about to be called


@dataclass(eq=False)
class Call:
    id: int
    model: str
    inputs: dict  # name: [array, ...], to be put together
    cause: int
    future: asyncio.Future


class Pool:
    def __init__(self, count, folder, directory, probes):
        self.count, self.folder, self.directory, self.probes = count, folder, directory, probes
        self.waiting, self.idle, self.busy = collections.deque(), collections.deque(), {}

    async def start(self):
        await asyncio.gather(*(self._start_one() for _ in range(self.count)))

    async def _start_one(self):
        child = Child(work, self.folder, self.directory, heard=lambda said: self._heard(child, said), gone=lambda: self._gone(child))
        await child.ready
        self.probes.worker_start.fire(child.process.pid)
        self._free(child)

    def _gone(self, child):
        self.probes.worker_stop.fire(child.process.pid, child.process.exitcode or 0)
        call = self.busy.pop(child, None)
        if call and not call.future.done():
            call.future.set_exception(Refused.failed("the worker has ended"))
        if child in self.idle:
            self.idle.remove(child)
        asyncio.ensure_future(self._start_one())

    def close(self):
        for child in [*self.idle, *self.busy]:
            child.close()
            self.probes.worker_stop.fire(child.process.pid, child.process.exitcode or 0)

    async def run(self, model, inputs, cause):
        """({output's name: array}, when the worker had it, had put its inputs together, had predicted)"""
        call = Call(next_id(), model, inputs, cause, asyncio.get_running_loop().create_future())
        self.waiting.append(call)
        self._dispatch()
        return await call.future

    def _dispatch(self):
        while self.waiting and self.idle:
            call = self.waiting.popleft()
            if call.future.done():
                continue  # given up
            child = self.idle.popleft()
            self.busy[child] = call
            self.probes.worker_dispatch.fire(call.id, call.model, child.process.pid, len(self.waiting), call.cause, "predict")
            child.send((call.id, call.model, call.inputs))

    def _free(self, child):
        self.idle.append(child)
        self._dispatch()

    def _heard(self, child, said):
        call = self.busy.pop(child)
        outputs, *times = said
        self.probes.worker_resolve.fire(call.id, isinstance(outputs, dict))
        if not call.future.done():
            if isinstance(outputs, dict):
                call.future.set_result((outputs, *times))
            else:
                call.future.set_exception(Refused.failed(outputs))
        self._free(child)


def work(folder, directory, pipe):
    """The process: loads all models, then says for each call (outputs or what went wrong, and three moments)."""
    probes, loaded = make_probes(directory), {}
    for name, said in models.descriptions(folder).items():
        if said["platform"] in ("sklearn", "onnxruntime_onnx"):
            with probes.model_load(name, "1"):
                loaded[name] = models.load(folder, said)
    pipe.send(None)
    while True:
        id, model, inputs = pipe.recv()
        began = put_together = time.monotonic_ns()
        probes.worker_dequeue.fire(id, model, "predict")
        try:
            arrays = {name: numpy.concatenate(parts) for name, parts in inputs.items()}
            put_together = time.monotonic_ns()
            with probes.predict(model, "1", id):
                outputs = loaded[model](arrays)
        except Exception as error:
            outputs = f"{model}: {error}"
        predicted = time.monotonic_ns()
        probes.worker_reply.fire(id, isinstance(outputs, dict))
        pipe.send((outputs, began, put_together, predicted))
