"""Passes every probe of the inference provider in a loop, with a write to disk: `inference_serving.py DIRECTORY`. Every third request fails."""
import os
import sys
import time

import sonde.inference
from sonde.pair import next_id

probes = sonde.inference.Inference("mlserver", directory=sys.argv[1])
assert probes.loaded
file = open(sys.argv[1] + "/../data", "wb", buffering=0)
print(f"pid {os.getpid()}\nready", flush=True)
for number in range(10**9):
    try:
        with probes.request("slow", "1", False, "some") as work:
            item, batch, dispatch = next_id(), next_id(), next_id()
            probes.cache_hit.fire(work.id, "slow")
            probes.cache_miss.fire(work.id, "slow")
            probes.batch_enter.fire(item, "slow", 0, work.id)
            probes.batch_formed.fire(batch, "slow", 1, 8)
            probes.batch_leave.fire(item, "slow", batch, 0)
            probes.worker_dispatch.fire(dispatch, "slow", os.getpid(), 0, batch, "predict")
            probes.worker_dequeue.fire(dispatch, "slow", "predict")
            with probes.predict("slow", "1", dispatch):
                time.sleep(0.003)
                file.seek(0)
                file.write(bytes(4096))
                os.fsync(file.fileno())
            probes.worker_reply.fire(dispatch, True)
            probes.worker_resolve.fire(dispatch, True)
            if number % 3 == 0:
                raise ValueError
    except ValueError:
        pass
    with probes.model_load("slow", "1"), probes.model_reload("slow", "2", "1"):
        pass
    print(number, flush=True)
