"""libsonde's C API by ctypes: a manager of one model, and requests that begin and end at once."""
import ctypes

library = config = manager = model = None


def begin(path, *settings):
    """Loads the library at `path` and starts a manager with these settings."""
    global library, config, manager, model
    library = ctypes.CDLL(path)
    config, manager, model = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    library.sonde_trace_start.restype = ctypes.c_void_p
    library.sonde_trace_start.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.sonde_trace_end.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    library.sonde_trace_config_new(ctypes.byref(config))
    for setting in ("rate=1", "level=TIMESTAMPS", *settings):
        assert library.sonde_trace_config_set(config, b"--trace-config", setting.encode(), None, ctypes.c_size_t(0)) == 0
    assert library.sonde_trace_manager_new(config, None, ctypes.byref(manager), None, ctypes.c_size_t(0)) == 0
    assert library.sonde_trace_model_new(manager, b"m", ctypes.c_int64(1), ctypes.byref(model)) == 0


def trace_requests(count):
    for _ in range(count):
        library.sonde_trace_end(library.sonde_trace_start(model, None), 0, None)


def unload():
    """Frees everything and closes the library."""
    global library
    library.sonde_trace_model_free(model)
    library.sonde_trace_manager_free(manager)
    library.sonde_trace_config_free(config)
    handle, library = library._handle, None
    assert ctypes.CDLL(None).dlclose(ctypes.c_void_p(handle)) == 0
