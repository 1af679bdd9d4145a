"""A thread for each connection: Python's http.server, over TLS where a certificate is given."""
import http.server
import ssl

from common import CERTIFICATE, Server, now, parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, -1

    def do_GET(self):
        t0 = now()
        route, parameters, number = parse(self.path)
        truth = server.work(route, parameters)
        t1 = now()
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
        self.wfile.flush()
        server.record(number, route, t0, t1, truth)

    def log_message(self, *arguments):
        pass


class Threads(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 1024


server = Server()
threads = Threads(("127.0.0.1", server.port), Handler)
if CERTIFICATE:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    threads.socket = context.wrap_socket(threads.socket, server_side=True)
threads.serve_forever()
