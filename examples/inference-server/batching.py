"""Adaptive batching: requests for one model are collected until they have rows_max rows or the first has waited wait_ms."""
import asyncio
from dataclasses import dataclass

from sonde.pair import next_id

from refused import Refused

WAITING_MAX = 256  # requests for one model, including those that are executing


@dataclass(eq=False)
class Item:
    id: int
    inputs: dict
    rows: int
    future: asyncio.Future


class Batcher:
    def __init__(self, model, rows_max, wait_ms, pool, probes):
        self.model, self.rows_max, self.wait_s, self.pool, self.probes = model, rows_max, wait_ms / 1000, pool, probes
        self.items, self.timer, self.inside = [], None, 0

    async def run(self, inputs, rows, request):
        """Returns ({output's name: array} for `rows`, and the timestamps of Pool.run)."""
        if self.inside >= WAITING_MAX:
            raise Refused.busy(f"{self.model}: {WAITING_MAX} requests are waiting")
        if sum(item.rows for item in self.items) + rows > self.rows_max:
            self._form()
        item = Item(next_id(), inputs, rows, asyncio.get_running_loop().create_future())
        self.probes.batch_enter.fire(item.id, self.model, len(self.items), request)
        self.items.append(item)
        if sum(item.rows for item in self.items) >= self.rows_max:
            self._form()
        elif len(self.items) == 1:
            self.timer = asyncio.get_running_loop().call_later(self.wait_s, self._form)
        self.inside += 1
        try:
            return await item.future
        finally:
            self.inside -= 1
            if item in self.items:  # cancelled
                self.items.remove(item)
                self.probes.batch_leave.fire(item.id, self.model, 0, len(self.items))

    def _form(self):
        items, self.items = self.items, []
        if self.timer:
            self.timer.cancel()
        if not items:
            return
        batch = next_id()
        self.probes.batch_formed.fire(batch, self.model, len(items), self.rows_max)
        for left, item in enumerate(items, 1):
            self.probes.batch_leave.fire(item.id, self.model, batch, len(items) - left)
        asyncio.ensure_future(self._run(items, batch))

    async def _run(self, items, batch):
        at = 0
        try:
            outputs, *times = await self.pool.run(self.model, {name: [item.inputs[name] for item in items] for name in items[0].inputs}, batch)
        except Refused as error:
            if len(items) > 1:  # one of them caused the error: retry each on its own
                await asyncio.gather(*(self._run([item], batch) for item in items))
            elif not items[0].future.done():
                items[0].future.set_exception(error)
            return
        for item in items:
            if not item.future.done():
                item.future.set_result(({name: array[at:at + item.rows] for name, array in outputs.items()}, *times))
            at += item.rows
