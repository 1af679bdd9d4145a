"""A reimplementation, in Python and with numpy, of the rules that Triton's trace_summary.py applies to trace files. `sonde trace summary` is
compared with it line by line. It is not NVIDIA's script, which is not available as a package; it is itself compared with that script's output
for the files in triton/ (triton/summary-2022.txt).

`rules` selects whose rules:
- `OURS`: an average is over the traces that have both of its timestamps;
- `SCRIPT`: an average is over all traces of the model, including those that never reached a frontend; Overhead is computed from those sums; Queue
  and Compute are printed only when both exist;
- `SCRIPT_2022`: like SCRIPT, but a gRPC request's time begins with the wait for it, which has a line of its own and is listed by -t.
Traces that make the script abort (timestamps that run backwards, a missing COMPUTE_START) raise an exception under all three.
"""
import json

NUMPY = {"BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8", "INT16": "int16", "INT32": "int32",
         "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64"}
INSIDE = [("\tHandler", "handler"), ("\t\tOverhead", "overhead"), ("\t\tQueue", "queue"), ("\t\tCompute", "compute"), ("\t\t\tInput", "input"),
          ("\t\t\tInfer", "inference"), ("\t\t\tOutput", "output")]
DOORS = {"HTTP": ("HTTP_RECV_START", "HTTP_RECV_START"), "GRPC": ("GRPC_WAITREAD_START", "GRPC_WAITREAD_END")}
OURS, SCRIPT, SCRIPT_2022 = range(3)


def collect(items, mark):
    """{id: trace} of the traces that came through the frontend whose timestamp is `mark`, ordered by id."""
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


def durations(trace, door, rules):
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
    mark, begin = DOORS[door]
    whole = mark, f"{door}_SEND_END"
    take("infer", mark if rules == SCRIPT_2022 else begin, f"{door}_SEND_END", whole)
    take("send", f"{door}_SEND_START", f"{door}_SEND_END", whole)
    if door == "HTTP":
        take("receive", "HTTP_RECV_START", "HTTP_RECV_END", whole)
    elif rules == SCRIPT_2022:
        take("wait", *DOORS["GRPC"], whole)
    return found


def with_rests(found):
    """Adds the remainders of times that have components; for one trace, or for sums."""
    if "queue" in found and "compute" in found:
        found["overhead"] = found["handler"] - found["queue"] - found["compute"]
    if "infer" in found:
        found["outside"] = found["infer"] - found["handler"] - found.get("receive", 0) - found.get("wait", 0) - found["send"]
    return found


def averages(traces, rules):
    """{line: microseconds} of the traces of a model, each as returned by durations()."""
    if rules == OURS:
        having = {}
        for trace in map(with_rests, traces):
            for line, ns in trace.items():
                having.setdefault(line, []).append(ns)
        return {line: sum(all_ns) / (len(all_ns) * 1000) for line, all_ns in having.items()}
    sums = {}
    for trace in traces:
        for line, ns in trace.items():
            sums[line] = sums.get(line, 0) + ns
    shown = with_rests(sums)
    for line in () if "overhead" in shown else ("queue", "compute"):
        shown.pop(line, None)
    return {line: ns / (len(traces) * 1000) for line, ns in shown.items()}


def listing(number, trace, rules):
    yield f"{trace['model_name']} ({trace['model_version']}):"
    yield f"\tid: {number}"
    if "parent_id" in trace:
        yield f"\tparent id: {trace['parent_id']}"
    before = None
    shown = [stamp for stamp in trace["stamps"] if rules == SCRIPT_2022 or not stamp[0].startswith("GRPC_WAITREAD")]
    for name, ns in sorted(shown, key=lambda stamp: stamp[1]):
        if before is not None:
            yield f"\t\t{(ns - before) / 1000}us"
        yield f"\t{name}"
        before = ns


def door_lines(items, door, show_trace, rules):
    models = {}
    for number, trace in collect(items, DOORS[door][0]).items():
        if not {"REQUEST_START", "REQUEST_END"} <= {name for name, _ in trace["stamps"]}:
            continue
        models.setdefault((trace["model_name"], trace["model_version"]), []).append(durations(trace, door, rules))
        if show_trace:
            yield from listing(number, trace, rules)
    for (name, version), traces in models.items():
        shown = averages(traces, rules)
        outside = [(f"{door} infer request", "infer"), ("\tReceive", "receive"), ("\tWait/Read", "wait"), ("\tSend", "send"), ("\tOverhead", "outside")]
        yield f"Summary for {name} ({version}): trace count = {len(traces)}"
        yield from (f"{label} (avg): {shown[line]}us" for label, line in outside if line in shown)
        if "infer" in shown:
            yield ""
        yield from (f"{label} (avg): {shown[line]}us" for label, line in INSIDE if line in shown)


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


def summary(path, show_trace=False, rules=OURS):
    """The expected output lines for a file."""
    with open(path, encoding="utf-8") as file:
        items = json.load(file)
    return [f"File: {path}", *door_lines(items, "HTTP", show_trace, rules), *door_lines(items, "GRPC", show_trace, rules), *flow_lines(items)]
