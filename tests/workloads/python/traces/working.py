"""Coroutines and blocks that work for a request, left in any order."""
import asyncio

from sonde import trace
manager = trace.Manager(["rate=1", "level=TIMESTAMPS", "triton,file=/nowhere/at/all"])
model = manager.model("m")
async def steps(n):
    try:
        for _ in range(n):
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        return "was cancelled"
    if n == 3:
        raise KeyError(n)
    return n
async def main():
    for t in (model.start(), trace.Trace()):
        assert await trace.working(t, steps(2)) == 2
        try:
            await trace.working(t, steps(3))
            print("not raised")
        except KeyError:
            pass
        async def wrapped():
            return await trace.working(t, steps(10**6))
        task = asyncio.ensure_future(wrapped())
        await asyncio.sleep(0.01)
        task.cancel()
        assert await task == "was cancelled"
        unfinished = wrapped()
        unfinished.send(None)
        unfinished.close()
        t.end()
asyncio.run(main())
t, u = model.start(), model.start()
a, b, c = t.working(), u.working(), t.working()
assert a.__enter__() is t
b.__enter__(); c.__enter__(); a.__enter__()
a.__exit__(None, None, None)
t.end()
del t, a, c
b.__exit__(); b.__exit__()
with u.working():
    u.end()
with u.working(), trace.Trace().working():
    pass
