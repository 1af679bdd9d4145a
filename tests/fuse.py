"""A file system that can be made unresponsive: a FUSE server (the protocol of <linux/fuse.h> over /dev/fuse) that serves one executable file, stops
responding at SIGUSR1, and resumes at SIGUSR2. As a program: fuse.py FILE MOUNT_POINT."""
import ctypes
import errno
import os
import signal
import struct
import sys
import time

ROOT, FILE = 1, 2
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 29, 36, 42)
KEEP_CACHE = 2


class Server:
    def __init__(self, path, mount_point):
        self.file, self.size = os.open(path, os.O_RDONLY), os.stat(path).st_size
        self.fd = os.open("/dev/fuse", os.O_RDWR)
        self.answering = True
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"test", os.fsencode(mount_point), b"fuse.test", 0, options) < 0:
            raise OSError(ctypes.get_errno(), "mount of FUSE: " + os.strerror(ctypes.get_errno()))

    def attributes(self, node):
        mode, size = (0o40755, 0) if node == ROOT else (0o100755, self.size)
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, opcode, node, body):
        if opcode == INIT:
            major, minor, readahead = struct.unpack_from("<III", body)
            return struct.pack("<IIIIHHIIHHI28x", 7, min(minor, 31), readahead, 0, 16, 12, 4096, 1, 0, 0, 0)
        if opcode == LOOKUP:
            if body.rstrip(b"\0") != b"program":
                return -errno.ENOENT
            return struct.pack("<QQQQII", FILE, 0, 3600, 3600, 0, 0) + self.attributes(FILE)
        if opcode == GETATTR:
            return struct.pack("<QII", 3600, 0, 0) + self.attributes(node)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<QII", 1, KEEP_CACHE, 0)
        if opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return os.pread(self.file, size, offset)
        if opcode == STATFS:
            return struct.pack("<QQQQQIIII24x", 1, 0, 0, 1, 0, 4096, 255, 4096, 0)
        return b"" if opcode in (RELEASE, RELEASEDIR, FLUSH) else -errno.ENOSYS

    def serve(self):
        while True:
            request = os.read(self.fd, 1 << 20)
            while not self.answering:
                time.sleep(0.01)
            size, opcode, unique, node = struct.unpack_from("<IIQQ", request)
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            body = self.answer(opcode, node, request[40:size])
            error, body = (body, b"") if isinstance(body, int) else (0, body)
            try:
                os.write(self.fd, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
            except OSError as refused:
                if refused.errno == errno.EINVAL:  # the kernel fails the request
                    continue
                if refused.errno != errno.ENOENT:  # the requester has given up
                    raise


def main():
    server = Server(*sys.argv[1:3])

    def set_answering(number, _):
        server.answering = number == signal.SIGUSR2
    signal.signal(signal.SIGUSR1, set_answering)
    signal.signal(signal.SIGUSR2, set_answering)
    print("ready", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
