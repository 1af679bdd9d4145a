"""The collector frees a manager on the library's thread; a signal handler closes an object that is being closed."""
import gc
import logging
import threading

from sonde import trace

class Collecting(logging.Handler):
    def emit(self, record):
        global owner
        del owner
        gc.collect()
        reported.set()

class Owner:
    pass

reported = threading.Event()
logging.getLogger("sonde.trace").addHandler(Collecting())
owner = Owner()
owner.self, owner.manager = owner, trace.Manager(["rate=1", "level=TIMESTAMPS", "triton,file=/nowhere/at/all"])
gc.disable()
owner.manager.model("m").start().end()
print(reported.wait(30))
for _ in range(100000):  # the main thread runs the deferred work
    pass
print(len(trace._managers))
manager = trace.Manager(["rate=1"])
with manager._lock:
    manager.close()
print("closed")
