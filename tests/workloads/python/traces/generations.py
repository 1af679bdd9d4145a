"""Generations of tokens with and without a trace, ending in every way; prints the metrics."""
from begun import manager, model

t = model.start("one")
g = model.generation(t, operation="chat")
g.tokens(); g.tokens(2); g.tokens(0)
g.end(input_tokens=5, response_id="r\u00e9", response_model=b"m", finish_reason="stop")
g.end(); g.tokens(1)
t.end()
with model.generation() as g:
    g.tokens(4)
t = model.start("two")
try:
    with model.generation(t) as g:
        raise KeyError
except KeyError:
    t.end()
t = model.start("late")
g = model.generation(t)
t.end()
g.tokens(); g.end()
model.generation(operation="dropped")
print(manager.metrics())
s = manager.stats()
assert s["generations"] == 4 and s["generations_overflowed"] == 0 and len(s) == 15, s
