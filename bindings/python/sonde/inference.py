"""The inference provider: a model server's activity as one set of USDT probes with stable names and arguments.

    probes = sonde.inference.Inference("server", ["request_*", "batch_*"])
    with probes.request(model, version, False, request_id): ...        # request_begin, request_end
    probes.cache_hit.fire(id_of_the_request, model)

Probes that are not selected can be called as well but are not attachable. Each process of a server creates one
Inference, all under the same name. `sonde.mlserver` adds it to MLServer.
"""
from fnmatch import fnmatchcase

from . import Pair, Provider

# NAME_begin("u64 id, " + these) and NAME_end("u64 id, u8 success").
PAIRS = {
    "model_load": "str model, str version",
    "model_reload": "str model, str version, str old_version",
    "model_unload": "str model, str version",
    "request": "str model, str version, u8 streaming, str request_id",
    "predict": "str model, str version, u64 cause",
}
# Ids of requests, batches and dispatches are distinct; `cause` is the id of the work that caused this, 0 if that
# began before a tracer was attached.
EVENTS = {
    "cache_hit": "u64 request, str model",
    "cache_miss": "u64 request, str model",
    "batch_enter": "u64 id, str model, u32 length, u64 request",
    "batch_leave": "u64 id, str model, u64 batch, u32 length",
    "batch_formed": "u64 id, str model, u32 requests, u32 limit",
    "worker_dispatch": "u64 id, str model, i32 worker, u32 length, u64 cause, str method",
    "worker_dequeue": "u64 id, str model, str method",
    "worker_reply": "u64 id, u8 success",
    "worker_resolve": "u64 id, u8 success",
    "worker_start": "i32 worker",
    "worker_stop": "i32 worker, i32 exit_code",
}


class _Chosen:
    """Adds only the probes whose names match to the provider; others go to a provider that is never loaded."""

    def __init__(self, name, provider, patterns):
        self.provider, self.never, self.patterns, self.unmatched = provider, Provider(name), patterns, set(patterns)

    def add(self, name, arguments):
        matching = [pattern for pattern in self.patterns if fnmatchcase(name, pattern)]
        self.unmatched.difference_update(matching)
        return (self.provider if matching else self.never).add(name, arguments)


class Inference:
    """The probes as attributes: a Pair for each of PAIRS, a Probe for each of EVENTS. `patterns` ("batch_*")
    select the attachable ones; ValueError if one matches no probe. `directory`: see Provider. `loaded`: whether
    tracers can attach."""

    def __init__(self, name, patterns=("*",), directory=None):
        self.provider = Provider(name, directory)
        chosen = _Chosen(name, self.provider, [patterns] if isinstance(patterns, str) else list(patterns))
        for pair, arguments in PAIRS.items():
            setattr(self, pair, Pair(chosen, pair, arguments))
        for event, arguments in EVENTS.items():
            setattr(self, event, chosen.add(event, arguments))
        if chosen.unmatched:
            raise ValueError(f"no such probes: {', '.join(sorted(chosen.unmatched))}")
        self.loaded = self.provider.load()
