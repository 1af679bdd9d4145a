"""Tensors from arrays of numpy."""
import sys

from begun import model

assert "numpy" not in sys.modules, "sonde does not import it"
import numpy  # noqa: E402

t = model.start()
def put(name, dtype, data):
    t.tensor("TENSOR_QUEUE_INPUT", name, dtype, data.shape, data)
put("plain", "FP32", numpy.arange(4, dtype=numpy.float32).reshape(2, 2))
put("turned", "FP32", numpy.arange(4, dtype=numpy.float32).reshape(2, 2).T)
put("every second", "INT16", numpy.arange(6, dtype=numpy.int16)[::2])
put("other order", "INT32", numpy.array([1, 2], dtype=">i4"))
put("halves", "FP16", numpy.array([0.5, 2], dtype=numpy.float16))
put("objects", "BYTES", numpy.array([[b"a", "b"], [b"\xff", b""]], dtype=object))
put("strings", "BYTES", numpy.array([b"one", b"three"]))
put("numbers", "INT64", numpy.array([1, 2], dtype=object))
put("scalar", "INT64", numpy.int64(5))
t.end()
