"""Request traces for ASGI servers (FastAPI, Starlette and others), in two lines:

    manager, rest = sonde.trace.Manager.from_args(sys.argv[1:])
    app.add_middleware(sonde.asgi.TraceMiddleware, manager=manager)

An inference request gets a trace, scope["sonde.trace"], with these timestamps, in this order:

    HTTP_RECV_START               the server passes the request to the application
    HTTP_RECV_END, REQUEST_START  the last part of its body was received (HTTP_RECV_START if the body is not read before
                                  the response begins)
    REQUEST_END, HTTP_SEND_START  the application sends the last part of the response, or fails
    HTTP_SEND_END                 the server has accepted it

All others (QUEUE_START, COMPUTE_START, ...) are stamped by the application. While the application runs for a request,
between its awaits, its thread works for that request (sonde.trace.working). The trace ends with the response: as an
error for a status from 400 on or an exception, as cancelled if the client disconnected or the task was cancelled.
"""
import asyncio
import re
import time

from . import trace
from ._recording import outcome

_INFERENCE = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?/(?:infer|infer_stream|generate|generate_stream)")
_SETTING = re.compile(r"/v2(?:/models/[^/]+(?:/versions/[^/]+)?)?/trace/setting")
_BODY_BYTES_MAX = 65536
_MODELS_MAX, _TRIED_MAX = 65536, 1024

_now = time.monotonic_ns
_untraced = trace.Trace()


def _path_of(scope):
    path, root = scope["path"], scope.get("root_path", "")
    return path[len(root):] if root and path.startswith(root) else path


def model_of_path(scope):
    """The model and version named by a path of the KServe protocol; None: not an inference request."""
    found = _INFERENCE.fullmatch(_path_of(scope)) if scope["method"] == "POST" else None
    if not found:
        return None
    return found[1], int(found[2]) if found[2] and re.fullmatch("[0-9]{1,18}", found[2]) else 1


class TraceMiddleware:
    """`model`: a function of the scope that returns the model of a request (its name, name and version, or a
    Model), or None if it is not to be traced. `endpoints`: whether the trace protocol is served
    (/v2/trace/setting and the like), which lets every client of the server change the trace settings."""

    def __init__(self, app, manager, model=model_of_path, endpoints=True):
        self.app, self.manager, self._model_of, self._endpoints = app, manager, model, endpoints
        self._models = _Models(manager)

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            if self._endpoints and scope["path"].endswith("/trace/setting") and await self._answer(scope, receive, send):
                return
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, self._flushing(send))
        else:
            await self.app(scope, receive, send)

    async def _serve(self, scope, receive, send):
        named = self._model_of(scope)
        model, is_new = self._models.find(named) if named else (None, False)
        if model is None:
            parent, state = _context_of(scope["headers"])
            scope["sonde.trace"] = trace.Trace(parent, state) if parent else _untraced
            await (self._watch(named, scope, receive, send) if is_new else self.app(scope, receive, send))
            return
        scope["sonde.trace"] = t = model.start(None, *_context_of(scope["headers"]))
        if not t.active and not is_new:
            await self.app(scope, receive, send)
            return
        request = _Request(t, receive, send)
        try:
            await trace.working(t, self.app(scope, request.receive, request.send))
        except BaseException as error:
            request.fail(error)
            raise
        finally:
            request.end()
            self._models.settle(named, model, request.status)

    async def _watch(self, named, scope, receive, send):
        """Serves an untraced request with a name that is traced from its first success on."""
        status = 0

        async def watching(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)
        await self.app(scope, receive, watching)
        self._models.settle(named, None, status)

    async def _answer(self, scope, receive, send):
        """Serves the trace protocol; False: the path belongs to the application."""
        path, method = _path_of(scope), scope["method"]
        if not _SETTING.fullmatch(path) or self.manager.http("GET", path) is None:
            return False
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return True
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > _BODY_BYTES_MAX:
                method, body, more = "", b'{"error":"the body is too large"}', False
        status, text = self.manager.http(method, path, body) if method else (413, body)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(text))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else text})
        return True

    def _flushing(self, send):
        """Flushes at shutdown, because servers (uvicorn) may then end themselves by a signal, without Python's
        exit handlers. No request is in flight, so it may block."""
        async def send_flushed(message):
            if message["type"] in ("lifespan.shutdown.complete", "lifespan.shutdown.failed"):
                self.manager.flush(5)
            await send(message)
        return send_flushed


def _context_of(headers):
    """The W3C headers, or None for each if absent or invalid: there must be one traceparent, and there may be
    several lines of tracestate. Trailing space is stripped (httptools, of uvicorn, leaves it there)."""
    parent, states = None, []
    for name, value in headers:
        if name == b"traceparent":
            if parent is not None:
                return None, None
            parent = value.strip(b" \t")
        elif name == b"tracestate":
            states.append(value)
    return (parent, b",".join(states) or None) if parent else (None, None)


