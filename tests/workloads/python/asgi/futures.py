"""A server whose messages are futures; one request is cancelled while its last part is sent."""
import asyncio

from asked import app, manager
from sonde import asgi

async def reading(scope, receive, send):
    await receive()
    await app(scope, receive, send)

async def main():
    loop, sent = asyncio.get_running_loop(), []
    messages = [{"type": "http.request"}]
    def receive_as_future():
        future = loop.create_future()
        if messages:
            future.set_result(messages.pop())
        return future
    def send_as_future(message):
        sent.append(message["type"])
        future = loop.create_future()
        if sent[-1] == "http.response.start" or scope["path"] != "/v2/models/slow/infer":
            future.set_result(None)
        return future
    middleware = asgi.TraceMiddleware(reading, manager=manager)
    for name in ("good", "slow"):
        scope = {"type": "http", "path": f"/v2/models/{name}/infer", "method": "POST", "headers": []}
        messages[:] = [{"type": "http.request"}]
        task = loop.create_task(middleware(scope, receive_as_future, send_as_future))
        while len(sent) < 2:
            await asyncio.sleep(0.01)
        if name == "slow":
            task.cancel()
        await asyncio.wait([task])
        print(task.cancelled() or task.result(), sent)
        del sent[:]
    await asyncio.sleep(0)
    print(len(asyncio.all_tasks()) - 1)

asyncio.run(main())
