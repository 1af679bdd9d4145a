"""A program that chooses hostile names: of itself, a thread, functions, files, and the routes that it serves and asks for. Prints its port, and asks
itself until it is killed. A perf map names the functions: machine code that computes for a while."""
import ctypes
import mmap
import os
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

HOSTILE = "<i>\x1b[31m\x9b2J\u202e\u2028"  # markup, an escape sequence, one of C1, and marks of the direction of text
# mov eax, 2**28; dec eax; jnz .-2; ret: a tenth of a second
SPIN = b"\xb8\x00\x00\x00\x10\xff\xc8\x75\xfc\xc3"


def name_thread(name):
    ctypes.CDLL(None).prctl(15, name.encode()[:15], 0, 0, 0)  # PR_SET_NAME


def make_spin():
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(SPIN)
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    with open(f"/tmp/perf-{os.getpid()}.map", "w") as names:
        names.write(f"{address:x} {len(SPIN):x} spin{HOSTILE}\n")
    return ctypes.CFUNCTYPE(None)(address), code


spin, _code = make_spin()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        name_thread(HOSTILE)
        spin()
        try:
            open(f"{sys.argv[1]}/none{HOSTILE}")
        except FileNotFoundError:
            pass
        with open(f"{sys.argv[1]}/file{HOSTILE}", "a") as f:
            f.write("x" * 100000)
            f.flush()
            os.fsync(f.fileno())
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


def main():
    name_thread(HOSTILE)
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    with socket.create_connection(server.server_address) as client:
        while True:
            client.sendall(f"GET /a{HOSTILE}/b HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            while not client.recv(4096).endswith(b"\r\n\r\n"):
                pass
            time.sleep(0.05)


if __name__ == "__main__":
    main()
