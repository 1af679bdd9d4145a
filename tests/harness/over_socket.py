"""HTTP over a Unix socket."""
import http.client
import socket


class OverSocket(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("anything.example", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


def get(connection, path, headers=None):
    """(status, body)"""
    connection.request("GET", path, headers=headers or {})
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, body
