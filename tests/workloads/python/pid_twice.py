"""Runs two programs of tests/workloads under one PID: `pid_twice.py SECONDS DEEP NORETURN`. Prints the PID; 0 when another process took it."""
import os
import sys


def start(command, pid):
    for _ in range(200):
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(pid - 1))
        child = os.fork()
        if child == 0:
            os.execv(command[0], command) if os.getpid() == pid else os._exit(99)
        if child == pid:
            return os.waitpid(child, 0)[1] == 0
        os.waitpid(child, 0)
    return False


first = os.fork()
if first == 0:
    os._exit(0)
os.waitpid(first, 0)
ok = start([sys.argv[2], "9", sys.argv[1]], first) and start([sys.argv[3], sys.argv[1]], first)
print("pid", first if ok else 0, flush=True)
