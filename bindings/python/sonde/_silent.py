"""What stands in for the native part where it cannot be loaded: the same calls, to which nobody can attach."""


class Probe:
    """A probe that is never enabled."""
    __slots__ = ()
    enabled = False

    def fire(self, *arguments):
        pass


class Provider:
    """A provider of silent probes."""

    def __init__(self, name, directory=None):
        pass

    def add(self, name, arguments=""):
        return Probe()

    def load(self):
        return False

    def unload(self):
        pass


class Refused(ValueError):
    pass


class Trace:
    """A request that is not traced."""
    __slots__ = ("_headers",)
    id = level = 0
    active = False

    def __init__(self, **headers):
        self._headers = headers

    def __bool__(self):
        return False

    def timestamp(self, name, ns=None):
        pass

    def tensor(self, activity, name, dtype, shape, data=None):
        pass

    def set_request_id(self, id):
        pass

    def child(self, model):
        return self

    def context(self):
        headers = {name: value.decode("latin-1") if isinstance(value, bytes) else value for name, value in self._headers.items() if value}
        return headers if "traceparent" in headers else {}

    def working(self):
        return self

    def end(self, status="ok", message=None):
        pass

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        pass


_untraced = Trace()


class Generation:
    """An answer in tokens that nobody counts."""

    def tokens(self, count=1):
        pass

    def end(self, input_tokens=None, output_tokens=None, response_id=None, response_model=None, finish_reason=None, error_type=None):
        pass

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        pass


class Model:
    def generation(self, trace=None, operation=None):
        return Generation()

    def start(self, request_id=None, traceparent=None, tracestate=None):
        return Trace(traceparent=traceparent, tracestate=tracestate) if traceparent else _untraced


class Manager:
    def __init__(self, options, report, **limits):
        pass

    def model(self, name, version, owner):
        return Model()

    def stats(self):
        return dict.fromkeys(("sampled", "written", "dropped_queue", "dropped_write", "write_errors", "records_dropped", "tensors_malformed",
                              "tensors_too_large", "spans_rejected", "generations", "generations_overflowed", "metrics_sent", "metrics_lost",
                              "metric_errors", "points_rejected"), 0)

    def metrics(self):
        return ""

    def flush(self, timeout_ms):
        return True

    def close(self):
        pass

    def http(self, method, path, body):
        """There is nothing to be set: the paths are the server's, which has none."""

    def grpc(self, model, settings):
        raise Refused(12, "there are no request traces in this process")
