"""Traces requests on 64 threads, unloads the library, and checks that nothing of it remains: `traced_unload.py LIBRARY "SETTING SETTING..."...`"""
import os
import sys
import threading
import time

import traced_library

for settings in sys.argv[2:]:
    traced_library.begin(sys.argv[1], *settings.split(" "))
    threads = [threading.Thread(target=traced_library.trace_requests, args=(25,)) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    traced_library.unload()
    assert not any("libsonde.so" in line for line in open("/proc/self/maps")), "still mapped"
    ends = time.monotonic() + 60  # a joined thread disappears from /proc a moment later
    while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < ends:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/task")) == 1, "a thread is left"
    pid = os.fork()  # a fork handler of the library must be gone with it
    if pid == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
