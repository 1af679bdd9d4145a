"""Chat completions in OpenAI's shape, whole or as a stream of server-sent events, written by the model `writer`."""
import json
import time
import uuid

from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from core import VERSION
from generate import TOKEN
from refused import Refused

PATH = "/v1/chat/completions"
TOKENS_MAX, PROMPT_MAX = 1024, 65536  # characters


def refusal(error):
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return JSONResponse({"error": {"message": str(error), "type": kind, "param": None, "code": None}}, error.status)


def number(said, name, default, least, most, kind=(int, float)):
    value = said.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool) or not least <= value <= most:
        raise Refused.invalid(f"{name}: expected a number from {least} to {most}")
    return value


def prompt_of(said):
    try:
        texts = [message["content"] for message in said["messages"]]
        if texts and sum(map(len, texts)) <= PROMPT_MAX:
            return " ".join(texts)
    except (TypeError, KeyError):
        pass
    raise Refused.invalid(f"messages: expected a list of {{role, content}}, of text, of up to {PROMPT_MAX} characters")


class Completion:
    """One request: its settings, and what of it is counted and stamped."""

    def __init__(self, server, said, t):
        server.find(str(said.get("model")))
        if said["model"] != "writer":
            raise Refused.invalid(f"'{said['model']}' does not write")
        self.prompt, self.trace, self.text, self.end, self.tokens = prompt_of(said), t, "", None, 0
        limit = "max_completion_tokens" if "max_completion_tokens" in said else "max_tokens"
        self.asked = (number(said, limit, 128, 1, TOKENS_MAX, int), number(said, "temperature", 1, 0, 2),
                      number(said, "seed", None, -2**63, 2**63 - 1, int))
        self.words, self.probes, self.streaming = server.engine.write(self.prompt, *self.asked), server.probes, bool(said.get("stream"))
        self.head = {"id": "chatcmpl-" + uuid.uuid4().hex, "created": int(time.time()), "model": "writer"}
        self.generation = server.models["writer"].trace.generation(t, operation="chat")
        t.set_request_id(self.head["id"])
        t.timestamp("QUEUE_START")

    async def __aiter__(self):
        """Its words as they come."""
        with self.generation, self.probes.request("writer", VERSION, self.streaming, self.head["id"]):
            async for began, ended, text, self.end in self.words:
                if not self.tokens:
                    self.trace.timestamp("COMPUTE_START", began)
                    self.trace.timestamp("COMPUTE_INPUT_END", began)
                self.generation.tokens(1)
                self.tokens += 1
                self.text += text
                yield text
            self.generation.end(self.usage["prompt_tokens"], response_id=self.head["id"], response_model="writer", finish_reason=self.end)
        self.trace.timestamp("COMPUTE_OUTPUT_START", ended)
        self.trace.timestamp("COMPUTE_END")

    @property
    def usage(self):
        given = len(TOKEN.findall(self.prompt))
        return {"prompt_tokens": given, "completion_tokens": self.tokens, "total_tokens": given + self.tokens}

    async def whole(self):
        async for _ in self:
            pass
        choice = {"index": 0, "message": {"role": "assistant", "content": self.text}, "finish_reason": self.end, "logprobs": None}
        return JSONResponse({**self.head, "object": "chat.completion", "choices": [choice], "usage": self.usage})

    def event(self, choices, **more):
        return "data: " + json.dumps({**self.head, "object": "chat.completion.chunk", "choices": choices, **more}) + "\n\n"

    async def stream(self, words, first, with_usage):
        yield self.event([{"index": 0, "delta": {"role": "assistant", "content": first}, "finish_reason": None}])
        async for text in words:
            yield self.event([{"index": 0, "delta": {"content": text}, "finish_reason": None}])
        yield self.event([{"index": 0, "delta": {}, "finish_reason": self.end}])
        if with_usage:
            yield self.event([], usage=self.usage)
        yield "data: [DONE]\n\n"


def routes(server, read, unless_gone):
    async def completions(request):
        try:
            said = json.loads(await read(request))
            with_usage = bool((said.get("stream_options") or {}).get("include_usage"))
        except (ValueError, AttributeError, RecursionError) as error:
            raise Refused.invalid(f"failed to parse the request: {error!r}") from None
        completion = Completion(server, said, request.scope["sonde.trace"])
        if not completion.streaming:
            return await unless_gone(request, completion.whole())
        words = aiter(completion)
        first = await unless_gone(request, anext(words))  # which is refused, if at all
        return StreamingResponse(completion.stream(words, first, with_usage), media_type="text/event-stream")

    async def listed(request):
        return JSONResponse({"object": "list", "data": [{"id": "writer", "object": "model", "created": 0, "owned_by": "sonde"}]})

    return [Route(PATH, completions, methods=["POST"]), Route("/v1/models", listed)]
