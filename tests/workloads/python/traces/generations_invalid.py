"""Generations with invalid arguments, and methods that end them while they run; prints the metrics."""
from begun import manager, model, trace


class Bad:
    def __str__(self):
        raise OSError
class Ending:
    def __init__(self, *ends): self.ends = ends
    def __str__(self):
        for end in self.ends: end()
        return "ending"
class Count:
    def __index__(self): return 3
for wrong in (lambda: model.generation("t", "a"), lambda: model.generation(None, "b", 3), lambda: model.generation(operation=Bad()),
              lambda: model.generation(trac=1)):
    wrong().end()
t = model.start("one")
g = model.generation(t, "c")
for wrong in ("x", -1, 2**32, 2**70, 1.5):
    g.tokens(wrong)
g.tokens(1, 2); g.tokens(nonsense=1)
g.tokens(count=Count())
g.end(nonsense=1)
g.end(input_tokens="many", output_tokens=2**70, response_id=Bad(), finish_reason="length", error_type="timeout")
t.end()
t = model.start("two")
g = model.generation(t, "d")
g.end(response_id=Ending(t.end, g.end), error_type="late")     # its trace has ended by then, and so has the generation
class Stopping:
    def __str__(self): raise KeyboardInterrupt
g = model.generation(None, "e")
try:
    g.end(error_type=Stopping())
    print("not stopped")
except KeyboardInterrupt:
    g.end()
trace.Generation().tokens(); trace.Generation().end(); trace.Model().generation().end()
try:
    with type(model.start().working())():
        print("entered")
except TypeError:
    pass
print(manager.metrics())
