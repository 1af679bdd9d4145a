"""A listening socket that refuses connections is an event with its port and process. A wait names the retransmissions during it."""
import ctypes
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time

from accept_queue import await_refusals, full_accept_queue
from harness.processes import wait_for
from real_servers import get, parts_of, start_prefork, why

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
HEADER_BYTES = 60  # the most that TCP has: a handshake has no data


def test_a_full_accept_queue_is_an_event(sonde, agent):
    started = agent("--set", "budget.one_cpu=1000%")
    with full_accept_queue() as port:
        event = await_refusals(started, port)
        assert event["attributes"]["process.pid"] == str(os.getpid())
        assert f"port {port} of " in event["text"] and "now 2 of at most 1 wait" in event["text"]
        count = int(event["attributes"]["count"])
        assert count >= 4
        wait_for(lambda: started.metric("sonde_drops_refused_connections_total", port=str(port)) >= count, what="the counter")
        done = subprocess.run([sonde, "events", "--kind", "drops", "--agent", f"127.0.0.1:{started.port}"], capture_output=True, text=True, timeout=60, check=True)
        assert event["text"] in done.stdout and "net.core.somaxconn" in done.stdout, done


def drop_from(sock, size):
    """The kernel drops packets of more than `size` bytes, TCP's header included, before this socket and those that it will accept."""
    program = b"".join(struct.pack("HBBI", *line) for line in [(0x80, 0, 0, 0), (0x25, 0, 1, size), (0x06, 0, 0, 0), (0x06, 0, 0, 0xffffffff)])
    buffer = ctypes.create_string_buffer(program)
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer)))


def lose_packets():
    """Something of each kind that has a metric: dropped packets, unexpected and expected, a segment that is sent again, a reset."""
    for is_expected in (False, True):
        with socket.socket(type=socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as sender:
            receiver.bind(("127.0.0.1", 0))
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            if is_expected:
                drop_from(receiver, 0)
            for _ in range(20):
                sender.sendto(bytes(1024), receiver.getsockname())
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        connection, _ = server.accept()
        with connection:
            drop_from(connection, 0)
            client.sendall(b"lost")
            wait_for(lambda: client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[100:104] != bytes(4), what="a retransmission")  # tcpi_total_retrans
            connection.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
            connection.recv(4)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def serve_after_losses(server, lost_s):
    connection, _ = server.accept()
    with connection:
        time.sleep(lost_s)
        connection.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


def test_a_wait_has_its_retransmissions(sonde, agent, run):
    started, prefork = agent("--set", "budget.one_cpu=1000%"), start_prefork(run)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        drop_from(server, HEADER_BYTES)
        threading.Thread(target=serve_after_losses, args=(server, 0.3), daemon=True).start()
        took_ns = get(prefork.port, f"/downstream?{port}").took_ns
    assert took_ns > 300_000_000
    requests = wait_for(lambda: [r for r in why(sonde, started) if r["route"] == "/downstream" and parts_of(r, "downstream")], what="the request")
    part = max(parts_of(requests[0], "downstream"), key=lambda p: p["ns"])
    assert part["ns"] > took_ns / 2, requests[0]
    assert re.search(rf"HTTP GET to 127\.0\.0\.1:{port}, [1-9] retransmissions?, [\d.]+ m?s of it", part["detail"]), requests[0]
    wait_for(lambda: started.metric("sonde_drops_peer_retransmissions_total", peer=f"127.0.0.1:{port}") >= 1, what="the counter")
