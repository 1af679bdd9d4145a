"""Network traffic of samples: the packets of `sonde up` as a receiver gets them, and the packets that the reporter of OpenTelemetry's eBPF profiler
builds from the same samples (see tests/opentelemetry/profiler-wire for its input)."""
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
        """Bytes per sample, which is MB per million samples."""
        return getattr(self, what) / self.samples

    def format(self, what):
        return f"{self.each(what):.1f} ({self.packets} packets)"


def record(start, start_beside, seconds):
    """What an agent sends after its first packet in `seconds`, as sent, compressed by gzip; start(URL) starts it. Returns its cost, the bodies, and
    the cost of a second agent with other settings (start_beside), which samples the same load at the same time."""
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
    """The sizes printed by profiler-wire: of the peer's packets for our packets' samples, or of a reduced form of ours."""
    paths = []
    for i, packet in enumerate(packets):
        paths.append(folder / f"packet{i}")
        paths[-1].write_bytes(gzip.decompress(packet))
    done = subprocess.run([PROGRAM, *options, *paths], check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    return Sizes(*map(int, done.stdout.split()))


def sent_sizes(cost):
    """The totals that an agent prints at exit."""
    said = re.search(r"profiles: (\d+) of \d+ samples were sent to \S+, in (\d+) packets of (\d+) bytes", cost.error)
    return Sizes(int(said[2]), int(said[1]), 0, int(said[3]))


def of_ours(packets, samples):
    return Sizes(len(packets), samples, sum(len(gzip.decompress(packet)) for packet in packets), sum(map(len, packets)))
