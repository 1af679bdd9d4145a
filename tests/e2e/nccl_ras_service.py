"""A fake of NCCL's RAS service: `nccl_ras_service.py STATUS COMMAND...` runs COMMAND in a network namespace of its own, in which the service answers at
127.0.0.1:28028 with the file STATUS, in the order and form of NCCL 2.28."""
import ctypes
import fcntl
import socket
import socketserver
import struct
import subprocess
import sys
import threading
from pathlib import Path

CLONE_NEWNET, SIOCSIFFLAGS, IFF_UP = 0x40000000, 0x8914, 1


class Service(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            command = line.decode().strip().lower()
            if command == "verbose status":
                self.wfile.write(Path(sys.argv[1]).read_bytes())
                return
            self.wfile.write(b"SERVER PROTOCOL 2\n" if command.startswith("client protocol") else b"OK\n")


def main():
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        sys.exit("unshare: no network namespace")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 28028), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.exit(subprocess.run(sys.argv[2:]).returncode)


if __name__ == "__main__":
    main()
