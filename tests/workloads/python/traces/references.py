"""Traces ending in every way: `references.py FILE COUNT`. Afterwards every reference count is as before; prints how many more memory blocks and
bytes there are."""
import array
import gc
import os
import sys

from begun import manager, model

COUNT = int(sys.argv[2])


def rss():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
data, name, parent = array.array("i", [1, 2, 3]), "a name of its own", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
shape, elements = [3], ["a", "b", "c"]
watched = [data, name, parent, shape, elements, model, manager, elements[0], type(model.start())]
def batch(count):
    for i in range(count):
        t = model.start(name, parent, "a=b")
        t.timestamp("REQUEST_START"); t.timestamp(name); t.timestamp("REQUEST_END", ns=i)
        t.child(model)
        t.context()
        with t.working(), model.generation(t, name) as g:
            g.tokens(); g.end(input_tokens=i, finish_reason=name)
        model.generation(t)
        if i % 10 == 0:
            t.tensor("TENSOR_QUEUE_INPUT", name, "INT32", shape, data)
            t.tensor("TENSOR_QUEUE_INPUT", name, "BYTES", shape, elements)
            with t:
                pass
            manager.model("other").start()
        else:
            t.end("error", name) if i % 3 else t.end()
        if i % 2000 == 0:
            manager.flush()
manager.http("POST", "/v2/trace/setting", '{"log_frequency":"5000"}')
batch(min(COUNT, 5000))
gc.collect(); manager.flush()
references, blocks, before = [sys.getrefcount(x) for x in watched], sys.getallocatedblocks(), rss()
batch(COUNT)
gc.collect(); manager.flush()
assert [sys.getrefcount(x) for x in watched] == references, (references, [sys.getrefcount(x) for x in watched])
assert manager.stats()["dropped_queue"] == 0
print(sys.getallocatedblocks() - blocks, rss() - before)
