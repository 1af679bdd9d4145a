"""Triton trace files: files of a real Triton (triton/), and generated files."""
import json
import random
from pathlib import Path

REAL = Path(__file__).resolve().parent / "triton"
EVENTS = ["REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END", "INFER_RESPONSE_COMPLETE", "REQUEST_END"]


class Maker:
    """Generates well-formed traces, the same for the same seed."""

    def __init__(self, seed):
        self.dice, self.next_id, self.clock, self.groups = random.Random(seed), 1, 59_509_292_477_966, []

    def tick(self):
        self.clock += self.dice.choice([0, self.dice.randrange(1000), self.dice.randrange(90_000), self.dice.randrange(10 ** 9)])
        return self.clock

    def stamp(self, number, name):
        return {"id": number, "timestamps": [{"name": name, "ns": self.tick()}]}

    def tensor(self, number, activity):
        dtype, values = self.dice.choice([
            ("INT32", lambda: self.dice.randrange(-10 ** self.dice.randrange(1, 10), 10 ** self.dice.randrange(1, 10))), ("UINT64", lambda: self.dice.randrange(2 ** 53)),
            ("BOOL", lambda: self.dice.randrange(2)), ("FP32", lambda: self.dice.choice([0.0, self.dice.random(), self.dice.gauss(0, 50)])),
            ("FP32", lambda: self.dice.choice([1e-9, 3.4e38, -7.25, 0.0001])), ("FP64", lambda: self.dice.random() / 3), ("FP64", lambda: self.dice.choice([1.5, 100.25, 0.125])),
            ("FP64", lambda: self.dice.choice([1e200, 1 / 3, 5e-300])), ("FP32", lambda: float(self.dice.randrange(10 ** 7))), ("FP16", lambda: self.dice.choice([0.1, 65504, 1.5, 2])),
            ("FP64", lambda: self.dice.choice([float("nan"), float("inf"), 1.0, -float("inf")]))])
        shape = self.dice.choice([[1], [4], [1, 4], [3, 3], [2, 3, 2], [30], [7, 200], [2, 2, 600], [1, 1, 1, 3], [40, 40], [1, 1500]])
        count = 1
        for length in shape:
            count *= length
        data = ",".join(repr(values()) for _ in range(count))
        return {"id": number, "activity": activity, "tensor": {"name": self.dice.choice(["INPUT0", "größe", "a\"b\\c"]), "data": data, "shape": ",".join(map(str, shape)), "dtype": dtype}}

    def part(self, model, parent=None, door=None, depth=0):
        number = self.next_id
        self.next_id += 1
        head = {"id": number, "model_name": model, "model_version": self.dice.choice([1, -1, 12])}
        if self.dice.random() < 0.5:
            head["request_id"] = "täg \" \\ \u2028"
        items, inner = [], depth < 3 and model.startswith("ensemble")
        if parent:
            head["parent_id"] = parent
        if door == "HTTP":
            items += [self.stamp(number, "HTTP_RECV_START"), self.stamp(number, "HTTP_RECV_END")]
        if door == "GRPC":
            items += [self.stamp(number, "GRPC_WAITREAD_START"), self.stamp(number, "GRPC_WAITREAD_END")]
        items.append(head)
        for name in EVENTS:
            if not inner or not name.startswith("COMPUTE"):
                items.append(self.stamp(number, name))
        if self.dice.random() < 0.3:
            items.append(self.stamp(number, "my own \t moment"))
        if self.dice.random() < 0.3:
            items += [self.tensor(number, activity) for activity in ("TENSOR_QUEUE_INPUT", "TENSOR_BACKEND_OUTPUT")]
        if door:
            items += [self.stamp(number, f"{door}_SEND_START"), self.stamp(number, f"{door}_SEND_END")]
        children = [self.part(f"inside{depth}" if self.dice.random() < 0.7 else f"ensemble-inside{depth}", number, depth=depth + 1) for _ in range(inner * self.dice.randrange(1, 4))]
        groups = [items] + [group for child in children for group in child]
        self.dice.shuffle(groups)  # in random order, like Triton's hash table
        return groups

    def items(self, count):
        groups = []
        for _ in range(count):
            door = self.dice.choice(["HTTP", "GRPC"])
            groups.append(self.part(self.dice.choice(["resnet", "bert", "ensemble", "größe"]), door=door))
        self.dice.shuffle(groups)  # requests do not end in the order of their start
        return [item for group in groups for items in group for item in items]


def trace(number, stamps, **head):
    return [{"id": number, "model_name": "m", "model_version": 1, **head}, *({"id": number, "timestamps": [{"name": name, "ns": ns}]} for name, ns in stamps.items())]


def whole(number, base=0, scale=1):
    names = ["HTTP_RECV_START", "HTTP_RECV_END", "REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END",
             "REQUEST_END", "HTTP_SEND_START", "HTTP_SEND_END"]
    return trace(number, {name: base + 1000 * scale * i for i, name in enumerate(names)})


def write(path, items):
    path.write_text(json.dumps(items, separators=(",", ":")))
    return path
