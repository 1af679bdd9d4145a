"""The CRI messages that Sonde reads from a container runtime, with the field names and numbers of cri-api v1, and their encoder."""
TEXT, MESSAGE, INT32, INT64 = 9, 11, 5, 3
MESSAGES = {
    "PodSandboxMetadata": [("name", 1, TEXT), ("uid", 2, TEXT), ("namespace", 3, TEXT), ("attempt", 4, INT32)],
    "PodSandbox": [("id", 1, TEXT), ("metadata", 2, "PodSandboxMetadata"), ("state", 3, INT32), ("created_at", 4, INT64), ("labels", 5, "map"), ("annotations", 6, "map"),
                   ("runtime_handler", 7, TEXT)],
    "ListPodSandboxResponse": [("items", 1, "PodSandbox*")],
    "ContainerMetadata": [("name", 1, TEXT), ("attempt", 2, INT32)],
    "ImageSpec": [("image", 1, TEXT), ("annotations", 2, "map")],
    "Container": [("id", 1, TEXT), ("pod_sandbox_id", 2, TEXT), ("metadata", 3, "ContainerMetadata"), ("image", 4, "ImageSpec"), ("image_ref", 5, TEXT), ("state", 6, INT32),
                  ("created_at", 7, INT64), ("labels", 8, "map"), ("annotations", 9, "map")],
    "ListContainersResponse": [("containers", 1, "Container*")],
}



def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def piece(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def encode(name, value):
    """Encodes a message given as a dictionary keyed by field name."""
    out = b""
    for field, number, kind in MESSAGES[name]:
        if field not in value:
            continue
        if kind == "map":
            out += b"".join(piece(number, piece(1, key.encode()) + piece(2, text.encode())) for key, text in value[field].items())
        elif isinstance(kind, str):
            ones = value[field] if kind.endswith("*") else [value[field]]
            out += b"".join(piece(number, encode(kind.rstrip("*"), one)) for one in ones)
        elif kind == TEXT:
            out += piece(number, value[field].encode())
        else:
            out += varint(number << 3) + varint(value[field])
    return out
