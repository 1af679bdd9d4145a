"""A thread with frames in two interpreters of one process, which works and sleeps in the inner one: `interpreters.py WAY [GATE]`. Prints "spinner
TID", then "ready". same: the thread that created the interpreter. lent: another one; before 3.12 that has the state of the thread that created
it. Another thread waits in either. With GATE it does not work, but calls getppid() 100 times once a file of that name exists, and prints
"fired"."""
import sys
import threading
import time

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

INNER = """
import os
import time

gate = GATE


def spin():
    print("ready", flush=True)
    while not gate:
        for _ in range(100000):
            pass
        time.sleep(0.001)  # before 3.12 no other interpreter's thread runs while this one works
    while not os.path.exists(gate):
        time.sleep(0.01)
    for _ in range(100):
        os.getppid()
    print("fired", flush=True)
    time.sleep(600)


def middle():
    list(map(lambda _: spin(), [1]))


middle()
"""


def outer(made):
    print("spinner", threading.get_native_id(), flush=True)
    interpreters.run_string(made, INNER.replace("GATE", repr(sys.argv[2] if len(sys.argv) > 2 else None)))


def wait():
    while True:
        time.sleep(0.01)


made = interpreters.create()
if sys.argv[1] == "same":
    threading.Thread(target=wait, daemon=True).start()
    outer(made)
else:
    threading.Thread(target=lambda: outer(made), daemon=True).start()
    wait()
