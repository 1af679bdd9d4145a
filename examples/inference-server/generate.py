"""A language model of trigrams, small enough to be made from our own documents in a second, and the process that runs it.

The process works as engines of large models do: all requests advance together, a token each in every step; a request joins at the next step and
leaves when it has come to its end or has been given up. `Writer` is the model, `run` the process, `Engine` its other end in the server.
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

RUNNING_MAX = 16  # that advance together; more wait, up to
WAITING_MAX = 64

TOKEN = re.compile(r"\w+(?:'\w+)?|[.,:;!?()]")
SENTENCE = (".", "!", "?")


class Writer:
    """Which words have followed which two, and which one."""

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
        """The next word, by how often it has followed the last two; where these have never stood together, the last one, or none."""
        for context in (tuple(words[-2:]), tuple(words[-1:]), ()):
            if context in self.followers:
                break
        found, counts = self.followers[context]
        if temperature < 0.05:
            return found[max(range(len(found)), key=counts.__getitem__)]
        return chance.choices(found, [count ** (1 / temperature) for count in counts])[0]


class Sequence:
    """A request at work. It ends at its limit, or with a sentence after a few of them."""

    def __init__(self, writer, prompt, tokens_max, temperature, seed):
        self.writer, self.words = writer, [".", "."] + TOKEN.findall(prompt)[-1000:]
        self.left, self.sentences, self.temperature, self.chance = tokens_max, 0, temperature, random.Random(seed)

    def step(self):
        """(text, why it ends or None)"""
        word = self.writer.next(self.words, self.temperature, self.chance)
        self.words.append(word)
        self.left -= 1
        self.sentences += word in SENTENCE
        text = word if word in ".,:;!?)" or self.words[-2] == "(" else " " + word
        return text, "stop" if self.sentences == 5 else "length" if self.left == 0 else None


def run(folder, pipe):
    """The process. Hears (id, what Sequence takes) and, of a request that is given up, (id,); says of each step (began, ended,
    [(id, text, why it ends)])."""
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
    """The server's end: `write` yields what the process says of one request."""

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
        """(when its step began, ended, text, None or why it ends: "stop", "length") of each token."""
        if len(self.requests) >= RUNNING_MAX + WAITING_MAX:
            raise Refused.busy("too many requests are being written")
        id, queue = next(self.ids), asyncio.Queue()  # which is no longer than tokens_max
        self.requests[id], end = queue, None
        self.child.send((id, prompt, tokens_max, temperature, seed))
        try:
            while not end:
                said = await queue.get()
                if said is None:
                    raise Refused.failed("the process that writes has ended")
                end = said[-1]
                yield said
                await asyncio.sleep(0)  # others have their turn, and it is seen that a client has gone, even when all is there already
        finally:
            del self.requests[id]
            if not end:
                self.child.send((id,))
