"""The inference provider for MLServer, enabled by one line of its settings.json:

    "model_repository_implementation": "sonde.mlserver.repository"

MLServer imports the named module in its main process and, with its settings, in every worker. The import wraps the
two entry points of main process and workers; they install the wrappers of the families below, after checking that the functions to be
replaced look as expected. A family that does not fit this MLServer is skipped and named in one warning. Wrappers read
MLServer's objects in callables, which are called only while a tracer is attached and may fail: nothing here fails a
server or a request. A wrapper on the request path first tests an Enabled of its probes; while no tracer is attached,
that is all it does.
"""
import contextlib
import contextvars
import functools
import hashlib
import importlib
import inspect
import os
import threading
import warnings

from . import Enabled
from .inference import Inference
from .pair import next_id

# The id of the work of the running task: a request, a batch, or in a worker a dispatch. 0: it began while no tracer
# was attached.
_cause = contextvars.ContextVar("sonde_cause", default=0)


def repository(root, probes=None, directory=None, implementation="mlserver.repository.SchemalessModelRepository", **arguments):
    """Creates the model repository that MLServer would use otherwise. "model_repository_implementation_args" in
    settings.json are the arguments: `probes`, patterns of the probes to create; `directory`, where they are
    stored as a file; `implementation`, another repository class, with its own arguments."""
    module, _, name = implementation.rpartition(".")
    made_by = getattr(importlib.import_module(module), name)
    taken = inspect.signature(made_by).parameters
    if not any(one.kind is one.VAR_KEYWORD for one in taken.values()):
        unknown = sorted(arguments.keys() - taken.keys())
        if unknown:
            _warn(f"model_repository_implementation_args: {implementation} takes no {', '.join(unknown)}: left out")
        arguments = {name: value for name, value in arguments.items() if name in taken}
    return made_by(root=root, **arguments)


@contextlib.contextmanager
def _working_for(number):
    before = _cause.get()
    _cause.set(number)
    try:
        yield
    finally:
        _cause.set(before)


def _number(text):
    """The 64-bit form of an MLServer id, a string that is the same in main process and worker."""
    return int.from_bytes(hashlib.blake2b(str(text).encode(), digest_size=8).digest(), "little")


# --- families: each defines its wrappers; put(owner, wrapper) returns the original function of the same name ----

def _models(probes, put):
    from mlserver.registry import SingleModelRegistry as Registry
    find = Registry._find_model

    def ready(registry, model):
        found = find(registry, model.version)  # hooks may have replaced the object
        return getattr(found, "ready", False)

    async def _load_model(self, model):
        with probes.model_load(lambda: model.name, lambda: model.version) as work:
            await load(self, model)
            work.end(work.id and ready(self, model))

    async def _reload_model(self, old_model, new_model):
        with probes.model_reload(lambda: new_model.name, lambda: new_model.version, lambda: old_model.version) as work:
            await reload(self, old_model, new_model)
            work.end(work.id and ready(self, new_model))

    async def _unload_model(self, model):
        with probes.model_unload(lambda: model.name, lambda: model.version):
            await unload(self, model)

    load, reload, unload = put(Registry, _load_model), put(Registry, _reload_model), put(Registry, _unload_model)


def _requests(probes, put):
    from mlserver.handlers import DataPlane
    attached = probes.request.enabled

    def infer(self, payload, name, version=None):
        return (probed if attached else once)(self, payload, name, version)

    async def probed(self, payload, name, version):
        work = probes.request(name, version, False, lambda: payload.id)
        with work, _working_for(work.id):
            return await once(self, payload, name, version)

    def infer_stream(self, payloads, name, version=None):
        return (probed_stream if attached else stream)(self, payloads, name, version)

    async def probed_stream(self, payloads, name, version):
        work = probes.request(name, version, True)
        with work, _working_for(work.id):
            answers = stream(self, payloads, name, version)
            try:
                async for answer in answers:
                    yield answer
            finally:
                await answers.aclose()

    once, stream = put(DataPlane, infer), put(DataPlane, infer_stream)


