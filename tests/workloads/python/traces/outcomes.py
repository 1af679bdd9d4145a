"""Every way that a traced block can end."""
import asyncio
import concurrent.futures

from begun import model

def block(raising=None):
    try:
        with model.start() as t:
            if raising:
                raise raising
    except BaseException:
        pass
block()
block(ValueError("the reason"))
block(asyncio.CancelledError())
block(concurrent.futures.CancelledError())
def parts():
    with model.start():
        yield 1
next(parts())
class Bad(Exception):
    def __str__(self):
        raise KeyError
block(Bad())
t = model.start(); t.end("cancelled", "by hand")
t = model.start(); t.end(message=b"bytes", status="error")
model.start()
t = model.start(); t.end("sideways")
t = model.start(); t.end(1, 2, 3); t.end()
