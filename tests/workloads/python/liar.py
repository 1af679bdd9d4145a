"""A CPython 3.11 that corrupts its own frames: `liar.py STATEMENT GATE` executes the statement. In it, `frame` is the frame of the executing function
and `caller` the frame of its caller. Prints "ready", calls getppid() 100 times once the file GATE exists, and prints "fired".

What a frame and a code object have where is in probes/python.h. `os.getppid` is looked up before the corruption, and nothing here walks the stack."""
import ctypes
import os
import sys
import time

FRAME_CODE, FRAME_PREVIOUS, CODE_NAME, TEXT_LENGTH = 32, 48, 128, 16
word = ctypes.c_uint64.from_address


def spin():
    print("ready", flush=True)
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    for _ in range(100):
        os.getppid()
    print("fired", flush=True)
    while True:
        time.sleep(600)


def lie():
    thread = ctypes.pythonapi.PyThreadState_Get
    thread.restype = ctypes.c_void_p
    frame = word(word(thread() + 56).value + 8).value
    caller = word(frame + FRAME_PREVIOUS).value
    exec(statement, globals(), {"frame": frame, "caller": caller})
    spin()


def caller_of_lie():
    lie()


statement = compile(sys.argv[1], "statement", "exec")
caller_of_lie()
