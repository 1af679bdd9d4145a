"""Inside MLServer's processes, for mlserver_cost.py: the provider as `sonde.mlserver` puts it in, which SIGUSR2 takes out and puts back: every
wrapper is replaced by what it wraps, so that the rest of the way is MLServer's own. Each time a byte goes to the file that is named by
MLSERVER_SWITCH: 1, it is in; 0, it is out."""
import gc
import inspect
import os
import signal
import sys

import sonde.mlserver
import sonde.pair
from mlserver import MLModel

OURS = sonde.mlserver.__file__, sonde.pair.__file__
places = []  # (who has it, its name, ours, what stands there without us or None)


def repository(root, **arguments):
    """By its name workers come to import this module, too."""
    return sonde.mlserver.repository(root, **arguments)


def is_ours(function):
    return inspect.isfunction(function) and function.__code__.co_filename in OURS and hasattr(function, "__wrapped__")


def find():
    """Of MLServer's classes, and of models, which have theirs themselves."""
    modules = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "mlserver"]
    classes = {one for module in modules for one in vars(module).values() if inspect.isclass(one)}
    for owner in classes:
        places.extend((owner, name, function, function.__wrapped__) for name, function in list(vars(owner).items()) if is_ours(function))
    for model in [one for one in gc.get_objects() if isinstance(one, MLModel)]:
        places.extend((model, name, function, None) for name, function in list(vars(model).items()) if is_ours(function))


def switch(*_):
    if not places:
        find()
    taken_out = any(vars(owner).get(name) is not function for owner, name, function, _ in places)
    for owner, name, function, other in places:
        if taken_out:
            setattr(owner, name, function)
        elif other is None:
            delattr(owner, name)
        else:
            setattr(owner, name, other)
    with open(os.environ["MLSERVER_SWITCH"], "ab", buffering=0) as log:
        log.write(b"1" if taken_out else b"0")


signal.signal(signal.SIGUSR2, switch)
