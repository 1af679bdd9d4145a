"""Python's own http.server with a thread for each connection. The path of a request names its wait. Prints "port PORT"."""
import http.server
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/sleep"):
            time.sleep(0.08)
        if self.path.startswith("/lock"):
            lock = threading.Lock()
            lock.acquire()
            threading.Timer(0.08, lock.release).start()
            lock.acquire()
        if self.path.startswith("/cpu"):
            end = time.thread_time() + 0.08
            while time.thread_time() < end:
                pass
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_port, flush=True)
server.serve_forever()
