"""What traces do seldom, and Python says better than C: values that are no buffer, how a block ended, a loss that is to be heard of."""
import itertools
import logging
import struct

_FORMATS = {"BOOL": "?", "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q",
            "FP16": "e", "FP32": "f", "FP64": "d"}


def _flat(data):
    """The elements of an array, or of lists in lists."""
    if hasattr(data, "tolist"):
        data = data.tolist()
    if isinstance(data, (str, bytes)) or not hasattr(data, "__iter__"):
        return [data]
    return list(itertools.chain.from_iterable(map(_flat, data))) if data else []


def _element(value):
    text = value if isinstance(value, (bytes, bytearray)) else str(value).encode("utf-8", "surrogateescape")
    return struct.pack("<I", len(text)) + text


def packed(dtype, data):
    """The bytes of a tensor of which the data is no plain buffer: numbers in lists, elements of BYTES, an array of a stride, of the other
    byte order, or of a type that Python has none for."""
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
    """The status and message of a trace whose block ended with that exception. (By name: there is one such class in each of asyncio,
    concurrent.futures and trio.)"""
    if any(base.__name__ in ("CancelledError", "Cancelled", "GeneratorExit") for base in kind.__mro__):
        return "cancelled", kind.__name__
    try:
        return "error", f"{kind.__name__}: {error}"
    except Exception:  # its text is somebody else's program
        return "error", kind.__name__


def lost(error, message):
    """Traces begin to be lost; called by the library's thread."""
    logging.getLogger("sonde.trace").error("%s (errno %d)", message, error)
