"""A reimplementation, in Python and with numpy, of the rules by which Triton's trace_summary.py sums trace files up, as its documentation and
its output show them. It is not NVIDIA's script (which is not to be had as a package): it is the peer that ours is held against, line by line.

Two of its rules are switches, for there ours is right and the script is not:
- `diluted`: an average is over all traces of the model, also those that lack the two moments (ours: over those that have them);
- what makes the script abort (a missing COMPUTE_START, times that run backwards) raises here too.
"""
import json

NUMPY = {"BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8", "INT16": "int16", "INT32": "int32",
         "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64"}
INSIDE = [("\tHandler", "handler"), ("\t\tOverhead", "overhead"), ("\t\tQueue", "queue"), ("\t\tCompute", "compute"), ("\t\t\tInput", "input"),
          ("\t\t\tInfer", "inference"), ("\t\t\tOutput", "output")]
DOORS = {"HTTP": ("HTTP_RECV_START", "HTTP_RECV_START"), "GRPC": ("GRPC_WAITREAD_START", "GRPC_WAITREAD_END")}


def collect(items, mark):
    """{id: trace} of what came through the door whose moment `mark` is, in the order of the ids."""
    traces, chosen = {}, set()
    for item in sorted(items, key=lambda item: item["id"]):
        trace = traces.setdefault(item["id"], {"stamps": []})
        trace["stamps"] += [(stamp["name"], stamp["ns"]) for stamp in item.get("timestamps", ())]
        trace.update({key: item[key] for key in ("model_name", "model_version", "parent_id") if key in item})
        if "parent_id" in item:
            if item["parent_id"] in chosen:
                chosen.add(item["id"])
        elif any(mark in stamp["name"] for stamp in item.get("timestamps", ())):
            chosen.add(item["id"])
    return {number: trace for number, trace in traces.items() if number in chosen}


def durations(trace, door):
    """{line: nanoseconds} of one trace."""
    at, found = dict(trace["stamps"]), {}

    def take(line, begin, end, needed):
        if all(name in at for name in needed):
            if at[end] < at[begin]:
                raise ValueError(f"{end} before {begin}")
            found[line] = at[end] - at[begin]
    take("handler", "REQUEST_START", "REQUEST_END", ())
    take("queue", "QUEUE_START", "COMPUTE_START", ("QUEUE_START", "COMPUTE_START"))
    take("compute", "COMPUTE_START", "COMPUTE_END", ("COMPUTE_START", "COMPUTE_END"))
    parts = "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"
    take("input", "COMPUTE_START", "COMPUTE_INPUT_END", parts)
    take("inference", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", parts)
    take("output", "COMPUTE_OUTPUT_START", "COMPUTE_END", parts)
    if "queue" in found and "compute" in found:
        found["overhead"] = found["handler"] - found["queue"] - found["compute"]
    mark, begin = DOORS[door]
    whole = mark, f"{door}_SEND_END"
    take("infer", begin, f"{door}_SEND_END", whole)
    take("send", f"{door}_SEND_START", f"{door}_SEND_END", whole)
    if door == "HTTP":
        take("receive", "HTTP_RECV_START", "HTTP_RECV_END", whole)
    if "infer" in found:
        found["outside"] = found["infer"] - found["handler"] - found.get("receive", 0) - found["send"]
    return found


def listing(number, trace):
    yield f"{trace['model_name']} ({trace['model_version']}):"
    yield f"\tid: {number}"
    if "parent_id" in trace:
        yield f"\tparent id: {trace['parent_id']}"
    before = None
    for name, ns in sorted((stamp for stamp in trace["stamps"] if not stamp[0].startswith("GRPC_WAITREAD")), key=lambda stamp: stamp[1]):
        if before is not None:
            yield f"\t\t{(ns - before) / 1000}us"
        yield f"\t{name}"
        before = ns


def door_lines(items, door, show_trace, diluted):
    models = {}
    for number, trace in collect(items, DOORS[door][0]).items():
        if not {"REQUEST_START", "REQUEST_END"} <= {name for name, _ in trace["stamps"]}:
            continue
        models.setdefault((trace["model_name"], trace["model_version"]), []).append(durations(trace, door))
        if show_trace:
            yield from listing(number, trace)
    for (name, version), traces in models.items():
        def average(label, line):
            having = [trace[line] for trace in traces if line in trace]
            if having:
                yield f"{label} (avg): {sum(having) / ((len(traces) if diluted else len(having)) * 1000)}us"
        yield f"Summary for {name} ({version}): trace count = {len(traces)}"
        outside = [*average(f"{door} infer request", "infer"), *average("\tReceive", "receive"), *average("\tSend", "send"), *average("\tOverhead", "outside")]
        yield from outside + [""] if outside else []
        for label, line in INSIDE:
            yield from average(label, line)


def array(tensor):
    import numpy
    shape = [int(length) for length in tensor["shape"].split(",")]
    return str(numpy.array([float(value) for value in tensor["data"].split(",")], dtype=NUMPY[tensor["dtype"]]).reshape(shape))


def flow_lines(items):
    items = sorted(items, key=lambda item: item["id"])
    children, named = {}, {}
    for item in items:
        if "parent_id" in item:
            children.setdefault(item["parent_id"], []).append(item["id"])
    for mark, _ in DOORS.values():
        named.update(collect(items, mark))
    kinds = {"TENSOR_QUEUE_INPUT": "QUEUE_INPUT", "TENSOR_BACKEND_INPUT": "BACKEND_INPUT", "TENSOR_BACKEND_OUTPUT": "BACKEND_OUTPUT"}
    root = next(iter(children), 0) or next((item["id"] for item in items if item.get("activity") in kinds), 0)

    def below(number):
        return [number] + [deep for child in children.get(number, ()) for deep in below(child)]

    def box(number, step, inner):
        tabs, edge = "\t" * (step + 1), "=" * (50 + 8 * (inner - step))
        yield tabs + edge
        if "model_name" in named.get(number, ()):
            yield f"{tabs}Name:   {named[number]['model_name']}"
            yield f"{tabs}Version:{named[number]['model_version']}"
        for item in items:
            if item["id"] == number and item.get("activity") in kinds:
                yield f"{tabs}{kinds[item['activity']]}:"
                yield from f"{tabs}\t{item['tensor']['name']}: {array(item['tensor'])}".split("\n")
        yield tabs + edge
        for child in children.get(number, ()):
            yield from box(child, step + 1, inner)
    if root:
        yield "Data Flow:"
        yield from box(root, 0, sum(number in children for number in below(root)))


def summary(path, show_trace=False, diluted=False):
    """The lines that are to be printed for a file."""
    with open(path, encoding="utf-8") as file:
        items = json.load(file)
    return [f"File: {path}", *door_lines(items, "HTTP", show_trace, diluted), *door_lines(items, "GRPC", show_trace, diluted), *flow_lines(items)]
