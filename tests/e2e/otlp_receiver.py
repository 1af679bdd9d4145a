"""An OTLP/HTTP receiver for tests: keeps every request and gives scripted answers."""
import http.server
import json
import socket
import threading
import time


def receivers(kind):
    """The body of a fixture: yields what makes receivers of this class, and closes them at the end."""
    created = []

    def make(*answers, **options):
        created.append(kind(*answers, **options))
        return created[-1]
    yield make
    for one in created:
        one.close()


class Receiver:
    """`answers`: one per POST, in order; the last one repeats. Each is a status, or a function of the handler that writes the response itself.
    `tls`: an ssl.SSLContext to serve https with."""

    def __init__(self, *answers, port=0, tls=None):
        self.posts, self.answers, self.lock = [], list(answers or (200,)), threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver.lock:
                    answer = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
                    receiver.posts.append({"path": self.path, "headers": dict(self.headers), "body": body, "answer": answer, "at": time.monotonic()})
                if callable(answer):
                    answer(self)
                else:
                    self.answer(answer)

            do_GET = do_POST

            def answer(self, status, body=b"{}", **headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # some tests close connections on purpose

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}/v1/traces"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    @property
    def accepted(self):
        return [post for post in self.posts if post["answer"] == 200]

    def spans(self):
        """All spans in accepted JSON packets."""
        return [span for post in self.accepted if post["path"] != "/v1/metrics" for span in spans_of(json.loads(post["body"]))]

    @property
    def metrics(self):
        """The accepted POSTs of metrics."""
        return [post for post in self.accepted if post["path"] == "/v1/metrics"]


# ---- malformed answers: functions that replace a handler's response ----

def garbage(handler):
    handler.wfile.write(b"\x00\xffnot HTTP at all\r\n" * 100)
    handler.close_connection = True


def hang_up(handler):
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def endless(handler):
    """A success status and a body without end: the sender must act on the status."""
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    try:
        while True:
            handler.wfile.write(b"x" * 65536)
    except OSError:
        pass


# ---- contents of packets ----

def spans_of(packet):
    resource, = packet["resourceSpans"]
    scope, = resource["scopeSpans"]
    assert scope["scope"] == {"name": "triton-server"}
    return scope["spans"]


def value_of(value):
    if "arrayValue" in value:
        return [value_of(one) for one in value["arrayValue"]["values"]]
    return int(value["intValue"]) if "intValue" in value else value.get("boolValue", value.get("stringValue"))


def attributes(pairs):
    return {pair["key"]: value_of(pair["value"]) for pair in pairs}