class _Models:
    """Handles of the models that requests name, created on first use and kept once a request has succeeded. Names
    come from clients, which must not fill the memory with invalid ones: after too many unconfirmed names,
    handles are created only for names that have succeeded. So clients cannot keep a model from being traced,
    and the library, which never frees a name, gets few invalid ones."""

    def __init__(self, manager):
        self._manager, self._known, self._tried = manager, {}, set()

    def find(self, named):
        """The model or None, and whether the response decides if the name is valid."""
        model = self._known.get(named)
        if model is not None:
            return model, False
        if isinstance(named, trace.Model):
            return named, False
        if named not in self._tried and len(self._tried) >= _TRIED_MAX:
            return None, True
        model = self._make(named)
        if model is not None:
            self._tried.add(named)  # its length is valid
        return model, model is not None

    def _make(self, named):
        try:
            return self._manager.model(*([named] if isinstance(named, str) else named))
        except (OverflowError, RuntimeError, ValueError):  # not a name, too many, or the manager is closed
            return None

    def settle(self, named, model, status):
        if 200 <= status < 400 and named is not model and len(self._known) < _MODELS_MAX:
            model = model or self._make(named)
            if model is not None:
                self._known[named] = model
                self._tried.discard(named)
        elif status == 404:
            self._known.pop(named, None)


async def _message_of(receive):
    """Servers may return an awaitable that is not a coroutine; a task requires a coroutine."""
    return await receive()


class _Request:
    """Stamps a request's messages into its trace as they pass."""

    def __init__(self, t, receive, send):
        self._trace, self._receive, self._send = t, receive, send
        self._begun_ns = _now()
        self._is_read = self._has_begun = self._has_stopped = self._is_answered = self._has_trailers = False
        self._waiting = 0  # pending calls of receive
        self._gone = None  # the disconnect message
        self.status = 0
        t.timestamp("HTTP_RECV_START", self._begun_ns)

    def _begin(self, ns):
        if not self._has_begun:
            self._has_begun = True
            self._trace.timestamp("HTTP_RECV_END", ns)
            self._trace.timestamp("REQUEST_START", ns)

    async def receive(self):
        if self._gone:
            return self._gone
        self._waiting += 1
        try:
            message = await self._receive()
        finally:
            self._waiting -= 1
        if message["type"] == "http.disconnect":
            if not self._is_answered:
                self._gone = message
        elif not message.get("more_body", False):
            self._is_read = True
            self._begin(_now())
        return message

    def _is_last(self, message):
        kind = message["type"]
        if kind == "http.response.start":
            self.status, self._has_trailers = message["status"], message.get("trailers", False)
            self._begin(self._begun_ns)
        if kind == "http.response.trailers":
            return not message.get("more_trailers", False)
        if kind in ("http.response.body", "http.response.zerocopysend"):
            return not message.get("more_body", False) and not self._has_trailers
        return kind == "http.response.pathsend" and not self._has_trailers

    async def send(self, message):
        last = self._is_last(message)
        if last:
            self._stop(ns := _now())
            self._trace.timestamp("HTTP_SEND_START", ns)
            await self._look_for_client()
            self._is_answered = True
        try:
            await self._send(message)
        except BaseException as error:
            if isinstance(error, OSError):
                self._gone = self._gone or {"type": "http.disconnect"}
            self._is_answered = False
            raise
        if last:
            self._trace.timestamp("HTTP_SEND_END")
            self.end()

    def _stop(self, ns):
        if not self._has_stopped:
            self._has_stopped = True
            self._begin(self._begun_ns)
            self._trace.timestamp("REQUEST_END", ns)

    async def _look_for_client(self):
        """Servers report a disconnect only to pending calls of receive. Once the request is read completely, a
        disconnect is the only possible message, so this polls for it without waiting."""
        if self._gone or self._waiting or not self._is_read:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # not an asyncio event loop
            return
        asked = loop.create_task(_message_of(self._receive))
        try:
            await asyncio.sleep(0)
        finally:
            if not asked.done():
                asked.cancel()
        if asked.done() and not asked.cancelled() and not asked.exception() and asked.result()["type"] == "http.disconnect":
            self._gone = asked.result()

    def fail(self, error):
        """The application failed; a failure after a complete response is not part of the request."""
        if not self._is_answered:
            self._end(*outcome(type(error), error))

    def end(self):
        """The response is complete, or ends here."""
        if not self._is_answered:
            self._end("error", "the answer is not whole")
        elif self.status >= 400:
            self._end("error", f"HTTP {self.status}")
        else:
            self._end("ok", None)

    def _end(self, status, message):
        self._stop(_now())
        self._trace.end(*(("cancelled", "the client has gone") if self._gone else (status, message)))