def _cache(probes, put):
    from mlserver.context import model_name_var
    from mlserver.handlers import DataPlane
    attached = Enabled(probes.cache_hit, probes.cache_miss)

    def _create_response_cache(self):
        cache = create(self)
        lookup = cache.lookup

        @functools.wraps(lookup)
        def look(key):
            return (probed if attached else lookup)(key)

        async def probed(key):
            found = await lookup(key)
            (probes.cache_hit if found != "" else probes.cache_miss).fire(_cause.get(), model_name_var.get)
            return found
        cache.lookup = look
        return cache

    create = put(DataPlane, _create_response_cache)


def _batches(probes, put):
    from mlserver.batching.adaptive import AdaptiveBatcher as Batcher
    queues_attached = Enabled(probes.batch_enter, probes.batch_leave)
    attached = Enabled(queues_attached, probes.batch_formed)

    def waiting(batcher):
        """The ids of waiting requests by object, if they arrived while a tracer was attached. (MLServer's own
        queue is drained at once into the batch being formed.)"""
        return vars(batcher).setdefault("_sonde_waiting", {})

    def leave(batcher, request, batch):
        ids = waiting(batcher)
        number = ids.pop(id(request), None)
        if number is not None:
            probes.batch_leave.fire(number, lambda: batcher._model.name, batch, len(ids))

    def predict(self, req):
        return (probed if queues_attached else queue)(self, req)

    async def probed(self, req):
        number, ids = next_id(), waiting(self)
        probes.batch_enter.fire(number, lambda: self._model.name, len(ids), _cause.get())
        ids[id(req)] = number
        try:
            return await queue(self, req)
        finally:
            leave(self, req, 0)  # unless a batch took it

    async def _batch_requests(self):
        _cause.set(0)  # the task inherits one request's context but serves all of them
        async for batch in batches(self):
            if not (attached or waiting(self)):
                yield batch
                continue
            number = next_id()
            _cause.set(number)
            probes.batch_formed.fire(number, lambda: self._model.name, lambda: len(batch.inference_requests), lambda: self._max_batch_size)
            for request in getattr(batch, "inference_requests", {}).values() if waiting(self) else ():
                leave(self, request, number)
            yield batch
            _cause.set(0)

    queue, batches = put(Batcher, predict), put(Batcher, _batch_requests)


def _predictions(probes, put):
    from mlserver import MLModel
    from mlserver.registry import SingleModelRegistry as Registry
    base_stream = MLModel.predict_stream  # which calls predict

    def observe(model):
        """Wraps the model in its own process, below MLServer's wrappers. A model without settable attributes is
        left unchanged."""
        around = probes.predict.around(lambda *args, **kwargs: (model.name, model.version, _cause.get()))
        with contextlib.suppress(Exception):
            if inspect.iscoroutinefunction(model.predict):
                model.predict = around(model.predict)
            if inspect.isasyncgenfunction(model.predict_stream) and type(model).predict_stream is not base_stream:
                model.predict_stream = around(model.predict_stream)

    def _load_model(self, model):
        observe(model)
        return load(self, model)

    def _reload_model(self, old_model, new_model):
        observe(new_model)
        return reload(self, old_model, new_model)

    load, reload = put(Registry, _load_model), put(Registry, _reload_model)


def _dispatches(probes, put):
    """From the main process to a worker and back."""
    from mlserver.parallel.dispatcher import AsyncResponses
    from mlserver.parallel.worker import Worker
    dispatch, reply, arrival = (Enabled(probe) for probe in (probes.worker_dispatch, probes.worker_reply, probes.worker_resolve))
    work = Enabled(probes.worker_dequeue, probes.predict.enabled)

    def send_request(self, request_message):
        if dispatch:
            probes.worker_dispatch.fire(lambda: _number(request_message.id), lambda: request_message.model_name, lambda: self.pid,
                                        lambda: self._requests.qsize(), _cause.get(), lambda: request_message.method_name)
        return send(self, request_message)

    def _process_request(self, request):
        if not work:
            return process(self, request)
        probes.worker_dequeue.fire(lambda: _number(request.id), lambda: request.model_name, lambda: request.method_name)
        return working(self, request)

    async def working(worker, request):
        _cause.set(_number(getattr(request, "id", "")))  # runs in its own task
        return await process(worker, request)

    def _handle_response(self, process_task):
        if reply:
            probes.worker_reply.fire(lambda: _number(process_task.result().id), lambda: process_task.result().exception is None)
        return handle(self, process_task)

    def resolve(self, response):
        if arrival:
            probes.worker_resolve.fire(lambda: _number(response.id), lambda: response.exception is None)
        return take(self, response)

    send, process, handle = put(Worker, send_request), put(Worker, _process_request), put(Worker, _handle_response)
    take = put(AsyncResponses, resolve)


