"""An accept queue that is full, so that the kernel refuses connections: an event of the node, always the same."""
import contextlib
import json
import socket

from harness.processes import wait_for

NAME = "drops.listen_overflow"


@contextlib.contextmanager
def full_accept_queue():
    """The port of a listening socket whose program accepts no connections."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server, contextlib.ExitStack() as clients:
        for _ in range(6):
            client = clients.enter_context(socket.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
            client.connect_ex(server.getsockname())
        yield server.getsockname()[1]


def await_refusals(started, port):
    """The event of this port, as the agent's API has it."""
    return wait_for(lambda: [event for event in json.loads(started.text("/api/v1/events?seconds=60&max=1000"))["events"]
                             if event["name"] == NAME and event["attributes"]["server.port"] == str(port)], what="the event")[0]
