"""Managers in reference cycles with their own models, requests and generations: the collector frees them, and others are not affected."""
import gc
import sys
import weakref

from begun import model
from sonde import trace

gc.collect()
for make in (lambda m, model: model, lambda m, model: {"deep": [model]}, lambda m, model: model.start(), lambda m, model: model.start("id", "00-" + 16 * "ab" + "-" + 8 * "cd" + "-01"),
             lambda m, model: model.start().child(model), lambda m, model: model.generation(model.start())):
    other = trace.Manager(["rate=1", "level=TIMESTAMPS", f"triton,file={sys.argv[1]}.circle"])
    other.mine = make(other, other.model("m"))
    gone = weakref.ref(other)
    assert gc.is_tracked(other.mine)
    del other
    assert gone() is not None, "a cycle is there until it is collected"
    gc.collect()
    assert gone() is None and gone not in trace._managers
assert model.start("after").id > 0   # the others are unaffected
