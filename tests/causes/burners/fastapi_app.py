"""FastAPI: a route that computes in the event loop, one in anyio's pool, and one in a thread of asyncio's."""
import asyncio
import time

from fastapi import FastAPI

app = FastAPI()


def burn_items(seconds):
    end = time.thread_time() + seconds
    seen = {}
    while time.thread_time() < end:
        for i in range(200):
            seen[hash(b"key %d" % i)] = i
    return len(seen)


@app.get("/")
async def in_the_loop():
    return burn_items(0.12)


@app.get("/pool")
def in_a_pool():
    return burn_items(0.12)


@app.get("/thread")
async def in_a_thread():
    return await asyncio.to_thread(burn_items, 0.12)
