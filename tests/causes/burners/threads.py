"""http.server: each request computes for 120 ms in a function that calls the standard library."""
import http.server
import json
import sys
import time


def burn_items(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        json.dumps([{"number": i, "text": str(i)} for i in range(200)])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        burn_items(0.12)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
