"""Traces of tasks of asyncio that run in turn."""
import asyncio

from begun import model

async def request(n):
    with model.start(str(n)) as t:
        for part in range(5):
            t.timestamp(f"{n}.{part}")
            await asyncio.sleep(0.001 * (n % 3))
        if n == 7:
            await asyncio.sleep(60)
async def main():
    tasks = [asyncio.ensure_future(request(n)) for n in range(20)]
    await asyncio.wait(tasks, timeout=None, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait([task for task in tasks if task is not tasks[7]])
    tasks[7].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
asyncio.run(main())
