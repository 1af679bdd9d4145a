"""Worker processes: a child with a pipe to it, the pool of workers, and the worker's main loop.

A worker receives one batch at a time, so that no batch queues behind a slow one while another worker is idle. A worker that dies fails its current
batch and is replaced.
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
spawning = multiprocessing.get_context("spawn")  # gRPC's threads do not survive a fork


def make_probes(directory):
    """Each process has its own provider; in a directory they share one file, and one bpftrace attaches to all of them."""
    return inference.Inference("inference_server", PROBES, directory)


def live(target, *arguments):
    """Runs a child until the server closes the pipe or exits. The child ignores Ctrl-C; the server handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        target(*arguments)


class Child:
    """A process that runs target(*arguments, pipe). Its first message resolves `ready`; `heard` is called with each further message, `gone` when it
    exits after that; both in the event loop."""

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
        """Stops it after its current work."""
        if not self.pipe.closed:
            self.loop.remove_reader(self.pipe.fileno())
            self.pipe.close()
            self.process.join(5)

    def send(self, what):
        try:
            self.pipe.send(what)
        except OSError:
            pass  # it has exited; `gone` will be called


@dataclass(eq=False)
class Call:
    id: int
    model: str
    inputs: dict  # name: [array, ...], to be concatenated
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
        """Returns ({output's name: array}, and the times when the worker received it, had concatenated the inputs, had predicted)."""
        call = Call(next_id(), model, inputs, cause, asyncio.get_running_loop().create_future())
        self.waiting.append(call)
        self._dispatch()
        return await call.future

    def _dispatch(self):
        while self.waiting and self.idle:
            call = self.waiting.popleft()
            if call.future.done():
                continue  # cancelled
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
    """The process: loads all models, then sends for each call (outputs or the error, and three timestamps)."""
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
