"""A request in a thread that begins at SIGUSR1: `debugged.py TRACEPARENT`. Prints "waiting" before."""
import signal
import sys
import threading

from sonde import trace

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
manager = trace.Manager(["rate=1", "level=TIMESTAMPS", "triton,file=/nowhere/at/all"])
model = manager.model("simple")
def work():
    with model.start(None, sys.argv[1]) as t, t.working():
        pass
print("waiting", flush=True)
signal.sigwait([signal.SIGUSR1])
thread = threading.Thread(target=work); thread.start(); thread.join()
