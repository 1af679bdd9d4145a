"""Pairs of probes around a piece of work, which may end in another thread or task than it began."""
import functools
import inspect
import itertools
import os

from . import Enabled


class _Numbers:
    """Generates ids that are unique across the processes of a pool: the upper half is the process id."""

    def __init__(self):
        self.begin_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.begin_anew)

    def begin_anew(self):
        self.next = itertools.count((os.getpid() << 32) + 1).__next__


_numbers = _Numbers()


def next_id():
    """An id that is unique across the processes of a pool."""
    return _numbers.next()


class _Inactive:
    """Work that began while no tracer was attached."""
    __slots__ = ()
    id = 0

    def end(self, success=True):
        pass

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        pass


_inactive = _Inactive()


class _Active:
    """Work whose begin probe has fired; its end probe fires once."""
    __slots__ = ("probe", "id")

    def __init__(self, probe, id):
        self.probe, self.id = probe, id

    def end(self, success=True):
        probe, self.probe = self.probe, None
        if probe is not None:
            probe.fire(self.id, bool(success))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.end(kind is None)


class Pair:
    """The probes NAME_begin("u64 id", arguments...) and NAME_end("u64 id, u8 success") of a provider.
    Both carry the same id; success is 0 after an exception, including task cancellation.

        with pair(model): ...                   a piece of work in a block
        work = pair(model); ...; work.end()     work that ends elsewhere, possibly in another thread
        @pair.around(lambda self, x: self.name) each call of a function, coroutine or generator; the callable returns the
                                                arguments

    `enabled` is the Enabled of both: true while a tracer is attached to either.
"""
    __slots__ = ("_begin", "_end", "enabled")

    def __init__(self, provider, name, arguments=""):
        self._begin = provider.add(f"{name}_begin", ", ".join(filter(None, ["u64 id", arguments])))
        self._end = provider.add(f"{name}_end", "u64 id, u8 success")
        self.enabled = Enabled(self._begin, self._end)

    def __call__(self, *arguments):
        if not self.enabled:
            return _inactive
        id = _numbers.next()
        self._begin.fire(id, *arguments)
        return _Active(self._end, id)

    def around(self, arguments=None):
        """A decorator. `arguments(*args, **kwargs)` returns the value or tuple of values to fire begin with."""
        attached = self.enabled

        def begin(args, kwargs):
            if not attached:
                return _inactive
            return self(*_arguments_of(arguments, args, kwargs))

        def decorate(function):
            if inspect.iscoroutinefunction(function):
                @functools.wraps(function)
                async def wrapper(*args, **kwargs):
                    if not attached:
                        return await function(*args, **kwargs)
                    with begin(args, kwargs):
                        return await function(*args, **kwargs)
            elif inspect.isasyncgenfunction(function):
                @functools.wraps(function)
                async def wrapper(*args, **kwargs):
                    with begin(args, kwargs):
                        items = function(*args, **kwargs)
                        try:
                            async for item in items:
                                yield item
                        finally:
                            await items.aclose()  # close an abandoned stream now, as without the wrapper
            elif inspect.isgeneratorfunction(function):
                @functools.wraps(function)
                def wrapper(*args, **kwargs):
                    with begin(args, kwargs):
                        return (yield from function(*args, **kwargs))
            else:
                @functools.wraps(function)
                def wrapper(*args, **kwargs):
                    if not attached:
                        return function(*args, **kwargs)
                    with begin(args, kwargs):
                        return function(*args, **kwargs)
            return wrapper
        return decorate


def _arguments_of(arguments, args, kwargs):
    """The probe arguments of a call. An exception in `arguments` must not fail the wrapped function."""
    if arguments is None:
        return ()
    try:
        values = arguments(*args, **kwargs)
    except Exception:
        return ()
    return values if isinstance(values, tuple) else (values,)
