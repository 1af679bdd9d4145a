"""A receiver of OTLP profiles for tests of agents, and the export statistics that an agent prints at exit."""
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
        """Bodies of the POSTs that got one of the given answers; without arguments, of all POSTs."""
        return [gzip.decompress(post["body"]) for post in list(self.posts) if not answers or post["answer"] in answers]


def accept(handler):
    handler.answer(200, b"")


def accept_and_hang_up(handler):
    """One connection per packet: after the receiver is closed, connections are refused."""
    handler.close_connection = True
    accept(handler)


def write(folder, bodies):
    """Writes each body to a file of its own, for profcheck."""
    paths = []
    for i, body in enumerate(bodies):
        paths.append(folder / f"packet.{i}.otlp")
        paths[-1].write_bytes(body)
    return paths


def total(packets):
    """The number of samples in packets. A packet delivered twice counts once: it is recognized by its profile id."""
    by_id = {profile["id"]: sum(len(s["times"]) for s in profile["samples"]) for profiles in packets for profile in profiles}
    return sum(by_id.values())


def export_stats(agent):
    """The statistics that an agent prints at exit: samples sent, samples taken, packets, bytes, samples dropped."""
    said = re.search(r"profiles: (\d+) of (\d+) samples were sent to \S+, in (\d+) packets of (\d+) bytes in all; (\d+) were dropped", agent.running.error)
    assert said, agent.running.error
    return dict(zip(("sent", "taken", "packets", "bytes", "dropped"), map(int, said.groups())))
