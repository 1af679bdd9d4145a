"""OTLP spans in tests: a receiver of them, and their fields."""
import gzip

import otlp_decoder
from otlp_receiver import Receiver, attributes
from profiles_receiver import accept

PATH = "/v1/traces"


class SpansReceiver(Receiver):
    def __init__(self, *answers, **options):
        super().__init__(*(answers or (accept,)), **options)

    def bodies(self):
        return [gzip.decompress(post["body"]) for post in list(self.posts)]

    def spans(self, service=None):
        """Every span that came so far, with `attributes` and `service` as plain values; of one service."""
        found = [span for body in self.bodies() for span in spans_of(otlp_decoder.decode(body, "trace"))]
        return [span for span in found if service in (None, span["service"])]


def spans_of(packet):
    for resource in packet["resourceSpans"]:
        about = attributes(resource["resource"]["attributes"])
        scope, = resource["scopeSpans"]
        assert scope["scope"]["name"] == "sonde"
        for span in scope["spans"]:
            yield {**span, "attributes": attributes(span["attributes"]), "service": about["service.name"], "resource": about}
