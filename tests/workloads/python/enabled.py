"""Prints whether its groups of probes are enabled, and whether they are in a forked child, each time that this changes; reloads its provider at
SIGUSR1."""
import os
import signal
import time

import sonde

provider = sonde.Provider("tested")
asked, other, third = (provider.add(name) for name in ("asked", "other", "third"))
any_enabled, other_enabled = sonde.Enabled(asked, other), sonde.Enabled(third)
nested = sonde.Enabled(other_enabled, any_enabled)
assert provider.load()


def anew(*_):
    provider.unload()
    assert not any_enabled and not nested
    assert provider.load()
    print("anew", flush=True)


signal.signal(signal.SIGUSR1, anew)
print(f"pid {os.getpid()}\nready", flush=True)
before = None
while True:
    said = bool(any_enabled), bool(nested), bool(other_enabled)
    if said != before:
        child = os.fork()
        if child == 0:  # a tracer of one process does not trace its children, and they detect that at their first firing
            other.fire()
            os._exit(bool(any_enabled))
        print(*map(int, said), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        before = said
    time.sleep(0.001)
