"""Invalid times, names and tensors; each is reported and skipped."""
from begun import model

t = model.start(object())
for wrong in [lambda: t.timestamp(), lambda: t.timestamp("a", "b"), lambda: t.timestamp("a", -1), lambda: t.timestamp("a", 2**64),
              lambda: t.timestamp("a", nss=1), lambda: t.timestamp("a", 1, ns=1), lambda: t.child("simple").end(), lambda: t.timestamp([]),
              lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", 5, b""), lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", [1.5], b""),
              lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", [1] * 65, b""), lambda: t.tensor("REQUEST_START", "x", "FP32", [1], b""),
              lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", [1], object()), lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", [1], ["a"]),
              lambda: t.tensor("TENSOR_QUEUE_INPUT", "x", "BF16", [1], [1.0]), lambda: t.tensor("TENSOR_QUEUE_INPUT")]:
    wrong()
class Ending:
    def __str__(self):
        t.end()
        return "an end in the middle"
t.timestamp(Ending()); t.set_request_id("late")
class Stopping:
    def __str__(self):
        raise KeyboardInterrupt
t = model.start()
try:
    t.timestamp(Stopping())
    print("not stopped")
except KeyboardInterrupt:
    t.end()
