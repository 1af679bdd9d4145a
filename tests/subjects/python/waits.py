"""Threads that wait in Python's ways: `waits.py`. Each waits in the same place over and over, for a moment each time. When all are there, a line a thread
tells where in its own account, `stack TID JSON` of (function, file, line), outermost first, and then "ready"."""
import asyncio
import collections
import json
import queue
import select
import sys
import threading
import time

MOMENT_S = 0.05
lock, box = threading.Lock(), queue.Queue()
lock.acquire()


def in_sleep():
    while True:
        time.sleep(MOMENT_S)


def in_lock():
    while True:
        lock.acquire(timeout=MOMENT_S)


def in_queue():
    while True:
        try:
            box.get(timeout=MOMENT_S)
        except queue.Empty:
            pass


def in_select():
    while True:
        select.select([], [], [], MOMENT_S)


def in_asyncio():
    async def main():
        while True:
            await asyncio.sleep(MOMENT_S)
    asyncio.run(main())


def in_callback():
    """With C code between Python's functions."""
    def wait(_):
        while True:
            time.sleep(MOMENT_S)
    sorted([1], key=wait)


def account(frame):
    found = []
    while frame:
        found.append((getattr(frame.f_code, "co_qualname", frame.f_code.co_name), frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(found[::-1])


def most_seen(threads):
    """Of each thread the stack that it has at most of a hundred moments."""
    seen = {thread.native_id: collections.Counter() for thread in threads}
    for _ in range(100):
        time.sleep(MOMENT_S / 7)
        frames = sys._current_frames()
        for thread in threads:
            seen[thread.native_id][account(frames[thread.ident])] += 1
    return {tid: stacks.most_common(1)[0][0] for tid, stacks in seen.items()}


threads = [threading.Thread(target=place, name=name[3:], daemon=True) for name, place in sorted(globals().items()) if name.startswith("in_")]
for thread in threads:
    thread.start()
for tid, stack in most_seen(threads).items():
    print(f"stack {tid} {json.dumps(stack)}")
print("ready", flush=True)
while True:
    time.sleep(600)
