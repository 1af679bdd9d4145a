"""Replaces the native extension where it cannot be loaded: the same interface, but no probes and no traces."""
import re


class Probe:
    """A probe that is never enabled."""
    __slots__ = ()
    enabled = False

    def fire(self, *arguments):
        pass


class Enabled:
    """Always false: no tracer can attach."""
    __slots__ = ()

    def __init__(self, *probes):
        pass

    def __bool__(self):
        return False


class Provider:
    """A provider of inactive probes."""

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


# W3C Trace Context Level 2, as parsed by lib/trace/context.c.
_BODY = "-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_PARENT = re.compile(rf"00{_BODY}|(?!00|ff)[0-9a-f]{{2}}{_BODY}(?:-[\t -~]*)?")
_MEMBER = re.compile(r"([a-z0-9][a-z0-9_\-*/@]{0,255})=[ -+\--<>-~]{0,255}[!-+\--<>-~]")


def _is_state(text):
    members = [_MEMBER.fullmatch(member) for member in (part.strip(" \t") for part in text.split(",")) if member]
    return 0 < len(members) <= 32 and None not in members and len({member[1] for member in members}) == len(members)


def _text(header):
    text = header.decode("latin-1") if isinstance(header, bytes) else header
    return text if isinstance(text, str) else ""


class Trace:
    """An untraced request."""
    __slots__ = ("_parent", "_state")
    id = level = 0
    active = False

    def __init__(self, traceparent=None, tracestate=None):
        self._parent, self._state = traceparent, tracestate

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
        parent, state = _text(self._parent), _text(self._state)
        if not _PARENT.fullmatch(parent):
            return {}
        return {"traceparent": parent, "tracestate": state} if _is_state(state) else {"traceparent": parent}

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
    """A generation that is not counted."""

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
        return Trace(traceparent, tracestate) if traceparent else _untraced


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
        """Returns None: there are no settings, so the paths belong to the server."""

    def grpc(self, model, settings):
        raise Refused(12, "there are no request traces in this process")
