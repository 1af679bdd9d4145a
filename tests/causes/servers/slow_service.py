"""The service that /downstream and /retransmission call: replies after ?ms=, with the times (CLOCK_MONOTONIC) when it had read the request and when it
replied. Not evaluated itself. Arguments: ADDRESS PORT"""
import asyncio
import re
import sys
import time


async def answer(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    began = time.monotonic_ns()
    await asyncio.sleep(float(re.search(rb"ms=([\d.]+)", head)[1]) / 1000)
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nTimes: {began} {time.monotonic_ns()}\r\n\r\nok".encode())
    await writer.drain()
    writer.close()


async def main():
    async with await asyncio.start_server(answer, sys.argv[1], int(sys.argv[2])) as server:
        await server.serve_forever()

asyncio.run(main())
