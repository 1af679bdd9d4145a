"""Executes another program while one request is in flight: `traced_exec.py LIBRARY SETTING...`. That program prints its descriptors and TCP connections."""
import os
import sys

import traced_library

traced_library.begin(*sys.argv[1:])
traced_library.trace_requests(100)
assert traced_library.library.sonde_trace_manager_flush(traced_library.manager, 60000) == 0
in_flight = traced_library.library.sonde_trace_start(traced_library.model, None)
traced_library.trace_requests(1)
os.execv("/bin/sh", ["sh", "-c", "for fd in /proc/$$/fd/*; do readlink $fd; done; cat /proc/net/tcp"])
