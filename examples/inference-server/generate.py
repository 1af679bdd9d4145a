"""A trigram language model, small enough to be trained on this repository's documents in a second, and the process that runs it.

The process uses continuous batching, like engines of large models: all requests advance together, one token each per step. A request joins at the
next step and leaves when it is complete or cancelled. `Writer` is the model, `run` the process, `Engine` its client in the server.
"""
import asyncio
import collections
import itertools
import pickle
import random
import re
import time
from pathlib import Path

from refused import Refused
from workers import Child

RUNNING_MAX = 16  # requests that advance together
WAITING_MAX = 64  # further requests that wait

TOKEN = re.compile(r"\w+(?:'\w+)?|[.,:;!?()]")
SENTENCE = (".", "!", "?")


class Writer:
    """Counts which words follow two words, one word, or none."""

    def __init__(self):
        self.words, self.followers = {}, {}

    @classmethod
    def learn(cls, texts):
        writer, followers = cls(), collections.defaultdict(collections.Counter)
        for text in texts:
            prose = re.sub(r"(?s:```.*?```)|^(?: {4}|[|#]).*$|`|\]\(.*?\)", " ", text, flags=re.M)
            words = [".", "."] + TOKEN.findall(prose)
            for before, last, word in zip(words, words[1:], words[2:]):
                for context in ((before, last), (last,), ()):
                    followers[context][word] += 1
        writer.words = dict(followers[()])
        writer.followers = {context: (list(found), list(found.values())) for context, found in followers.items()}
        return writer

    def next(self, words, temperature, chance):
        """The next word, by how often it followed the last two words; backs off to the last word, then to none, if these never occurred."""
        for context in (tuple(words[-2:]), tuple(words[-1:]), ()):
            if context in self.followers:
                break
        found, counts = self.followers[context]
        if temperature < 0.05:
            return found[max(range(len(found)), key=counts.__getitem__)]
        return chance.choices(found, [count ** (1 / temperature) for count in counts])[0]


class Sequence:
    """A running request. It ends at its token limit or after five sentences."""

    def __init__(self, writer, prompt, tokens_max, temperature, seed):
        self.writer, self.words = writer, [".", "."] + TOKEN.findall(prompt)[-1000:]
        self.left, self.sentences, self.temperature, self.chance = tokens_max, 0, temperature, random.Random(seed)

    def step(self):
        """Returns (text, finish reason or None)."""
        word = self.writer.next(self.words, self.temperature, self.chance)
        self.words.append(word)
        self.left -= 1
        self.sentences += word in SENTENCE
        text = word if word in ".,:;!?)" or self.words[-2] == "(" else " " + word
        return text, "stop" if self.sentences == 5 else "length" if self.left == 0 else None


def run(folder, pipe):
    """The process. Receives (id, arguments of Sequence) and, for a cancelled request, (id,). Sends for each step (began, ended,
    [(id, text, finish reason)])."""
    writer = pickle.loads((Path(folder) / "writer/model.pickle").read_bytes())
    running, waiting = {}, {}
    pipe.send(None)
    while True:
        while not (running or waiting) or pipe.poll():
            id, *request = pipe.recv()
            if request:
                waiting[id] = request
            else:
                running.pop(id, None)
                waiting.pop(id, None)
        for id in list(waiting)[:RUNNING_MAX - len(running)]:
            running[id] = Sequence(writer, *waiting.pop(id))
        began = time.monotonic_ns()
        said = [(id, *sequence.step()) for id, sequence in running.items()]
        running = {id: running[id] for id, _, end in said if not end}
        pipe.send((began, time.monotonic_ns(), said))


class Engine:
    """The client in the server: `write` yields the output of the process for one request."""

    def __init__(self, folder):
        self.folder, self.ids, self.requests = folder, itertools.count(1), {}

    async def start(self):
        self.child = Child(run, self.folder, heard=self._heard, gone=self._gone)
        await self.child.ready

    def _heard(self, said):
        began, ended, step = said
        for id, text, end in step:
            if id in self.requests:
                self.requests[id].put_nowait((began, ended, text, end))

    def _gone(self):
        for queue in self.requests.values():
            queue.put_nowait(None)
        asyncio.ensure_future(self.start())

    async def write(self, prompt, tokens_max, temperature, seed):
        """Yields (start of its step, end, text, None or the finish reason: "stop", "length") for each token."""
        if len(self.requests) >= RUNNING_MAX + WAITING_MAX:
            raise Refused.busy("too many requests are being written")
        id, queue = next(self.ids), asyncio.Queue()  # bounded by tokens_max
        self.requests[id], end = queue, None
        self.child.send((id, prompt, tokens_max, temperature, seed))
        try:
            while not end:
                said = await queue.get()
                if said is None:
                    raise Refused.failed("the process that writes has ended")
                end = said[-1]
                yield said
                await asyncio.sleep(0)  # lets other tasks run and detects a disconnected client, even when all tokens are queued
        finally:
            del self.requests[id]
            if not end:
                self.child.send((id,))
