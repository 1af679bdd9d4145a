"""Conversion between the tensors of both protocols and numpy arrays."""
import math

import numpy

from refused import Refused

TYPES = {"BOOL": "?", "INT8": "i1", "INT16": "i2", "INT32": "i4", "INT64": "i8", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4", "UINT64": "u8",
         "FP16": "f2", "FP32": "f4", "FP64": "f8"}
NAMES = {numpy.dtype(code): name for name, code in TYPES.items()}
# The gRPC fields of tensors that are not raw.
CONTENTS = {"BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents", "INT64": "int64_contents",
            "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents", "FP32": "fp32_contents",
            "FP64": "fp64_contents"}


def array_of(name, datatype, shape, data):
    """`data`: bytes, or numbers (from JSON: nested or flat)."""
    if datatype not in TYPES:
        raise Refused.invalid(f"input '{name}': unsupported datatype '{datatype}'")
    try:
        raw = isinstance(data, (bytes, memoryview))
        with numpy.errstate(over="ignore"):  # the value becomes infinite, which the server refuses
            array = numpy.frombuffer(data, TYPES[datatype]) if raw else numpy.array(data, TYPES[datatype]).ravel()
        if min(shape, default=0) < 0 or math.prod(shape) != array.size:
            raise ValueError(f"{array.size} elements do not fit the shape {list(shape)}")
        return array.reshape(shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused.invalid(f"input '{name}': {error}") from None
