"""Traces of 16 threads, some stamped and ended by several at once."""
import sys
import threading

from begun import manager, model

shared = [None]
def work(number):
    for i in range(200):
        t = model.start(f"{number}-{i}")
        t.timestamp("REQUEST_START")
        other, shared[0] = shared[0], t
        if other:
            other.timestamp("other")
            other.end("ok" if i % 2 else "error")
        with t.child(manager.model(f"m{i % 7}")) as child:
            child.timestamp("REQUEST_START")
        t.end()
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert manager.flush()
s = manager.stats()
assert (s["sampled"], s["written"], s["dropped_queue"]) == (3200, 3200, 0), s
