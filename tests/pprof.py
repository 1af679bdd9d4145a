"""Reads pprof files (gzip-compressed profile.proto) in pure Python, so that tests see what any reader would. The layout is public:
github.com/google/pprof, proto/profile.proto."""
import gzip
from dataclasses import dataclass, field


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data):
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at:at + size], at + size
            if len(value) != size:
                raise ValueError("a field ends after the file")
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at:at + size], at + size
        else:
            raise ValueError(f"wire type {kind}")
        yield number, value


def _numbers(values):
    """A repeated number, packed or not."""
    out = []
    for value in values:
        if isinstance(value, int):
            out.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            out.append(number)
    return out


def _message(data):
    found = {}
    for number, value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def _one(message, number, default=0):
    return message.get(number, [default])[-1]


@dataclass
class Sample:
    frames: list          # function names, root first
    mappings: list        # the file of each frame
    addresses: list       # ... and its address there
    count: int
    ns: int
    labels: dict = field(default_factory=dict)
    sources: list = field(default_factory=list)  # (source file, line) of each frame; ("", 0) if unknown


def read(path):
    """(samples, period in nanoseconds) of a pprof file."""
    top = _message(gzip.decompress(open(path, "rb").read()))
    strings = [value.decode() for value in top.get(6, [])]
    functions = {_one(m, 1): (strings[_one(m, 2)], strings[_one(m, 4)]) for m in map(_message, top.get(5, []))}
    mappings = {_one(m, 1): strings[_one(m, 5)] for m in map(_message, top.get(3, []))}
    locations = {}
    for m in map(_message, top.get(4, [])):
        lines = [(*functions[_one(line, 1)], _one(line, 2)) for line in map(_message, m.get(4, []))]
        locations[_one(m, 1)] = (lines or [("0x%x" % _one(m, 3), "", 0)], mappings.get(_one(m, 2), ""), _one(m, 3))
    samples = []
    for m in map(_message, top.get(2, [])):
        frames, files, addresses, sources = [], [], [], []
        for number in reversed(_numbers(m.get(1, []))):
            names, file, address = locations[number]
            frames += [name for name, _, _ in reversed(names)]
            sources += [(file, line) for _, file, line in reversed(names)]
            files += [file] * len(names)
            addresses += [address] * len(names)
        count, ns = _numbers(m.get(2, []))
        labels = {}
        for label in map(_message, m.get(3, [])):
            labels[strings[_one(label, 1)]] = strings[_one(label, 2)] if 2 in label else _one(label, 3)
        samples.append(Sample(frames, files, addresses, count, ns, labels, sources))
    return samples, _one(top, 12)
