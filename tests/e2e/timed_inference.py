"""Run by test_request_durations.py in an environment with tritonclient and openai: sends requests to the example server and prints how long each took, in seconds, as JSON:
`timed_inference.py HTTP-PORT GRPC-PORT`."""
import json
import sys
import time

import numpy
import openai
import tritonclient.grpc
import tritonclient.http

INFERENCES, CHATS = 40, 10


def timed(work):
    began = time.monotonic()
    work()
    return time.monotonic() - began


def inferences(library, port):
    """Each client connects with its first request, which is not timed."""
    client, tensor = library.InferenceServerClient(f"127.0.0.1:{port}"), library.InferInput("image", [8, 64], "FP32")
    tensor.set_data_from_numpy(numpy.zeros((8, 64), numpy.float32))
    assert client.is_model_ready("forest")
    return [timed(lambda: client.infer("forest", [tensor])) for _ in range(INFERENCES)]


def chats(port):
    """The times to the first token, from when the client has built the request and sends it."""
    sent, firsts = [], []
    hooks = {"request": [lambda request: sent.append(time.monotonic())]}
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", http_client=openai.DefaultHttpxClient(event_hooks=hooks))
    client.models.list()
    for _ in range(CHATS):
        first = None
        for part in client.chat.completions.create(model="writer", messages=[{"role": "user", "content": "once"}], max_tokens=20, stream=True):
            if not first and part.choices and part.choices[0].delta.content:
                first = time.monotonic() - sent[-1]
        firsts.append(first)
    return firsts


http_port, grpc_port = sys.argv[1:]
print(json.dumps({"grpc": inferences(tritonclient.grpc, grpc_port), "http": inferences(tritonclient.http, http_port), "first_token": chats(http_port)}))
