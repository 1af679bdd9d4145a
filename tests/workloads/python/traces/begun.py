"""A manager that writes to the file of the first argument, and a model, for the programs in this folder."""
import sys

from sonde import trace

manager = trace.Manager(["rate=1", "level=TIMESTAMPS", "level=TENSORS", f"triton,file={sys.argv[1]}"])
model = manager.model("simple", 2)