def _workers(probes, put):
    from mlserver.parallel import pool

    def _spawn_worker(settings, responses, env):
        worker = spawn(settings, responses, env)
        probes.worker_start.fire(worker.pid)
        return worker

    async def on_worker_stop(self, pid, exit_code):
        if pid in self._workers:  # every pool is notified of every worker
            probes.worker_stop.fire(pid, lambda: os.waitstatus_to_exitcode(exit_code))
        await on_stop(self, pid, exit_code)

    async def _close_workers(self):
        workers = list(self._workers.values())
        await close(self)
        for worker in workers:  # no exit code: it ignored the request to stop and was killed
            probes.worker_stop.fire(worker.pid, lambda: -9 if worker.exitcode is None else worker.exitcode)

    spawn = put(pool, _spawn_worker)
    on_stop, close = put(pool.InferencePool, on_worker_stop), put(pool.InferencePool, _close_workers)


FAMILIES = {
    "model_load, model_reload, model_unload": _models,
    "predict": _predictions,
    "request": _requests,
    "cache": _cache,
    "batch": _batches,
    "worker_dispatch, worker_dequeue, worker_reply, worker_resolve": _dispatches,
    "worker_start, worker_stop": _workers,
}


# --- installation ---------------------------------------------------------------------------------------------

class _Different(Exception):
    """This MLServer differs from the expectations of a wrapper."""


def _kind(function):
    return next((kind for kind in (inspect.iscoroutinefunction, inspect.isasyncgenfunction) if kind(function)), None)


def _fitting(owner, wrapper):
    """The function that `wrapper` replaces, if name, parameters and kind agree. (A plain function may wrap any
    kind, because it returns what the original returns.)"""
    original, place = getattr(owner, wrapper.__name__, None), f"{owner.__name__}.{wrapper.__name__}"
    if not callable(original):
        raise _Different(f"there is no {place}")
    if list(inspect.signature(original).parameters) != list(inspect.signature(wrapper).parameters):
        raise _Different(f"{place} has other parameters")
    if _kind(wrapper) not in (None, _kind(original)):
        raise _Different(f"{place} is of another kind")
    return original


def _install_family(family, probes):
    """Installs all wrappers of a family, or none."""
    changes = []

    def put(owner, wrapper):
        original = _fitting(owner, wrapper)
        changes.append((owner, wrapper.__name__, functools.wraps(original)(wrapper)))
        return original
    family(probes, put)
    for change in changes:
        setattr(*change)


def _warn(text):
    warnings.warn(f"sonde.mlserver: {text}", RuntimeWarning, stacklevel=2)


def install(patterns, directory=None):
    """Creates the provider and installs the families that fit."""
    probes, unfit = Inference("mlserver", patterns, directory), []
    for names, family in FAMILIES.items():
        try:
            _install_family(family, probes)
        except (AttributeError, ImportError, ValueError, _Different) as error:
            unfit.append(f"{names} ({error})")
    if unfit:
        _warn("unsupported version of MLServer: no probes of " + "; ".join(unfit))


_installed = threading.Lock()  # acquired by the first server or worker of the process


def begin(settings):
    """Installs the families selected by MLServer's `settings`; once per process."""
    try:
        chosen = settings.model_repository_implementation_args
        if _installed.acquire(blocking=False):
            patterns = chosen.get("probes")
            install(["*"] if patterns is None else patterns, chosen.get("directory"))
    except Exception as error:  # must never fail the server
        _warn(f"no probes: {error}")


def _wrap_entry_points():
    from mlserver import MLServer
    from mlserver.parallel import Worker

    def put(owner, name):
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapper(self, *args, **kwargs):
            begin(args[0] if args else kwargs.get("settings") or self._settings)
            return original(self, *args, **kwargs)
        setattr(owner, name, wrapper)
    put(MLServer, "__init__")
    put(Worker, "run")


try:
    _wrap_entry_points()
except Exception as error:
    _warn(f"no probes: {error}")
