"""A thousand generations at once, of threads and of tasks; some are cancelled and some dropped. Prints the metrics."""
import asyncio
import gc
import sys
import threading

import begun
from begun import manager, model

manager.http("POST", "/v2/trace/setting", b'{"trace_rate":"3"}')
waiting = []
async def answer(model, n):
    with model.start() as t:
        if n % 10 == 9:
            model.generation(t, "dropped").tokens()
        with model.generation(t, "task") as g:
            for _ in range(n % 4):
                g.tokens()
                await asyncio.sleep(0)
            if n % 5 == 4:
                waiting.append(n)
                await asyncio.sleep(3600)
            g.end(input_tokens=1)
async def main():
    tasks = [asyncio.ensure_future(answer(manager.model(f"m{n % 3}"), n)) for n in range(500)]
    while len(waiting) < 100: await asyncio.sleep(0)
    for task in tasks[4::5]: task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
def work():
    for _ in range(50):
        g = manager.model("thread").generation(operation="thread")
        g.tokens(7)
        g.end(finish_reason="stop")
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=work) for _ in range(10)]
for thread in threads: thread.start()
asyncio.run(main())
for thread in threads: thread.join()
assert manager.stats()["generations"] == 1000
print(manager.metrics())
last = manager.model("m").generation()
manager.close()
del manager, model, begun.manager, begun.model; gc.collect()
last.tokens(); last.end()
