"""Python's own http.server under pre-forked workers, as in gunicorn: `prefork.py WORKERS`. The path of a request names its wait; a header
of the reply has the handler's own duration, and the run queue time from the scheduler. SIGUSR1 takes the workers' lock, SIGUSR2 releases it.
Prints "port PORT" and "workers PID..."."""
import fcntl
import http.client
import http.server
import mmap
import multiprocessing
import os
import signal
import sys
import time

lock = multiprocessing.Lock()


def queued_ns():
    return int(open("/proc/thread-self/schedstat").read().split()[1])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

    def do_GET(self):
        what, _, argument = self.path.strip("/").partition("?")
        status, began, queued = 200, time.monotonic_ns(), queued_ns()
        if what == "sleep":
            time.sleep(float(argument))
        elif what == "cpu":
            ends = time.thread_time() + float(argument)
            while time.thread_time() < ends:
                pass
        elif what == "mutex":
            with lock:
                pass
        elif what == "flock":
            with open(argument) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
        elif what == "downstream":
            connection = http.client.HTTPConnection("127.0.0.1", int(argument))
            connection.request("GET", "/")
            connection.getresponse().read()
            connection.close()
        elif what == "mapped":
            with open(argument) as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
                sum(pages[0::4096])
        elif what == "synced":
            with open(argument, "wb") as file:
                file.write(os.urandom(1 << 20))
                file.flush()
                os.fsync(file.fileno())
        elif what == "status":
            status = int(argument)
        queued, took = queued_ns() - queued, time.monotonic_ns() - began
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.send_header("X-Took-Ns", took)
        self.send_header("X-Queued-Ns", queued)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *arguments):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
signal.signal(signal.SIGUSR1, lambda *_: (lock.acquire(), print("locked", flush=True)))
signal.signal(signal.SIGUSR2, lambda *_: lock.release())
children = []
for _ in range(int(sys.argv[1])):
    children.append(os.fork())
    if not children[-1]:
        server.serve_forever()
print(f"port {server.server_port}\nworkers", *children, flush=True)
while True:
    signal.pause()
