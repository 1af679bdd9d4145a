"""Loads some probes of the inference provider, and fires others, which do nothing."""
import time

import sonde.inference

probes = sonde.inference.Inference("some", ["batch_*", "request_end", "cache_hit"])
assert probes.loaded and not probes.request.enabled
with probes.request("model", "1", False, None), probes.predict("model", "1", 0):
    probes.worker_start.fire(1)
print("ready", flush=True)
time.sleep(600)
