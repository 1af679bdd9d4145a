"""Rarely needed helpers of traces that are simpler in Python than in C: tensor data that is not a buffer, the
outcome of a block, and logging of losses."""
import itertools
import logging
import struct

_FORMATS = {"BOOL": "?", "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q",
            "FP16": "e", "FP32": "f", "FP64": "d"}


def _flat(data):
    """The elements of an array or of nested lists."""
    if hasattr(data, "tolist"):
        data = data.tolist()
    if isinstance(data, (str, bytes)) or not hasattr(data, "__iter__"):
        return [data]
    return list(itertools.chain.from_iterable(map(_flat, data))) if data else []


def _element(value):
    text = value if isinstance(value, (bytes, bytearray)) else str(value).encode("utf-8", "surrogateescape")
    return struct.pack("<I", len(text)) + text


def packed(dtype, data):
    """The bytes of a tensor whose data is not a plain buffer: numbers in lists, elements of BYTES, a strided
    array, one of the other byte order, or of a type that Python lacks."""
    if dtype == "BYTES":
        return b"".join(map(_element, _flat(data)))
    kind = getattr(data, "dtype", None)
    if hasattr(data, "tobytes") and not getattr(kind, "hasobject", False) and getattr(kind, "byteorder", "=") != ">":
        return data.tobytes()
    values = _flat(data)
    if dtype not in _FORMATS:
        raise TypeError(f"a tensor of {dtype} is given as a buffer, not as {type(data).__name__}")
    return struct.pack(f"={len(values)}{_FORMATS[dtype]}", *values)


def outcome(kind, error):
    """The status and message of a trace whose block ended with that exception. Cancellation is matched by class
    name, because asyncio, concurrent.futures and trio each have their own class."""
    if any(base.__name__ in ("CancelledError", "Cancelled", "GeneratorExit") for base in kind.__mro__):
        return "cancelled", kind.__name__
    try:
        return "error", f"{kind.__name__}: {error}"
    except Exception:  # converting it runs foreign code
        return "error", kind.__name__


def lost(error, message):
    """Logs that traces begin to be lost; called on the library's thread."""
    logging.getLogger("sonde.trace").error("%s (errno %d)", message, error)
