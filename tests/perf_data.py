"""Counts the samples of a perf.data file in pure Python: perf 6.1 cannot always read its own files when BPF programs were loaded or unloaded during
the recording. The layout is public: tools/perf/Documentation/perf.data-file-format.txt, and perf_event.h."""
import struct

COMM, FORK, SAMPLE = 3, 7, 9  # PERF_RECORD_*
IP, TID, TIME, CPU, STREAM_ID, ID, IDENTIFIER = 1 << 0, 1 << 1, 1 << 2, 1 << 7, 1 << 9, 1 << 6, 1 << 16  # PERF_SAMPLE_*


def _records(data):
    """(type, body) of all records, and the sample_type that defines their fields."""
    magic, _, _, attributes, _, start, size = struct.unpack_from("=8s6Q", data)
    if magic != b"PERFILE2":
        raise ValueError(f"no perf.data: {magic}")
    sample_type = struct.unpack_from("=Q", data, attributes + 24)[0]
    records, at = [], start
    while at < start + size:
        kind, _, length = struct.unpack_from("=IHH", data, at)
        if length < 8 or at + length > len(data):
            raise ValueError(f"a record of {length} bytes at {at}")
        records.append((kind, data[at + 8:at + length]))
        at += length
    return records, sample_type


def _timed(records, sample_type):
    """(time, thread, type, body): each CPU has its own ring buffer, so records are not ordered by time."""
    identifier = 8 * bool(sample_type & IDENTIFIER)
    behind = sum(8 for bit in (TIME, ID, STREAM_ID, CPU, IDENTIFIER) if sample_type & bit)  # offset of the time from the end of a record that is not a sample
    for kind, body in records:
        if kind == SAMPLE:
            tid = struct.unpack_from("=4xI", body, identifier + 8)[0]
            yield struct.unpack_from("=Q", body, identifier + 16)[0], tid, kind, body
        elif kind in (COMM, FORK):
            yield struct.unpack_from("=Q", body, len(body) - behind)[0], struct.unpack_from("=4xI" if kind == COMM else "=8xI", body)[0], kind, body


def samples_by_name(path):
    """{thread name at that time: samples}."""
    with open(path, "rb") as file:
        records, sample_type = _records(file.read())
    if sample_type & (IP | TID | TIME) != IP | TID | TIME:
        raise ValueError(f"samples without address, thread or time: {sample_type:#x}")
    names, counts = {}, {}
    for _, tid, kind, body in sorted(_timed(records, sample_type), key=lambda record: record[0]):
        if kind == COMM:
            names[tid] = body[8:body.index(b"\0", 8)].decode(errors="replace")
        elif kind == FORK:
            names[tid] = names.get(struct.unpack_from("=12xI", body)[0], "")
        else:
            counts[names.get(tid, "")] = counts.get(names.get(tid, ""), 0) + 1
    return counts
