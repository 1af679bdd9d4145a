"""OTLP metrics in tests: a receiver of them, and packets as the series of /metrics."""
import gzip
import json
import math

import otlp_decoder
from otlp_receiver import Receiver, attributes
from profiles_receiver import accept

PATH = "/v1/metrics"
# The suffix of a unit, and that of gauges without one: OpenTelemetry's rules for Prometheus ("Prometheus and OpenMetrics Compatibility").
SUFFIXES = {"s": "seconds", "By": "bytes"}


class MetricsReceiver(Receiver):
    def __init__(self, *answers, **options):
        super().__init__(*(answers or (accept,)), **options)
        self.url = self.url.replace("/v1/traces", PATH)

    def bodies(self):
        return [gzip.decompress(post["body"]) for post in list(self.posts)]

    def packets(self, decode=otlp_decoder.decode):
        return [decode(body, "metrics") for body in self.bodies()]


def prometheus_name(metric):
    """The name that a receiver gives a metric by those rules."""
    words, unit, total = metric["name"].replace(".", "_").split("_"), metric.get("unit", ""), metric.get("sum", {}).get("isMonotonic")
    if unit in SUFFIXES and SUFFIXES[unit] not in words:
        words.append(SUFFIXES[unit])
    if unit == "1" and "gauge" in metric:
        words = [word for word in words if word != "ratio"] + ["ratio"]
    if total:
        words = [word for word in words if word != "total"] + ["total"]
    return "_".join(words)


def labels_of(metric, point, resource):
    """Metrics of the semantic conventions describe the service of their resource, which /metrics has as a label."""
    labels = {key.replace(".", "_"): value for key, value in attributes(point.get("attributes", ())).items()}
    if "." in metric["name"]:
        labels["service_name"] = attributes(resource["attributes"])["service.name"]
    return tuple(sorted((key, str(value)) for key, value in labels.items()))


def text_of(name, labels):
    """A series as a line of /metrics names it."""
    inside = ",".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in labels)
    return f"{name}{{{inside}}}" if inside else name


def points_of(packet):
    """(metric, point, resource) of all points of a packet."""
    for one in packet["resourceMetrics"]:
        scope, = one["scopeMetrics"]
        assert scope["scope"]["name"] == "sonde"
        for metric in scope["metrics"]:
            data = next(metric[kind] for kind in ("gauge", "sum", "histogram") if kind in metric)
            for point in data["dataPoints"]:
                yield metric, point, one["resource"]


def series_of(packet):
    """{"name{labels}": value} as of /metrics, with labels in the order of their names."""
    found = {}

    def put(name, labels, value):
        assert text_of(name, labels) not in found, "two points of one series"
        found[text_of(name, labels)] = float(value)
    for metric, point, resource in points_of(packet):
        name, labels = prometheus_name(metric), labels_of(metric, point, resource)
        if "histogram" not in metric:
            put(name, labels, point["asInt"] if "asInt" in point else point["asDouble"])
            continue
        count, bounds = 0, [*point.get("explicitBounds", ()), math.inf]
        assert len(point["bucketCounts"]) == len(bounds)
        for bound, bucket in zip(bounds, map(int, point["bucketCounts"])):
            count += bucket
            put(name + "_bucket", tuple(sorted((*labels, ("le", "+Inf" if bound == math.inf else repr(float(bound)))))), count)
        assert count == int(point.get("count", 0))
        put(name + "_sum", labels, point["sum"])
        put(name + "_count", labels, count)
    return found
