"""Threads that wait in Python's different ways: `waits.py [GATE]`. Each waits in the same place repeatedly, for a moment each time. When all are
there, a line per thread reports where, `stack TID JSON` of (function, file, line), outermost first, and then "ready". With GATE, "ready" comes
first, the threads go to their places when a file of that name exists, and "waited" follows when each has finished waits there."""
import asyncio
import collections
import json
import os
import queue
import select
import sys
import threading
import time

MOMENT_S = 0.05
lock, box = threading.Lock(), queue.Queue()
lock.acquire()
turns = collections.Counter()  # finished waits by place


def in_sleep():
    while True:
        time.sleep(MOMENT_S)
        turns["in_sleep"] += 1


def in_lock():
    while True:
        lock.acquire(timeout=MOMENT_S)
        turns["in_lock"] += 1


def in_queue():
    while True:
        try:
            box.get(timeout=MOMENT_S)
        except queue.Empty:
            turns["in_queue"] += 1


def in_select():
    while True:
        select.select([], [], [], MOMENT_S)
        turns["in_select"] += 1


def in_asyncio():
    async def main():
        while True:
            await asyncio.sleep(MOMENT_S)
            turns["in_asyncio"] += 1
    asyncio.run(main())


def in_callback():
    """With C code between Python functions."""
    def wait(_):
        while True:
            time.sleep(MOMENT_S)
            turns["in_callback"] += 1
    sorted([1], key=wait)


def pass_gate():
    while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
        time.sleep(0.01)


def begin(place):
    pass_gate()
    place()


def account(frame):
    found = []
    while frame:
        found.append((getattr(frame.f_code, "co_qualname", frame.f_code.co_name), frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(found[::-1])


def most_seen(threads):
    """The most frequent stack of each thread in a hundred observations."""
    seen = {thread.native_id: collections.Counter() for thread in threads}
    for _ in range(100):
        time.sleep(MOMENT_S / 7)
        frames = sys._current_frames()
        for thread in threads:
            seen[thread.native_id][account(frames[thread.ident])] += 1
    return {tid: stacks.most_common(1)[0][0] for tid, stacks in seen.items()}


places = {name: place for name, place in sorted(globals().items()) if name.startswith("in_")}
threads = [threading.Thread(target=begin, args=(place,), name=name[3:], daemon=True) for name, place in places.items()]
for thread in threads:
    thread.start()
if len(sys.argv) > 1:
    print("ready", flush=True)
    while not all(turns[name] for name in places):
        time.sleep(0.01)
for tid, stack in most_seen(threads).items():
    print(f"stack {tid} {json.dumps(stack)}")
print("waited" if len(sys.argv) > 1 else "ready", flush=True)
while True:
    time.sleep(600)
