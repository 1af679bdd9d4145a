"""A program on a terminal of its own, as a person has one: what is typed, what is seen, what it ends with."""
import fcntl
import os
import pty
import select
import signal
import termios
import time


class Terminal:
    def __init__(self, *command, **environment):
        self.seen, self.status = "", None
        self.pid, self.fd = pty.fork()  # a session of its own: Ctrl-C reaches all that runs in it
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a suite that runs in the background of a script ignores it, and so would this
            try:
                os.execvpe(str(command[0]), [str(word) for word in command], {**os.environ, "TERM": "xterm", **environment})
            finally:
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, b"\x28\x00\xf0\x00" + b"\0" * 4)  # 40 lines of 240

    def type(self, text):
        os.write(self.fd, text.encode())

    def _read(self, timeout_s):
        """False: no process writes any more."""
        if select.select([self.fd], [], [], timeout_s)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # EIO: its last process has closed it
                return False
            self.seen += data.decode(errors="replace")
            return bool(data)
        return True

    def wait_for(self, found, timeout_s=60, what="something on the terminal"):
        """Until `found(seen so far)` is true; returns that."""
        ends = time.monotonic() + timeout_s
        while not (value := found(self.seen)):
            is_open = self._read(0.1)
            assert (is_open or found(self.seen)) and time.monotonic() < ends, f"waited in vain for {what}; seen: {self.seen[-3000:]}"
        return value

    def end(self, timeout_s=60):
        """Its exit status, once it has ended by itself; negative: the signal."""
        ends = time.monotonic() + timeout_s
        while self._read(0.1) and time.monotonic() < ends:
            pass
        while self.status is None and time.monotonic() < ends:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(0.02)
        assert self.status is not None, f"still runs after {timeout_s} s; seen: {self.seen[-3000:]}"
        return self.status

    def kill(self):
        if self.status is None:
            for end in (os.killpg, os.kill):
                try:
                    end(self.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            os.waitpid(self.pid, 0)
        os.close(self.fd)
