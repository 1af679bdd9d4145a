"""Fires everywhere:fired 50 times a second in this process and in a worker of each kind of multiprocessing; prints their pids."""
import multiprocessing
import os
import sys
import time

import sonde

provider = sonde.Provider("everywhere")
fired = provider.add("fired", "str version, str kind, i64 worker")
assert sonde.native and provider.load()


def work(kind):
    while True:
        fired.fire("%d.%d" % sys.version_info[:2], lambda: kind, os.getpid())
        time.sleep(0.02)


if __name__ == "__main__":
    for kind in ("fork", "spawn", "forkserver"):
        worker = multiprocessing.get_context(kind).Process(target=work, args=(kind,), daemon=True)
        worker.start()
        print(f"{kind} {worker.pid}")
    print("version %d.%d" % sys.version_info[:2])
    print(f"main {os.getpid()}\npid {os.getpid()}\nready", flush=True)
    work("main")
