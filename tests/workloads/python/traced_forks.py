"""Traces requests in a process that forks, and in its children: `traced_forks.py LIBRARY SETTING...`."""
import ctypes
import os
import sys

import traced_library


def start():
    return traced_library.library.sonde_trace_start(traced_library.model, None)


def trace_named(name):
    """One request with an event of this name."""
    end(start(), name)


def end(trace, name=None):
    """With an event of this name."""
    if name:
        traced_library.library.sonde_trace_custom(ctypes.c_void_p(trace), name.encode())
    traced_library.library.sonde_trace_end(trace, 0, None)


def stats():
    """(sampled, written, dropped_queue, dropped_write)"""
    found = (ctypes.c_uint64 * 4)()
    traced_library.library.sonde_trace_manager_stats(traced_library.manager, found, ctypes.c_size_t(ctypes.sizeof(found)))
    return tuple(found)


def flush():
    assert traced_library.library.sonde_trace_manager_flush(traced_library.manager, 30000) == 0


def run_child(number, parents):
    end(parents)  # the parent's: does nothing
    for i in range(3):
        trace_named(f"child {number} {i}")
    traced_library.library.sonde_trace_model_free(traced_library.model)
    flush()
    assert stats() == (3, 3, 0, 0), stats()
    traced_library.library.sonde_trace_manager_free(traced_library.manager)
    os._exit(0)


traced_library.begin(*sys.argv[1:])
trace_named("parent before")
flush()
for number in range(4):
    trace_named(f"queued in the parent {number}")
    across = start()
    pid = os.fork()
    if pid == 0:
        run_child(number, across)
    end(across, f"across {number}")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
traced_library.library.sonde_trace_model_free(traced_library.model)
flush()
assert stats() == (9, 9, 0, 0), stats()
traced_library.library.sonde_trace_manager_free(traced_library.manager)
