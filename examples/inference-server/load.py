"""A realistic load: many small requests, some for a slow model, streamed texts, errors, clients that disconnect; and bursts.

    python load.py [--seconds N] FOLDER      FOLDER: output of `models.py`; it has test images

Eight clients each send one request at a time, with pauses in between: the load is bounded and stops on a signal. It prints the number of responses
every second, and at the end the number and latency for each kind of request.
"""
import argparse
import collections
import http.client
import json
import random
import signal
import sys
import threading
import time

import numpy

CLIENTS = 8
QUESTIONS = ["Why was this request slow?", "What does the kernel say", "A probe without a consumer", "How long do requests wait",
             "The file is", "Every loss is counted", "What costs"]


class Client:
    def __init__(self, options, images, number):
        import grpc
        import open_inference_pb2 as messages
        from open_inference_pb2_grpc import GRPCInferenceServiceStub
        self.messages, self.grpc = messages, grpc
        self.connection = http.client.HTTPConnection("127.0.0.1", options.http_port, timeout=30)
        self.stub = GRPCInferenceServiceStub(grpc.insecure_channel(f"127.0.0.1:{options.grpc_port}"))
        self.images, self.chance, self.number, self.count = images, random.Random(number), number, 0

    def some(self, most):
        return self.images[self.chance.sample(range(len(self.images)), self.chance.randint(1, most))]

    def post(self, path, body):
        self.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return self.connection.getresponse()

    def infer(self, model, name, array):
        self.count += 1
        answer = self.post(f"/v2/models/{model}/infer", {"id": f"{self.number}-{self.count}", "inputs": [
            {"name": name, "datatype": "FP32", "shape": array.shape, "data": array.ravel().tolist()}]})
        answer.read()
        return answer.status == 200

    def reader(self):
        """An ensemble, over HTTP."""
        return self.infer("reader", "image", self.some(4))

    def forest(self):
        """The slow model."""
        return self.infer("forest", "image", self.some(2))

    def digits(self):
        """A network, over gRPC."""
        array, request = self.some(8), self.messages.ModelInferRequest(model_name="digits", id=f"{self.number}-grpc")
        request.inputs.add(name="pixels", datatype="FP32", shape=array.shape)
        request.raw_input_contents.append((array / 8 - 1).tobytes())
        return bool(self.stub.ModelInfer(request, timeout=30).outputs)

    def ask(self, tokens):
        return self.post("/v1/chat/completions", {"model": "writer", "stream": True, "max_tokens": tokens,
                                                  "messages": [{"role": "user", "content": self.chance.choice(QUESTIONS)}]})

    def writer(self):
        """A streamed text."""
        return self.ask(200).read().endswith(b"[DONE]\n\n")

    def wrong(self):
        """A request that the server refuses."""
        return not self.infer(*self.chance.choice([("reader", "picture", self.some(1)), ("unknown", "image", self.some(1))]))

    def gone(self):
        """A client that disconnects before it has the response."""
        if self.chance.random() < 0.5:
            self.ask(1000).readline()
        else:
            self.connection.request("POST", "/v2/models/forest/infer", json.dumps({"inputs": [
                {"name": "image", "datatype": "FP32", "shape": [1, 64], "data": self.images[0].tolist()}]}))
            time.sleep(0.005)
        self.connection.close()
        return True


SHARES = {"reader": 40, "digits": 25, "forest": 10, "writer": 13, "wrong": 6, "gone": 6}


def run(client, ends, took):
    while time.monotonic() < ends[0]:
        kind = client.chance.choices(list(SHARES), list(SHARES.values()))[0]
        began = time.monotonic()
        try:
            good = getattr(client, kind)()
        except (OSError, http.client.HTTPException, client.grpc.RpcError):
            good = False
            client.connection.close()
        took.append((kind, good, (time.monotonic() - began) * 1000))
        burst = time.monotonic() % 10 < 1  # one second in ten
        time.sleep(0.005 if burst else client.chance.expovariate(1 / 0.1))


def main():
    parser = argparse.ArgumentParser(description="A load for the example server.")
    parser.add_argument("folder")
    parser.add_argument("--http-port", type=int, default=8000)
    parser.add_argument("--grpc-port", type=int, default=8001)
    parser.add_argument("--seconds", type=float, default=3600)
    options = parser.parse_args()
    sys.path.append(options.folder + "/../protocol")
    images, ends, took = numpy.load(options.folder + "/images.npy"), [time.monotonic() + options.seconds], []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ends.__setitem__(0, 0))
    clients = [threading.Thread(target=run, args=(Client(options, images, i), ends, took)) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    seen, kinds = 0, collections.defaultdict(list)
    while any(client.is_alive() for client in clients):
        time.sleep(1)
        new, seen = took[seen:], len(took)
        for kind, good, ms in new:
            kinds[kind].append((good, ms))
        slowest = max(new, key=lambda one: one[2], default=("", True, 0))
        print(f"load: {len(new)} requests in this second, {sum(not good for _, good, _ in new)} not as expected, "
              f"the slowest {slowest[2]:.0f} ms ({slowest[0]})", flush=True)
    for kind in SHARES:
        times = sorted(ms for _, ms in kinds[kind]) or [0]
        print(f"load: {kind:8} {len(kinds[kind]):6}, not as expected {sum(not good for good, _ in kinds[kind])}, "
              f"ms: median {times[len(times) // 2]:.1f}, 99 % {times[len(times) * 99 // 100]:.1f}")


if __name__ == "__main__":
    main()
