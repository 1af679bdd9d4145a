"""A FUSE server whose reads take a while, one after the other: slow_fuse.py FILE MOUNT_POINT DELAY_MS. Serves FILE as `program`, and past the page cache
as `direct`."""
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import fuse  # noqa: E402

DIRECT = fuse.FILE + 1
DIRECT_IO = 1


class SlowServer(fuse.Server):
    delay_s = 0.0

    def answer(self, opcode, node, body):
        if opcode == fuse.LOOKUP and body.rstrip(b"\0") == b"direct":
            found = super().answer(opcode, fuse.ROOT, b"program\0")
            return DIRECT.to_bytes(8, "little") + found[8:40] + self.attributes(DIRECT)
        if opcode == fuse.OPEN and node == DIRECT:
            return (1).to_bytes(8, "little") + DIRECT_IO.to_bytes(4, "little") + bytes(4)
        if opcode == fuse.READ:
            time.sleep(self.delay_s)
        return super().answer(opcode, node, body)

    def attributes(self, node):
        return (DIRECT if node == DIRECT else node).to_bytes(8, "little") + super().attributes(node)[8:]


if __name__ == "__main__":
    server = SlowServer(*sys.argv[1:3])
    server.delay_s = float(sys.argv[3]) / 1000
    print("ready", flush=True)
    server.serve()
