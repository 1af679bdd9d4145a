"""Requests of two traces in turn, each with work for it and work without a request, once the file GATE exists: `traced_works.py GATE ROUNDS
TRACES`. Each function makes a system call in each round. Prints "fired" at the end."""
import os
import sys
import time

from sonde import trace


def traced():
    os.getppid()


def unlinked():
    os.getppid()


gate, rounds, file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
manager = trace.Manager(["rate=1", "level=TIMESTAMPS", "triton,file=" + file])
model = manager.model("m", 1)
print("pid", os.getpid(), "\nready", flush=True)
while not os.path.exists(gate):
    time.sleep(0.01)
for number in range(rounds):
    with model.start("r", traceparent=f"00-{number % 2 + 1:032x}-00000000000000aa-01") as t:
        with t.working():
            traced()
        unlinked()
print("fired", flush=True)
time.sleep(600)
