"""A FUSE server that lies: lying_fuse.py FILE MOUNT_POINT. The name of a file selects the lie: `short` returns half of the requested bytes, `more` twice as many,
`none` nothing, `failing` an error that has no name; `huge` and `empty` are of another size than stat says. With `direct-` before the name, past the page
cache."""
import errno
import os
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import fuse  # noqa: E402

DIRECT_IO = 1
NAMELESS_ERROR = 511  # the largest that the kernel takes
NAMES = [way + name for way in ("", "direct-") for name in ("short", "more", "none", "failing", "huge", "empty")]


class LyingServer(fuse.Server):
    def name(self, node):
        return NAMES[node - fuse.FILE] if node >= fuse.FILE else ""

    def attributes(self, node):
        attributes = bytearray(super().attributes(node))
        size = 1 << 50 if "huge" in self.name(node) else 0 if "empty" in self.name(node) else self.size
        if node != fuse.ROOT:
            struct.pack_into("<Q", attributes, 8, size)
        return bytes(attributes)

    def read(self, node, body):
        _, offset, size = struct.unpack_from("<QQI", body)
        name = self.name(node).removeprefix("direct-")
        if name == "failing":
            return -NAMELESS_ERROR
        asked = {"short": size // 2, "more": 2 * size, "none": 0}.get(name, size)
        return os.pread(self.file, asked, offset)

    def answer(self, opcode, node, body):
        if opcode == fuse.LOOKUP:
            name = os.fsdecode(body.rstrip(b"\0"))
            if name not in NAMES:
                return -errno.ENOENT
            node = fuse.FILE + NAMES.index(name)
            return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + self.attributes(node)
        if opcode == fuse.OPEN:
            return struct.pack("<QII", 1, DIRECT_IO if self.name(node).startswith("direct-") else 0, 0)
        return self.read(node, body) if opcode == fuse.READ else super().answer(opcode, node, body)


if __name__ == "__main__":
    server = LyingServer(*sys.argv[1:3])
    print("ready", flush=True)
    server.serve()
