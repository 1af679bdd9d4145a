"""Runs a program on a pseudo-terminal: types input, reads output, returns the exit status."""
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
        self.pid, self.fd = pty.fork()  # a new session: Ctrl-C signals every process in it
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a test suite in a script's background ignores SIGINT, which the child would inherit
            try:
                os.execvpe(str(command[0]), [str(word) for word in command], {**os.environ, "TERM": "xterm", **environment})
            finally:
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, b"\x28\x00\xf0\x00" + b"\0" * 4)  # 40 lines of 240

    def type(self, text):
        os.write(self.fd, text.encode())

    def _read(self, timeout_s):
        """False when no process has the terminal open for writing any more."""
        if select.select([self.fd], [], [], timeout_s)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # EIO: the last process closed it
                return False
            self.seen += data.decode(errors="replace")
            return bool(data)
        return True

    def wait_for(self, found, timeout_s=60, what="something on the terminal"):
        """Waits until `found(output so far)` is true; returns the output."""
        ends = time.monotonic() + timeout_s
        while not (value := found(self.seen)):
            is_open = self._read(0.1)
            assert (is_open or found(self.seen)) and time.monotonic() < ends, f"waited in vain for {what}; seen: {self.seen[-3000:]}"
        return value

    def end(self, timeout_s=60):
        """Waits for its exit; returns the exit status, or minus the signal number."""
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
