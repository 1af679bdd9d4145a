"""Pairs of probes around a piece of work, which may end in another thread or task than it began in."""
import functools
import inspect
import itertools
import os

from . import Enabled


class _Numbers:
    """Numbers of pieces of work, different in every process of a pool: the upper half is the process."""

    def __init__(self):
        self.begin_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.begin_anew)

    def begin_anew(self):
        self.next = itertools.count((os.getpid() << 32) + 1).__next__


_numbers = _Numbers()


def next_id():
    """An id that no other piece of work has, in any process of a pool."""
    return _numbers.next()


class _Unseen:
    """A piece of work that began when nobody was attached."""
    __slots__ = ()
    id = 0

    def end(self, success=True):
        pass

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        pass


_unseen = _Unseen()


class _Seen:
    """A piece of work whose begin has been fired; its end is fired once."""
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
    """The probes NAME_begin("u64 id", arguments...) and NAME_end("u64 id, u8 success") of a provider. The same id is in both; success is 0
    after an exception, a cancelled task among them.

        with pair(model): ...                   a piece of work in a block
        work = pair(model); ...; work.end()     one that ends elsewhere, in another thread perhaps
        @pair.around(lambda self, x: self.name) each call of a function, a coroutine or a generator; the callable says the arguments

    `enabled` is the Enabled of both: true while somebody is attached to either.
    """
    __slots__ = ("_begin", "_end", "enabled")

    def __init__(self, provider, name, arguments=""):
        self._begin = provider.add(f"{name}_begin", ", ".join(filter(None, ["u64 id", arguments])))
        self._end = provider.add(f"{name}_end", "u64 id, u8 success")
        self.enabled = Enabled(self._begin, self._end)

    def __call__(self, *arguments):
        if not self.enabled:
            return _unseen
        id = _numbers.next()
        self._begin.fire(id, *arguments)
        return _Seen(self._end, id)

    def around(self, arguments=None):
        """A decorator. `arguments(*args, **kwargs)` gives the value, or the tuple of values, that begin is fired with."""
        anybody = self.enabled

        def begin(args, kwargs):
            if not anybody:
                return _unseen
            return self(*_said(arguments, args, kwargs))

        def decorate(function):
            if inspect.iscoroutinefunction(function):
                @functools.wraps(function)
                async def wrapper(*args, **kwargs):
                    if not anybody:
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
                            await items.aclose()  # a stream that is given up ends now, as it would without us
            elif inspect.isgeneratorfunction(function):
                @functools.wraps(function)
                def wrapper(*args, **kwargs):
                    with begin(args, kwargs):
                        return (yield from function(*args, **kwargs))
            else:
                @functools.wraps(function)
                def wrapper(*args, **kwargs):
                    if not anybody:
                        return function(*args, **kwargs)
                    with begin(args, kwargs):
                        return function(*args, **kwargs)
            return wrapper
        return decorate


def _said(arguments, args, kwargs):
    """What `arguments` makes of a call. What it raises concerns the probe, not the function that is called."""
    if arguments is None:
        return ()
    try:
        said = arguments(*args, **kwargs)
    except Exception:
        return ()
    return said if isinstance(said, tuple) else (said,)
