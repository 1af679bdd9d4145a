# Read by gdb (peers.py): prints one line of JSON per stack, its frames leaf first as [address, whether it is a signal frame]. Frames that exist only
# in debug information (inlined functions, and functions that made a tail call) have no return address of their own and are left out.
#
# Attached to a process, it prints the "frames" of each thread. With $rounds, it runs its program itself: in each round it lets the program run for a
# moment (in the first one for $first seconds, if not 0) and then single-steps it; each stop is printed as "stop", and the mappings as "maps".
# With $places too, it runs the program up to the first instruction of each function in $places and steps through the function. The stack printed for
# each step is the stack at the function's first instruction, with the current instruction, the functions' names, and whether the stack pointer is on
# another stack.
import json
import random
import subprocess

import gdb

EACH = 12
PLACE_STEPS = 64
ELSEWHERE_BYTES = 1024


def frames():
    frame = gdb.newest_frame()
    while frame is not None and frame.is_valid():
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            yield frame
        frame = frame.older()


def stack():
    return json.dumps([[frame.pc(), frame.type() == gdb.SIGTRAMP_FRAME] for frame in frames()])


def names():
    return [(frame.name() or "").partition(".abi")[0] for frame in frames()]


def begin():
    for command in ("handle all nostop noprint pass", "handle SIGINT stop print nopass", "handle SIGTRAP stop print nopass", "starti"):
        gdb.execute(command, to_string=True)
    return gdb.selected_inferior().pid


def run_for(pid, wait_s):
    if wait_s:
        subprocess.Popen(["sh", "-c", f"sleep {wait_s}; kill -INT {pid}"])
        gdb.execute("continue", to_string=True)


def end(pid):
    print("maps " + json.dumps([pid, open(f"/proc/{pid}/maps").read()]), flush=True)
    gdb.execute("kill", to_string=True)


def run(rounds):
    chance = random.Random(1)
    pid = begin()
    for i in range(rounds):
        run_for(pid, chance.uniform(0.01, 0.03) if i else int(gdb.convenience_variable("first")))  # until the program is in its working loop
        for _ in range(EACH):  # for each step the kernel sends the program a signal at that instruction
            gdb.execute(f"stepi {chance.randint(1, 6)}", to_string=True)
            print("stop " + stack(), flush=True)
    end(pid)


def step_through(rounds, places):
    pid = begin()
    run_for(pid, int(gdb.convenience_variable("first")))
    gdb.execute("set scheduler-locking step")
    for place in places * rounds:
        gdb.execute(f"tbreak *'{place}'", to_string=True)
        gdb.execute("continue", to_string=True)
        callers, called, top = json.loads(stack())[1:], names(), int(gdb.newest_frame().read_register("rsp"))
        for _ in range(PLACE_STEPS):
            gdb.execute("stepi", to_string=True)
            frame = gdb.newest_frame()
            if frame.name() is None or frame.name().partition(".abi")[0] != place or frame.pc() == callers[0][0]:
                break
            is_away = abs(int(gdb.newest_frame().read_register("rsp")) - top) > ELSEWHERE_BYTES
            print("step " + json.dumps([called, is_away, [[frame.pc(), False], *callers]]), flush=True)
    end(pid)


rounds, places = gdb.convenience_variable("rounds"), gdb.convenience_variable("places")
if places is not None:
    step_through(int(rounds), places.string().split())
elif rounds is not None:
    run(int(rounds))
else:
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        print("frames " + stack())
