"""A fixed pool of threads: one thread reads the requests of all connections, the workers take them from a queue and write the replies."""
import contextlib
import queue
import selectors
import socket
import threading

from common import Server, item, now, parse

WORKERS = 4
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def work_off(server, requests):
    while True:
        connection, text, read_at = requests.get()
        t0 = now()
        route, parameters, number = parse(text.split(b" ", 2)[1].decode())
        truth = [item("queue_behind", read_at, t0), *server.work(route, parameters)]
        t1 = now()
        with contextlib.suppress(OSError):  # the client may have gone
            connection.sendall(REPLY)
        server.record(number, route, t0, t1, truth)


def read(connection):
    """A request, which is assumed to come in one piece; nothing at the end of the connection."""
    try:
        return connection.recv(65536)
    except OSError:
        return b""


def serve(server):
    requests, selector = queue.SimpleQueue(), selectors.DefaultSelector()
    for _ in range(WORKERS):
        threading.Thread(target=work_off, args=(server, requests), daemon=True).start()
    listener = socket.create_server(("127.0.0.1", server.port), backlog=1024)
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                connection = listener.accept()[0]
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(connection, selectors.EVENT_READ)
            elif text := read(key.fileobj):
                requests.put((key.fileobj, text, now()))
            else:
                selector.unregister(key.fileobj)
                key.fileobj.close()


serve(Server())
