"""USDT probes for Python programs: bpftrace, perf and any libbpf tool attach to them by name while the program runs.

    provider = sonde.Provider("mlserver")
    enqueued = provider.add("enqueued", "str model, u32 length")
    predict = sonde.Pair(provider, "predict", "str model")
    provider.load()

    enqueued.fire(model.name, lambda: queue.qsize())    # the callable is called only while a tracer is attached
    with predict(model.name):                           # fires predict_begin and, also on exceptions, predict_end
        ...
    attached = sonde.Enabled(enqueued, predict.enabled)
    if attached: ...                                    # a tracer is attached to any of them

`sonde.trace` has request traces. If the native extension cannot be loaded, all calls still work and do nothing, after
one warning; `sonde.native` is True if it is loaded.
"""
try:
    from ._native import Enabled, Probe, Provider
    native = True
except ImportError as error:
    import warnings
    from ._silent import Enabled, Probe, Provider
    native = False
    warnings.warn(f"sonde: the native extension cannot be loaded ({error}): probes are inactive, nothing is traced", RuntimeWarning, stacklevel=2)

from .pair import Pair

__all__ = ["Enabled", "Pair", "Probe", "Provider", "native"]
