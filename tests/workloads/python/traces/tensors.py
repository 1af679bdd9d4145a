"""Tensors from bytes, arrays, lists and memory of any stride."""
import array

from begun import manager, model

t = model.start()
def put(name, dtype, shape, data):
    t.tensor("TENSOR_BACKEND_OUTPUT", name, dtype, shape, data)
put("bytes", "UINT8", (4,), b"\1\2\3\4")
put("array", "FP64", [2], array.array("d", [0.5, -1.25]))
put("stride", "FP64", [2], memoryview(array.array("d", [1, 2, 3, 4]))[::2])
put("lists", "FP32", [2, 2], [[1, 2.5], [3, 4]])
put("halves", "FP16", [2], (1, 0.5))
put("bools", "BOOL", [3], [True, False, 1])
put("big", "UINT64", [1], [2**64 - 1])
put("texts", "BYTES", [2, 2], [["a", b"\xff"], [b"q\"q", ""]])
put("ready", "BYTES", [1], b"\3\0\0\0abc")
put("empty", "INT32", [0], [])
put("none", "FP32", [2], None)
put("wrong", "INT32", [2], b"123")
put("large", "INT8", [2**31], b"1")
t.end()
manager.flush()
print(manager.stats()["tensors_malformed"])
