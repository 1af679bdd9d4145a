"""Kernel modules of NFS, for the tests tests/bpf/io/*nfs*: its server, its client, and the modules that those need, which differ between kernels."""
import re
import shutil
from pathlib import Path

import causes

WANTED = ("nfsd", "nfsv4")
PROGRAMS = ("io_nfs", "io_on_nfs", "io_requests_on_nfs")
HANGS = {"5.10": "the set-up of NFS hangs now and then on this kernel, for a reason that is not known"}


def keep_modules(tree, folder):
    """From an unpacked kernel package, uncompressed; their names begin with their place in the order of loading."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    order = {}

    def add(name):
        path = next(Path(tree).glob(f"**/{name}.ko*"), None)
        if name in order or not path:
            return
        module = causes.read_module(path)
        for needed in re.findall(rb"\0depends=([^\0]+)\0", module):
            for other in needed.decode().split(","):
                add(other)
        order[name] = module

    for name in WANTED:
        add(name)
    for place, (name, module) in enumerate(order.items()):
        (folder / f"{place:02}-{name}.ko").write_bytes(module)


def missing_modules(folder):
    return [name for name in WANTED if not list(folder.glob(f"*-{name}.ko"))]
