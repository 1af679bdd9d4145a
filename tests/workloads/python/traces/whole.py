"""Everything that a trace can contain, and a child of it."""
import array
import time

from begun import manager, model
from sonde import trace

assert trace.native
t = model.start("one")
assert t and t.id == 1 and t.level == trace.TIMESTAMPS | trace.TENSORS and t.context() == {}
t.timestamp("HTTP_RECV_START", ns=7)
before = time.monotonic_ns()
t.timestamp("REQUEST_START")
t.timestamp(name="my own")
t.timestamp("REQUEST_END", None)
after = time.monotonic_ns()
t.tensor("TENSOR_QUEUE_INPUT", "INPUT0", "INT32", [1, 3], array.array("i", [1, -2, 3]))
child = t.child(manager.model(name="step", version=1))
t.end()
assert not t and t.id == 1 and t.level == 0
t.end("error"); t.timestamp("late"); t.set_request_id("late")   # does nothing
with child:
    child.set_request_id("two")
print(before, after, manager.flush(), sorted(manager.stats().items()))
