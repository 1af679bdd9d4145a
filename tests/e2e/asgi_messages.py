"""TraceMiddleware, message by message: small applications and a server stub. Prints the stamps and the outcome of each request.

`asgi_messages.py` prints one line per case; test_asgi.py has the expected lines."""
import asyncio
import json
import os
import sys
import tempfile
import warnings

from sonde import asgi, trace

PATH = "/v2/models/m/infer"
BODY = {"type": "http.request", "body": b"x", "more_body": False}
GONE = {"type": "http.disconnect"}
START = {"type": "http.response.start", "status": 200, "headers": []}
LAST = {"type": "http.response.body", "body": b"y"}
PART = {"type": "http.response.body", "body": b"y", "more_body": True}


class Server:
    """Feeds an application the messages of a client and keeps what the application sends. receive() then blocks until the response is complete;
    with GONE among the messages it reports a disconnect instead."""

    def __init__(self, messages, failing=False):
        self.left, self.sent, self.failing, self.end, self.last = list(messages), [], failing, asyncio.Event(), LAST["type"]

    async def receive(self):
        if self.left:
            return self.left.pop(0) if self.left[0] is not GONE else GONE
        await self.end.wait()
        return GONE

    async def send(self, message):
        if self.failing and message["type"] == "http.response.body":
            raise OSError("the client has gone")
        self.sent.append(message)
        self.last = "http.response.trailers" if message.get("trailers") else self.last
        if message["type"] == self.last and not message.get("more_body") and not message.get("more_trailers"):
            self.end.set()


async def read(receive):
    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
        pass
    return message


async def plain(scope, receive, send):
    await read(receive)
    await send(START)
    await send(LAST)


async def parts(scope, receive, send):
    await read(receive)
    await send(START)
    for _ in range(3):
        await send(PART)
    await send(LAST)


async def unread(scope, receive, send):
    await send(START)
    await send(LAST)


async def listening(scope, receive, send):
    """Like Starlette with a streaming response: a second task waits for the client's disconnect."""
    await read(receive)
    waiting = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    await send(START)
    await send(LAST)
    assert (await waiting)["type"] == "http.disconnect"


async def listening_late(scope, receive, send):
    await plain(scope, receive, send)
    assert await receive() is GONE and await receive() is GONE


async def refusing(scope, receive, send):
    await read(receive)
    await send({**START, "status": 422})
    await send(LAST)


async def raising(scope, receive, send):
    await read(receive)
    raise ValueError("no such thing")


async def raising_at_once(scope, receive, send):
    raise ValueError("at once")


async def raising_late(scope, receive, send):
    await plain(scope, receive, send)
    raise ValueError("in a background task")


async def raising_in_the_middle(scope, receive, send):
    await read(receive)
    await send(START)
    await send(PART)
    raise ValueError("in the middle")


async def cancelled(scope, receive, send):
    await read(receive)
    raise asyncio.CancelledError


async def silent(scope, receive, send):
    await read(receive)


async def ended(scope, receive, send):
    scope["sonde.trace"].end("error", "by the application")
    await plain(scope, receive, send)


async def trailing(scope, receive, send):
    await read(receive)
    await send({**START, "trailers": True})
    await send(LAST)
    await send({"type": "http.response.trailers", "headers": [], "more_trailers": True})
    await send({"type": "http.response.trailers", "headers": []})


async def pathsend(scope, receive, send):
    await read(receive)
    await send(START)
    await send({"type": "http.response.pathsend", "path": "/etc/hostname"})


async def both_ways(scope, receive, send):
    """Sends the response before the request body is complete."""
    await receive()
    await send(START)
    await receive()
    await send(LAST)


MORE = {**BODY, "more_body": True}
CASES = [
    ("plain", plain, [BODY]), ("parts in, parts out", parts, [MORE, MORE, BODY]), ("unread", unread, [BODY]), ("both ways", both_ways, [MORE, BODY]),
    ("listening", listening, [BODY]), ("listening late", listening_late, [BODY]), ("refusing", refusing, [BODY]), ("raising", raising, [BODY]),
    ("raising at once", raising_at_once, [BODY]), ("raising late", raising_late, [BODY]), ("raising in the middle", raising_in_the_middle, [BODY]),
    ("cancelled", cancelled, [BODY]), ("silent", silent, [BODY]), ("ended", ended, [BODY]), ("trailing", trailing, [BODY]),
    ("pathsend", pathsend, [BODY]), ("gone before the answer", plain, [BODY, GONE]), ("gone in a body", silent, [MORE, GONE]),
    ("gone, noticed late", listening_late, [BODY, GONE]), ("gone, noticed by send", plain, [BODY]),
]


async def main(manager):
    asyncio.get_running_loop().slow_callback_duration = 600  # silences asyncio's slow-callback warning, which depends on timing
    for name, app, messages in CASES:
        server = Server(messages, "by send" in name)
        headers = [(b"x", b"y")]
        scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers}
        try:
            await asgi.TraceMiddleware(app, manager=manager)(scope, server.receive, server.send)
        except (asyncio.CancelledError, OSError, ValueError):
            pass
        if not server.failing:
            assert [m for m in server.sent if m["type"] == "http.response.start"] == server.sent[:1]
        scope["sonde.trace"].end("error", "was not ended")


if __name__ == "__main__":
    warnings.simplefilter("error")
    file = os.path.join(tempfile.mkdtemp(dir=sys.argv[1]), "trace.json")
    manager = trace.Manager(["rate=1", "level=TIMESTAMPS", f"triton,file={file}"])
    asyncio.run(main(manager), debug=True)
    manager.close()
    found = {}
    with open(file) as opened:
        for entry in json.load(opened):
            names, head = found.setdefault(entry["id"], ([], {}))
            names += [(stamp["name"], stamp["ns"]) for stamp in entry.get("timestamps", ())]
            head.update(entry)
    for (name, *_), (names, head) in zip(CASES, (found[id] for id in sorted(found))):
        assert [ns for _, ns in names] == sorted(ns for _, ns in names), names
        print(name, ",".join(name for name, _ in names), head.get("status"), head.get("error"), sep="|")
