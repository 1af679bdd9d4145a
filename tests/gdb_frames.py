# Read by gdb (peers.py): one line of JSON a thread, its frames leaf first as [address, whether a signal's frame]. Frames that only
# the debug information knows (inlined functions) have no return address of their own and are left out.
import json

import gdb

for thread in gdb.selected_inferior().threads():
    thread.switch()
    frames, frame = [], gdb.newest_frame()
    while frame is not None and frame.is_valid():
        if frame.type() != gdb.INLINE_FRAME:
            frames.append([frame.pc(), frame.type() == gdb.SIGTRAMP_FRAME])
        frame = frame.older()
    print("frames " + json.dumps(frames))
