"""What goes over the wire for samples: the packets of `sonde up` as a receiver gets them, and those that the reporter of OpenTelemetry's eBPF
profiler makes of the same samples (tests/opentelemetry/profiler-wire says what it is given)."""
import gzip
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import profiles_receiver

PROGRAM = Path(__file__).resolve().parent.parent / "build/opentelemetry/profiler-wire"


@dataclass
class Sizes:
    packets: int
    samples: int
    plain: int
    gzip: int

    def told(self, what):
        """MB for a million samples."""
        return f"{getattr(self, what) / self.samples:.1f} ({self.packets} packets)"


def record(start, seconds):
    """What an agent sends in that time after its first packet, as sent, by gzip; start(URL) starts it: (its cost, bodies)."""
    receiver = profiles_receiver.ProfilesReceiver()
    try:
        with start(receiver.url) as observer:
            observer.until(lambda: receiver.posts, 60)
            time.sleep(seconds)
            cost = observer.stop()
        return cost, [post["body"] for post in receiver.posts]
    finally:
        receiver.close()


def measured(folder, packets, *options):
    """By profiler-wire: what the peer makes of our packets' samples, or what is left of ours."""
    paths = []
    for i, packet in enumerate(packets):
        paths.append(folder / f"packet{i}")
        paths[-1].write_bytes(gzip.decompress(packet))
    done = subprocess.run([PROGRAM, *options, *paths], check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    return Sizes(*map(int, done.stdout.split()))


def of_ours(packets, samples):
    return Sizes(len(packets), samples, sum(len(gzip.decompress(packet)) for packet in packets), sum(map(len, packets)))
