"""The kernel's delay accounting (taskstats): how long the calling thread has reclaimed memory. Needs kernel.task_delayacct=1 since before the thread began."""
import socket
import struct
import threading

NETLINK_GENERIC, CONTROLLER, GET_FAMILY, FAMILY_NAME, FAMILY_ID = 16, 16, 3, 2, 1
GET, ATTRIBUTE_PID, AGGREGATE_PID, STATISTICS = 1, 1, 4, 3
RECLAIM_NS_AT = 320  # freepages_delay_total of struct taskstats
per_thread = threading.local()


def attributes(data):
    found = {}
    while len(data) >= 4:
        size, kind = struct.unpack_from("HH", data)
        found[kind & 0x3fff] = data[4:size]
        data = data[(size + 3) & ~3:]
    return found


def ask(family, command, attribute, value):
    """The attributes of the reply."""
    if not hasattr(per_thread, "socket"):
        per_thread.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
    body = struct.pack("BBHHH", command, 1, 0, 4 + len(value), attribute) + value + bytes(-len(value) % 4)
    per_thread.socket.send(struct.pack("IHHII", 16 + len(body), family, 1, 0, 0) + body)
    reply = per_thread.socket.recv(1 << 16)
    size, kind = struct.unpack_from("IH", reply)
    if kind == 2:  # an error
        raise OSError(-struct.unpack_from("i", reply, 16)[0], "taskstats")
    return attributes(reply[20:size])


def reclaim_ns():
    if not hasattr(per_thread, "family"):
        per_thread.family = struct.unpack("H", ask(CONTROLLER, GET_FAMILY, FAMILY_NAME, b"TASKSTATS\0")[FAMILY_ID])[0]
    reply = ask(per_thread.family, GET, ATTRIBUTE_PID, struct.pack("I", threading.get_native_id()))
    return struct.unpack_from("Q", attributes(reply[AGGREGATE_PID])[STATISTICS], RECLAIM_NS_AT)[0]
