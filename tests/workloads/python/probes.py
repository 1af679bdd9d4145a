"""Fires every kind of probe of the Python package, in this process and in a forked worker, which it names: at each SIGUSR1, or all the time
with the argument `loop`."""
import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time

import sonde

provider = sonde.Provider("py")
kinds = provider.add("kinds", "str text, u64 most, i64 least, i32 flag, f64 x, str nothing")
lazy = provider.add("lazy", "i64 a, str b, i64 failing, str number")
work = sonde.Pair(provider, "work", "str what")
tasks = sonde.Pair(provider, "task", "u64 n")
assert provider.load()


def fail():
    raise ValueError("a lazy argument that fails")


@work.around(lambda good: "call")
def call(good):
    if not good:
        raise KeyError


@work.around()
def count(n):
    yield from range(n)


@tasks.around(lambda n, seconds: n)
async def task(n, seconds):
    await asyncio.sleep(seconds)
    return n


async def many():
    assert await asyncio.gather(*(task(n, 0.003 * (5 - n)) for n in range(5))) == list(range(5))
    cancelled = asyncio.ensure_future(task(99, 10))
    await asyncio.sleep(0.001)
    cancelled.cancel()
    try:
        await cancelled
    except asyncio.CancelledError:
        pass


def once():
    kinds.fire("café", 2**64 - 1, -2**63, True, -2.5, None)
    lazy.fire(lambda: 41 + 1, lambda: b"bytes", fail, 7)
    lazy.fire()
    with work("block"):
        pass
    try:
        call(False)
    except KeyError:
        pass
    call(True)
    assert list(count(3)) == [0, 1, 2]
    run = work("thread")
    thread = threading.Thread(target=run.end)
    thread.start()
    thread.join()
    asyncio.run(many())


def once_and_in_a_worker():
    once()
    worker = multiprocessing.get_context("fork").Process(target=once)
    worker.start()
    worker.join()
    assert worker.exitcode == 0, worker.exitcode
    print(f"fired {worker.pid}", flush=True)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    print(f"pid {os.getpid()}\nready", flush=True)
    while True:
        if sys.argv[1:] == ["loop"]:
            time.sleep(0.01)
        else:
            signal.sigwait([signal.SIGUSR1])
        once_and_in_a_worker()
