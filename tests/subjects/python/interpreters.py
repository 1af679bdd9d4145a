"""A thread with frames in two interpreters of one process, which works and sleeps in the inner one: `interpreters.py WAY`. Prints "spinner TID", then "ready".
same: the thread that made the interpreter. lent: another one; before 3.12 that has the state of the one which made it. Another thread waits in either."""
import sys
import threading
import time

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

INNER = """
import time


def spin():
    print("ready", flush=True)
    while True:
        for _ in range(100000):
            pass
        time.sleep(0.001)  # before 3.12 nobody else is let in while an interpreter works that is not theirs


def middle():
    list(map(lambda _: spin(), [1]))


middle()
"""


def outer(made):
    print("spinner", threading.get_native_id(), flush=True)
    interpreters.run_string(made, INNER)


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
