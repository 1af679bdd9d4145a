"""Native probes for programs in Python: bpftrace, perf and everything on libbpf attach to them by name while the program runs.

    provider = sonde.Provider("mlserver")
    enqueued = provider.add("enqueued", "str model, u32 length")
    predict = sonde.Pair(provider, "predict", "str model")
    provider.load()

    enqueued.fire(model.name, lambda: queue.qsize())    # the callable is called only while somebody is attached
    with predict(model.name):                           # fires predict_begin and, also on exceptions, predict_end
        ...
    anybody = sonde.Enabled(enqueued, predict.enabled)
    if anybody: ...                                     # somebody is attached to any of them

`sonde.trace` has request traces. Where the native part cannot be loaded everything can be called as well and stays silent, after one warning;
`sonde.native` says which it is.
"""
try:
    from ._native import Enabled, Probe, Provider
    native = True
except ImportError as error:
    import warnings
    from ._silent import Enabled, Probe, Provider
    native = False
    warnings.warn(f"sonde: no native part ({error}); all probes stay silent, nothing is traced", RuntimeWarning, stacklevel=2)

from .pair import Pair

__all__ = ["Enabled", "Pair", "Probe", "Provider", "native"]
