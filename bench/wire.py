"""What goes over the wire for samples: the packets of `sonde up` as a receiver gets them, and those that the reporter of OpenTelemetry's eBPF
profiler makes of the same samples (tests/opentelemetry/profiler-wire says what it is given)."""
import gzip
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import measure
import profiles_receiver

PROGRAM = Path(__file__).resolve().parent.parent / "build/opentelemetry/profiler-wire"


@dataclass
class Sizes:
    packets: int
    samples: int
    plain: int
    gzip: int

    def each(self, what):
        """Bytes a sample: MB for a million."""
        return getattr(self, what) / self.samples

    def told(self, what):
        return f"{self.each(what):.1f} ({self.packets} packets)"


def record(start, start_beside, seconds):
    """What an agent sends in that time after its first packet, as sent, by gzip; start(URL) starts it: (its cost, bodies). And the cost of another
    one, started likewise and set otherwise, which samples the same meanwhile."""
    receiver, other = profiles_receiver.ProfilesReceiver(), profiles_receiver.ProfilesReceiver()
    try:
        with start(receiver.url) as observer:
            observer.until(measure.agent_runs, 20)
            with start_beside(other.url) as beside:
                observer.until(lambda: receiver.posts and other.posts, 180)
                time.sleep(seconds)
                cost, cost_beside = observer.stop(), beside.stop()
        return cost, [post["body"] for post in receiver.posts], cost_beside
    finally:
        receiver.close()
        other.close()


def measured(folder, packets, *options):
    """By profiler-wire: what the peer makes of our packets' samples, or what is left of ours."""
    paths = []
    for i, packet in enumerate(packets):
        paths.append(folder / f"packet{i}")
        paths[-1].write_bytes(gzip.decompress(packet))
    done = subprocess.run([PROGRAM, *options, *paths], check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    return Sizes(*map(int, done.stdout.split()))


def told(cost):
    """Of all that an agent says it sent."""
    said = re.search(r"profiles: (\d+) of \d+ samples were sent to \S+, in (\d+) packets of (\d+) bytes", cost.error)
    return Sizes(int(said[2]), int(said[1]), 0, int(said[3]))


def of_ours(packets, samples):
    return Sizes(len(packets), samples, sum(len(gzip.decompress(packet)) for packet in packets), sum(map(len, packets)))
