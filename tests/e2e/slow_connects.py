"""A program whose threads connect to a listening socket of its own, the queue of which is full: each waits in connect(2) for longer than the one before,
beginning with 0.3 seconds. slow_connects.py SOCKET"""
import socket
import sys
import threading
import time
from pathlib import Path


def main(path):
    Path("/proc/self/comm").write_text("slow-connect")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(0)

        def connect():
            client = socket.socket(socket.AF_UNIX)
            client.connect(path)
            return client
        kept, seconds = [connect()], 0.3
        while True:
            kept.append(threading.Thread(target=lambda: kept.append(connect())))
            kept[-1].start()
            time.sleep(seconds)
            kept.append(listening.accept())
            seconds += 0.1


if __name__ == "__main__":
    main(sys.argv[1])
