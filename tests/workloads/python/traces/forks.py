"""Traces in forked children and in a worker of multiprocessing, with one in flight."""
import multiprocessing
import os
import threading

from begun import manager, model

flying = model.start("flying")
flying.timestamp("before")
assert flying
def child(name):
    assert not flying and flying.level == 0 and flying.context() == {}
    flying.timestamp("in the child"); flying.set_request_id("child"); flying.end()
    with model.start(name) as t:
        t.timestamp("REQUEST_START")
    assert manager.stats()["sampled"] == 1
pid = os.fork()
if pid == 0:
    child("by fork")
    os._exit(0 if manager.flush() else 1)
assert os.waitpid(pid, 0)[1] == 0
busy = threading.Thread(target=manager.flush, args=(5,)); busy.start()
process = multiprocessing.get_context("fork").Process(target=child, args=("by multiprocessing",))
process.start(); process.join(); busy.join()
assert process.exitcode == 0
flying.timestamp("after"); flying.end()
print(pid, process.pid)
