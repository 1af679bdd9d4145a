"""Run by test_examples.py in an environment with tritonclient and openai: sends requests to the example server and prints the parsed responses as
JSON: `inference_clients.py HTTP-PORT GRPC-PORT IMAGES`."""
import json
import sys

import numpy
import openai
import tritonclient.grpc
import tritonclient.http
from google.protobuf.json_format import MessageToDict
from tritonclient.utils import InferenceServerException


def plain(said):
    """Normalizes what the HTTP client returns as JSON and the gRPC client as a message."""
    return said if isinstance(said, dict) else MessageToDict(said, preserving_proto_field_name=True)


def settings(said):
    """{name: [values]}"""
    if isinstance(said, dict):
        return {name: value if isinstance(value, list) else [value] for name, value in said.items()}
    return {name: list(value.value) for name, value in said.settings.items()}


def refusal(call, *arguments, **more):
    try:
        call(*arguments, **more)
    except InferenceServerException as error:
        return [error.status(), error.message()]


def triton(library, client, images, tensors):
    def image(rows, **more):
        given = library.InferInput("image", list(images[:rows].shape), "FP32")
        given.set_data_from_numpy(images[:rows], **more)
        return [given]
    said = {"live": client.is_server_live(), "ready": client.is_server_ready(), "models": [
        client.is_model_ready(name) for name in ("reader", "forest", "nobody")]}
    said["server"], said["digits"] = plain(client.get_server_metadata()), plain(client.get_model_metadata("digits"))
    result = client.infer("reader", image(20), request_id="tc")
    said["id"], said["reader"] = plain(result.get_response())["id"], result.as_numpy("probabilities").argmax(1).tolist()
    for name, parameters in tensors.items():
        wanted = [library.InferRequestedOutput("probabilities", **parameters[1])]
        said[name] = client.infer("forest", image(8, **parameters[0]), outputs=wanted).as_numpy("probabilities").argmax(1).tolist()
    said["parallel"] = [result.as_numpy("probabilities").shape for result in parallel(client, image)]
    said["refused"] = [refusal(client.infer, "nobody", image(1)), refusal(client.infer, "digits", image(1)),
                       refusal(client.infer, "reader", image(33)),
                       refusal(client.infer, "reader", image(1), outputs=[library.InferRequestedOutput("nothing")]),
                       refusal(client.infer, "reader", image(1), model_version="7"),
                       refusal(client.update_trace_settings, "reader", {"trace_rate": "often"})]
    said["settings"] = settings(client.get_trace_settings())
    said["updated"] = settings(client.update_trace_settings("reader", {"trace_rate": "7", "trace_level": ["TIMESTAMPS", "TENSORS"]}))
    said["of the model"], said["global"] = settings(client.get_trace_settings("reader")), settings(client.get_trace_settings())
    said["cleared"] = settings(client.update_trace_settings("reader", {"trace_rate": None, "trace_level": None}))
    return said


def parallel(client, image):
    if isinstance(client, tritonclient.http.InferenceServerClient):
        return [asked.get_result() for asked in [client.async_infer("forest", image(1)) for _ in range(8)]]
    return [client.infer("forest", image(1)) for _ in range(2)]


def chat(port):
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
    asked = {"model": "writer", "messages": [{"role": "user", "content": "The queue is"}], "max_tokens": 40, "seed": 5}
    whole = client.chat.completions.create(**asked)
    parts = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    said = {"whole": whole.choices[0].message.content, "end": whole.choices[0].finish_reason, "usage": whole.usage.model_dump(exclude_none=True),
            "streamed": "".join(part.choices[0].delta.content or "" for part in parts if part.choices),
            "stream's end": [part.choices[0].finish_reason for part in parts if part.choices][-1],
            "stream's usage": parts[-1].usage.model_dump(exclude_none=True), "parts": len(parts), "ids": len({part.id for part in parts}),
            "models": [model.id for model in client.models.list()]}
    said["refused"] = []
    for wrong in ({"model": "nobody"}, {"messages": []}, {"temperature": 3}, {"max_tokens": 0}, {"seed": "x"}):
        try:
            client.chat.completions.create(**asked | wrong)
        except openai.APIStatusError as error:
            said["refused"].append([error.status_code, error.body["type"]])
    return said


if __name__ == "__main__":
    http, grpc = (f"127.0.0.1:{port}" for port in sys.argv[1:3])
    images = numpy.load(sys.argv[3])
    with tritonclient.http.InferenceServerClient(http, concurrency=8) as client:
        said = {"http": triton(tritonclient.http, client, images, {
            "json": ({"binary_data": False}, {"binary_data": False}), "binary": ({"binary_data": True}, {"binary_data": True}),
            "mixed": ({"binary_data": True}, {"binary_data": False})})}
    with tritonclient.grpc.InferenceServerClient(grpc) as client:
        said["grpc"] = triton(tritonclient.grpc, client, images, {"raw": ({}, {})})
    print(json.dumps(said | {"chat": chat(sys.argv[1])}))
