"""Programs whose Python stacks stay unchanged: `stacks.py NAME [GATE]`. Each ends in spin(), which never returns; it is reached in the
interpreter's different ways from function to function, with and without C code in between. Prints "ready" when all threads are there. SIGUSR1
makes faulthandler print the stacks. Without GATE, spin() is busy. With it, spin() sleeps until a file of that name exists, calls getppid()
FIRINGS times, an event to record, prints "fired" and sleeps again."""
import faulthandler
import os
import signal
import sys
import threading
import time

FIRINGS = 100

faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)


def spin():
    ready.release()
    while not gate:
        pass
    while not os.access(gate, os.F_OK):  # a C function: adds no Python frame
        time.sleep(0.01)
    for _ in range(FIRINGS):
        os.getppid()
    os.write(1, b"fired\n")
    while True:
        time.sleep(600)


ready = threading.Semaphore(0)


def recursion(depth):
    if depth == 0:
        spin()
    recursion(depth - 1)


def key():
    def compare(x):
        spin()
    sorted([1], key=compare)


def regular_expression():
    import re
    re.sub("a", lambda match: spin(), "a")


def ctypes_callback():
    import ctypes
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    compare = kind(lambda a, b: spin())
    ctypes.CDLL(None).qsort((ctypes.c_int * 2)(2, 1), 2, 4, compare)


def generators():
    def inner():
        yield 1
        spin()

    def outer():
        yield from inner()
    for _ in outer():
        pass


class Number:
    def __init__(self, value):
        self.value = value

    @property
    def double(self):
        return self * 2

    def __mul__(self, other):
        spin()

    def __getattr__(self, name):
        return self.double


def methods():
    Number(1).missing


def comprehension():
    [spin() for _ in range(1)]


def class_body():
    class Made:
        spin()


def executed():
    exec(compile("\n\ndef grüße_дом(x):\n    spin()\n\n\ngrüße_дом(1)\n", "/nowhere/naïve ☃.py", "exec"), {"spin": spin})


def tasks():
    import asyncio

    async def leaf():
        spin()

    async def middle():
        await leaf()

    async def main():
        await asyncio.gather(asyncio.create_task(middle()))
    asyncio.run(main())


def worker_a(depth):
    if depth:
        worker_a(depth - 1)
    spin()


def worker_b():
    list(map(lambda _: spin(), [1]))


def threads():
    for target, arguments in ((worker_a, (3,)), (worker_b, ())):
        threading.Thread(target=target, args=arguments, daemon=True).start()
    spin()


def fork():
    if os.fork():
        ready.release()
        os.wait()
    spin()


def announce(count):
    for _ in range(count):
        ready.acquire()
    print("ready", flush=True)
    while True:
        signal.pause()


name, gate = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
calls = {"recursion": lambda: recursion(50), "deep": lambda: recursion(900)}
if name == "deeper":
    sys.setrecursionlimit(3000)
    calls[name] = lambda: recursion(2000)
program = calls.get(name) or globals()[name]
threading.Thread(target=announce, args=(3 if name == "threads" else 1,), daemon=True).start()
program()
