"""A thread that waits for a lock and another that releases it, repeatedly: `handover.py [GATE]`. Prints "tid N" of the waiting one, then "ready",
and "given" when it was woken 20 times after a file GATE exists."""
import os
import sys
import threading
import time

lock = threading.Lock()
lock.acquire()


def taker():
    while True:
        lock.acquire()


def giver():
    count = 0
    while True:
        time.sleep(0.02)
        if lock.locked():
            lock.release()
            count += len(sys.argv) > 1 and os.path.exists(sys.argv[1])
            if count == 20:
                print("given", flush=True)


threads = [threading.Thread(target=target, daemon=True) for target in (taker, giver)]
for thread in threads:
    thread.start()
print("tid", threads[0].native_id)
print("ready", flush=True)
threads[0].join()
