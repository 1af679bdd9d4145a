"""What a request does in the asyncio servers without blocking the event loop, by its route."""
import asyncio

from common import MS, item, now


async def sleep(ms, **_):
    t0 = now()
    await asyncio.sleep(ms / 1000)
    return [item("sleep", t0, min(now(), t0 + int(ms * MS)))]


async def downstream(ms, service, **_):
    t0 = now()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(service))
    writer.write(f"GET /slow?ms={ms} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    await reader.read()
    truth = [item("downstream", t0, now())]
    writer.close()
    return truth


AWAITED = {"sleep": sleep, "downstream": downstream}
