"""Request traces compatible with Triton Inference Server, for Python servers: its settings,
files and OpenTelemetry spans.

    manager, rest = trace.Manager.from_args(sys.argv[1:])   # takes --trace-config and the deprecated options
    model = manager.model("simple", 1)                      # for each loaded model version

    with model.start(request_id, traceparent) as t:         # for each request; untraced: `t` is falsy, does nothing
        t.timestamp("REQUEST_START")
        t.tensor("TENSOR_QUEUE_INPUT", "INPUT0", "FP32", [1, 4], array)
        ...
        t.timestamp("REQUEST_END")

docs/traces.md is the guide; sonde.asgi does all this for ASGI servers. If the native extension cannot be loaded, all
calls still work and nothing is traced, after one warning. Losses are counted (Manager.stats), and their beginning is
logged by the logger sonde.trace.
"""
import atexit
import os
import sys
import threading
import weakref

from . import native

if native:
    from . import _native as _library
else:
    from . import _silent as _library

from ._recording import lost

Model, Trace, Generation, Refused = _library.Model, _library.Trace, _library.Generation, _library.Refused
TIMESTAMPS, TENSORS = 1, 2

_OPTIONS = ("--trace-config", "--trace-file", "--trace-rate", "--trace-level", "--trace-count", "--trace-log-frequency")


def _take_options(arguments):
    """Splits a command line into trace options, up to a `--`, as pairs with their values, and all other arguments."""
    options, rest, left = [], [], iter(arguments)
    for argument in left:
        name, attached, value = argument.partition("=")
        if argument == "--":
            rest.append(argument)
            break
        if name not in _OPTIONS:
            rest.append(argument)
            continue
        value = value if attached else next(left, None)
        if value is None:
            raise ValueError(f'Bad option: "{name}".\nthe option requires an argument')
        options.append((name, value))
    return options, rest + list(left)


class Manager:
    """The tracing of one server.

    `settings`: strings such as "rate=100", "triton,file=trace.json", as after --trace-config. ValueError: an invalid or
    contradictory setting. OSError with EOPNOTSUPP: mode=opentelemetry, and libsonde-otlp.so cannot be loaded. `limits`:
    queue_traces_max, queue_bytes_max, tensor_bytes_max, request_bytes_max, as in sonde/trace.h.

    It is closed when the program exits, including workers of multiprocessing; call `flush` before os._exit.
"""

    def __init__(self, settings=(), **limits):
        self._begin([("--trace-config", setting) for setting in ([settings] if isinstance(settings, str) else settings)], limits)

    @classmethod
    def from_args(cls, argv=None, **limits):
        """Creates a manager from a command line (default: sys.argv[1:]); also returns the remaining arguments."""
        options, rest = _take_options(sys.argv[1:] if argv is None else argv)
        manager = cls.__new__(cls)
        manager._begin(options, limits)
        return manager, rest

    def _begin(self, options, limits):
        self._lock = threading.RLock()  # serialises flush and close; reentrant for signal handlers
        self._native = _library.Manager(options, lost, **limits)
        _managers.add(self)

    def model(self, name, version=1):
        """Registers a model version, loaded for the lifetime of the returned object. Versions of one name share
        their settings."""
        return self._native.model(name, version, self)

    def http(self, method, path, body=b""):
        """Handles GET and POST of /v2[/models/M[/versions/V]]/trace/setting; returns status and body bytes; None:
        another path."""
        return None if "\0" in path or "\0" in method else self._native.http(method, path, body or b"")

    def grpc(self, model="", settings=None):
        """Handles the call TraceSetting: a map from names to lists of values, an empty list to clear a setting.
        Returns the map of the reply; Refused has gRPC status code and message as its `args`."""
        return self._native.grpc(model or None, {name: list(values) for name, values in (settings or {}).items()})

    def stats(self):
        """A dict of counters: the fields of struct sonde_trace_stats, documented in sonde/trace.h."""
        return self._native.stats()

    def metrics(self):
        """Metrics of all generations as Prometheus text: gen_ai_server_request_duration_seconds and others."""
        return self._native.metrics()

    def flush(self, seconds=10.0):
        """Waits until ended traces are written, sent or counted as lost; False: timeout."""
        with self._lock:
            return self._native.flush(int(min(max(seconds, 0), 1e6) * 1000))

    def close(self):
        """Writes the queued traces, or gives a receiver some seconds. Requests in flight may continue, but are not
        written."""
        with self._lock:
            self._native.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()


class working:
    """`await working(t, coroutine)` returns the coroutine's result. The thread works for the request in each of
    the coroutine's steps, but not between them, when other tasks run. (`with t.working():` is for code without
    awaits.)"""
    __slots__ = ("_working", "_steps")

    def __init__(self, t, awaitable):
        self._working, self._steps = t.working, awaitable.__await__()

    def __await__(self):
        return self

    __iter__ = __await__

    def __next__(self):
        with self._working():
            return next(self._steps)

    def send(self, value):
        with self._working():
            return self._steps.send(value)

    def throw(self, *error):
        with self._working():
            return self._steps.throw(*error)

    def close(self):
        self._steps.close()


_managers = weakref.WeakSet()


@atexit.register
def _close_all():
    for manager in list(_managers):
        manager.close()


def _begin_in_child():
    for manager in list(_managers):
        manager._lock = threading.RLock()  # a thread of the parent may have held it
    util = sys.modules.get("multiprocessing.util")
    if util:  # its workers end without atexit and discard earlier finalizers
        util.register_after_fork(_managers, lambda _: util.Finalize(None, _close_all, exitpriority=-100))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)
