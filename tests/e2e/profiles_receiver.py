"""A receiver of OTLP profiles for tests of agents, and what an agent says of what it sent."""
import gzip
import re

from otlp_receiver import Receiver

PATH = "/v1development/profiles"


class ProfilesReceiver(Receiver):
    def __init__(self, *answers, **options):
        super().__init__(*(answers or (accept,)), **options)
        self.url = self.url.replace("/v1/traces", PATH)
        self.base = self.url.removesuffix(PATH)

    def bodies(self, *answers):
        """Of the posts that were answered like this; of all of them without."""
        return [gzip.decompress(post["body"]) for post in list(self.posts) if not answers or post["answer"] in answers]


def accept(handler):
    handler.answer(200, b"")


def accept_and_hang_up(handler):
    """A connection a packet: once the receiver is closed, nobody answers."""
    handler.close_connection = True
    accept(handler)


def write(folder, bodies):
    """Each in a file of its own, for profcheck."""
    paths = []
    for i, body in enumerate(bodies):
        paths.append(folder / f"packet.{i}.otlp")
        paths[-1].write_bytes(body)
    return paths


def total(packets):
    """Samples in packets; of what was delivered twice only once, which a profile's id tells."""
    by_id = {profile["id"]: sum(len(s["times"]) for s in profile["samples"]) for profiles in packets for profile in profiles}
    return sum(by_id.values())


def told(agent):
    """What the agent says of itself at its end: samples sent, samples taken, packets, bytes, samples dropped."""
    said = re.search(r"profiles: (\d+) of (\d+) samples were sent to \S+, in (\d+) packets of (\d+) bytes in all; (\d+) were dropped", agent.running.error)
    assert said, agent.running.error
    return dict(zip(("sent", "taken", "packets", "bytes", "dropped"), map(int, said.groups())))
