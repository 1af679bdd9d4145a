"""A TCP proxy that records the traffic of its connections."""
import socket
import threading


class Tap:
    """A port that forwards its connections to another port and keeps the bytes of both directions without interpreting them."""

    def __init__(self, port):
        self.to, self.connections = port, []  # bytes sent in each direction, per connection
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server, said = socket.create_connection(("127.0.0.1", self.to)), (bytearray(), bytearray())
            self.connections.append(said)
            for source, target, kept in ((client, server, said[0]), (server, client, said[1])):
                threading.Thread(target=self.carry, args=(source, target, kept), daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # otherwise accept() does not return
        self.listener.close()

    @staticmethod
    def carry(source, target, kept):
        try:
            while data := source.recv(65536):
                kept += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one side has closed

    def messages(self, side):
        """[(first line, headers, body)] of the requests (0) or responses (1)."""
        found = []
        for said in self.connections:
            rest = bytes(said[side])
            while rest:
                head, _, rest = rest.partition(b"\r\n\r\n")
                first, *lines = head.decode().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                size = int(headers["content-length"])
                found.append((first, headers, rest[:size]))
                rest = rest[size:]
        return found
