"""An agent whose main thread hangs: /healthz and the service manager notice, and SIGTERM still ends it."""
import ctypes
import os
import signal
import socket
import struct
import time

import pytest

from harness.agents import NO_REQUESTS
from harness.machine import skip
from harness.processes import wait_for

PTRACE_PEEKUSER, PTRACE_POKETEXT, PTRACE_ATTACH, PTRACE_DETACH = 3, 4, 16, 17
ORIG_RAX_OFFSET, RIP_OFFSET = 15 * 8, 16 * 8  # in struct user_regs_struct of x86-64
POLLS = {7, 232, 271, 281}  # poll, epoll_wait, ppoll, epoll_pwait
JUMP_TO_ITSELF = b"\xeb\xfe"


def ptrace(request, pid, address=0, data=0):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype, libc.ptrace.argtypes = ctypes.c_long, [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    ctypes.set_errno(0)
    result = libc.ptrace(request, pid, address, data)
    assert ctypes.get_errno() == 0, os.strerror(ctypes.get_errno())
    return result & 0xFFFFFFFFFFFFFFFF


def let_spin(pid):
    """Replaces the main thread's next instruction by an endless loop, while it waits for events: then it holds no lock that an answer needs."""
    while True:
        ptrace(PTRACE_ATTACH, pid)
        os.waitpid(pid, 0x40000000)  # __WALL
        if ptrace(PTRACE_PEEKUSER, pid, ORIG_RAX_OFFSET) in POLLS:
            break
        ptrace(PTRACE_DETACH, pid)
        time.sleep(0.01)
    address = ptrace(PTRACE_PEEKUSER, pid, RIP_OFFSET)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        word = os.pread(memory.fileno(), 8, address)
    ptrace(PTRACE_POKETEXT, pid, address, struct.unpack("<Q", JUMP_TO_ITSELF + word[2:])[0])
    ptrace(PTRACE_DETACH, pid)


@pytest.mark.thorough
def test_a_hung_main_thread_is_noticed_and_can_be_ended(agent, tmp_path):
    if os.uname().machine != "x86_64":
        skip("the endless loop is x86-64 code")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        started = agent(*NO_REQUESTS, env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert manager.recv(64) == b"READY=1" and manager.recv(64) == b"WATCHDOG=1"
        assert started.get("/healthz")[::2] == (200, b"ok\n")
        assert abs(started.metric("sonde_self_last_turn_timestamp_seconds") - time.time()) < 9
        let_spin(started.pid)
        spins_since = time.time()
        wait_for(lambda: started.get("/healthz")[0] == 503, 30, "/healthz fails")
        assert b"main thread has done nothing for 1" in started.get("/healthz")[2] and time.time() - spins_since > 9
        assert started.metric("sonde_self_last_turn_timestamp_seconds") < spins_since + 1
        manager.settimeout(0)
        while True:  # messages from before
            try:
                assert manager.recv(64) == b"WATCHDOG=1"
            except BlockingIOError:
                break
    os.kill(started.pid, signal.SIGTERM)
    assert started.running.wait(20) == -signal.SIGALRM
