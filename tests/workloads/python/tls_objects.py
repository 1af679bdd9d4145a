"""A server of HTTP/1 over TLS on blocking sockets, which serves one connection at a time: `tls_objects.py CERTIFICATE KEY [fork]`. Prints its port, and for each connection
the address of its SSL object. It replies "ok" to each request; where a request names /gone, it closes the connection without a reply, and the SSL object is freed.

fork: a child process serves each connection, from after its handshake on, and lives on."""
import ctypes
import os
import signal
import socket
import ssl
import sys

AFTER_HEAD = 3 * ctypes.sizeof(ctypes.c_void_p)  # of CPython's object of a connection: reference count, type, socket; then its SSL object


def serve(connection):
    received = b""
    while data := connection.recv(4096):
        received += data
        if b"/gone" in received:
            return
        while b"\r\n\r\n" in received:
            received = received.partition(b"\r\n\r\n")[2]
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")


def accept(listener, context, does_fork):
    plain, _ = listener.accept()
    with context.wrap_socket(plain, server_side=True) as connection:
        print(ctypes.c_void_p.from_address(id(connection._sslobj) + AFTER_HEAD).value, flush=True)
        if does_fork and os.fork():
            return
        try:
            serve(connection)
        except (ConnectionError, ssl.SSLError):
            pass  # closed by the client
        while does_fork:
            signal.pause()


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[1:3])
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        accept(listener, context, "fork" in sys.argv[3:])


main()
