"""The service that /downstream calls: replies after ?ms=. Not evaluated itself. Arguments: PORT"""
import asyncio
import re
import sys


async def answer(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    await asyncio.sleep(float(re.search(rb"ms=([\d.]+)", head)[1]) / 1000)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    await writer.drain()
    writer.close()


async def main():
    async with await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()

asyncio.run(main())
